"""How votes depend on the component: four models, one interface.

- *pattern*: given how many votes an item gets, which ones they are: one draw of (source, label) a vote,
  v_c ~ Dirichlet over all (source, label) pairs.  When a source speaks counts, how much is spoken does not.
- *fired*: given that source j speaks, what it says: v_jc ~ Dirichlet over labels.  Silence says nothing.
- *silence*: the same with silence as one more label.
- *rates*: source j gives label l at a Poisson rate, λ_jlc ~ Gamma; silence has a constant price per component.

Tables are kept as posteriors, or as points (the mode, whose log prior is counted from its peak).  A weight w on the
votes' evidence is a power likelihood: it multiplies the votes' line of the bound and, with it, the counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from array_api_compat import array_namespace

from labelfable.numerics.distributions import dirichlet_divergence, dirichlet_mean_log, gamma_divergence
from labelfable.numerics.namespace import Array, digamma

LONGEST_WAY = 5.0  # in logarithms: no concentration changes more than 150-fold in a step
EmissionName = Literal["pattern", "fired", "silence", "rates"]


@dataclass(frozen=True)
class VotePrior:
    """What is believed of the votes before they are seen."""

    concentration: Array
    """Dirichlet concentration or Gamma shape β, [sources, labels, C]."""
    rate: Array | None = None
    """Gamma rate, [C]; None for the Dirichlet emissions."""


@dataclass(frozen=True)
class VoteFactor:
    """q(v): what is believed of them afterwards, and what the local step needs of it."""

    concentration: Array
    """Dirichlet concentration μ or Gamma shape, [sources, labels, C]."""
    rate: Array | None
    """Gamma rate, [C]; None for the Dirichlet emissions."""
    logs: Array
    """E log v (or log v of a point), [sources, labels, C]."""
    constant: Array
    """What every item pays whatever its votes are, [C]: −Σ_jl E λ_jlc for rates, else 0."""
    divergence: float
    """KL( q(v) ‖ prior ), or the log prior's fall from its peak where v is a point."""


@dataclass(frozen=True)
class Emission:
    """One of the four models, with tables as posteriors or as points."""

    name: EmissionName
    is_point: bool = False

    def factor(self, prior: VotePrior, counts: Array, totals: Array) -> VoteFactor:
        """q(v) given the responsibilities, weighted by w.  Shapes: counts [sources, labels, C], totals Σρ [C].

        Dirichlet: Equation (G); rates: Equation (H).
        """
        if self.name == "rates":
            return self._rates(prior, *update_rates(prior.concentration, prior.rate, counts, totals))
        return self._tables(prior, update_tables(prior.concentration, counts))

    def coordinates(self, factor: VoteFactor) -> Array:
        """Logarithms of all concentrations and rates as one vector."""
        xp = array_namespace(factor.concentration)
        logs = xp.reshape(xp.log(factor.concentration), (-1,))
        return logs if factor.rate is None else xp.concat((logs, xp.log(factor.rate)))

    def at(self, prior: VotePrior, coordinates: Array, near: VoteFactor) -> VoteFactor:
        """The factor at these coordinates, no farther from another than LONGEST_WAY."""
        concentration, rate = near.concentration, near.rate
        size = math.prod(concentration.shape)
        concentration = near_logarithm(coordinates[:size], concentration)
        if rate is None:
            return self._tables(prior, concentration)
        return self._rates(prior, concentration, near_logarithm(coordinates[size:], rate))

    def _tables(self, prior: VotePrior, concentration: Array) -> VoteFactor:
        xp = array_namespace(concentration)
        after, before = self._by_event(concentration), self._by_event(prior.concentration)
        if self.is_point:
            by_event, divergence = point_of_tables(after, before)
        else:
            by_event, divergence = dirichlet_mean_log(after), float(xp.sum(dirichlet_divergence(after, before)))
        logs = self._from_event(by_event, concentration.shape)
        return VoteFactor(concentration, None, logs, xp.zeros(concentration.shape[2], dtype=logs.dtype), divergence)

    def _rates(self, prior: VotePrior, shape: Array, rate: Array) -> VoteFactor:
        xp = array_namespace(shape)
        constant = -xp.sum(shape / rate, axis=(0, 1))
        if self.is_point:
            logs, divergence = point_of_rates(shape, rate, prior.concentration, prior.rate)
        else:
            logs = digamma(shape) - xp.log(rate)
            divergence = float(xp.sum(gamma_divergence(shape, rate, prior.concentration, prior.rate)))
        return VoteFactor(shape, rate, logs, constant, divergence)

    def _by_event(self, table: Array) -> Array:
        """What a draw chooses between on the last axis: labels of a source, or all (source, label) pairs."""
        xp = array_namespace(table)
        if self.name == "pattern":
            return xp.permute_dims(xp.reshape(table, (-1, table.shape[2])), (1, 0))
        return xp.permute_dims(table, (0, 2, 1))

    def _from_event(self, table: Array, shape: tuple[int, ...]) -> Array:
        xp = array_namespace(table)
        if self.name == "pattern":
            return xp.reshape(xp.permute_dims(table, (1, 0)), shape)
        return xp.permute_dims(table, (0, 2, 1))


def near_logarithm(logarithm: Array, near: Array) -> Array:
    """Positive numbers with these logarithms, no farther from those of `near` than LONGEST_WAY.  [...]."""
    xp = array_namespace(near)
    way = xp.reshape(logarithm, near.shape) - xp.log(near)
    return near * xp.exp(xp.clip(way, -LONGEST_WAY, LONGEST_WAY))


def update_tables(prior: Array, counts: Array) -> Array:
    """Dirichlet factor of the vote distributions.  [sources, labels, C].                           Equation (G)

    μ_jlc = β_jlc + w Σ_i ρ_ic 1[y_ij = l]
    """
    return prior + counts


def update_rates(prior_shape: Array, prior_rate: Array, counts: Array, totals: Array) -> tuple[Array, Array]:
    """Gamma factors of the vote rates.  Shapes: [sources, labels, C], [C] twice.                   Equation (H)

    shape_jlc = β_jlc + w Σ_i ρ_ic 1[y_ij = l],    rate_c = rate₀_c + w Σ_i ρ_ic
    """
    return prior_shape + counts, prior_rate + totals


def point_of_tables(concentration: Array, prior: Array) -> tuple[Array, float]:
    """Log of the table of highest posterior density, and how far its log prior lies under the peak.  Events last.

        log v_l = log μ_l − log Σ_l μ_l,    Σ_l β_l ( log β̄_l − log v_l ),    β̄ = β / Σβ

    The prior's density is taken in log v (exponent β rather than β − 1), which puts its peak at its mean.
    """
    xp = array_namespace(concentration)
    logs = xp.log(concentration) - xp.log(xp.sum(concentration, axis=-1, keepdims=True))
    peak = xp.log(prior) - xp.log(xp.sum(prior, axis=-1, keepdims=True))
    return logs, float(xp.sum(prior * (peak - logs)))


def point_of_rates(shape: Array, rate: Array, prior_shape: Array, prior_rate: Array) -> tuple[Array, float]:
    """Log of the rates of highest posterior density in log λ, and how far their log prior lies under the peak.

    log λ = log shape − log rate,    Σ ( β (log λ₀ − log λ) − rate₀ (λ₀ − λ) ),    λ₀ = β / rate₀
    """
    xp = array_namespace(shape)
    logs = xp.log(shape) - xp.log(rate)
    peak = xp.log(prior_shape) - xp.log(prior_rate)
    fall = prior_shape * (peak - logs) - prior_rate * (xp.exp(peak) - xp.exp(logs))
    return logs, float(xp.sum(fall))
