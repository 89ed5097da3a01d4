"""Data that keep coming: sums over all items so far, moved towards each new batch's at a falling rate.

    s ← (1 − ρ) s + ρ ŝ,    ρ = ( n_batch / n_all )^decay

s and ŝ are sums over the old items and over the batch, each counted as if it were all n_all items; the globals are then
at their optimum given s (online EM: Cappé and Moulines 2009; for conjugate factors that is the stochastic variational
step of Hoffman and others 2013).  With decay 1 every item counts the same for ever; below 1 old items, whose sums
were made with older globals, fade.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from array_api_compat import array_namespace

from labelfable.inference.execution import Engine, add_in_order
from labelfable.models.fable.emission import VotePrior
from labelfable.models.fable.factors import GlobalFactors, SufficientStatistics
from labelfable.models.fable.light import Curvature
from labelfable.models.fable.steps import FableShard, FableSweeps
from labelfable.numerics.namespace import Array
from labelfable.votes.maps import Layout

ROUNDS = 5  # of each batch: its items and the globals settle on each other


@dataclass(frozen=True)
class Stream:
    """What is remembered of all items so far."""

    sums: SufficientStatistics
    """With single sources' counts, [sources · labels, C]: batches may lie differently along their columns."""
    n_items: float

    def absorb(
        self, sweeps: FableSweeps, shards: Sequence[FableShard], global_: GlobalFactors, engine: Engine, decay: float
    ) -> tuple[Stream, GlobalFactors]:
        """The stream and the globals after a batch.                                               Equation (S)"""
        n_batch = float(sum(shard.votes.stop - shard.votes.start for shard in shards))
        n_all = self.n_items + n_batch
        rate = (n_batch / n_all) ** decay
        kept = self.sums.times((1 - rate) * n_all / self.n_items)
        single = replace(sweeps, layout=single_layout(global_))
        sums = kept
        for _ in range(ROUNDS):
            global_ = replace(global_, packed_votes=sweeps.layout.pack(global_.votes.logs))
            found = add_in_order(engine.map(_Batch(sweeps, global_), shards))
            counts = sweeps.layout.unpack(found.counts).reshape(-1, found.counts.shape[1])
            sums = kept + replace(found, counts=counts).times(rate * n_all / n_batch)
            global_ = single.global_step(sums)
        return Stream(sums, n_all), replace(global_, packed_votes=sweeps.layout.pack(global_.votes.logs))


@dataclass(frozen=True)
class _Batch:
    """A local step with the globals held, as something that can be sent."""

    sweeps: FableSweeps
    global_: GlobalFactors

    def __call__(self, shard: FableShard) -> SufficientStatistics:
        return self.sweeps.local_step(shard, None, self.global_)[1]


def single_layout(global_: GlobalFactors) -> Layout:
    """Columns of single sources, silence like any label."""
    return Layout(*global_.votes.concentration.shape[:2])


def stream_of(sweeps: FableSweeps, global_: GlobalFactors, curvature: Curvature | None, n_items: float) -> Stream:
    """What a fit remembers, read back from where it ended: there each factor is its prior plus the sums.

    counts = μ − β,    Σ θ φφ' = S⁻¹ − I  (points: the shared curvature),    potential = S⁻¹ m
    """
    weights, votes = global_.weights, global_.votes
    xp = array_namespace(weights.mean)
    precision = _precisions(weights.covariance, curvature, weights.mean.shape[1])
    potential = xp.matrix_transpose(xp.matmul(precision, xp.matrix_transpose(weights.mean)[:, :, None])[:, :, 0])
    prior = sweeps.vote_prior.at(votes.strengths)
    n_components = weights.mean.shape[1]
    totals, proportions = xp.zeros(n_components), xp.zeros(sweeps.reading.n_classes)
    if votes.rate is not None and prior.rate is not None:
        totals = votes.rate - prior.rate
    if global_.classes is not None and sweeps.class_prior is not None:
        proportions = global_.classes - sweeps.class_prior
    sums = SufficientStatistics(
        gram=precision - xp.eye(weights.mean.shape[0], dtype=weights.mean.dtype),
        potential=potential,
        counts=xp.reshape(votes.concentration - prior.concentration, (-1, n_components)),
        totals=totals,
        proportions=proportions,
        bound={},
        strengths=votes.strengths,
    )
    return Stream(sums, float(n_items))


def grown(prior: VotePrior, growth: float) -> VotePrior:
    """A prior in proportion to the votes, of `growth` times as many."""
    hierarchy = prior.hierarchy
    if hierarchy is not None:
        unit = None if hierarchy.unit is None else growth * hierarchy.unit
        hierarchy = replace(hierarchy, right=growth * hierarchy.right, wrong=growth * hierarchy.wrong, unit=unit)
    return VotePrior(growth * prior.concentration, None if prior.rate is None else growth * prior.rate, hierarchy)


def _precisions(covariance: Array | None, curvature: Curvature | None, n_components: int) -> Array:
    """S⁻¹ of each component, [C, R, R]."""
    if covariance is not None:
        inverse: Array = array_namespace(covariance).linalg.inv(covariance)
        return inverse
    assert curvature is not None  # noqa: S101 (points are moved by one)
    turn = curvature.directions
    xp = array_namespace(turn)
    sizes = curvature.stretches()
    return xp.stack([(turn * sizes[:, c][None, :]) @ xp.matrix_transpose(turn) for c in range(n_components)])
