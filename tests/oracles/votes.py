"""Votes loop by loop: maps, products, distinct rows and the table of sources, from their definitions.

Votes are a cube [items][sources][labels] of weights: a one for a hard vote, a distribution for a soft one, all zero
where the source abstains.  Nothing here knows of sparse matrices, packing or keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ABSTAIN = -1


def cube_of(votes: NDArray[np.integer], n_labels: int) -> NDArray[np.floating]:
    """Hard votes [items, sources], −1 = abstain, as a cube."""
    cube = np.zeros((*votes.shape, n_labels))
    for i, row in enumerate(votes.tolist()):
        for j, vote in enumerate(row):
            if vote != ABSTAIN:
                cube[i, j, vote] = 1.0
    return cube


def with_silence(cube: NDArray[np.floating]) -> NDArray[np.floating]:
    """The cube with one more label, the last, for sources that say nothing."""
    n_items, n_sources, n_labels = cube.shape
    larger = np.zeros((n_items, n_sources, n_labels + 1))
    for i in range(n_items):
        for j in range(n_sources):
            larger[i, j, :n_labels] = cube[i, j]
            if not cube[i, j].any():
                larger[i, j, n_labels] = 1.0
    return larger


def evidence(cube: NDArray[np.floating], weights: NDArray[np.floating]) -> NDArray[np.floating]:
    """Σ_j Σ_l cube_ijl W_jlc.  [items, C]."""
    n_items, n_sources, n_labels = cube.shape
    total = np.zeros((n_items, weights.shape[2]))
    for i in range(n_items):
        for j in range(n_sources):
            for label in range(n_labels):
                for c in range(weights.shape[2]):
                    total[i, c] += cube[i, j, label] * weights[j, label, c]
    return total


def counts(cube: NDArray[np.floating], responsibilities: NDArray[np.floating]) -> NDArray[np.floating]:
    """Σ_i cube_ijl R_ic.  [sources, labels, C]."""
    n_items, n_sources, n_labels = cube.shape
    total = np.zeros((n_sources, n_labels, responsibilities.shape[1]))
    for i in range(n_items):
        for j in range(n_sources):
            for label in range(n_labels):
                for c in range(responsibilities.shape[1]):
                    total[j, label, c] += cube[i, j, label] * responsibilities[i, c]
    return total


def products(cube: NDArray[np.floating], weights: NDArray[np.floating]) -> NDArray[np.floating]:
    """Σ_i w_i ψ_ia ψ_ib over the columns a, b = (source, label).  [sources·labels, sources·labels]."""
    n_items, n_sources, n_labels = cube.shape
    total = np.zeros((n_sources * n_labels, n_sources * n_labels))
    for i in range(n_items):
        flat = [cube[i, j, label] for j in range(n_sources) for label in range(n_labels)]
        for a, left in enumerate(flat):
            for b, right in enumerate(flat):
                total[a, b] += weights[i] * left * right
    return total


def row_counts(cube: NDArray[np.floating], extra: NDArray[Any] | None = None) -> dict[tuple[Any, ...], int]:
    """How many items have each row of votes (with each entry of `extra`)."""
    found: dict[tuple[Any, ...], int] = {}
    for i, item in enumerate(cube):
        key = (*item.ravel().tolist(), None if extra is None else extra[i])
        found[key] = found.get(key, 0) + 1
    return found


def summary(
    votes: NDArray[np.integer],
    possible: list[set[int]],
    gold: NDArray[np.integer] | None = None,
    probabilities: NDArray[np.floating] | None = None,
) -> dict[str, list[Any]]:
    """Snorkel's table of sources for hard votes.  `possible[l]` are the classes that label l leaves possible.

    Coverage: the share of items with a vote of the source.  Overlaps: … and with a vote of another source.  Conflicts:
    … and with a vote of another source that cannot be true together with it.  A vote is correct where gold is among the
    classes that it leaves possible.
    """
    n_items, n_sources = votes.shape
    table: dict[str, list[Any]] = {name: [] for name in ("Polarity", "Coverage", "Overlaps", "Conflicts")}
    table |= {name: [] for name in ("Correct", "Incorrect", "Emp. Acc.")} if gold is not None else {}
    table |= {"Est. Acc.": []} if probabilities is not None else {}
    for j in range(n_sources):
        covered = overlapping = conflicting = correct = incorrect = 0
        hoped = 0.0
        for i in range(n_items):
            own = votes[i, j]
            if own == ABSTAIN:
                continue
            covered += 1
            others = [votes[i, k] for k in range(n_sources) if k != j and votes[i, k] != ABSTAIN]
            overlapping += bool(others)
            conflicting += any(not possible[own] & possible[other] for other in others)
            if gold is not None and gold[i] != ABSTAIN:
                right = int(gold[i]) in possible[own]
                correct += right
                incorrect += not right
            if probabilities is not None:
                hoped += sum(probabilities[i, k] for k in possible[own])
        table["Polarity"].append(sorted({int(vote) for vote in votes[:, j] if vote != ABSTAIN}))
        table["Coverage"].append(covered / n_items)
        table["Overlaps"].append(overlapping / n_items)
        table["Conflicts"].append(conflicting / n_items)
        if gold is not None:
            table["Correct"].append(correct)
            table["Incorrect"].append(incorrect)
            table["Emp. Acc."].append(correct / (correct + incorrect) if correct + incorrect else np.nan)
        if probabilities is not None:
            table["Est. Acc."].append(hoped / covered if covered else np.nan)
    return table
