"""The class-prior policies that every model shares: explicit, never taken from gold unseen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import ModelError
from labelfable.inference.execution import sum_over
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
    """Totals as shares of their row, in their memory; uniform where there is none.  [items, classes]."""
    whole = row_sum(totals)
    silent = ~(whole[:, 0] > 0)
    whole[silent] = 1
    totals /= whole
    totals[silent] = 1 / totals.shape[1]
    return totals


def fixed_prior(
    policy: Any,
    rows: VoteTable,
    weights: NDArray[np.floating],
    gold: NDArray[np.integer] | None,
    n_jobs: int | None = None,
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
        blocks = [slice(start, start + BLOCK_ITEMS) for start in range(0, rows.n_items, BLOCK_ITEMS)]

        def totals_of(block: slice) -> NDArray[np.floating]:
            return share_totals(rows, block, weights[block], None if gold is None else gold[block])

        totals = rows.class_shares if isinstance(rows, VoteCensus) else sum_over(blocks, totals_of, n_jobs)
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
    totals = rows.maps(block.start, block.stop).evidence(rows.layout.pack(rows.vote_weights))
    counted = row_sum(totals)[:, 0] > 0
    shares = shares_of(totals)
    if gold is not None:
        shares = np.where(gold[:, None] >= 0, np.eye(rows.n_classes)[gold], shares)
        counted |= gold >= 0
    shares *= (weights * counted)[:, None]
    return np.asarray(column_sum(shares))


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
