"""A kernel between items and inducing points, and what whitens it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from labelfable.numerics.linear_algebra import cholesky, jitter_of
from labelfable.votes.features import BLOCK_ENTRIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.numerics.kernels import Kernel
    from labelfable.numerics.scaling import Rows


class Anchors:
    """Inducing points, made ready to be compared with many items."""

    def __init__(self, kernel: Kernel, points: NDArray[np.floating]) -> None:
        self.kernel = kernel
        self.origin = kernel.origin(points)
        embedded = kernel.embed(points, self.origin)
        self.across = np.ascontiguousarray(embedded.T)
        self.sizes = np.vecdot(embedded, embedded)

    def values(self, rows: Rows) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """k(x, Z) and k(x, x) of scaled rows.  [n, P], [n]."""
        embedded = rows.minus(self.origin).scaled(1 / np.asarray(self.kernel.lengthscale))
        sizes = embedded.squares()
        values = self.kernel.from_products(embedded.times(self.across), sizes, self.sizes)
        return np.asarray(values), np.asarray(self.kernel.diagonal_from_squares(sizes))


def anchored_values(
    kernel: Kernel, points: NDArray[np.floating], basis: NDArray[np.floating] | None
) -> NDArray[np.floating]:
    """Q' k(Z, Z) Q + jitter, whose Cholesky factor whitens.  [R, R]."""
    raised = jitter_of(points) * kernel.variance
    if basis is None:
        return np.asarray(kernel.values(points, points) + raised * np.eye(len(points)))
    total = np.zeros((basis.shape[1], basis.shape[1]))
    rows = max(1, BLOCK_ENTRIES // len(points))
    for first in range(0, len(points), rows):
        here = slice(first, first + rows)
        total += basis[here].T @ (kernel.values(points[here], points) @ basis)
    return (total + total.T) / 2 + raised * np.eye(len(total))


def whitened(kernel: Kernel, points: NDArray[np.floating], basis: NDArray[np.floating] | None) -> NDArray[np.floating]:
    """Q L⁻ᵀ with L L' = Q' k(Z, Z) Q + jitter.  [P, R]."""
    lower = cholesky(anchored_values(kernel, points, basis), what="the kernel of the inducing points")
    inverse = solve_triangular(lower, np.eye(len(lower)), lower=True).T
    return np.ascontiguousarray(inverse if basis is None else basis @ inverse)
