"""Features brought to one scale, and what was done to them.

    standardise    each column to mean 0 and variance 1; a column that never varies becomes 0
    normalise      each row to length 1
    whiten         standardised, then turned to principal axes, each of variance 1
    none           as they are

Sparse features stay sparse: what is subtracted from every row is carried along as a shift and folded into products.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from labelfable.numerics.linear_algebra import lanczos

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

Matrix = Any  # a NumPy array, or a scipy.sparse.csr_array
Vector = Any  # a NumPy array with one axis

SCALINGS = ("standardise", "normalise", "whiten", "none")
CONSTANT_ULPS = 8  # a column that varies less than by rounding of its largest number is constant
LEAST_VARIANCE = 1e-12  # principal axes with a smaller share of the largest one's variance are rounding
WIDEST_MOMENT = 1024  # up to this many dense columns their d × d moments are formed, past it Lanczos never forms them
KRYLOV_BLOCK = 16
KRYLOV_SPARE = 32


class Features(Protocol):
    """What is asked of features: `votes.features.Features` is of this kind."""

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Items whose row does not count, [n]."""

    @property
    def n_columns(self) -> int:
        """Number of columns."""

    @property
    def is_sparse(self) -> bool:
        """Whether zeros are left out."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""

    def blocks(self, n_outputs: int = 1) -> Iterable[tuple[Any, Matrix]]:
        """The rows that count, a block at a time: where they stand, and the rows."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows x_i = values_i − shift, in float64."""

    values: Matrix
    """[n, d]"""
    shift: Vector | None = None
    """[d]; None is 0."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    def times(self, matrix: NDArray[np.floating]) -> NDArray[np.floating]:
        """X M.  Shapes: [d, R] -> [n, R]."""
        product = self.values @ matrix
        return np.asarray(product if self.shift is None else product - self.shift @ matrix)

    def transposed_times(self, matrix: Matrix) -> NDArray[np.floating]:
        """X' M, for a dense or sparse M.  Shapes: [n, R] -> [d, R]."""
        product = self.values.T @ matrix
        product = product.toarray() if sp.issparse(product) else product
        if self.shift is not None:
            product = product - np.outer(self.shift, np.asarray(matrix.sum(axis=0)))
        return np.asarray(product)

    def squares(self) -> NDArray[np.floating]:
        """|x_i|², [n]."""
        if sp.issparse(self.values):
            sizes = np.asarray(self.values.multiply(self.values).sum(axis=1)).ravel()
        else:
            sizes = np.asarray(np.vecdot(self.values, self.values))
        if self.shift is None:
            return sizes
        sizes = sizes - 2 * (self.values @ self.shift) + self.shift @ self.shift
        return np.asarray(np.maximum(sizes, 0.0))

    def products(self) -> NDArray[np.floating]:
        """X X', [n, n]."""
        product = self.values @ self.values.T
        product = product.toarray() if sp.issparse(product) else product
        if self.shift is not None:
            moved = self.values @ self.shift
            product = product - moved[:, None] - moved[None, :] + self.shift @ self.shift
        return np.asarray(product)

    def part(self, rows: slice | NDArray[np.integer]) -> Rows:
        """Some of the rows."""
        return Rows(self.values[rows], self.shift)

    def dense(self) -> NDArray[np.floating]:
        """X itself, [n, d]."""
        values = np.asarray(self.values.toarray() if sp.issparse(self.values) else self.values)
        return values if self.shift is None else values - self.shift

    def scaled(self, factor: Vector | float) -> Rows:
        """X diag(factor)."""
        shift = None if self.shift is None else self.shift * factor
        if not sp.issparse(self.values):
            return Rows(self.values * factor, shift)
        return Rows(_times_columns(self.values, np.broadcast_to(factor, self.values.shape[1:])), shift)

    def minus(self, origin: Vector | None) -> Rows:
        """Every row less one and the same."""
        if origin is None:
            return self
        if not sp.issparse(self.values):
            return Rows(self.values - origin, self.shift)
        return replace(self, shift=origin if self.shift is None else self.shift + origin)


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is done to features before any kernel sees them."""

    kind: str
    """One of SCALINGS."""
    n_columns: int
    """Columns that come in."""
    mean: Vector | None = None
    """What is subtracted, [d]."""
    factor: Vector | None = None
    """What the difference is multiplied by, [d]; 0 for a column that never varies."""
    rotation: Any = None
    """Principal axes over their standard deviation, [d, r]."""

    @property
    def n_outputs(self) -> int:
        """Columns that come out."""
        return self.n_columns if self.rotation is None else int(self.rotation.shape[1])

    @property
    def typical_length(self) -> float:
        """√ of the mean squared length of the scaled rows of the fit, where the scaling decides it, else 1."""
        if self.kind == "whiten":
            return float(np.sqrt(self.n_outputs))
        if self.kind == "standardise":
            varying = int(np.count_nonzero(np.asarray(self.factor)))
            return float(np.sqrt(max(1, varying)))
        return 1.0

    def rows(self, block: Matrix) -> Rows:
        """Scaled rows.  Shapes: [n, d] -> [n, d or r]."""
        values = block.astype(np.float64)
        if self.kind == "normalise":
            return _unit_rows(Rows(values))
        if self.mean is None:
            return Rows(values)
        shifted = Rows(values, self.mean) if sp.issparse(values) else Rows(values - self.mean)
        shifted = shifted.scaled(self.factor)
        return shifted if self.rotation is None else Rows(shifted.times(self.rotation))


def fit_scaling(features: Features, kind: str, max_components: int, seed: int) -> Scaling:
    """The scaling of that kind for these features; items without features do not count."""
    if kind in {"normalise", "none"}:
        return Scaling(kind, features.n_columns)
    mean, factor = _moments(features)
    standard = Scaling("standardise", features.n_columns, mean, factor)
    if kind == "standardise":
        return standard
    variances, axes = principal_axes(features, standard, 1.0, max_components, seed)
    spread = np.sqrt(np.maximum(variances, np.finfo(np.float64).tiny))
    return replace(standard, kind=kind, rotation=axes / spread)


def principal_axes(
    features: Features, scaling: Scaling, factor: Vector | float, most: int, seed: int
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Largest eigenvalues and eigenvectors of (1/n) Σ_i x_i x_i', x the scaled rows times a factor.  [r], [d, r].

    Those that are zero but for rounding are left out, except that there is always one.
    """
    n_columns = scaling.n_outputs
    count = max(1, int((~features.missing).sum()))
    if features.is_sparse or n_columns > WIDEST_MOMENT:

        def apply(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
            total = np.zeros_like(vectors)
            for _, block in features.blocks(n_columns if not features.is_sparse else KRYLOV_BLOCK):
                rows = scaling.rows(block).scaled(factor)
                total += rows.transposed_times(rows.times(vectors))
            return total / count

        start = np.random.default_rng([seed, n_columns]).standard_normal((n_columns, min(KRYLOV_BLOCK, n_columns)))
        found = lanczos(apply, start, 2 * most + KRYLOV_SPARE)
        values, axes = np.asarray(found.values), np.asarray(found.vectors)
    else:
        moments = np.zeros((n_columns, n_columns))
        for _, block in features.blocks(n_columns):
            rows = scaling.rows(block).scaled(factor).dense()
            moments += rows.T @ rows
        values, axes = np.linalg.eigh(moments / count)
        values, axes = values[::-1], axes[:, ::-1]
    rank = max(1, min(most, int(np.count_nonzero(values > LEAST_VARIANCE * values[0]))))
    return values[:rank], np.ascontiguousarray(axes[:, :rank])


def _moments(features: Features) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Means of the columns, and 1 / their standard deviations (0 where that is rounding).  [d], [d].

    The first mean is rough: a sum of a million numbers.  What is left of deviations from it corrects mean and variance.
    """
    count = max(1, int((~features.missing).sum()))
    total, largest = np.zeros(features.n_columns), np.zeros(features.n_columns)
    for _, block in features.blocks():
        total += np.asarray(block.sum(axis=0, dtype=np.float64)).ravel()
        top = np.abs(block).max(axis=0)
        largest = np.maximum(largest, top.toarray().ravel() if sp.issparse(top) else top)
    rough = total / count
    left, squared = np.zeros(features.n_columns), np.zeros(features.n_columns)
    for _, block in features.blocks():
        deviations = _deviations(block, rough)
        left += deviations[0]
        squared += deviations[1]
    deviation = np.sqrt(np.maximum(squared / count - (left / count) ** 2, 0.0))
    varies = deviation > CONSTANT_ULPS * float(np.finfo(features.dtype).eps) * largest
    return rough + left / count, np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0)


def _deviations(block: Matrix, mean: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Σ_i (x_id − mean_d) and Σ_i (x_id − mean_d)², [d]; in a sparse column all zeros are the same term."""
    if not sp.issparse(block):
        away = block - mean
        return away.sum(axis=0), (away * away).sum(axis=0)
    zeros = block.shape[0] - np.bincount(block.indices, minlength=len(mean))
    away = block.data - mean[block.indices]
    first, second = (np.bincount(block.indices, weights=away**power, minlength=len(mean)) for power in (1, 2))
    return first - zeros * mean, second + zeros * mean**2


def _unit_rows(rows: Rows) -> Rows:
    """Rows of length 1; a row of zeros stays."""
    lengths = np.sqrt(rows.squares())
    inverse = np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1.0), 0.0)
    if not sp.issparse(rows.values):
        return Rows(rows.values * inverse[:, None])
    matrix = rows.values
    data = matrix.data * np.repeat(inverse, np.diff(matrix.indptr))
    return Rows(sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape))


def _times_columns(matrix: sp.csr_array, factor: Vector) -> sp.csr_array:
    """Every column times its factor."""
    return sp.csr_array((matrix.data * factor[matrix.indices], matrix.indices, matrix.indptr), shape=matrix.shape)
