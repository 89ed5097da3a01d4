"""The normaliser of the logistic-softmax, made conjugate: Pólya-Gamma, Poisson and Gamma variables.

    1/S = ∫ exp(−λS) dλ,    exp(λ(σ(−f) − 1)) = Σ_n Poisson(n | λ) σ(−f)^n,
    log σ(±f) ≥ ±f/2 − log 2cosh(t/2) − ½ ω(t) (f² − t²),    ω(t) = tanh(t/2)/(2t)

That is the *factored* normaliser, q(λ) q(υ).  *Collapsed*, λ is integrated out and υ is negative multinomial:

    1/S = 1/( b − Σ_c mass_c σ(−f_c) ) = (1/b) Σ_υ |υ|!/Π_c υ_c! Π_c ( mass_c σ(−f_c) / b )^υ_c

which is exact where f is known, while q(λ) q(υ) loses up to half of the normaliser and so flattens the processes.

One function an equation; each result maximises the bound over its own factor, all else fixed.  A *group* is the set of
components that one normaliser sums over: all of them, or the subtypes of one class (see `reading.py`).
"""

from __future__ import annotations

from typing import Literal

from array_api_compat import array_namespace

from labelfable.numerics.namespace import Array, digamma, log_gamma
from labelfable.numerics.special import polya_gamma_mean

NormaliserName = Literal["factored", "collapsed"]

NORMALISER_STEPS = 8  # eight reach 2e-14 for every share
LEAST_REST = 5e-13  # of 1 − κ: past it the shape a loses its last digits in the terms of the bound
LARGE_SHAPE = 20.0  # past it the series of exp ψ is exact to the last bit


def update_tilt(mean: Array, variance: Array) -> Array:
    """Where the Pólya-Gamma bound touches: t = √E f².                                             Equation (A)

        t_ic = √( m_ic² + s²_ic )

    Shapes: [n, C], [n, C] -> [n, C].
    """
    xp = array_namespace(mean, variance)
    return xp.sqrt(mean * mean + variance)


def expected_log_sigmoid(mean: Array, tilt: Array) -> Array:
    """Bound on E log σ(f) right after the tilt's update.  [n, C]; with −m, on E log σ(−f).

    m/2 − log 2cosh(t/2) = (m − t)/2 − log(1 + exp(−t)), which keeps the last digits where σ is near 1.
    """
    xp = array_namespace(mean, tilt)
    return (mean - tilt) / 2 - xp.log1p(xp.exp(-tilt))


def update_poisson_mean(log_rate: Array, log_complement: Array, log_mass: Array) -> Array:
    """Mean of q(υ_ic), the Poisson factor.                                                       Equation (B)

        γ_ic = mass_c · exp( E log λ_i − m_ic/2 − log 2cosh(t_ic/2) )

    Shapes: log_rate E log λ of each component's group [n, C], log_complement −m/2 − log 2cosh(t/2) [n, C],
    log_mass [C] -> [n, C].
    """
    xp = array_namespace(log_complement)
    return xp.exp(log_rate + log_complement + log_mass)


def update_rate_shape(group_poisson: Array) -> Array:
    """Shape of q(λ_i), a Gamma with rate b = the mass that the normaliser sums over.              Equation (C)

        a_i = 1 + Σ_c γ_ic

    Shapes: Σγ over each group [n, G] -> [n, G].
    """
    return 1 + group_poisson


def solve_normaliser(share: Array) -> Array:
    """Shape of q(λ_i) where (B) and (C) hold at once, so that no item factor needs carrying.     Equations (B), (C)

        a = 1 + κ exp ψ(a),    κ_i = Σ_c mass_c exp(−m_ic/2 − log 2cosh(t_ic/2)) / b  <  1

    With exp ψ(a) = a − ½ + h(a), where h is small and falls, this is a = ½ − h + (½ + h)/(1 − κ): each step gains more
    than a digit, for any κ, and nothing cancels where κ is near 1.  Shapes: κ [n, G] -> [n, G].
    """
    xp = array_namespace(share)
    nearest = max(LEAST_REST, 4 * float(xp.finfo(share.dtype).eps))
    rest = xp.clip(1 - share, nearest, 1.0)
    shape = (1 + rest) / (2 * rest)
    for _ in range(NORMALISER_STEPS):
        excess = _exp_digamma_excess(shape)
        shape = 0.5 - excess + (0.5 + excess) / rest
    return shape


def _exp_digamma_excess(shape: Array) -> Array:
    """h(a) = exp ψ(a) − (a − ½) for a ≥ 1, by its series in 1/(a − ½) where the difference would cancel."""
    xp = array_namespace(shape)
    inverse = 1 / (shape - 0.5)
    square = inverse * inverse
    series = 1 / 24 + square * (-37 / 5760 + square * (10313 / 2903040 - square * 5509121 / 1393459200))
    small = xp.clip(shape, None, LARGE_SHAPE)
    return xp.where(shape > LARGE_SHAPE, inverse * series, xp.exp(digamma(small)) - small + 0.5)


def update_collapsed_mean(log_complement: Array, log_mass: Array, normaliser: Array) -> Array:
    """Mean of q(υ_i), negative multinomial, with λ integrated out.                               Equation (B')

        γ_ic = κ_ic / ( b − Σ_c κ_ic ),    κ_ic = mass_c exp( −m_ic/2 − log 2cosh(t_ic/2) )

    Shapes: −m/2 − log 2cosh(t/2) [n, C], log_mass [C], b − Σκ of each component's group [n, C] -> [n, C].
    """
    xp = array_namespace(log_complement)
    return xp.exp(log_complement + log_mass) / normaliser


def collapsed_bound(normaliser: Array) -> Array:
    """What each normaliser adds to the bound at (B'): −log S, exact where f is known.  Shape-preserving."""
    xp = array_namespace(normaliser)
    return -xp.log(normaliser)


def update_curvature(weight: Array, tilt: Array) -> Array:
    """Expected Pólya-Gamma variable: the weight of f² in the bound.                               Equation (E)

        θ_ic = ( ρ_ic + r_ic γ_ic ) · tanh(t_ic/2) / (2 t_ic)

    Shapes: number of sigmoids ρ + rγ [n, C], tilt [n, C] -> [n, C].
    """
    return weight * polya_gamma_mean(tilt)


def normaliser_bound(
    shape: Array, rate: Array, group_poisson: Array, group_expected: Array, group_entropy: Array
) -> Array:
    """What each normaliser adds to the bound, constants kept.  [n, G].

        Σ_c γ_c ( E log λ + log mass_c − m_c/2 − log 2cosh(t_c/2) − log γ_c + 1 )  −  b E λ  +  H[Gamma(a, b)]

    Shapes: shape a and rate b [n, G] or [G]; group sums of γ, of γ (log mass − m/2 − log 2cosh(t/2)) and of γ log γ,
    [n, G].
    """
    xp = array_namespace(shape)
    log_rate = digamma(shape) - xp.log(rate)
    gamma_entropy = shape - xp.log(rate) + log_gamma(shape) + (1 - shape) * digamma(shape)
    return group_poisson * (log_rate + 1) + group_expected - group_entropy - shape + gamma_entropy
