"""From slopes in φ and d to slopes in the kernel's hyperparameters, exactly, in reverse.

    φ = K_xz W,    W = Q L⁻ᵀ,    L L' = T = Q' K_zz Q + jitter v I,    d = k(x, x) − |φ|²

Points, axes and the Krylov basis are held where they are, as `Projection.with_parameters` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular

from labelfable.models.fable.anchors import anchored_values
from labelfable.numerics.kernels import Kernel, ParameterSlopes
from labelfable.numerics.linear_algebra import cholesky, jitter_of
from labelfable.votes.features import BLOCK_ENTRIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.models.fable.projection import Projection
    from labelfable.votes.features import Features


def projection_gradient(
    projection: Projection, features: Any, d_phi: NDArray[np.floating], d_residual: NDArray[np.floating]
) -> dict[str, Any]:
    """Slopes of a scalar B in "log variance", "log lengthscale" and "log constant".           Equation (GP.6)

    `d_phi` is dB/dφ, [n, R], `d_residual` dB/dd, [n], of the items whose `features` are given.  The lengthscale's slope
    is a number, or one for each dimension, as the lengthscale is.
    """
    known = projection.read(features)
    inner = projection.n_kernel_columns
    d_columns = np.asarray(d_phi[:, :inner], dtype=np.float64)
    d_rest = np.asarray(d_residual, dtype=np.float64)
    slopes = (_of_weights if projection.is_linear else _of_points)(projection, known, d_columns, d_rest)
    constant = float(np.sum(d_phi[:, inner:], dtype=np.float64)) * np.sqrt(projection.constant) / 2
    return {
        "log variance": slopes.log_variance,
        "log lengthscale": slopes.log_lengthscale,
        "log constant": float(constant),
    }


def _of_weights(
    projection: Projection, features: Features, d_columns: NDArray[np.floating], d_rest: NDArray[np.floating]
) -> ParameterSlopes:
    """φ = √v x/ℓ V:  ∂φ/∂log v = φ/2,  ∂φ/∂log ℓ_d = −√v x_d/ℓ_d V_d."""
    del d_rest  # d is 0 whatever the parameters
    raised, stretch = 0.0, np.zeros(projection.scaling.n_outputs)
    for here, block in features.blocks(projection.scaling.n_outputs):
        rows = projection.scaling.rows(block)
        embedded = rows.scaled(np.sqrt(projection.kernel.variance) / np.asarray(projection.kernel.lengthscale)).dense()
        passed = d_columns[here] if projection.weights is None else d_columns[here] @ projection.weights.T
        by_dimension = (embedded * passed).sum(axis=0)
        raised += 0.5 * float(by_dimension.sum())
        stretch -= by_dimension
    return ParameterSlopes(raised, stretch if projection.kernel.is_ard else float(stretch.sum()))


def _of_points(
    projection: Projection, features: Features, d_columns: NDArray[np.floating], d_rest: NDArray[np.floating]
) -> ParameterSlopes:
    """Through K_xz and diag K_xx of each block, then once through K_zz."""
    kernel, points, weights = projection.kernel, projection.points, projection.weights
    assert points is not None  # noqa: S101 (the caller chose this function by it)
    assert weights is not None  # noqa: S101 (they come together)
    total = ParameterSlopes(kernel.variance * float(d_rest[features.missing].sum()), 0.0)
    d_weights = np.zeros_like(weights)
    for here, block in features.blocks(max(len(points), projection.scaling.n_outputs)):
        rows = projection.scaling.rows(block).dense()
        values = kernel.values(rows, points)
        columns = values @ weights
        left = kernel.diagonal(rows) - np.vecdot(columns, columns)
        d_left = np.where(left > 0, d_rest[here], 0.0)  # below 0 the residual is held at 0
        passed = d_columns[here] - 2 * d_left[:, None] * columns
        total = total + kernel.gradient(rows, points, passed @ weights.T) + kernel.diagonal_gradient(rows, d_left)
        d_weights += values.T @ passed
    return total + _of_whitening(kernel, points, projection.basis, d_weights)


def _of_whitening(
    kernel: Kernel,
    points: NDArray[np.floating],
    basis: NDArray[np.floating] | None,
    d_weights: NDArray[np.floating],
) -> ParameterSlopes:
    """W = Q L⁻ᵀ with L L' = T, in reverse; M = L⁻ᵀ.

    dB/dM = Q' dB/dW,    dB/dL = −tril( M (dB/dM)' M ),    dB/dT as below,    dB/dK_zz = Q dB/dT Q'
    """
    lower = cholesky(anchored_values(kernel, points, basis), what="the kernel of the inducing points")
    inverse = solve_triangular(lower, np.eye(len(lower)), lower=True).T
    d_inverse = d_weights if basis is None else basis.T @ d_weights
    d_anchored = cholesky_gradient(lower, -np.tril(inverse @ d_inverse.T @ inverse))
    total = ParameterSlopes(jitter_of(points) * kernel.variance * float(np.trace(d_anchored)), 0.0)
    step = max(1, BLOCK_ENTRIES // len(points))
    for first in range(0, len(points), step):
        here = slice(first, first + step)
        d_values = d_anchored[here] if basis is None else basis[here] @ d_anchored @ basis.T
        total = total + kernel.gradient(points[here], points, d_values)
    return total


def cholesky_gradient(lower: NDArray[np.floating], d_lower: NDArray[np.floating]) -> NDArray[np.floating]:
    """Slope in a symmetric T from that in its Cholesky factor L (Murray, arXiv 1602.07527).   Equation (GP.7)

        P = tril(L' dB/dL) with its diagonal halved,    dB/dT = ½ ( L⁻ᵀ P L⁻¹ + its transpose )

    Shapes: [R, R], [R, R] -> [R, R].
    """
    product = np.tril(lower.T @ d_lower)
    product[np.diag_indices_from(product)] /= 2
    half = solve_triangular(lower, product, trans="T", lower=True)  # L⁻ᵀ P
    whole = solve_triangular(lower, half.T, trans="T", lower=True).T  # L⁻ᵀ P L⁻¹
    return np.asarray((whole + whole.T) / 2)
