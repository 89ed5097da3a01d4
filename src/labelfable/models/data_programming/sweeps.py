"""Data programming as a sweep: what the votes say of the classes, and how often each factor is expected to hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from labelfable.models.confusion import (
    ConfusionLogs,
    ConfusionStatistics,
    items_bound,
    local_statistics,
    start_statistics,
)
from labelfable.models.data_programming.graph import Dependency, FactorGraph, split_dependency
from labelfable.models.data_programming.weights import Penalty, log_normaliser, update_weights
from labelfable.models.dawid_skene import update_proportions
from labelfable.votes.maps import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.inference.shards import Shard
    from labelfable.votes.table import VoteTable

CLASS_SMOOTHING = 1.0
"""Items added to each class where the class distribution is learned."""


@dataclass(frozen=True)
class FactorGlobals:
    """Factor weights, and what the local step needs of them."""

    logs: ConfusionLogs
    factor_weights: NDArray[np.floating]
    """θ: accuracies, propensities, dependencies."""


@dataclass(frozen=True)
class FactorSweeps:
    """EM as a sweep: the local step is E, the global step M.  Both are exact."""

    layout: Layout
    """Of the votes with the dependencies' votes beside them."""
    graph: FactorGraph
    penalty: Penalty
    constants: NDArray[np.floating]
    """Sum over items of each dependency's constant part, [dependencies]."""
    n_items: float
    fixed_proportions: NDArray[np.floating] | None

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return self.graph.n_classes

    def start(self, shard: Shard) -> tuple[None, ConfusionStatistics]:
        """Statistics of majority vote's soft labels: so that "right" means right, and not its mirror image."""
        n_sources, n_classes = self.graph.n_sources, self.graph.n_classes
        counted = np.zeros((self.layout.n_sources, n_classes, n_classes))
        counted[:n_sources] = np.eye(n_classes)
        return None, start_statistics(shard, self.layout.pack(counted))

    def local_step(self, shard: Shard, local: None, global_: FactorGlobals) -> tuple[None, ConfusionStatistics]:
        """Responsibilities at the present weights.                                          Equations (C.1), (DP.6)"""
        return local, local_statistics(shard, global_.logs, self.graph.n_classes)

    def global_step(self, statistics: ConfusionStatistics) -> FactorGlobals:
        """Weights and class distribution of highest penalised likelihood given the responsibilities."""
        weights = update_weights(self.graph, self.observed_factors(statistics), self.n_items, self.penalty)
        return self.globals_of(weights, self.proportions_of(statistics))

    def proportions_of(self, statistics: ConfusionStatistics) -> NDArray[np.floating]:
        """The class distribution: held, or the smoothed share of each class.                     Equation (DS.2)"""
        if self.fixed_proportions is not None:
            return self.fixed_proportions
        return update_proportions(statistics.totals, CLASS_SMOOTHING)

    def globals_of(self, factor_weights: NDArray[np.floating], proportions: NDArray[np.floating]) -> FactorGlobals:
        """Weights laid out for the votes."""
        packed = self.layout.pack(vote_logits(self.graph, factor_weights))
        return FactorGlobals(ConfusionLogs(packed, np.log(proportions)), factor_weights)

    def observed_factors(self, statistics: ConfusionStatistics) -> NDArray[np.floating]:
        """Σ_i E[ φ | λ_i ], in the order of θ.  [weights].                                       Equation (DP.4)"""
        counts = self.layout.unpack(statistics.counts)
        right = np.einsum("jkk->j", counts)  # a vote for k on an item of class k
        voted = counts[: self.graph.n_sources].sum(axis=(1, 2))
        return np.concatenate((right[: self.graph.n_sources], voted, right[self.graph.n_sources :] + self.constants))

    def bound(self, statistics: ConfusionStatistics, global_: FactorGlobals) -> dict[str, float]:
        """The penalised log-likelihood, with the normaliser summed exactly."""
        return self.objective(statistics, global_, log_normaliser(self.graph, global_.factor_weights))

    def objective(self, statistics: ConfusionStatistics, global_: FactorGlobals, log_z: float) -> dict[str, float]:
        """The log-likelihood of the votes and the log prior; statistics must come from these globals.   Equation (DP.7)

            Σ_i log Σ_y π_y e^{θ·φ(λ_i, y)} − N log Z(θ)  −  ½ Σ_p precision_p (θ_p − centre_p)²

        Where π is learned, its log prior CLASS_SMOOTHING Σ_k log π_k is added.
        """
        θ, graph = global_.factor_weights, self.graph
        voted = self.observed_factors(statistics)[graph.propensity]
        free_of_class = θ[graph.propensity] @ voted + θ[graph.dependency] @ self.constants
        prior = self.penalty.value(θ)
        if self.fixed_proportions is None:
            prior += CLASS_SMOOTHING * float(global_.logs.components.sum())
        given_class = sum(items_bound(statistics, global_.logs).values())
        return {"log-likelihood": given_class + float(free_of_class) - self.n_items * log_z, "log prior": prior}


def vote_logits(graph: FactorGraph, factor_weights: NDArray[np.floating]) -> NDArray[np.floating]:
    """Weights of the votes and of the dependencies' votes.  [sources + dependencies, K, K].           Equation (DP.6)

        log p(y | λ) = log π_y + Σ_j θ_acc,j 1[λ_j = y] + Σ_d θ_d 1[vote of d = y] + const

    Propensities and the dependencies' constants are the same for each y.
    """
    speaking = np.concatenate((factor_weights[graph.accuracy], factor_weights[graph.dependency]))
    return np.asarray(speaking[:, None, None] * np.eye(graph.n_classes))


def with_dependency_votes(
    rows: VoteTable, weights: NDArray[np.floating], dependencies: tuple[Dependency, ...]
) -> tuple[VoteTable, NDArray[np.floating]]:
    """The table with one more column a dependency, and sums of their constants.        Equation (DP.2)"""
    if not dependencies:
        return rows, np.zeros(0)
    parts = [split_dependency(d.kind, source_codes(rows, d.first), source_codes(rows, d.second)) for d in dependencies]
    added = np.column_stack([vote for vote, _ in parts])
    if rows.is_dense:
        votes = np.concatenate((rows.votes, added.astype(rows.votes.dtype)), axis=1)
    else:
        columns = Layout(len(dependencies), rows.n_labels).columns(added)
        votes = sp.csr_array(sp.hstack((rows.votes, columns)))
    names = tuple(f"{rows.sources[d.first]} {d.kind} {rows.sources[d.second]}" for d in dependencies)
    constants = np.array([float(weights @ constant) for _, constant in parts])
    return replace(rows, votes=votes, sources=rows.sources + names), constants


def source_codes(rows: VoteTable, source: int) -> NDArray[np.int64]:
    """What one source says of each item, −1 where it abstains.  [items]."""
    if rows.is_dense:
        return np.asarray(rows.votes)[:, source].astype(np.int64)
    own = rows.plain_incidence[:, source * rows.n_labels : (source + 1) * rows.n_labels].tocoo()
    codes = np.full(rows.n_items, -1, dtype=np.int64)
    codes[own.coords[0]] = own.coords[1]
    return codes
