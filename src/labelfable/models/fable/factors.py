"""What is inferred, and what shards send about it."""

from __future__ import annotations

from dataclasses import dataclass

from labelfable.models.fable.emission import VoteFactor
from labelfable.models.fable.emission_hierarchy import Strengths
from labelfable.models.fable.process import WeightFactor
from labelfable.numerics.namespace import Array


@dataclass(frozen=True)
class GlobalFactors:
    """All that is shared by the items; all that a coordinator sends."""

    weights: WeightFactor
    """q(w): the Gaussian processes."""
    votes: VoteFactor
    """q(v): how votes depend on the component."""
    classes: Array | None
    """ν of q(τ) = Dirichlet(ν), [K]; None in the joint reading or where the proportions are fixed."""
    log_proportions: Array
    """E log τ, [K]; unused in the joint reading."""
    packed_votes: Array
    """E log v over the packed columns of the votes, [columns, C]."""


@dataclass(frozen=True)
class ItemFactors:
    """What is inferred of each item of a shard, given the globals.  Recomputed, never carried."""

    responsibilities: Array
    """ρ, [n, C]."""
    process: Array
    """m, mean of f, [n, C]."""
    poisson: Array
    """γ, [n, C]."""
    rate_shape: Array
    """a, [n, groups]."""
    tilt: Array
    """t, [n, C]."""
    group_weight: Array
    """r, [n, groups]."""


@dataclass(frozen=True)
class SufficientStatistics:
    """Sums over items; they add up over shards, and their size does not depend on the number of items."""

    gram: Array
    """Σ_i θ_ic φ_i φ_i', [C, R, R]."""
    potential: Array
    """Σ_i φ_i ( ½(ρ_ic − r_ic γ_ic) − θ_ic mean_c ), [R, C]."""
    counts: Array
    """w Σ_i ρ_ic Ψ_i over the packed columns of the votes, [columns, C]."""
    totals: Array
    """w Σ_i ρ_ic, [C]."""
    proportions: Array
    """What the items say of the class proportions, [K]."""
    bound: dict[str, Array]
    """The items' part of the bound at the globals that the statistics were made with, by term: numbers."""
    strengths: Strengths | None = None
    """The vote prior's strengths in those globals, where they are learned: the global step goes on from there."""

    def times(self, factor: float) -> SufficientStatistics:
        """The statistics of so many times as many items."""
        return SufficientStatistics(
            factor * self.gram,
            factor * self.potential,
            factor * self.counts,
            factor * self.totals,
            factor * self.proportions,
            {name: factor * value for name, value in self.bound.items()},
            self.strengths,
        )

    def __add__(self, other: SufficientStatistics) -> SufficientStatistics:
        """The statistics of both."""
        return SufficientStatistics(
            self.gram + other.gram,
            self.potential + other.potential,
            self.counts + other.counts,
            self.totals + other.totals,
            self.proportions + other.proportions,
            {name: value + other.bound[name] for name, value in self.bound.items()},
            self.strengths,
        )
