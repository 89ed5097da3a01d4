"""The order of the updates: the only place that knows it.

    local step    A → (B, C at once, or B') → D → E → sums    item factors at their joint optimum, given the globals
    global step   F, G or H, T                                each global factor at its optimum, given the items

Both raise one bound, so the sweep climbs.  Prediction is the local step with the globals held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from array_api_compat import array_namespace

from labelfable.inference.shards import Shard
from labelfable.models.confusion import clamp_logits
from labelfable.models.fable.augmentation import (
    NormaliserName,
    collapsed_bound,
    expected_log_sigmoid,
    normaliser_bound,
    solve_normaliser,
    update_collapsed_mean,
    update_curvature,
    update_poisson_mean,
    update_rate_shape,
    update_tilt,
)
from labelfable.models.fable.bound import global_bound, items_bound
from labelfable.models.fable.emission import Emission, VoteFactor, VotePrior, near_logarithm
from labelfable.models.fable.emission_hierarchy import Strengths
from labelfable.models.fable.factors import GlobalFactors, ItemFactors, SufficientStatistics
from labelfable.models.fable.mixture import update_responsibilities
from labelfable.models.fable.process import (
    WeightFactor,
    expected_process,
    moved_weights,
    prior_weights,
    update_weights,
)
from labelfable.models.fable.projection import Projected
from labelfable.models.fable.reading import Reading
from labelfable.numerics.distributions import dirichlet_mean_log
from labelfable.numerics.linear_algebra import summed_products, weighted_gram
from labelfable.numerics.namespace import Array, digamma
from labelfable.numerics.special import without_traces, x_log_x
from labelfable.votes.maps import Layout


@dataclass(frozen=True)
class FableShard:
    """Consecutive items: their votes, their columns of the processes, and where their responsibilities start."""

    votes: Shard
    projected: Projected
    start: Array | None = None
    """[n, C]; not needed for prediction."""


@dataclass(frozen=True)
class FableSweeps:
    """FABLE as a sweep model: its settings, and the steps."""

    reading: Reading
    emission: Emission
    layout: Layout
    vote_prior: VotePrior
    process_mean: Array
    """mean_c, [C]."""
    class_prior: Array | None
    """ν₀ of the class proportions, [K]; None where they are fixed or live in the process's mean."""
    log_proportions: Array
    """Log of the fixed class proportions, [K]."""
    evidence_weight: float = 1.0
    is_point: bool = False
    """tilt="mean": the processes as points, so that t = |m|."""
    normaliser: NormaliserName = "factored"
    """Whether λ has a factor of its own, (B) and (C), or is integrated out, (B')."""
    copies: float = 1.0
    """How many items each item stands for, as in a sample."""

    def start(self, shard: FableShard) -> tuple[None, SufficientStatistics]:
        """Statistics of the given responsibilities, with the processes at their prior."""
        return None, self.statistics(shard, self.prior_globals(shard), shard.start)

    def local_step(self, shard: FableShard, local: None, global_: GlobalFactors) -> tuple[None, SufficientStatistics]:
        """Item factors at their joint optimum, and their statistics."""
        return local, self.statistics(shard, global_, None)

    def global_step(self, statistics: SufficientStatistics) -> GlobalFactors:
        """Every global factor at its optimum given the items: they do not meet in any term, so the order is free."""
        weights = update_weights(statistics.gram, statistics.potential, is_point=self.is_point)
        return self.globals_with(weights, statistics)

    def globals_with(self, weights: WeightFactor, statistics: SufficientStatistics) -> GlobalFactors:
        """These processes, and the other factors at their optimum given the items."""
        counts = self.layout.unpack(statistics.counts)
        votes = self.emission.factor(self.vote_prior, counts, statistics.totals, statistics.strengths)
        classes = None if self.class_prior is None else update_proportions(self.class_prior, statistics.proportions)
        return self._globals(weights, votes, classes)

    def coordinates(self, global_: GlobalFactors) -> Array:
        """The processes' means, and the logarithms of all concentrations and rates."""
        xp = array_namespace(global_.weights.mean)
        parts = [xp.reshape(global_.weights.mean, (-1,)), self.emission.coordinates(global_.votes)]
        return xp.concat(parts if global_.classes is None else [*parts, xp.log(global_.classes)])

    def metric(self, global_: GlobalFactors) -> Array:
        """Roots of what the votes tell of each logarithm; the processes' weights have prior variance 1."""
        xp = array_namespace(global_.weights.mean)
        coordinates = self.coordinates(global_)
        told = xp.exp(coordinates[math.prod(global_.weights.mean.shape) :] / 2)
        return xp.concat((xp.ones_like(coordinates[: coordinates.shape[0] - told.shape[0]]), told))

    def at(self, coordinates: Array, near: GlobalFactors) -> GlobalFactors:
        """Factors at these coordinates; covariances are those of `near`."""
        xp = array_namespace(coordinates)
        shape = near.weights.mean.shape
        weights = moved_weights(near.weights, xp.reshape(coordinates[: math.prod(shape)], shape))
        rest = coordinates[math.prod(shape) :]
        last = rest.shape[0] - (0 if near.classes is None else near.classes.shape[0])
        votes = self.emission.at(self.vote_prior, rest[:last], near.votes)
        classes = None if near.classes is None else near_logarithm(rest[last:], near.classes)
        return self._globals(weights, votes, classes)

    def careful(self, _statistics: SufficientStatistics) -> SufficientStatistics | None:
        """None: no update can lower the bound."""
        return None

    def factors(self, global_: GlobalFactors) -> GlobalFactors:
        """What was fitted, without how: there is nothing else."""
        return global_

    def bound(self, statistics: SufficientStatistics, global_: GlobalFactors) -> dict[str, float]:
        """The whole bound, term by term."""
        items = {name: float(value) for name, value in statistics.bound.items()}
        return items | global_bound(global_, self.class_prior)

    def prior_globals(self, shard: FableShard) -> GlobalFactors:
        """Every factor at its prior."""
        weights = prior_weights(
            shard.projected.phi.shape[1], self.reading.n_components, shard.projected.phi, is_point=self.is_point
        )
        prior = self.vote_prior.concentration
        nothing = array_namespace(prior).zeros_like(prior)
        votes = self.emission.factor(self.vote_prior, nothing, nothing[0, 0, :])
        return self._globals(weights, votes, self.class_prior)

    def _globals(self, weights: WeightFactor, votes: VoteFactor, classes: Array | None) -> GlobalFactors:
        log_proportions = self.log_proportions if classes is None else dirichlet_mean_log(classes)
        return GlobalFactors(weights, votes, classes, log_proportions, self.layout.pack(votes.logs))

    def item_factors(
        self, shard: FableShard, global_: GlobalFactors, responsibilities: Array | None = None
    ) -> tuple[ItemFactors, dict[str, Array]]:
        """A, then B and C at once (or B'), then D; with `responsibilities` given, those instead of D's."""
        reading = self.reading
        mean, variance = expected_process(
            shard.projected.phi, shard.projected.residual, global_.weights, self.process_mean
        )
        tilt = update_tilt(mean, variance)
        log_present, log_absent = expected_log_sigmoid(mean, tilt), expected_log_sigmoid(-mean, tilt)
        xp = array_namespace(mean)
        log_mass = xp.astype(reading.log_mass(global_.log_proportions), mean.dtype)
        log_prior = xp.astype(reading.log_prior(global_.log_proportions), mean.dtype)
        poisson, shape, normaliser = self._normaliser(log_absent, log_mass)
        evidence = xp.astype(self.evidence(shard, global_), mean.dtype, copy=False)
        if responsibilities is None:
            own = reading.spread(normaliser) if reading.name == "conditional" else xp.zeros_like(log_present)
            offered = clamp_logits(evidence, shard.votes.gold, reading.n_classes)
            responsibilities, _ = update_responsibilities(log_present, log_prior, offered, own)
        weight = reading.group_weight(responsibilities)
        items = ItemFactors(responsibilities, mean, poisson, shape, tilt, weight)
        return items, items_bound(
            responsibilities,
            weight,
            log_sigmoid=log_present,
            normaliser=normaliser,
            log_prior=log_prior,
            evidence=evidence,
        )

    def evidence(self, shard: FableShard, global_: GlobalFactors) -> Array:
        """What the votes say of each item, silence included where it has a price.  [n, C]."""
        told = shard.votes.maps.evidence(global_.packed_votes)
        xp = array_namespace(told)
        return self.evidence_weight * (told + xp.astype(global_.votes.constant, told.dtype, copy=False))

    def _normaliser(self, log_absent: Array, log_mass: Array) -> tuple[Array, Array, Array]:
        """γ [n, C], the shape a of λ [n, groups] and each normaliser's bound [n, groups], at their optimum."""
        reading = self.reading
        xp = array_namespace(log_absent)
        if self.normaliser == "collapsed":
            whole = reading.normaliser(log_absent, log_mass)
            poisson = update_collapsed_mean(log_absent, log_mass, reading.spread(whole))
            return poisson, update_rate_shape(reading.group_sum(poisson)), collapsed_bound(whole)
        shape = solve_normaliser(reading.group_sum(xp.exp(log_absent + log_mass)) / reading.mass)
        log_rate = digamma(shape) - math.log(reading.mass)
        poisson = update_poisson_mean(reading.spread(log_rate), log_absent, log_mass)
        bound = normaliser_bound(
            shape,
            xp.asarray(reading.mass, dtype=shape.dtype),
            reading.group_sum(poisson),
            reading.group_sum(poisson * (log_absent + log_mass)),
            reading.group_sum(x_log_x(poisson)),
        )
        return poisson, shape, bound

    def statistics(
        self, shard: FableShard, global_: GlobalFactors, responsibilities: Array | None
    ) -> SufficientStatistics:
        """Item factors and their sums over one shard."""
        items, terms = self.item_factors(shard, global_, responsibilities)
        curvature, lean = self.quadratic(items)
        gram = self.copies * weighted_gram(shard.projected.phi, curvature)
        mean = array_namespace(lean).astype(self.process_mean, lean.dtype)
        return self.sums(shard, items, gram, lean - curvature * mean, (terms, global_.votes.strengths))

    def quadratic(self, items: ItemFactors) -> tuple[Array, Array]:
        """What the bound is in f, lean f − ½ θ f²: θ and ½(ρ − rγ), both [n, C]."""
        counted = self.reading.spread(items.group_weight) * items.poisson
        curvature = update_curvature(items.responsibilities + counted, items.tilt)
        return curvature, (items.responsibilities - counted) / 2

    def sums(
        self,
        shard: FableShard,
        items: ItemFactors,
        gram: Array,
        pull: Array,
        known: tuple[dict[str, Array], Strengths | None],
    ) -> SufficientStatistics:
        """Sums over one shard, as many times as its items count.

        The Gram is made already, and so are the bound's terms and the prior's strengths.
        """
        ρ, pull = without_traces(items.responsibilities), without_traces(pull)
        xp = array_namespace(ρ)
        columns = xp.astype(shard.projected.phi, pull.dtype, copy=False)  # a start is float64 whatever the features are
        weight = self.copies * self.evidence_weight
        proportions = xp.sum(self.reading.proportion_counts(ρ, items.poisson), axis=0, dtype=xp.float64)
        return SufficientStatistics(
            gram=gram,
            potential=self.copies * xp.matrix_transpose(summed_products(pull, columns)),
            counts=weight * shard.votes.maps.counts(ρ),
            totals=weight * xp.sum(ρ, axis=0, dtype=xp.float64),
            proportions=self.copies * proportions,
            bound={name: self.copies * term for name, term in known[0].items()},
            strengths=known[1],
        )


def update_proportions(prior: Array, counts: Array) -> Array:
    """Dirichlet factor of the class proportions.  [K].                                           Equation (T)

    ν_k = ν₀ + Σ_i ( Σ_m ρ_ikm + Σ_m γ_ikm )        (the second sum in the base reading only)
    """
    return prior + counts
