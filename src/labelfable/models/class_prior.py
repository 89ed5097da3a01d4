"""The class-prior policies that every model shares: explicit, never taken from gold unseen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import ModelError
from labelfable.numerics.namespace import column_sum, row_sum
from labelfable.votes.census import VoteCensus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

BLOCK_ITEMS = 2**14  # whose shares are in memory at a time
LEAST_SHARE = 1e-6  # a fixed prior never rules a class out


def vote_totals(rows: VoteTable, source_weights: NDArray[np.floating] | None = None) -> NDArray[np.floating]:
    """Weight of the votes for each class, a vote's spread over the classes that it speaks for.  [items, classes]."""
    weights = rows.vote_weights
    return rows.evidence(weights if source_weights is None else source_weights[:, None, None] * weights)


def vote_shares(rows: VoteTable) -> NDArray[np.floating]:
    """Majority vote's soft labels; uniform where there is no vote.  [items, classes]."""
    return shares_of(vote_totals(rows))


def shares_of(totals: NDArray[np.floating]) -> NDArray[np.floating]:
    """Totals as shares of their row; uniform where there is none.  [items, classes]."""
    whole = row_sum(totals)
    return np.where(whole > 0, totals / np.where(whole > 0, whole, 1), 1 / totals.shape[1])


def fixed_prior(
    policy: Any, rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None
) -> NDArray[np.floating] | None:
    """The class proportions that a policy fixes, [classes], or None where they are to be learned.

    "votes": majority vote's class shares over the covered items; "uniform": all equal; an array [classes]: as given.
    Known gold labels count as what they are under "votes".
    """
    n_classes = rows.n_classes
    if isinstance(policy, str):
        if policy == "learned":
            return None
        if policy == "uniform":
            return np.full(n_classes, 1 / n_classes)
        totals = rows.class_shares if isinstance(rows, VoteCensus) else np.zeros(n_classes)
        for start in range(0, 0 if isinstance(rows, VoteCensus) else rows.n_items, BLOCK_ITEMS):
            block = slice(start, start + BLOCK_ITEMS)
            totals += share_totals(rows, block, weights[block], None if gold is None else gold[block])
        return _normalised(totals) if totals.any() else np.full(n_classes, 1 / n_classes)
    prior = numbers_each(policy, n_classes)
    if prior is None or prior.sum() <= 0:
        raise ModelError(
            f"class_prior={policy!r} is not a distribution over the {n_classes} classes",
            hint="Give one non-negative number a class, or 'votes', 'uniform' or 'learned'",
        )
    return _normalised(prior)


def share_totals(
    rows: VoteTable, block: slice, weights: NDArray[np.floating], gold: NDArray[np.integer] | None
) -> NDArray[np.floating]:
    """Majority vote's class shares, or the known class, summed over the items that have either.  [classes]."""
    shares = shares_of(rows.maps(block.start, block.stop).evidence(rows.layout.pack(rows.vote_weights)))
    counted = rows.covered[block]
    if gold is not None:
        shares = np.where(gold[:, None] >= 0, np.eye(rows.n_classes)[gold], shares)
        counted = counted | (gold >= 0)
    return np.asarray(column_sum((weights * counted)[:, None] * shares))


def numbers_each(given: Any, length: int) -> NDArray[np.floating] | None:
    """One finite number, not negative, for each of `length` things; None where that is not what was given."""
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return numbers if numbers.shape == (length,) and np.all(np.isfinite(numbers)) and numbers.min() >= 0 else None


def _normalised(totals: NDArray[np.floating]) -> NDArray[np.floating]:
    shares = np.maximum(totals / totals.sum(), LEAST_SHARE)
    return np.asarray(shares / shares.sum())
