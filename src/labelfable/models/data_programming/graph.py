"""The factor graph of data programming: its factors, and the blocks that it falls into once the class is known.

A. Ratner, C. De Sa, S. Wu, D. Selsam, C. Ré: Data Programming: Creating Large Training Sets, Quickly. NeurIPS 2016.

    p(λ, y) = π_y / Z(θ) · exp( Σ_j θ_acc,j 1[λ_j = y] + Σ_j θ_lab,j 1[λ_j votes] + Σ_d θ_d h_d(λ_a, λ_b, y) )   (DP.1)

No factor but π tells one class from another: exchanging two classes in λ and y together leaves the others as they were.
So Z does not depend on y, π is the class distribution itself, and for the normaliser and the expected factors the
class may be taken to be 0.  Given the class, sources that no chain of dependencies connects are independent, and Z is a
product over the connected blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from labelfable.errors import ModelError
from labelfable.models.dependencies import source_pair
from labelfable.votes.alphabet import short_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

KINDS = ("similar", "fixing", "reinforcing", "exclusive")
SYMMETRIC_KINDS = ("similar", "exclusive")
MOST_STATES = 20_000  # joint votes of one block that are summed over one by one: a few seconds a fit
PARTS = 3  # a dependency is (source, source, kind)


class Dependency(NamedTuple):
    """One pairwise factor between two sources."""

    first: int
    second: int
    kind: str


def read_dependencies(given: Any, sources: Sequence[str]) -> tuple[Dependency, ...]:
    """Dependencies with their sources as numbers.

    `given` holds triples (source, source, kind), or is None; a source is a name or a number.
    """
    found: list[Dependency] = []
    for position, entry in enumerate(() if given is None else given):
        where = f"dependencies[{position}]"
        if isinstance(entry, str) or not hasattr(entry, "__len__") or len(entry) != PARTS:
            raise ModelError(
                f"{entry!r} is not a dependency", where=where, hint="It is a triple (source, source, kind)"
            )
        kind = entry[2]
        if kind not in KINDS:
            raise ModelError(f"kind {kind!r} is unknown", where=where, hint=f"The kinds are {short_list(KINDS)}")
        first, second = source_pair(entry[:2], sources, where)
        dependency = Dependency(first, second, str(kind))
        same = {dependency, Dependency(second, first, dependency.kind)} if kind in SYMMETRIC_KINDS else {dependency}
        if same & set(found):
            raise ModelError(f"{entry!r} is given twice", where=where, hint="One factor of each kind is enough")
        found.append(dependency)
    return tuple(found)


def split_dependency(
    kind: str, first: NDArray[np.integer], second: NDArray[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.floating]]:
    """A dependency's factor as a vote and a constant: h(λ_a, λ_b, y) = 1[vote = y] + constant. Equation (DP.2)

        similar       1[λ_a = λ_b], silence included
        exclusive     −1[both vote]
        reinforcing   1[λ_a = λ_b = y] − 1[only λ_b votes]
        fixing        1[λ_a votes wrongly, λ_b = y] − 1[only λ_b votes]

    Shapes: codes of votes (−1 = abstain) of any shapes that broadcast -> the broadcast shape, twice.
    """
    both = (first >= 0) & (second >= 0)
    if kind == "similar":
        constant = first == second
    elif kind == "exclusive":
        constant = -1 * both
    else:
        constant = -1 * ((first < 0) & (second >= 0))
    if kind in SYMMETRIC_KINDS:
        vote = np.full(both.shape, -1)
    else:
        vote = np.where(both & ((first == second) == (kind == "reinforcing")), second, -1)
    return vote, np.asarray(constant, dtype=np.float64)


def dependency_factor(
    kind: str, first: NDArray[np.integer], second: NDArray[np.integer], labels: Any
) -> NDArray[np.floating]:
    """h_d(λ_a, λ_b, y), of any shapes that broadcast.                                          Equation (DP.2)"""
    vote, constant = split_dependency(kind, first, second)
    return np.asarray(constant + (vote == labels))


@dataclass(frozen=True)
class FactorGraph:
    """Which factors there are.  Their weights θ lie in one vector: accuracies, propensities, dependencies."""

    n_sources: int
    n_classes: int
    dependencies: tuple[Dependency, ...] = ()

    @property
    def n_weights(self) -> int:
        """Length of θ."""
        return 2 * self.n_sources + len(self.dependencies)

    @property
    def accuracy(self) -> slice:
        """Where θ_acc lies in θ."""
        return slice(0, self.n_sources)

    @property
    def propensity(self) -> slice:
        """Where θ_lab lies in θ."""
        return slice(self.n_sources, 2 * self.n_sources)

    @property
    def dependency(self) -> slice:
        """Where the dependencies' weights lie in θ."""
        return slice(2 * self.n_sources, None)

    @cached_property
    def blocks(self) -> list[Block]:
        """Sources that depend on no other, all in one block of copies; then each connected group as its own block."""
        ends = np.array([(d.first, d.second) for d in self.dependencies], dtype=np.int64).reshape(-1, 2)
        links = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(self.n_sources, self.n_sources))
        group = connected_components(links, directed=False)[1]
        alone = np.flatnonzero(np.bincount(group)[group] == 1)
        blocks = [self._block(alone[:, None], [])] if len(alone) else []
        for number in np.unique(group[ends[:, 0]]):
            inside = [d for d, dependency in enumerate(self.dependencies) if group[dependency.first] == number]
            blocks.append(self._block(np.flatnonzero(group == number)[None, :], inside))
        return blocks

    def _block(self, sources: NDArray[np.integer], inside: list[int]) -> Block:
        place = {source: position for position, source in enumerate(sources[0].tolist())}
        local = [self.dependencies[d] for d in inside]
        shared = np.broadcast_to(2 * self.n_sources + np.array(inside, dtype=np.int64), (len(sources), len(inside)))
        return Block(
            np.concatenate((sources, sources + self.n_sources, shared), axis=1),
            self.n_classes,
            sources.shape[1],
            tuple(Dependency(place[d.first], place[d.second], d.kind) for d in local),
        )


@dataclass(frozen=True)
class Block:
    """Sources whose votes are independent of all others given the class; several copies of the same shape at once."""

    parameters: NDArray[np.integer]
    """Place in θ of each copy's weights: its accuracies, propensities, dependencies.  [copies, P]."""
    n_classes: int
    n_sources: int
    dependencies: tuple[Dependency, ...]
    """Their sources counted within the block."""

    @cached_property
    def n_states(self) -> int:
        """How many joint votes there are, up to renaming the wrong classes."""
        ways = [1]  # by the number of different wrong classes voted for so far
        for _ in range(self.n_sources):
            longer = [(2 + wrong) * number for wrong, number in enumerate(ways)] + [0]
            for wrong, number in enumerate(ways):
                longer[wrong + 1] += number if wrong < self.n_classes - 1 else 0
            ways = longer
        return sum(ways)

    @cached_property
    def states(self) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """The factors of each joint vote, and the log of how many it stands for.  Shapes: [states, P], [states]."""
        votes, log_ways = joint_votes(self.n_sources, self.n_classes)
        columns = [votes == 0, votes >= 0]
        columns += [dependency_factor(kind, votes[:, [a]], votes[:, [b]], 0) for a, b, kind in self.dependencies]
        return np.concatenate(columns, axis=1).astype(np.float64), log_ways


def joint_votes(n_sources: int, n_classes: int) -> tuple[NDArray[np.integer], NDArray[np.floating]]:
    """All votes of a few sources on an item of class 0, up to renaming the wrong classes.

    Wrong classes are numbered 1, 2, … in the order in which the sources name them; a state with w of them stands for
    (K − 1)(K − 2)…(K − w) joint votes.  Shapes: [states, sources], [states], the latter as logarithms.
    """
    votes, wrong, log_ways = np.zeros((1, 0), dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros(1)
    for _ in range(n_sources):
        parts = []
        for code in range(-1, int(wrong.max()) + 2):
            is_new = (code > 0) & (code == wrong + 1)
            possible = (code <= wrong) | (is_new & (wrong + 1 < n_classes))
            ways = np.where(is_new, np.log(np.maximum(n_classes - 1 - wrong, 1)), 0.0)
            grown = np.column_stack((votes, np.full(len(votes), code)))
            parts.append((grown[possible], (wrong + is_new)[possible], (log_ways + ways)[possible]))
        votes, wrong, log_ways = (np.concatenate(column) for column in zip(*parts, strict=True))
    return votes, log_ways
