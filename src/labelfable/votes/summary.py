"""What can be said of the sources before any model: coverage, overlap, conflict, agreement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable


def source_summary(
    table: VoteTable,
    gold: NDArray[np.integer] | None = None,
    probabilities: NDArray[np.floating] | None = None,
) -> dict[str, list[Any]]:
    """One row a source, under snorkel's column names.

    Coverage: share of the items that the source votes on; Overlaps: … on which another source votes too; Conflicts: …
    and says what cannot be true together with this vote.  A soft vote counts there as its most probable label.

    With `gold` [items], class numbers from `read_gold` (−1 = unknown): Correct and Incorrect, the votes that leave the
    truth possible and those that do not, and Emp. Acc., the share of the correct ones.  With `probabilities`
    [items, classes] of a fitted model: Est. Acc., the same share as the model expects it.  NaN where there is no vote.
    """
    totals = table.label_counts()[:, : table.n_spoken]
    summary: dict[str, list[Any]] = {
        "source": list(table.sources),
        "j": list(range(table.n_sources)),
        "Polarity": [[table.labels[label] for label in np.flatnonzero(row)] for row in totals],
    }
    shares = _meetings(table) / table.n_items
    summary |= {name: shares[:, place].tolist() for place, name in enumerate(("Coverage", "Overlaps", "Conflicts"))}
    if gold is not None:
        truth = _one_hot(np.asarray(gold), table)
        right, given = _right_votes(table, truth), _given_votes(table, truth.sum(axis=1, keepdims=True))
        summary["Correct"] = _counts(right, table)
        summary["Incorrect"] = _counts(given - right, table)
        summary["Emp. Acc."] = _ratio(right, given)
    if probabilities is not None:
        expected = np.asarray(probabilities)
        if expected.shape != (table.n_items, table.n_classes):
            raise InputError(
                f"probabilities have shape {expected.shape}",
                hint=f"Expected {(table.n_items, table.n_classes)}: [items, classes]",
            )
        summary["Est. Acc."] = _ratio(_right_votes(table, expected), totals.sum(axis=1))
    return summary


def _meetings(table: VoteTable) -> NDArray[np.floating]:
    """On how many items each source votes, meets another vote, and meets one against it.  [sources, 3]."""
    totals = np.zeros((table.n_items, table.n_spoken), dtype=np.float32)  # counts of sources: exact
    for rows, labels in _votes_by_source(table):
        totals[rows, labels] += 1
    meaning = table.meaning[: table.n_spoken]
    contradict = (meaning @ meaning.T == 0).astype(np.float32)  # labels that no class fits both of
    voters, against = totals.sum(axis=1), totals @ contradict
    return np.array(
        [
            (len(rows), np.count_nonzero(voters[rows] > 1), np.count_nonzero(against[rows, labels]))
            for rows, labels in _votes_by_source(table)
        ],
        dtype=np.float64,
    )


def _votes_by_source(table: VoteTable) -> Iterator[tuple[NDArray[np.integer], NDArray[np.integer]]]:
    """For each source the items that it votes on, once each, and its label there."""
    if table.is_dense:
        for column in np.asarray(table.votes).T:
            rows = np.flatnonzero(column >= 0)
            yield rows, column[rows]
        return
    by_column = table.plain_incidence.tocsc()
    for first in range(0, by_column.shape[1], table.n_spoken):
        entries = by_column[:, first : first + table.n_spoken].tocoo()
        order = np.lexsort((entries.col, -entries.data, entries.row))  # by item, its most probable label first
        rows, place = np.unique(entries.row[order], return_index=True)
        yield rows, entries.col[order][place]


def _one_hot(gold: NDArray[Any], table: VoteTable) -> NDArray[np.floating]:
    """Known classes as rows with a one; nothing but zeros where unknown.  Shapes: [items] -> [items, classes]."""
    if gold.shape != (table.n_items,) or gold.dtype.kind not in "iu" or np.any(gold >= table.n_classes):
        raise InputError(
            f"gold of shape {gold.shape} and type {gold.dtype} does not fit {table.n_items} items "
            f"and {table.n_classes} classes",
            hint="Give class numbers, -1 where unknown: read_gold makes them from labels",
        )
    known = np.flatnonzero(gold >= 0)
    truth = np.zeros((table.n_items, table.n_classes))
    truth[known, gold[known]] = 1
    return truth


def _right_votes(table: VoteTable, truth: NDArray[np.floating]) -> NDArray[np.floating]:
    """Expected number of votes of each source that leave the truth possible.  Shapes: [items, classes] -> [sources]."""
    possible = (table.meaning[: table.n_spoken] > 0).astype(np.float64)
    return np.asarray(np.einsum("jlk,lk->j", table.counts(truth)[:, : table.n_spoken], possible))


def _given_votes(table: VoteTable, weights: NDArray[np.floating]) -> NDArray[np.floating]:
    """Weight of the items that each source votes on.  Shapes: [items, 1] -> [sources]."""
    return np.asarray(table.counts(weights)[:, : table.n_spoken].sum(axis=(1, 2)))


def _counts(values: NDArray[np.floating], table: VoteTable) -> list[Any]:
    """Whole numbers, except of soft votes."""
    return [round(value) for value in values.tolist()] if table.is_hard else values.tolist()


def _ratio(part: NDArray[np.floating], whole: NDArray[np.floating]) -> list[Any]:
    return list(np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0).tolist())
