"""Models and votes that stay on disk: one look to take stock, then sweeps over shards, read as they are needed."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.errors import ModelError
from labelfable.inference.execution import add_in_order, engine_of
from labelfable.inference.shards import cut_stored
from labelfable.models.class_prior import share_totals
from labelfable.models.report import Comparison, compared
from labelfable.numerics.random import BLOCK_ITEMS
from labelfable.votes.arrow import parquet_writer
from labelfable.votes.census import VoteTotals
from labelfable.votes.distinct import group, row_keys
from labelfable.votes.stored_features import StoredFeatures, open_features

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from labelfable.inference.execution import Engine
    from labelfable.models.protocol import BaseLabelModel, Ties
    from labelfable.votes.stored import StoredVotes
    from labelfable.votes.table import VoteTable

RUN_ITEMS = 4 * BLOCK_ITEMS  # looked at, or labelled, together
MERGED_ROWS = 2**16  # distinct rows of runs that wait to be merged
FEW_REPEATS = 0.7  # of the rows different, after so many items that it will not change
TRIED_ITEMS = 5 * RUN_ITEMS
MEMORY_SHARE = 4  # of the memory that is allowed, a quarter may hold distinct rows
BYTES_A_CLASS = 32  # of a distinct row while it is swept: responsibilities and what they are made from


@dataclass(frozen=True)
class Items:
    """A run of items as it was read."""

    start: int
    table: VoteTable
    features: Any
    gold: NDArray[np.integer] | None


@dataclass(frozen=True)
class ItemFiles:
    """Where runs of items are read from."""

    votes: StoredVotes
    features: StoredFeatures | None = None

    def load(self, start: int, stop: int, gold: NDArray[np.integer] | None) -> Items:
        """The items [start, stop)."""
        table = self.votes.read(start, stop)
        features = None if self.features is None else self.features.read(start, stop, table)
        return Items(start, table, features, gold)

    def runs(self, gold: NDArray[np.integer] | None = None) -> list[Any]:
        """All items, a run at a time."""
        return cut_stored(self, self.votes.n_items, gold, RUN_ITEMS)


def engine_for(model: BaseLabelModel) -> Engine:
    """The engine that a model's settings ask for."""
    return engine_of(getattr(model, "n_jobs", None), getattr(model, "engine", None))


# -- taking stock -----------------------------------------------------------------------------------------------------


def count_votes(votes: StoredVotes, gold: NDArray[np.integer] | None, engine: Engine) -> VoteTotals:
    """What a census needs to know, in one look."""
    return add_in_order(engine.map(_totals, ItemFiles(votes).runs(gold)))


def _totals(items: Items) -> VoteTotals:
    table, gold = items.table, items.gold
    given = table.label_counts()[:, : table.n_spoken]
    shares = share_totals(table, slice(0, table.n_items), np.ones(table.n_items), gold)
    told = table.covered if gold is None else table.covered | (gold >= 0)
    return VoteTotals(given, shares, table.n_items, int(told.sum()))


def distinct_rows(
    votes: StoredVotes, gold: NDArray[np.integer] | None, engine: Engine
) -> tuple[VoteTable, NDArray[np.floating], NDArray[np.integer] | None] | None:
    """The rows that differ, how many items each stands for, and their known classes; None where they are too many.

    They are those that `VoteTable.distinct` finds of the same votes in memory, in the same order.
    """
    limit = votes.memory // MEMORY_SHARE // (5 * votes.n_sources + BYTES_A_CLASS * votes.n_classes)
    found: list[tuple[Any, Any, Any]] = []
    seen = 0
    for part in engine.map(_distinct, ItemFiles(votes).runs(gold)):
        found.append(part)
        seen += int(part[1].sum())
        waiting = sum(len(weights) for _, weights, _ in found[1:])
        if waiting > max(MERGED_ROWS, len(found[0][1])):
            found = [_merged(found)]
            size = len(found[0][1])
            if size > limit or (seen >= TRIED_ITEMS and size > FEW_REPEATS * seen):
                return None
    rows, weights, known = _merged(found)
    if len(weights) > limit:
        return None
    return replace(votes.names, votes=rows), weights, known


def _distinct(items: Items) -> tuple[Any, NDArray[np.floating], NDArray[np.integer] | None]:
    return _grouped(items.table.votes, np.ones(items.table.n_items), items.gold)


def _merged(parts: list[tuple[Any, Any, Any]]) -> tuple[Any, NDArray[np.floating], NDArray[np.integer] | None]:
    votes, weights, known = zip(*parts, strict=True)
    rows = sp.csr_array(sp.vstack(votes)) if sp.issparse(votes[0]) else np.concatenate(votes)
    return _grouped(rows, np.concatenate(weights), None if known[0] is None else np.concatenate(known))


def _grouped(
    votes: Any, weights: NDArray[np.floating], gold: NDArray[np.integer] | None
) -> tuple[Any, NDArray[np.floating], NDArray[np.integer] | None]:
    """One of each different row, with the sum of the weights."""
    first, number, _ = group(row_keys(votes, gold))
    sums = np.bincount(number, weights=weights, minlength=len(first)).astype(np.float64, copy=False)
    return votes[first], sums, None if gold is None else gold[first]


# -- labels -----------------------------------------------------------------------------------------------------------


def run_probabilities(model: BaseLabelModel, votes: StoredVotes, features: Any) -> Iterator[NDArray[np.floating]]:
    """Class probabilities of a run of items after the other."""
    files = ItemFiles(votes, open_features(features, votes))
    return engine_for(model).map(partial(_probabilities, _alone(model)), files.runs())


def _probabilities(model: BaseLabelModel, items: Items) -> NDArray[np.floating]:
    return model._table_probabilities(items.table, items.features)  # noqa: SLF001 (the models' own plumbing)


def _alone(model: BaseLabelModel) -> BaseLabelModel:
    """A fitted model as it is sent to where the work is done: no engine, device, threads or checkpoint of its own."""
    plain = copy.copy(model)
    for name, value in {"engine": None, "device": None, "checkpoint": None, "n_jobs": 1}.items():
        if hasattr(plain, name):
            setattr(plain, name, value)
    return plain


def stored_probabilities(model: BaseLabelModel, votes: StoredVotes, features: Any) -> NDArray[np.floating]:
    """Class probabilities of all items, [items, classes]."""
    answer = np.empty((votes.n_items, len(model.classes_)))
    first = 0
    for part in run_probabilities(model, votes, features):
        answer[first : first + len(part)] = part
        first += len(part)
    return answer


def write_labels(
    model: BaseLabelModel, votes: StoredVotes, path: str | Path, *, features: Any, ties: Ties, seed: int
) -> None:
    """Labels of all items as Parquet, a run of items at a time; the file is there once it is whole."""
    files = ItemFiles(votes, open_features(features, votes))
    label = partial(_label_columns, _alone(model), ties, seed)
    with parquet_writer(path) as append:
        for columns in engine_for(model).map(label, files.runs()):
            append(columns)


def _label_columns(model: BaseLabelModel, ties: Ties, seed: int, items: Items) -> dict[str, Any]:
    probabilities = model._table_probabilities(items.table, items.features)  # noqa: SLF001 (as above)
    return model._label_columns(items.table, probabilities, ties, seed, items.start)  # noqa: SLF001 (as above)


def mean_probabilities(
    model: BaseLabelModel, votes: StoredVotes, features: Any, gold: NDArray[np.integer] | None
) -> NDArray[np.floating]:
    """Mean class probabilities of the items that took part in the fit, [classes]."""
    files = ItemFiles(votes, open_features(features, votes))
    only_told = getattr(model, "uncovered", "in") == "out"
    sums = add_in_order(engine_for(model).map(partial(_mass, _alone(model), only_told), files.runs(gold)))
    return np.asarray(sums / sums.sum())


def _mass(model: BaseLabelModel, only_told: bool, items: Items) -> NDArray[np.floating]:  # noqa: FBT001 (bound by partial)
    probabilities = model._table_probabilities(items.table, items.features)  # noqa: SLF001 (as above)
    told = items.table.covered if items.gold is None else items.table.covered | (items.gold >= 0)
    return np.asarray(probabilities[told].sum(axis=0) if only_told else probabilities.sum(axis=0))


# -- the report -------------------------------------------------------------------------------------------------------


def compare_stored(
    model: BaseLabelModel, votes: StoredVotes, features: Any, gold: NDArray[np.integer] | None
) -> Comparison:
    """The model's answers against majority vote's, item by item."""
    files = ItemFiles(votes, open_features(features, votes))
    return add_in_order(engine_for(model).map(partial(_compared, _alone(model)), files.runs(gold)))


def _compared(model: BaseLabelModel, items: Items) -> Comparison:
    probabilities = model._table_probabilities(items.table, items.features)  # noqa: SLF001 (as above)
    return compared(items.table, np.ones(items.table.n_items), items.gold, probabilities)


def refuse_many_rows(model: BaseLabelModel, votes: StoredVotes) -> None:
    """An error where a model cannot sweep over stored shards and the distinct rows do not fit in memory."""
    if not getattr(model, "_sweeps_shards", False):
        raise ModelError(
            f"too many of the {votes.n_items:,} rows of votes differ for {type(model).__name__} to hold them",
            where=f"memory={votes.memory / 1e9:.3g}GB",
            hint="Allow more memory, or take DawidSkene, IBCC, EBCC or FABLE, which sweep over the files",
        )
