"""FABLE over votes and features that stay on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.errors import ModelError
from labelfable.inference.convergence import Stopping
from labelfable.inference.device_engine import shard_rows
from labelfable.inference.execution import Serial, Threads
from labelfable.inference.shards import StoredShard, StoredShards, cut_stored, shard_items
from labelfable.inference.spill import MEMORY_SHARE
from labelfable.models.checkpoint import keeper_of
from labelfable.models.fable.device import engine_for_files, sweeps_for
from labelfable.models.fable.hyperparameters import LEARNT_ITEMS
from labelfable.models.fable.items import cut_items
from labelfable.models.fable.projection import Projected
from labelfable.models.fable.search import FEWEST_SAMPLES, Start, climb_best, sample_size
from labelfable.models.fable.starts import subtype_starts
from labelfable.models.fable.steps import FableShard
from labelfable.models.report import Answer, Course
from labelfable.models.stored import compare_stored, count_votes, engine_for, mean_probabilities
from labelfable.numerics.random import BLOCK_ITEMS, seed_of
from labelfable.votes.census import VoteCensus, VoteTotals, census_of
from labelfable.votes.features import Features, floating, missing_rows
from labelfable.votes.stored_features import StoredFeatures, open_features

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from labelfable.inference.execution import Engine
    from labelfable.models.fable.estimator import FABLE
    from labelfable.models.fable.projection import Projection
    from labelfable.votes.stored import StoredVotes
    from labelfable.votes.table import VoteTable

WORK_A_SHARD = 6  # times a shard's own size: what is made of it while it is at work
FILE_SHARE = 8  # of a device's shard: so few items are read and projected on the host at once
SAMPLE_RUN = 64  # consecutive items of a sample: fewer reads, and still from everywhere


class DiskMatrix:
    """Features on disk as the matrix that `Features` takes: only parts of it are ever read."""

    def __init__(self, stored: StoredFeatures) -> None:
        self.stored = stored
        self.shape = (stored.n_items, stored.n_columns)
        self.dtype = floating(stored.read(0, 1).dtype)

    def __getitem__(self, rows: slice | NDArray[Any]) -> NDArray[np.floating]:
        """Some rows: consecutive ones, or numbers that rise, or a mask."""
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.shape[0])
            found = self.stored.read(start, stop)
        else:
            found = self.stored.take(np.flatnonzero(rows) if rows.dtype == bool else rows)
        return found.astype(self.dtype, copy=False)


@dataclass(frozen=True)
class FableFiles:
    """Where FABLE's shards are read from: votes, features, and what is made of the features."""

    census: VoteCensus
    features: StoredFeatures | None
    projection: Projection

    @property
    def memory(self) -> int:
        """Bytes that a fit may have resident."""
        return self.census.stored_votes.memory

    @property
    def votes(self) -> StoredShards:
        """The part of a shard that is votes."""
        return StoredShards(self.census)

    def load(self, start: int, stop: int, gold: NDArray[np.integer] | None) -> FableShard:
        """The shard of the items [start, stop), less those that do not count."""
        table, numbers, known = self.read(start, stop, gold)
        projected = self.projection.project(numbers, table.n_items)
        return FableShard(self.votes.shard_of(table.votes, known, start), projected)

    def read(
        self, start: int, stop: int, gold: NDArray[np.integer] | None
    ) -> tuple[VoteTable, NDArray[np.floating], NDArray[np.integer] | None]:
        """Votes, features and known classes of those items."""
        named = self.census.stored_votes.read(start, stop)
        numbers = np.zeros((stop - start, 0)) if self.features is None else self.features.read(start, stop, named)
        table = self.census.with_rows(named.votes)
        told = table.covered if gold is None else table.covered | (gold >= 0)
        if told.all() or not self.census.only_told:
            return table, numbers, gold
        return table.rows(told), numbers[told], None if gold is None else gold[told]

    def some(
        self, gold: NDArray[np.integer] | None, size: int, seed: int
    ) -> tuple[VoteTable, NDArray[np.floating], NDArray[np.integer] | None]:
        """About so many of the items, in short runs from all over the files; all of them where there are no more."""
        n_items = self.census.stored_items
        run = BLOCK_ITEMS if size >= n_items else SAMPLE_RUN
        n_runs = -(-n_items // run)
        chosen = np.random.default_rng([seed, 3]).permutation(n_runs)[: -(-size // run)]
        parts = []
        for first in (np.sort(chosen) * run).tolist():
            edges = slice(first, min(first + run, n_items))
            parts.append(self.read(edges.start, edges.stop, None if gold is None else gold[edges]))
        tables, numbers, known = zip(*parts, strict=True)
        rows = [table.votes for table in tables]
        votes = np.concatenate(rows) if tables[0].is_dense else sp.csr_array(sp.vstack(rows))
        return self.census.with_rows(votes), np.concatenate(numbers), None if gold is None else np.concatenate(known)

    def bytes_of(self, n_items: int) -> int:
        """Bytes of a shard of so many items."""
        size = 4 if self.features is not None and DiskMatrix(self.features).dtype == np.float32 else 8
        return self.votes.bytes_of(n_items) + n_items * size * (self.projection.n_columns + 1)

    def pack(self, shard: FableShard) -> dict[str, Any]:
        """A shard as arrays; a residual of nothing but zeros is left out."""
        arrays = self.votes.pack(shard.votes) | {"phi": shard.projected.phi}
        return arrays | ({"residual": shard.projected.residual} if shard.projected.residual.any() else {})

    def unpack(self, arrays: Mapping[str, Any], start: int) -> FableShard:
        """The shard again."""
        phi = arrays["phi"]
        residual = arrays["residual"] if "residual" in arrays else np.zeros(len(phi), dtype=phi.dtype)
        return FableShard(self.votes.unpack(arrays, start), Projected(phi, residual))


def stored_matrix(features: StoredFeatures | None) -> Any:
    """Features that `build_projection` can look through, a block at a time."""
    if features is None:
        return np.zeros((2, 0))
    matrix = DiskMatrix(features)
    return Features(matrix, missing_rows(matrix, features.names), features.names)


def fit_stored(model: FABLE, votes: StoredVotes, gold: NDArray[np.integer] | None, given: Any) -> tuple[Course, Answer]:
    """The fit of `FABLE._fit_table`, out of memory."""
    if model.inference == "published":
        raise ModelError("inference='published' needs votes in memory", hint="Take inference='variational'")
    features, seed = open_features(given, votes), seed_of(model.random_state)
    engine = engine_for(model)
    notes = [] if features is not None else ["no features were given: the votes alone decide"]
    model.projection_ = model._build_projection(stored_matrix(features), seed)  # noqa: SLF001 (one model in two files)
    census = _census(model, votes, count_votes(votes, gold, engine))
    if model.learn:
        rows, numbers, known = FableFiles(census, features, model.projection_).some(gold, LEARNT_ITEMS, seed)
        chosen = slice(LEARNT_ITEMS)
        learnt = rows.rows(chosen), None if known is None else known[chosen], numbers[chosen]
        notes.append(model._learn_from(*learnt, census, seed))  # noqa: SLF001 (as above)
    if not (model._is_learned() or model.projection_.n_kernel_columns):  # noqa: SLF001 (as above)
        model._hold_constants()  # noqa: SLF001 (as above)
    files = FableFiles(census, features, model.projection_)
    place = engine_for_files(model, np.float64 if features is None else DiskMatrix(features).dtype)
    rows_each = shard_items(census.layout.n_columns, BLOCK_ITEMS)
    rows_each = rows_each if place is None else max(rows_each, shard_rows(model.projection_.n_columns) // FILE_SHARE)
    shards: Any = cut_stored(files, votes.n_items, gold, rows_each)
    engine = within_memory(engine, shards[0]) if place is None else place
    starts, is_all = _starts(model, files, gold, seed)
    stopping = Stopping(model.tol, model.max_iter, census.n_items)
    keep = keeper_of(model, census, gold, None if features is None else features.stamp)
    best = climb_best(starts, engine, stopping, None if is_all else shards, keep)
    model._keep_alone(best, census.n_items, notes, "votes on disk are fitted once")  # noqa: SLF001 (as above)
    comparison = compare_stored(model, votes, features, gold)
    if model._is_learned():  # noqa: SLF001 (as above)
        model.class_prior_ = mean_probabilities(model, votes, features, gold)
    return Course(best.fit.history, best.fit.converged, notes), Answer(votes.n_items, comparison)


def _starts(
    model: FABLE, files: FableFiles, gold: NDArray[np.integer] | None, seed: int
) -> tuple[Iterator[Start], bool]:
    """Starts over some of the items, in memory; and whether they are all."""
    census, columns = files.census, model.projection_.n_columns
    n_items, size = census.stored_items, sample_size(columns)
    is_all = n_items < FEWEST_SAMPLES * size and files.bytes_of(n_items) <= MEMORY_SHARE * files.memory
    is_all = is_all or n_items <= size
    rows, numbers, known = files.some(gold, n_items if is_all else size, seed)
    inside = model.projection_.project(numbers, rows.n_items)
    copies = 1.0 if is_all else census.n_items / rows.n_items
    asked = (model.n_subtypes, model.n_init, seed)
    starts = (
        Start(
            replace(sweeps_for(model, census, gold, n_subtypes, there=model.device is not None), copies=copies),
            cut_items(rows, known, inside, begin),
        )
        for n_subtypes, begin in subtype_starts(rows, known, inside.phi, asked)
    )
    return starts, is_all


def _census(model: FABLE, votes: StoredVotes, totals: VoteTotals) -> VoteCensus:
    """The votes as the emission hears them, of the items that take part."""
    whole = census_of(votes, totals, only_told=model.uncovered == "out" and totals.n_told > 0)
    heard = model._heard(whole)  # noqa: SLF001 (as above)
    assert isinstance(heard, VoteCensus)  # noqa: S101 (of the same kind: only silence was changed)
    return heard


def within_memory(engine: Engine, shard: StoredShard) -> Engine:
    """As many threads as may be at work at once on such shards; an error where not even one may."""
    if not isinstance(engine, Serial):
        return engine
    files: Any = shard.source
    each = WORK_A_SHARD * files.bytes_of(shard.stop)
    most = files.memory // 2 // each
    if most < 1:
        raise ModelError(
            f"memory={files.memory / 1e6:,.0f} MB is too little for {shard.stop:,} items at once",
            hint=f"Allow {2 * each / 1e6:,.0f} MB, or reduce the features (max_components, n_inducing)",
        )
    if isinstance(engine, Threads) and engine.number > most:
        return Threads(most) if most > 1 else Serial()
    return engine
