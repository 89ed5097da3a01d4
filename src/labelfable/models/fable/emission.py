"""How votes depend on the component: four models, one interface.

- *pattern*: given how many votes an item gets, which ones they are: one draw of (source, label) a vote,
  v_c ~ Dirichlet over all (source, label) pairs.  When a source speaks counts, how much is spoken does not.
- *fired*: given that source j speaks, what it says: v_jc ~ Dirichlet over labels.  Silence says nothing.
- *silence*: the same with silence as one more label.  Whether a source speaks has a weight of its own: 1 is the full
  firing rate, at 0 only what it says counts, as in *fired*.
- *rates*: source j gives label l at a Poisson rate, λ_jlc ~ Gamma; silence has a constant price per component.

Tables are kept as posteriors, or as points (the mode, whose log prior is counted from its peak).  A weight w on the
votes' evidence is a power likelihood: it multiplies the votes' line of the bound and, with it, the counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from array_api_compat import array_namespace

from labelfable.models.fable.emission_hierarchy import (
    Hierarchy,
    Slopes,
    Strengths,
    rate_slopes,
    table_slopes,
    update_strengths,
)
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
    hierarchy: Hierarchy | None = None
    """How β and the rate follow from two strengths, where these are learned."""

    def at(self, strengths: Strengths | None) -> VotePrior:
        """The prior under learned strengths; itself where there are none."""
        if self.hierarchy is None or strengths is None:
            return self
        return VotePrior(self.hierarchy.concentration(strengths), self.hierarchy.rate(strengths), self.hierarchy)


@dataclass(frozen=True)
class VoteFactor:
    """q(v): what is believed of them afterwards, and what the local step needs of it."""

    concentration: Array
    """Dirichlet concentration μ or Gamma shape, [sources, labels, C]."""
    rate: Array | None
    """Gamma rate, [C]; None for the Dirichlet emissions."""
    logs: Array
    """E log v (or log v of a point), [sources, labels, C]; its part that says who speaks, times `silence_weight`."""
    constant: Array
    """What every item pays whatever its votes are, [C]: −Σ_jl E λ_jlc for rates, else 0."""
    divergence: float
    """KL( q(v) ‖ prior ), or the log prior's fall from its peak where v is a point; and that of the strengths."""
    speech: Array | None = None
    """Where silence is a label: Beta concentration of speaking, [sources, C]; that of silence is its row of μ."""
    strengths: Strengths | None = None
    """Strengths of the prior, where they are learned."""


@dataclass(frozen=True)
class Emission:
    """One of the four models, with tables as posteriors or as points."""

    name: EmissionName
    is_point: bool = False
    silence_weight: float = 1.0
    """Weight of the factor for whether a source speaks, where silence is a label."""

    def factor(self, prior: VotePrior, counts: Array, totals: Array, strengths: Strengths | None = None) -> VoteFactor:
        """q(v) given the responsibilities, weighted by w; then the strengths of its prior, from those given on.

        Shapes: counts [sources, labels, C], totals Σρ [C].  Equation (G), or (G') where silence is a label, or (H).
        """
        if prior.hierarchy is None:
            return self.made(prior, *self._updated(prior, counts, totals))
        strengths = prior.hierarchy.start if strengths is None else strengths
        found = self._updated(prior.at(strengths), counts, totals)
        strengths = self._strengths(prior.hierarchy, strengths, *found)
        return self.made(prior, *found, strengths)

    def coordinates(self, factor: VoteFactor) -> Array:
        """Logarithms of all concentrations and rates as one vector."""
        xp = array_namespace(factor.concentration)
        known = (factor.concentration, factor.rate, factor.speech)
        return xp.concat([xp.reshape(xp.log(part), (-1,)) for part in known if part is not None])

    def at(self, prior: VotePrior, coordinates: Array, near: VoteFactor) -> VoteFactor:
        """The factor at these coordinates, no farther from another than LONGEST_WAY, under its strengths."""
        found, first = [], 0
        for part in (near.concentration, near.rate, near.speech):
            last = first + (0 if part is None else math.prod(part.shape))
            found.append(None if part is None else near_logarithm(coordinates[first:last], part))
            first = last
        concentration, rate, speech = found
        return self.made(prior, concentration, rate, speech, near.strengths)

    def _updated(self, prior: VotePrior, counts: Array, totals: Array) -> tuple[Array, Array | None, Array | None]:
        """The parameters of q(v): concentration, rate and speech."""
        if self.name == "rates":
            return *update_rates(prior.concentration, prior.rate, counts, totals), None
        if self.name == "silence":
            concentration, speech = update_speech(prior.concentration, counts, self.silence_weight)
            return concentration, None, speech
        return update_tables(prior.concentration, counts), None, None

    def made(
        self,
        prior: VotePrior,
        concentration: Array,
        rate: Array | None,
        speech: Array | None,
        strengths: Strengths | None = None,
    ) -> VoteFactor:
        """The factor with its moments and its divergence."""
        xp, prior = array_namespace(concentration), prior.at(strengths)
        constant = xp.zeros(concentration.shape[2], dtype=concentration.dtype)
        if rate is not None:
            logs, divergence = self._rates(concentration, rate, prior)
            constant = -xp.sum(concentration / rate, axis=(0, 1))
        elif speech is not None:
            logs, divergence = self._speech(concentration, speech, prior)
        else:
            logs, divergence = self._tables(concentration, prior.concentration)
        if prior.hierarchy is not None and strengths is not None:
            divergence += prior.hierarchy.fall(strengths)
        return VoteFactor(concentration, rate, logs, constant, divergence, speech, strengths)

    def _tables(self, concentration: Array, prior: Array) -> tuple[Array, float]:
        xp = array_namespace(concentration)
        after, before = self._by_event(concentration), self._by_event(prior)
        if self.is_point:
            by_event, divergence = point_of_tables(after, before)
        else:
            by_event, divergence = dirichlet_mean_log(after), float(xp.sum(dirichlet_divergence(after, before)))
        return self._from_event(by_event, concentration.shape), divergence

    def _speech(self, concentration: Array, speech: Array, prior: VotePrior) -> tuple[Array, float]:
        """What sources say when they speak, and whether they speak: two tables, independent in the posterior too."""
        xp, before = array_namespace(concentration), prior.concentration
        said, divergence = self._tables(concentration[:, :-1, :], before[:, :-1, :])
        whether, more = self._tables(
            xp.stack((speech, concentration[:, -1, :]), axis=1),
            xp.stack((xp.sum(before[:, :-1, :], axis=1), before[:, -1, :]), axis=1),
        )
        whether = self.silence_weight * whether
        return xp.concat((said + whether[:, :1, :], whether[:, 1:, :]), axis=1), divergence + more

    def _rates(self, shape: Array, rate: Array, prior: VotePrior) -> tuple[Array, float]:
        xp = array_namespace(shape)
        if self.is_point:
            return point_of_rates(shape, rate, prior.concentration, prior.rate)
        divergence = gamma_divergence(shape, rate, prior.concentration, prior.rate)
        return digamma(shape) - xp.log(rate), float(xp.sum(divergence))

    def _strengths(
        self,
        hierarchy: Hierarchy,
        strengths: Strengths,
        concentration: Array,
        rate: Array | None,
        speech: Array | None,
    ) -> Strengths:
        """The prior's strengths given q(v), whose logs are taken without any weight.               Equation (P')"""
        unweighted = replace(self, silence_weight=1.0)
        factor = unweighted.made(VotePrior(hierarchy.concentration(strengths), rate), concentration, rate, speech)

        def slopes(at: Strengths) -> Slopes:
            β, parts = hierarchy.concentration(at), (hierarchy.right, hierarchy.wrong)
            if rate is not None:
                means, before = concentration / rate, hierarchy.rate(at)
                return rate_slopes((factor.logs, means), β, (before, hierarchy.unit), parts, is_point=self.is_point)
            logs, β, *by_event = (self._by_event(x) for x in (factor.logs, β, *parts))
            return table_slopes(logs, β, (by_event[0], by_event[1]), is_point=self.is_point)

        return update_strengths(hierarchy, strengths, slopes, is_point=self.is_point)

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


def update_speech(prior: Array, counts: Array, weight: float) -> tuple[Array, Array]:
    """What a source says when it speaks, and whether it speaks.  [sources, labels, C], silence last.   Equation (G')

        p(y_ij | v_jc) = v_jlc / (1 − v_j0c) · (1 − v_j0c)^s  where source j says l,    v_j0c^s  where it is silent

        μ_jlc = β_jlc + w n_jlc,    μ_j0c = β_j0c + s w n_j0c,    speech_jc = Σ_l β_jlc + s w Σ_l n_jlc

    A Dirichlet over labels and silence is one over labels times a Beta, and stays so under any weight s: at 1 it is
    (G), at 0 silence says nothing.  Shapes: twice [sources, labels, C] -> [sources, labels, C], [sources, C].
    """
    xp = array_namespace(prior, counts)
    spoken, silent = prior[:, :-1, :] + counts[:, :-1, :], prior[:, -1:, :] + weight * counts[:, -1:, :]
    speech = xp.sum(prior[:, :-1, :], axis=1) + weight * xp.sum(counts[:, :-1, :], axis=1)
    return xp.concat((spoken, silent), axis=1), speech


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
