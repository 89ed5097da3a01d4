"""q(f): the Gaussian processes, in whitened weights.

    f_ic = mean_c + φ_i·w_c + residual_i,    w_c ~ N(0, I_R),    residual_i ~ N(0, d_i)

The residual is what a projection on R columns leaves out (nothing where the kernel is linear); its posterior is its
prior.
"""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import array_namespace

from labelfable.numerics.linear_algebra import quadratic_forms
from labelfable.numerics.namespace import Array


@dataclass(frozen=True)
class WeightFactor:
    """q(w_c) = N(m_c, S_c) for each component, or a point."""

    mean: Array
    """m, [R, C]."""
    covariance: Array | None
    """S, [C, R, R]; None where w is a point."""
    divergence: float
    """Σ_c KL( q(w_c) ‖ N(0, I) ), or ½ Σ m² where w is a point: the log prior's fall from its peak."""


def prior_weights(n_columns: int, n_components: int, like: Array, *, is_point: bool) -> WeightFactor:
    """q(w) before any item is seen: the prior itself, or its peak."""
    xp = array_namespace(like)
    mean = xp.zeros((n_columns, n_components), dtype=xp.float64)
    if is_point:
        return WeightFactor(mean, None, 0.0)
    covariance = xp.broadcast_to(xp.eye(n_columns, dtype=xp.float64), (n_components, n_columns, n_columns))
    return WeightFactor(mean, covariance, 0.0)


def update_weights(gram: Array, potential: Array, *, is_point: bool) -> WeightFactor:
    """Gaussian factor of the weights.                                                            Equation (F)

        S_c = ( I + Σ_i θ_ic φ_i φ_i' )⁻¹,    m_c = S_c Σ_i φ_i ( ½(ρ_ic − r_ic γ_ic) − θ_ic mean_c )

    The precision's eigenvalues are at least 1, so its Cholesky factor always exists.
    Shapes: gram [C, R, R], potential [R, C].
    """
    xp = array_namespace(gram)
    n_columns = gram.shape[1]
    precision = gram + xp.eye(n_columns, dtype=gram.dtype)
    lower = xp.linalg.cholesky(precision)
    identity = xp.broadcast_to(xp.eye(n_columns, dtype=gram.dtype), gram.shape)
    half = xp.linalg.solve(lower, identity)  # L⁻¹, so that S = L⁻ᵀ L⁻¹ is symmetric to the last bit
    covariance = xp.matmul(xp.matrix_transpose(half), half)
    mean = xp.matrix_transpose(xp.matmul(covariance, xp.matrix_transpose(potential)[:, :, None])[:, :, 0])
    if is_point:
        return WeightFactor(mean, None, 0.5 * float(xp.sum(mean * mean)))
    log_determinant = -2 * xp.sum(xp.log(xp.linalg.diagonal(lower)))
    trace = xp.sum(half * half)
    divergence = 0.5 * float(trace + xp.sum(mean * mean) - mean.shape[0] * mean.shape[1] - log_determinant)
    return WeightFactor(mean, covariance, divergence)


def moved_weights(weights: WeightFactor, mean: Array) -> WeightFactor:
    """The same factor around another mean: all that the divergence sees of it is its square."""
    xp = array_namespace(mean)
    squares = float(xp.sum(mean * mean) - xp.sum(weights.mean * weights.mean))
    return WeightFactor(mean, weights.covariance, weights.divergence + squares / 2)


def expected_process(phi: Array, residual: Array, weights: WeightFactor, mean: Array) -> tuple[Array, Array]:
    """Mean and variance of each f_ic, in the dtype of φ; a point has none.

        m_ic = mean_c + φ_i·m_c,    s²_ic = φ_i' S_c φ_i + d_i

    Shapes: phi [n, R], residual [n], mean [C] -> [n, C], [n, C].
    """
    xp = array_namespace(phi)
    value = phi @ xp.astype(weights.mean, phi.dtype) + xp.astype(mean, phi.dtype)
    if weights.covariance is None:
        return value, xp.zeros_like(value)
    return value, quadratic_forms(phi, weights.covariance) + residual[:, None]
