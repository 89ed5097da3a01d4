"""Light sweeps: every process is moved by one curvature, which all components share and which is taken once.

Where the processes are points, the sweeps climb a smooth function of the weights.  Its gradient costs two thin products
with Φ, while the curvature of (F) costs a Gram of its own for every component and sweep:

    ∇_c = slope_c − m_c,    slope_c = Σ_i φ_i ( ½(ρ_ic − r_ic γ_ic) − θ_ic f_ic )
    m_c ← m_c + ( I + κ θ̄_c Φ'Φ )⁻¹ ( slope_c − m_c ),    θ̄_c = mean_i θ_ic at the start                        (F')

It rests where (F) rests.  It cannot lower the bound where κ θ̄_c ≥ θ_ic for all items (Böhning and Lindsay 1988); κ is 1
at first, which is longer and mostly safe, and doubles whenever a step did lower it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from array_api_compat import array_namespace, device

from labelfable.models.fable.factors import GlobalFactors, SufficientStatistics
from labelfable.models.fable.process import WeightFactor
from labelfable.models.fable.steps import FableShard, FableSweeps
from labelfable.numerics.linear_algebra import weighted_gram
from labelfable.numerics.namespace import Array

MOST_CAUTION = 2.0**20  # past it nothing but rounding can be wrong


@dataclass(frozen=True)
class Curvature:
    """I + κ θ̄_c Φ'Φ for every component, by one eigendecomposition: Φ'Φ = U diag(λ) U'."""

    directions: Array
    """U, [R, R]."""
    sizes: Array
    """λ, [R]."""
    weight: Array
    """θ̄, [C]."""
    caution: float = 1.0
    """κ."""

    def stretches(self) -> Array:
        """Eigenvalues of each component's curvature, [R, C]."""
        return 1 + self.caution * self.weight[None, :] * self.sizes[:, None]

    def step(self, gradient: Array) -> Array:
        """(I + κ θ̄_c Φ'Φ)⁻¹ ∇_c.  [R, C] -> [R, C]."""
        xp = array_namespace(gradient)
        return self.directions @ ((xp.matrix_transpose(self.directions) @ gradient) / self.stretches())


@dataclass(frozen=True)
class LightGlobals:
    """All global factors, and how the processes are moved."""

    factors: GlobalFactors
    curvature: Curvature | None
    """None before the start."""


@dataclass(frozen=True)
class LightStatistics:
    """Sums over items, and the globals that they were made at."""

    sums: SufficientStatistics
    """With slope_c as the potential; Σ φφ' as the Gram of the start, afterwards none."""
    curvature: Array
    """Σ_i θ_ic, [C]."""
    at: LightGlobals

    def __add__(self, other: LightStatistics) -> LightStatistics:
        """The statistics of both."""
        return LightStatistics(self.sums + other.sums, self.curvature + other.curvature, self.at)


@dataclass(frozen=True)
class LightSweeps:
    """FABLE with its processes as points, moved by (F')."""

    full: FableSweeps

    def start(self, shard: FableShard) -> tuple[None, LightStatistics]:
        """Statistics of the given responsibilities, with the processes at their prior, and Φ'Φ."""
        ones = array_namespace(shard.projected.phi).ones_like(shard.projected.phi[:, :1])
        begin = LightGlobals(self.full.prior_globals(shard), None)
        return None, self._statistics(
            shard, begin, shard.start, self.full.copies * weighted_gram(shard.projected.phi, ones)
        )

    def local_step(self, shard: FableShard, local: None, global_: LightGlobals) -> tuple[None, LightStatistics]:
        """Item factors at their joint optimum, and their statistics."""
        phi = shard.projected.phi
        nothing = array_namespace(phi).zeros((0, 0, 0), device=device(phi))
        return local, self._statistics(shard, global_, None, nothing)

    def _statistics(
        self, shard: FableShard, global_: LightGlobals, responsibilities: Array | None, gram: Array
    ) -> LightStatistics:
        full = self.full
        xp = array_namespace(shard.projected.phi)
        items, terms = full.item_factors(shard, global_.factors, responsibilities)
        curvature, lean = full.quadratic(items)
        known = (terms, global_.factors.votes.strengths)
        sums = full.sums(shard, items, gram, lean - curvature * items.process, known)
        return LightStatistics(sums, full.copies * xp.sum(curvature, axis=0, dtype=xp.float64), global_)

    def global_step(self, statistics: LightStatistics) -> LightGlobals:
        """A step of the processes, every other factor at its optimum.                               Equation (F')"""
        before = statistics.at
        curvature = self.first_curvature(statistics) if before.curvature is None else before.curvature
        mean = before.factors.weights.mean
        mean = mean + curvature.step(statistics.sums.potential - mean)
        return LightGlobals(self.full.globals_with(point_weights(mean), statistics.sums), curvature)

    def first_curvature(self, statistics: LightStatistics) -> Curvature:
        """From Φ'Φ and the θ of the start, averaged over items."""
        gram = statistics.sums.gram[0, ...]
        xp = array_namespace(gram)
        sizes, directions = xp.linalg.eigh(gram)
        n_items = float(xp.sum(statistics.sums.totals)) / self.full.evidence_weight
        return Curvature(directions, xp.clip(sizes, 0.0, None), statistics.curvature / n_items)

    def factors(self, global_: LightGlobals) -> GlobalFactors:
        """What was fitted, without how."""
        return global_.factors

    def bound(self, statistics: LightStatistics, global_: LightGlobals) -> dict[str, float]:
        """The whole bound, term by term."""
        return self.full.bound(statistics.sums, global_.factors)

    def careful(self, statistics: LightStatistics) -> LightStatistics | None:
        """The same with κ doubled."""
        before = statistics.at
        if before.curvature is None or before.curvature.caution > MOST_CAUTION:
            return None
        curvature = replace(before.curvature, caution=2 * before.curvature.caution)
        return replace(statistics, at=LightGlobals(before.factors, curvature))

    def coordinates(self, global_: LightGlobals) -> Array:
        """The processes' means, turned to the curvature's directions, and the rest."""
        return self._turned(self.full.coordinates(global_.factors), global_, back=False)

    def metric(self, global_: LightGlobals) -> Array:
        """Roots of each coordinate's curvature."""
        xp = array_namespace(global_.factors.weights.mean)
        metric = self.full.metric(global_.factors)
        if global_.curvature is None:
            return metric
        own = xp.reshape(xp.sqrt(global_.curvature.stretches()), (-1,))
        return xp.concat((own, metric[own.shape[0] :]))

    def at(self, coordinates: Array, near: LightGlobals) -> LightGlobals:
        """Factors at these coordinates."""
        return LightGlobals(self.full.at(self._turned(coordinates, near, back=True), near.factors), near.curvature)

    def _turned(self, coordinates: Array, global_: LightGlobals, *, back: bool) -> Array:
        if global_.curvature is None:
            return coordinates
        xp = array_namespace(coordinates)
        shape = global_.factors.weights.mean.shape
        turn = global_.curvature.directions if back else xp.matrix_transpose(global_.curvature.directions)
        mean = turn @ xp.reshape(coordinates[: shape[0] * shape[1]], shape)
        return xp.concat((xp.reshape(mean, (-1,)), coordinates[shape[0] * shape[1] :]))


SWEEP_TYPES = (LightGlobals, LightStatistics, Curvature, SufficientStatistics)
"""Data classes that the state of the sweeps consists of, beside the global factors."""


def point_weights(mean: Array) -> WeightFactor:
    """Weights as a point."""
    xp = array_namespace(mean)
    return WeightFactor(mean, None, 0.5 * float(xp.sum(mean * mean)))
