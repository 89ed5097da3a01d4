"""Made-up votes with a planted truth, small and seeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray


def planted_votes(
    n_items: int, accuracies: list[float], n_classes: int, *, coverage: float = 0.7, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Votes [items, sources] (−1 = abstain) and the truth [items].

    Source j votes with probability `coverage`, is right with probability `accuracies[j]` and else picks another class.
    """
    draws = np.random.default_rng(seed)
    truth = draws.integers(n_classes, size=n_items)
    votes = np.full((n_items, len(accuracies)), -1)
    for j, accuracy in enumerate(accuracies):
        wrong = (truth + draws.integers(1, n_classes, size=n_items)) % n_classes
        said = np.where(draws.random(n_items) < accuracy, truth, wrong)
        votes[:, j] = np.where(draws.random(n_items) < coverage, said, -1)
    return votes, truth


def some_gold(truth: NDArray[np.int64], every: int) -> NDArray[np.int64]:
    """The truth of every so-many-th item, −1 elsewhere."""
    return np.where(np.arange(len(truth)) % every == 0, truth, -1)


def soft_of(votes: NDArray[np.int64], n_classes: int, *, seed: int = 0) -> NDArray[np.float64]:
    """Soft votes [items, sources, classes] that lean to the hard ones; zero where a source abstains."""
    draws = np.random.default_rng(seed)
    soft = draws.dirichlet(np.ones(n_classes), size=votes.shape) + np.eye(n_classes)[np.maximum(votes, 0)]
    soft /= soft.sum(axis=2, keepdims=True)
    return np.where(votes[:, :, None] >= 0, soft, 0.0)


def sparse_of(votes: NDArray[np.int64]) -> sp.csr_array:
    """The same votes with abstentions left out; a vote for class 0 is a stored zero."""
    items, sources = np.nonzero(votes >= 0)
    return sp.csr_array((votes[items, sources], (items, sources)), shape=votes.shape)
