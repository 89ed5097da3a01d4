"""FABLE's inference rules as they were printed, one function an equation.  `published.py` orders and guards them.

They do not raise the bound that the same model defines (tests/models/fable/test_published.py shows where), and one of
them takes the logarithm of a number that turns negative.  They are here so that published figures can be reproduced.
Letters: m̂, Σ̂ mean and covariance of q(f), c the tilt, γ the Poisson mean, φ and ξ the printed Gamma factor of "π".
Facts about the published program come from github.com/JieyuZ2/wrench, wrench/labelmodel/fable.py, commit ae0784e.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from array_api_compat import array_namespace

from labelfable.numerics.namespace import Array, digamma
from labelfable.numerics.special import log_two_cosh, softmax

Variant = Literal["paper", "code"]

CLOSED = 1e-6  # a Krylov space has closed when its next direction is shorter than this: the published program's number


def correct_prior(n_items: int, n_classes: int, n_subtypes: int, correct_votes: float, variant: Variant) -> float:
    """Right votes that each source is credited with before it is seen: β_kk.                    Equation (FP.1)

        paper:  β_kk = N·M·correct_votes        code:  β_kk = K·M·correct_votes − 1        both:  β_kl = 1

    Abstaining is one more label, with as many votes as all sources together abstain.
    """
    if variant == "paper":
        return n_items * n_subtypes * correct_votes
    return n_classes * n_subtypes * correct_votes - 1


def expected_log_rate(shape: Array, n_classes: int) -> Array:
    """E log λ_i of a Gamma(a_i, b_i) with b_i = K.  Shape-preserving.                            Equation (FP.2)

        E log λ_i = ψ(a_i) − log K

    The normaliser has K·M terms: (C) has b = K·M.
    """
    return digamma(shape) - math.log(n_classes)


def update_poisson_mean(log_rate: Array, mean: Array, tilt: Array, variant: Variant) -> Array:
    """Mean of q(υ_ic).                                                                           Equation (FP.3)

        paper:  γ_ic = exp( E log λ_i − m̂_ic/2 ) / cosh(c_ic/2)        code:  cosh(c_ic)

    (B) has 2 cosh(c/2).  Shapes: [n, 1], [n, C], [n, C] -> [n, C].
    """
    xp = array_namespace(mean, tilt)
    argument = tilt / 2 if variant == "paper" else tilt
    return xp.exp(log_rate - mean / 2 - log_two_cosh(argument) + math.log(2))


def update_coefficients(responsibilities: Array, mean: Array) -> tuple[Array, Array]:
    """Shape and rate of the printed Gamma factor of "π".                                         Equation (FP.4)

        φ_ic = ρ_ic + 1,        ξ_ic = log 2 − m̂_ic/2

    ξ is not positive from m̂ = 2 log 2 on.  Shapes: [n, C], [n, C] -> [n, C] twice.
    """
    return responsibilities + 1, math.log(2) - mean / 2


def expected_log_coefficients(shape: Array, rate: Array) -> Array:
    """E log π_ic = ψ(φ_ic) − log ξ_ic, which (D) has as E log σ(f).  Shape-preserving.            Equation (FP.5)"""
    xp = array_namespace(shape, rate)
    return digamma(shape) - xp.log(rate)


def exact_process(precision: Array, curvature: Array, pull: Array) -> tuple[Array, Array]:
    """Mean and variances of q(f_c), by inverting items × items matrices.                         Equation (FP.6)

        Σ̂_c = (Σ⁻¹ + diag θ_c)⁻¹,    m̂_c = ½ Σ̂_c (φ_c/ξ_c − γ_c),    θ = (φ/ξ + γ) tanh(c/2)/(2c)

    (F) with φ/ξ in the place of ρ.  Shapes: Σ⁻¹ [n, n], θ [n, C], φ/ξ − γ [n, C] -> [n, C] twice.
    """
    xp = array_namespace(precision, curvature)
    n_items = precision.shape[0]
    means, variances = [], []
    for component in range(curvature.shape[1]):
        flat = xp.reshape(precision + 0.0, (-1,))
        flat[:: n_items + 1] += curvature[:, component]  # the diagonal
        covariance = xp.linalg.inv(xp.reshape(flat, (n_items, n_items)))
        means.append(covariance @ pull[:, component] / 2)
        variances.append(xp.linalg.diagonal(covariance))
    return xp.stack(means, axis=1), xp.stack(variances, axis=1)


class Krylov(NamedTuple):
    """Orthonormal directions and what the operators are between them, for every component."""

    directions: Array
    """Q_c', [C, rank, n]; rows of zeros where the space closed early."""
    operators: Array
    """T_c = Q_c' A_c Q_c, tridiagonal, [C, rank, rank]; 1 on the diagonal where the space closed early."""


def krylov_process(precision: Array, curvature: Array, pull: Array, probe: Array, rank: int) -> tuple[Array, Array]:
    """Mean and variances of q(f_c), from `rank` Lanczos vectors each.                            Equation (FP.7)

        Σ̂_c = Q_c T_c⁻¹ Q_c',    Q_c' (Σ⁻¹ + diag θ_c) Q_c = T_c

    Shapes: as `exact_process`, probe [n, C] -> [n, C] twice.
    """
    xp = array_namespace(precision, curvature)
    space = krylov_space(precision, curvature, probe, min(rank, precision.shape[0]))
    solved = xp.linalg.solve(space.operators, space.directions)
    along = space.directions @ xp.matrix_transpose(pull)[:, :, None]
    mean = xp.matrix_transpose(solved) @ along
    variance = xp.sum(space.directions * solved, axis=1)
    return xp.matrix_transpose(mean[:, :, 0]) / 2, xp.matrix_transpose(variance)


def krylov_space(precision: Array, curvature: Array, probe: Array, rank: int) -> Krylov:
    """Lanczos steps with A_c = Σ⁻¹ + diag θ_c, all components in one pass over Σ⁻¹, each from its own probe."""
    xp = array_namespace(precision, curvature, probe)
    n_items, n_components = curvature.shape
    weights, vector = xp.matrix_transpose(curvature), xp.matrix_transpose(probe)
    vector = vector / xp.linalg.vector_norm(vector, axis=1, keepdims=True)
    directions = xp.zeros((n_components, rank, n_items), dtype=probe.dtype)
    operators = xp.zeros((n_components, rank, rank), dtype=probe.dtype)
    open_ = xp.ones(n_components, dtype=xp.bool)
    for step in range(rank):
        directions[:, step, :] = vector
        image = vector @ precision + weights * vector
        operators[:, step, step] = xp.where(open_, xp.vecdot(vector, image), xp.ones_like(image[:, 0]))
        if step + 1 == rank:
            break
        rest = image
        for _ in range(2):  # twice: rounding in the first
            known = directions[:, : step + 1, :]
            rest = rest - (xp.matrix_transpose(known) @ (known @ rest[:, :, None]))[:, :, 0]
        length = xp.linalg.vector_norm(rest, axis=1)
        open_ = xp.logical_and(open_, length > CLOSED)
        length = xp.where(open_, length, xp.zeros_like(length))
        operators[:, step, step + 1] = length
        operators[:, step + 1, step] = length
        safe = xp.where(open_, length, xp.ones_like(length))
        vector = xp.where(open_[:, None], rest / safe[:, None], xp.zeros_like(rest))
    return Krylov(directions, operators)


def update_responsibilities(log_coefficients: Array, log_classes: Array, evidence: Array) -> Array:
    """Probability of each component.                                                             Equation (FP.8)

        log ρ_ikm = E log π_ikm + E log τ_k + Σ_j E log v_{jkm y_ij} + const

    τ stands outside the softmax of f, which has proportions of its own: they count twice.  Shapes: [n, C], E log τ
    spread over subtypes [C], [n, C] -> [n, C].
    """
    return softmax(log_coefficients + log_classes + evidence)[0]
