"""FABLE over votes and features that stay on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.errors import ModelError
from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial, Threads
from labelfable.inference.shards import StoredShard, StoredShards, cut_stored, shard_items
from labelfable.models.checkpoint import keeper_of
from labelfable.models.class_prior import vote_shares
from labelfable.models.confusion import clamp
from labelfable.models.fable.features import Features, floating, missing_rows
from labelfable.models.fable.items import rows_of
from labelfable.models.fable.projection import Projected
from labelfable.models.fable.search import Start, climb_best
from labelfable.models.fable.starts import SampledSplit, sampled_splits
from labelfable.models.fable.steps import FableShard
from labelfable.models.protocol import Answer, Course
from labelfable.models.stored import compare_stored, count_votes, engine_for, mean_probabilities
from labelfable.numerics.random import BLOCK_ITEMS, seed_of
from labelfable.votes.census import VoteCensus, VoteTotals, census_of
from labelfable.votes.stored_features import StoredFeatures, open_features

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from labelfable.inference.execution import Engine
    from labelfable.models.fable.estimator import FABLE
    from labelfable.models.fable.projection import Projection
    from labelfable.votes.stored import StoredVotes
    from labelfable.votes.table import VoteTable

WORK_A_SHARD = 6  # times a shard's own size: what is made of it while it is at work
SAMPLE_BLOCKS = 16  # of 4,096 items, from which the centres of subtypes are found


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
    split: SampledSplit | None
    """How each class is split over subtypes at the start; None is one subtype."""

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
        table, projected, gold = self.read(start, stop, gold)
        shares = clamp(vote_shares(table), gold)
        begin = shares if self.split is None else self.split.of(shares, projected.phi, table)
        return FableShard(self.votes.shard_of(table.votes, gold, start), projected, begin)

    def read(
        self, start: int, stop: int, gold: NDArray[np.integer] | None
    ) -> tuple[VoteTable, Projected, NDArray[np.integer] | None]:
        """Votes, φ and known classes of those items."""
        named = self.census.stored_votes.read(start, stop)
        numbers = np.zeros((stop - start, 0)) if self.features is None else self.features.read(start, stop, named)
        table, projected = self.census.with_rows(named.votes), self.projection.project(numbers, stop - start)
        told = table.covered if gold is None else table.covered | (gold >= 0)
        if told.all() or not self.census.only_told:
            return table, projected, gold
        return table.rows(told), rows_of(projected, told), None if gold is None else gold[told]

    def bytes_of(self, n_items: int) -> int:
        """Bytes of a shard of so many items."""
        n_components = self.census.n_classes * (1 if self.split is None else self.split.n_subtypes)
        size = 4 if self.features is not None and DiskMatrix(self.features).dtype == np.float32 else 8
        own = size * (self.projection.n_columns + 1) + 8 * n_components
        return self.votes.bytes_of(n_items) + n_items * own

    def pack(self, shard: FableShard) -> dict[str, Any]:
        """A shard as arrays; a residual of nothing but zeros is left out."""
        arrays = self.votes.pack(shard.votes) | {"phi": shard.projected.phi, "begin": np.asarray(shard.start)}
        return arrays | ({"residual": shard.projected.residual} if shard.projected.residual.any() else {})

    def unpack(self, arrays: Mapping[str, Any], start: int) -> FableShard:
        """The shard again."""
        phi = arrays["phi"]
        residual = arrays["residual"] if "residual" in arrays else np.zeros(len(phi), dtype=phi.dtype)
        return FableShard(self.votes.unpack(arrays, start), Projected(phi, residual), arrays["begin"])


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
    totals = count_votes(votes, gold, engine)
    census = _census(model, votes, totals)
    starts = []
    for n_subtypes, split in _splits(model, census, gold, features, seed):
        files = FableFiles(census, features, model.projection_, split)
        shards: Any = cut_stored(files, votes.n_items, gold, shard_items(census.layout.n_columns, BLOCK_ITEMS))
        starts.append(Start(model._sweeps(census, gold, n_subtypes), shards))  # noqa: SLF001 (as above)
    stopping = Stopping(model.tol, model.max_iter, census.n_items)
    keep = keeper_of(model, census, gold, None if features is None else features.stamp)
    best = climb_best(starts, within_memory(engine, starts[-1].shards[0]), stopping, keep)
    model.sweeps_, model.globals_ = best.sweeps, best.factors
    model.class_prior_ = np.exp(model.sweeps_.log_proportions)
    comparison = compare_stored(model, votes, features, gold)
    if isinstance(model.class_prior, str) and model.class_prior == "learned":
        model.class_prior_ = mean_probabilities(model, votes, features, gold)
    return Course(best.history, best.converged, notes), Answer(votes.n_items, comparison)


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


def _splits(
    model: FABLE, census: VoteCensus, gold: NDArray[np.integer] | None, features: StoredFeatures | None, seed: int
) -> list[tuple[int, SampledSplit | None]]:
    """Numbers of subtypes, and how classes are split over them; from a sample of the items."""
    starts: list[tuple[int, SampledSplit | None]] = [(1, None)]
    if model.n_subtypes == 1:
        return starts
    n_blocks = -(-census.stored_items // BLOCK_ITEMS)
    chosen = np.random.default_rng([seed, 3]).permutation(n_blocks)[:SAMPLE_BLOCKS]
    files, parts = FableFiles(census, features, model.projection_, None), []
    for first in (np.sort(chosen) * BLOCK_ITEMS).tolist():
        last = min(first + BLOCK_ITEMS, census.stored_items)
        table, projected, known = files.read(first, last, None if gold is None else gold[first:last])
        parts.append((clamp(vote_shares(table), known), projected.phi, table.plain_incidence))
    shares, phis, incidences = zip(*parts, strict=True)
    sample = (np.concatenate(shares), np.concatenate(phis), sp.csr_array(sp.vstack(incidences)))
    splits = sampled_splits(sample, (model.n_subtypes, model.n_init, seed))
    return starts + [(model.n_subtypes, split) for split in splits]
