"""Data programming by the book: every sum is a loop over all joint votes and classes.

A. Ratner, C. De Sa, S. Wu, D. Selsam, C. Ré: Data Programming: Creating Large Training Sets, Quickly. NeurIPS 2016,
sections 2 and 3, with K classes in place of two.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def factor(kind: str, first: int, second: int, y: int) -> int:
    """One dependency's factor, as the paper's table of kinds says it; −1 is abstain."""
    if kind == "similar":
        return 1 if first == second else 0
    if kind == "exclusive":
        return -1 if first != -1 and second != -1 else 0
    if first == -1 and second != -1:
        return -1
    if kind == "reinforcing":
        return 1 if first == y and second == y else 0
    if kind == "fixing":
        return 1 if first not in {-1, y} and second == y else 0
    raise AssertionError(kind)


@dataclass(frozen=True)
class Model:
    """All that the model is."""

    accuracy: NDArray[np.floating]
    propensity: NDArray[np.floating]
    dependency: NDArray[np.floating]
    pairs: tuple[tuple[int, int, str], ...]
    prior: NDArray[np.floating]

    @property
    def vector(self) -> NDArray[np.floating]:
        """The weights in a row: accuracies, propensities, dependencies."""
        return np.concatenate((self.accuracy, self.propensity, self.dependency))

    def at(self, vector: NDArray[np.floating]) -> Model:
        """The same model with other weights."""
        n = len(self.accuracy)
        return replace(self, accuracy=vector[:n], propensity=vector[n : 2 * n], dependency=vector[2 * n :])

    def factors(self, votes: tuple[int, ...], y: int) -> list[float]:
        """All factors of one item, in the order of `vector`."""
        values: list[float] = [1.0 if vote == y else 0.0 for vote in votes]
        values += [1.0 if vote != -1 else 0.0 for vote in votes]
        values += [float(factor(kind, votes[a], votes[b], y)) for a, b, kind in self.pairs]
        return values

    def potential(self, votes: tuple[int, ...], y: int) -> float:
        """π_y exp( θ·φ )."""
        exponent = sum(weight * value for weight, value in zip(self.vector, self.factors(votes, y), strict=True))
        return float(self.prior[y] * np.exp(exponent))

    def everything(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Every joint vote with every class."""
        n_classes = len(self.prior)
        for votes in itertools.product(range(-1, n_classes), repeat=len(self.accuracy)):
            for y in range(n_classes):
                yield votes, y

    def partition(self) -> float:
        """Z."""
        return sum(self.potential(votes, y) for votes, y in self.everything())

    def posterior(self, votes: tuple[int, ...]) -> NDArray[np.floating]:
        """p(y | λ)."""
        joint = np.array([self.potential(votes, y) for y in range(len(self.prior))])
        return joint / joint.sum()

    def expected(self) -> NDArray[np.floating]:
        """E φ."""
        total, mean = 0.0, np.zeros(len(self.vector))
        for votes, y in self.everything():
            weight = self.potential(votes, y)
            total += weight
            mean += weight * np.array(self.factors(votes, y))
        return mean / total

    def class_shares(self) -> NDArray[np.floating]:
        """p(y)."""
        shares = np.zeros(len(self.prior))
        for votes, y in self.everything():
            shares[y] += self.potential(votes, y)
        return shares / shares.sum()

    def log_likelihood(self, rows: list[tuple[int, ...]], gold: list[int]) -> float:
        """Log p of the votes, and of the classes that are known."""
        total, log_z = 0.0, np.log(self.partition())
        for votes, known in zip(rows, gold, strict=True):
            classes = range(len(self.prior)) if known == -1 else [known]
            total += np.log(sum(self.potential(votes, y) for y in classes)) - log_z
        return total

    def draw(self, n_items: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Votes and classes from the model itself."""
        states = list(self.everything())
        shares = np.array([self.potential(votes, y) for votes, y in states])
        chosen = np.random.default_rng(seed).choice(len(states), size=n_items, p=shares / shares.sum())
        votes = np.array([states[number][0] for number in chosen])
        return votes, np.array([states[number][1] for number in chosen])
