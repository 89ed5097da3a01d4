"""The three consistent readings of "a class prior and a Gaussian process over components".

- *joint*: p(k, m) = σ(f_km) / Σ_c σ(f_c); the class proportions lie in the process's mean.
- *base*: p(k, m) = τ_k σ(f_km) / Σ_k'm' τ_k' σ(f_k'm'); proportions τ inside the normaliser.
- *conditional*: z ~ τ, and p(m | k) = σ(f_km) / Σ_m' σ(f_km'); features tell subtypes apart, not classes.

The published text multiplies the joint distribution by τ without normalising, which counts the class prior twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from array_api_compat import array_namespace

from labelfable.numerics.namespace import Array

ReadingName = Literal["joint", "base", "conditional"]

LEAST_NORMALISER = 1e-30  # all processes of a group below −69


@dataclass(frozen=True)
class Reading:
    """Which components a normaliser sums over, and where the class proportions stand.

    Components are ordered class by class, then subtype by subtype.  A group is what one normaliser sums over.
    """

    name: ReadingName
    n_classes: int
    n_subtypes: int

    @property
    def n_components(self) -> int:
        """Number of components, C = K·M."""
        return self.n_classes * self.n_subtypes

    @property
    def has_proportions(self) -> bool:
        """Whether class proportions are a variable of their own."""
        return self.name != "joint"

    @property
    def mass(self) -> float:
        """Total mass of a normaliser's terms, b: C (joint), M Σ_k τ_k = M (base), M (conditional)."""
        return float(self.n_components if self.name == "joint" else self.n_subtypes)

    def group_sum(self, values: Array) -> Array:
        """Sum over each normaliser's components.  Shapes: [n, C] -> [n, groups]."""
        xp = array_namespace(values)
        if self.name == "conditional":
            return xp.sum(xp.reshape(values, (values.shape[0], self.n_classes, self.n_subtypes)), axis=2)
        return xp.sum(values, axis=1, keepdims=True)

    def spread(self, values: Array) -> Array:
        """A group's value for each of its components.  Shapes: [n, groups] -> [n, C]."""
        xp = array_namespace(values)
        if self.name == "conditional":
            return xp.repeat(values, self.n_subtypes, axis=1)
        return xp.broadcast_to(values, (values.shape[0], self.n_components))

    def class_sum(self, values: Array) -> Array:
        """Sum over subtypes.  Shapes: [n, C] -> [n, K]."""
        xp = array_namespace(values)
        return xp.sum(xp.reshape(values, (values.shape[0], self.n_classes, self.n_subtypes)), axis=2)

    def log_mass(self, log_proportions: Array) -> Array:
        """Log weight of each component inside its normaliser.  Shapes: E log τ [K] -> [C]."""
        xp = array_namespace(log_proportions)
        spread = xp.repeat(log_proportions, self.n_subtypes)
        return spread if self.name == "base" else xp.zeros_like(spread)

    def normaliser(self, log_complement: Array, log_mass: Array) -> Array:
        """What stands for Σ_c mass_c σ(f_c); the same where f is known.  Nothing cancels where all σ are small.

            S_i = b − Σ_c mass_c exp( −m_ic/2 − log 2cosh(t_ic/2) )
                = ( b − Σ_c mass_c ) + Σ_c mass_c ( 1 − exp( −m_ic/2 − log 2cosh(t_ic/2) ) )

        The first part is not 0 where mass_c = exp E log τ_k.  Shapes: −m/2 − log 2cosh(t/2) [n, C], [C] -> [n, groups].
        """
        xp = array_namespace(log_complement)
        mass = xp.exp(log_mass)
        unspent = xp.clip(self.mass - self.group_sum(mass[None, :]), 0.0, None)
        return xp.clip(unspent + self.group_sum(-mass * xp.expm1(log_complement)), LEAST_NORMALISER, None)

    def log_prior(self, log_proportions: Array) -> Array:
        """Log weight of each component in front of its sigmoid.  Shapes: E log τ [K] -> [C]."""
        xp = array_namespace(log_proportions)
        spread = xp.repeat(log_proportions, self.n_subtypes)
        return spread if self.has_proportions else xp.zeros_like(spread)

    def group_weight(self, responsibilities: Array) -> Array:
        """How much an item counts in each normaliser: once, or (conditional) as far as it is of the class.

        r_ik = Σ_m ρ_ikm in the conditional reading.  Shapes: [n, C] -> [n, groups].
        """
        xp = array_namespace(responsibilities)
        if self.name == "conditional":
            return self.class_sum(responsibilities)
        return xp.ones_like(responsibilities[:, :1])

    def proportion_counts(self, responsibilities: Array, poisson: Array) -> Array:
        """What the items say of the class proportions.  Shapes: [n, C], [n, C] -> [n, K].             Equation (T)

        Base: Σ_m (ρ_ikm + γ_ikm), because τ stands in the normaliser too; conditional: Σ_m ρ_ikm; joint: nothing.
        """
        xp = array_namespace(responsibilities)
        if self.name == "base":
            return self.class_sum(responsibilities + poisson)
        if self.name == "conditional":
            return self.class_sum(responsibilities)
        return xp.zeros_like(responsibilities[:, : self.n_classes])
