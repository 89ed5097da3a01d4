"""The prior of the votes with two strengths that are learned, and that all sources share.

    β_jlc = x · right_jlc + y · wrong_jlc + flat,         strength τ = x + y,    accuracy a = x / τ

x counts what speaks for the right class, y what speaks for another.  Each has a Gamma prior whose peak s₀ is what was
set; its logarithm, counted from the peak, is −h ( s/s₀ − 1 − log(s/s₀) ), with h the firmness.

The tables are an exponential family in β, whose log normaliser is convex, and β is linear in x and y: so the bound is
concave in both, and Newton steps that are halved until they rise end at its maximum.

The strength may be held, so that the accuracy alone is learned.  Of tables that are points it always is: their log
prior, counted from its peak, falls in proportion to the strength, so that none would be best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from labelfable.numerics.namespace import Array, digamma, log_gamma, trigamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_STEPS = 50  # of Newton; from anywhere sensible four or five are enough
MOST_HALVINGS = 40
NEARLY_ALL = 0.9  # of the way to a strength of 0
ROUNDING = 1e-12  # of the value, a sum of many log Γ: near the maximum a step gains less than that, and is right
LEAST_GAIN = 1e-20  # of the value: one or two steps past where gains are lost in its rounding
Strengths = tuple[float, float]
"""x and y."""


@dataclass(frozen=True)
class Hierarchy:
    """How the prior follows from its two strengths, and what is believed of these."""

    right: Array
    """β of one unit of x, [sources, labels, C]."""
    wrong: Array
    """β of one unit of y, [sources, labels, C]."""
    flat: float
    start: Strengths
    """The peak of their own prior: strength · accuracy, and the rest."""
    firmness: float
    """How firmly that holds them."""
    unit: Array | None = None
    """Gamma rate of one unit of x + y, [C]; None for tables."""
    is_held: bool = False
    """Whether x + y stays as it was set."""

    def concentration(self, strengths: Strengths) -> Array:
        """β.  [sources, labels, C].                                                               Equation (P)"""
        return strengths[0] * self.right + strengths[1] * self.wrong + self.flat

    def rate(self, strengths: Strengths) -> Array | None:
        """Gamma rate, [C]."""
        return None if self.unit is None else (strengths[0] + strengths[1]) * self.unit

    def fall(self, strengths: Strengths) -> float:
        """How far the log prior of the strengths is below its peak: h Σ ( s/s₀ − 1 − log(s/s₀) )."""
        ratios = np.asarray(strengths) / np.asarray(self.start)
        return float(self.firmness * np.sum(ratios - 1 - np.log(ratios)))


class Slopes(NamedTuple):
    """A function of (x, y) at one place, up to a constant."""

    value: float
    gradient: NDArray[np.floating]
    """[2]."""
    curvature: NDArray[np.floating]
    """Second derivatives, [2, 2]."""


def update_strengths(
    hierarchy: Hierarchy, strengths: Strengths, slopes: Callable[[Strengths], Slopes], *, is_point: bool
) -> Strengths:
    """Strengths of highest bound, from those given on; never one that is lower.                  Equation (P')

        x, y  maximise  E log p( v | β(x, y) )  −  h Σ_s ( s/s₀ − 1 − log(s/s₀) )

    `slopes` are those of the first part.  Where the strength is held, and for points: along x + y as it is.
    """
    free = np.array([[1.0], [-1.0]]) if hierarchy.is_held or is_point else np.eye(2)
    here = np.array(strengths)
    found = _with_own_prior(hierarchy, slopes, here)
    for _ in range(MOST_STEPS):
        slope, bend = free.T @ found.gradient, -free.T @ found.curvature @ free
        step = free @ np.linalg.solve(bend, slope)
        if float(found.gradient @ step) <= LEAST_GAIN * abs(found.value):
            here = here + step  # so short that it cannot overshoot, and it squares what error is left
            break
        ahead = step < 0
        step *= min(1.0, float(np.min(NEARLY_ALL * here[ahead] / -step[ahead], initial=1.0)))
        for _ in range(MOST_HALVINGS):
            tried = _with_own_prior(hierarchy, slopes, here + step)
            if tried.value >= found.value - ROUNDING * abs(found.value):
                break
            step /= 2
        else:
            break
        here, found = here + step, tried
    return float(here[0]), float(here[1])


def _with_own_prior(hierarchy: Hierarchy, slopes: Callable[[Strengths], Slopes], here: NDArray[np.floating]) -> Slopes:
    """The whole of what is maximised."""
    strengths = (float(here[0]), float(here[1]))
    found, peak = slopes(strengths), np.array(hierarchy.start)
    return Slopes(
        found.value - hierarchy.fall(strengths),
        found.gradient - hierarchy.firmness * (1 / peak - 1 / here),
        found.curvature - np.diag(hierarchy.firmness / here**2),
    )


def table_slopes(logs: Array, concentration: Array, parts: tuple[Array, Array], *, is_point: bool) -> Slopes:
    """E log p(v) of Dirichlet tables, and of points from the peak; events last.

        Σ_l β_l E log v_l + G(Σ_l β_l) − Σ_l G(β_l),         G = log Γ, or β log β − β of points

    `parts` are the slopes of β: right and wrong.
    """
    xp = array_namespace(logs)
    potential, first, second = _potentials(concentration, is_point=is_point)
    whole = xp.sum(concentration, axis=-1)
    of_whole = _potentials(whole, is_point=is_point)
    slope = logs + of_whole[1][..., None] - first
    sums = [xp.sum(part, axis=-1) for part in parts]
    return Slopes(
        float(xp.sum(concentration * logs)) + float(xp.sum(of_whole[0])) - float(xp.sum(potential)),
        np.array([float(xp.sum(slope * part)) for part in parts]),
        _both_ways(
            lambda i, j: float(xp.sum(of_whole[2] * sums[i] * sums[j])) - float(xp.sum(second * parts[i] * parts[j]))
        ),
    )


def rate_slopes(
    moments: tuple[Array, Array],
    concentration: Array,
    rates: tuple[Array, Array],
    parts: tuple[Array, Array],
    *,
    is_point: bool,
) -> Slopes:
    """E log p(λ) of Gamma rates, and of points from the peak.

        Σ_jl ( β E log λ + β log r − G(β) − r E λ ),         r = (x + y) unit

    `moments` are E log λ and E λ, [sources, labels, C] as β and its slopes; `rates` are r and the unit, [C].
    """
    (logs, means), (rate, unit) = moments, rates
    xp = array_namespace(logs)
    potential, first, second = _potentials(concentration, is_point=is_point)
    log_rate, share = xp.log(rate), unit / rate
    slope = logs + log_rate - first
    of_rate = float(xp.sum(share * xp.sum(concentration, axis=(0, 1)) - unit * xp.sum(means, axis=(0, 1))))
    crossed = [float(xp.sum(share * part)) for part in parts]
    bend = float(xp.sum(share * share * concentration))
    return Slopes(
        float(xp.sum(concentration * (logs + log_rate) - rate * means)) - float(xp.sum(potential)),
        np.array([float(xp.sum(slope * part)) + of_rate for part in parts]),
        _both_ways(lambda i, j: crossed[i] + crossed[j] - bend - float(xp.sum(second * parts[i] * parts[j]))),
    )


def _both_ways(second: Callable[[int, int], float]) -> NDArray[np.floating]:
    """Second derivatives from a function of two axes.  [2, 2]."""
    return np.array([[second(i, j) for j in range(2)] for i in range(2)])


def _potentials(values: Array, *, is_point: bool) -> tuple[Array, Array, Array]:
    """G and its first two derivatives."""
    if is_point:
        logs = array_namespace(values).log(values)
        return values * logs - values, logs, 1 / values
    return log_gamma(values), digamma(values), trigamma(values)
