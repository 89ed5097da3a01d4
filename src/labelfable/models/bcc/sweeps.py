"""Mean-field updates of iBCC and EBCC, and their bound.  Notation and references: see `estimator.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from array_api_compat import array_namespace, device

from labelfable.models.confusion import (
    ConfusionLogs,
    ConfusionStatistics,
    items_bound,
    local_statistics,
    start_statistics,
)
from labelfable.numerics.distributions import dirichlet_divergence, dirichlet_mean_log
from labelfable.numerics.namespace import row_sum
from labelfable.numerics.random import block_generators

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.inference.shards import Shard
    from labelfable.votes.maps import Layout
    from labelfable.votes.table import VoteTable


@dataclass(frozen=True)
class BCCPrior:
    """Dirichlet parameters before any vote is seen."""

    votes: NDArray[np.floating]
    """β, [sources, labels, C]."""
    classes: NDArray[np.floating] | None
    """ν₀, [K], or None where the class proportions are fixed."""
    subtypes: NDArray[np.floating]
    """η₀, [K, M]."""


@dataclass(frozen=True)
class BCCGlobals:
    """Dirichlet parameters of the factors, and the expected logarithms that the local step needs."""

    votes: NDArray[np.floating]
    """μ, [sources, labels, C]."""
    classes: NDArray[np.floating] | None
    """ν, [K]."""
    subtypes: NDArray[np.floating]
    """η, [K, M]."""
    logs: ConfusionLogs


@dataclass(frozen=True)
class BCCSweeps:
    """Mean-field updates as a sweep."""

    layout: Layout
    start_weights: NDArray[np.floating]
    prior: BCCPrior
    proportions: NDArray[np.floating]
    """Class proportions where they are fixed."""
    seed: int
    single: bool = False
    """Whether what is made of each item is in single precision."""

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return int(self.prior.subtypes.shape[0])

    def start(self, shard: Shard) -> tuple[None, ConfusionStatistics]:
        """Majority vote's soft labels, each item's split at random over subtypes, in the same way for each class."""
        n_subtypes = self.prior.subtypes.shape[1]
        xp = array_namespace(self.start_weights)
        packed = xp.astype(self.layout.pack(self.start_weights), xp.float32 if self.single else xp.float64)
        shares = None
        if n_subtypes > 1:
            shares = np.empty((shard.maps.n_items, n_subtypes))
            for rows, generator in block_generators(self.seed, shard.start, shard.stop):
                draws = shares[rows]
                generator.standard_exponential(out=draws)
                draws /= row_sum(draws)
            shares = xp.astype(xp.asarray(shares, device=device(packed)), packed.dtype)
        return None, start_statistics(shard, packed, shares)

    def local_step(self, shard: Shard, local: None, global_: BCCGlobals) -> tuple[None, ConfusionStatistics]:
        """Responsibilities at the present factors.                                               Equation (C.1)"""
        return local, local_statistics(shard, global_.logs, self.n_classes)

    def global_step(self, statistics: ConfusionStatistics) -> BCCGlobals:
        """All Dirichlet factors given the responsibilities."""
        totals = statistics.totals.reshape(self.prior.subtypes.shape)
        votes = update_votes(self.layout.unpack(statistics.counts), self.prior.votes)
        classes = None if self.prior.classes is None else update_classes(totals, self.prior.classes)
        subtypes = update_subtypes(totals, self.prior.subtypes)
        return self.globals_of(votes, classes, subtypes)

    def globals_of(
        self, votes: NDArray[np.floating], classes: NDArray[np.floating] | None, subtypes: NDArray[np.floating]
    ) -> BCCGlobals:
        """Factors with their expected logarithms."""
        log_classes = np.log(self.proportions) if classes is None else dirichlet_mean_log(classes)
        log_components = (log_classes[:, None] + dirichlet_mean_log(subtypes)).ravel()
        logs = ConfusionLogs(self.layout.pack(mean_log_votes(votes)), log_components, self.single)
        return BCCGlobals(votes, classes, subtypes, logs)

    def bound(self, statistics: ConfusionStatistics, global_: BCCGlobals) -> dict[str, float]:
        """The whole bound, all constants kept.                                                   Equation (B.4)

        Items' part (C.3)  −  Σ_jc KL( Dir(μ_jc) ‖ Dir(β_jc) )  −  KL( Dir(ν) ‖ Dir(ν₀) )  −  Σ_k KL( Dir(η_k) ‖ Dir(η₀)
        )
        """
        terms = items_bound(statistics, global_.logs)
        by_label = (np.swapaxes(part, 1, 2) for part in (global_.votes, self.prior.votes))
        terms["confusion"] = -float(dirichlet_divergence(*by_label).sum())
        if global_.classes is not None:
            terms["class proportions"] = -float(dirichlet_divergence(global_.classes, self.prior.classes))
        terms["subtype proportions"] = -float(dirichlet_divergence(global_.subtypes, self.prior.subtypes).sum())
        return terms


def vote_concentration(rows: VoteTable, right: float, wrong: float, n_subtypes: int) -> NDArray[np.floating]:
    """Prior counts β.  [sources, labels, C].

        β_jlk = wrong + (right − wrong) · meaning_lk / max_k meaning_lk

    A label that names a class speaks fully for it; one that excludes a class speaks fully for all others; abstain for
    all.
    """
    support = rows.meaning / rows.meaning.max(axis=1, keepdims=True)
    one_source = np.repeat(wrong + (right - wrong) * support, n_subtypes, axis=1)
    return np.broadcast_to(one_source, (rows.n_sources, *one_source.shape)).copy()


def mean_log_votes(concentration: NDArray[np.floating]) -> NDArray[np.floating]:
    """E log v_jlc = ψ(μ_jlc) − ψ(Σ_l μ_jlc).  Shapes: [sources, labels, C] -> the same."""
    return np.ascontiguousarray(np.swapaxes(dirichlet_mean_log(np.swapaxes(concentration, 1, 2)), 1, 2))


def update_votes(counts: NDArray[np.floating], prior: NDArray[np.floating]) -> NDArray[np.floating]:
    """Dirichlet factor of the vote distributions.  [sources, labels, C].                         Equation (B.1)

    μ_jlc = β_jlc + Σ_i ρ_ic 1[y_ij = l]
    """
    return prior + counts


def update_classes(totals: NDArray[np.floating], prior: NDArray[np.floating]) -> NDArray[np.floating]:
    """Dirichlet factor of the class proportions.  Shapes: [K, M], [K] -> [K].                    Equation (B.2)

    ν_k = ν₀ + Σ_m Σ_i ρ_ikm
    """
    return np.asarray(prior + totals.sum(axis=1))


def update_subtypes(totals: NDArray[np.floating], prior: NDArray[np.floating]) -> NDArray[np.floating]:
    """Dirichlet factor of each class's subtype proportions.  [K, M].                             Equation (B.3)

    η_km = η₀ + Σ_i ρ_ikm
    """
    return prior + totals
