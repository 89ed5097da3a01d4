"""The dependency graph cut into forests: sets of sources that can be drawn together, given all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.models.data_programming.graph import FactorGraph


class Branch(NamedTuple):
    """One source of a tree."""

    source: int
    parent: int
    """The source above it; of a root, itself."""
    links: tuple[int, ...]
    """Numbers of the dependencies between the two."""


@dataclass(frozen=True)
class Forest:
    """Sources among which dependencies make no circle."""

    alone: NDArray[np.integer]
    """Those that depend on no other of them."""
    branches: tuple[Branch, ...]
    """The others, parents before children."""


def forests_of(graph: FactorGraph) -> list[Forest]:
    """All sources in as few forests as come of taking each in turn.

    Where dependencies make no circle this is one forest, and a sweep draws all votes given the class at once.
    """
    partners: list[set[int]] = [set() for _ in range(graph.n_sources)]
    for first, second, _ in graph.dependencies:
        partners[first].add(second)
        partners[second].add(first)
    forests, waiting = [], list(range(graph.n_sources))
    while waiting:
        tree: dict[int, int] = {}  # the tree that each taken source belongs to
        left = []
        for source in waiting:
            joined = [tree[other] for other in partners[source] if other in tree]
            if len(set(joined)) < len(joined):
                left.append(source)  # it would close a circle
                continue
            tree = {member: source if number in joined else number for member, number in tree.items()} | {
                source: source
            }
        forests.append(_planted(graph, partners, set(tree)))
        waiting = left
    return forests


def _planted(graph: FactorGraph, partners: list[set[int]], members: set[int]) -> Forest:
    """The trees from their roots down."""
    branches: list[Branch] = []
    seen: set[int] = set()
    for root in sorted(members):
        if root in seen or not partners[root] & members:
            continue
        seen.add(root)
        grown = [Branch(root, root, ())]
        for branch in grown:  # grows while it is read
            for child in sorted(partners[branch.source] & members - seen):
                seen.add(child)
                grown.append(Branch(child, branch.source, _links(graph, child, branch.source)))
        branches += grown
    return Forest(np.array(sorted(members - seen), dtype=np.int64), tuple(branches))


def _links(graph: FactorGraph, one: int, other: int) -> tuple[int, ...]:
    return tuple(d for d, (first, second, _) in enumerate(graph.dependencies) if {first, second} == {one, other})
