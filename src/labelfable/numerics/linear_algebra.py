"""Factorisations and sums over items that every Gaussian process needs, on arrays of any namespace."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from array_api_compat import array_namespace, device, is_torch_namespace

from labelfable.errors import ModelError
from labelfable.numerics.namespace import Array

GRAM_ROWS_A_COLUMN = 16  # measured: 4,096 rows of 256 columns; shorter blocks spend their time adding R × R matrices up
FEWEST_GRAM_ROWS = 1024
SUMMED_ROWS = 4096  # whose products are added up in single precision
WIDE_ENTRIES = 2**28  # of what is made at once where launching a product costs more than memory does: 1 GB in float32
FORM_ROWS = 512  # measured: one block of rows times all components' panels stays in a core's cache
FORM_COLUMNS = 32  # measured: wide enough for the product's rate, narrow enough to skip nearly half of a triangle


def jitter_of(values: Array) -> float:
    """√eps of the dtype: what a kernel's diagonal is raised by, relative to its variance."""
    xp = array_namespace(values)
    return math.sqrt(float(xp.finfo(values.dtype).eps))


def cholesky(matrices: Array, *, jitter: float = 0.0, what: str = "a matrix") -> Array:
    """L with L L' = A + jitter · mean(diag A) · I, for one matrix or a stack.  Shapes: [..., R, R] -> the same."""
    xp = array_namespace(matrices)
    if jitter:
        least = float(xp.finfo(matrices.dtype).smallest_normal)  # keeps a matrix of zeros factorisable
        raised = (jitter * xp.mean(xp.linalg.diagonal(matrices), axis=-1) + least)[..., None, None]
        on_diagonal = xp.eye(matrices.shape[-1], dtype=xp.bool, device=device(matrices))
        matrices = xp.where(on_diagonal, matrices + raised, matrices)
    try:
        factors = xp.linalg.cholesky(matrices)
    except (ValueError, RuntimeError):  # NumPy's LinAlgError is the one, PyTorch's the other
        factors = None
    if factors is None or not bool(xp.all(xp.isfinite(factors))):
        raise ModelError(
            f"{what} cannot be factorised: it is not positive definite",
            where=_spread(matrices),
            hint="Look for extreme or non-finite values in what it is made of",
        )
    return factors


def _spread(matrices: Array) -> str:
    """How far a matrix is from being positive definite, in words."""
    xp = array_namespace(matrices)
    if not bool(xp.all(xp.isfinite(matrices))):
        return "it holds values that are not finite"
    values = xp.linalg.eigvalsh(matrices)
    return f"its eigenvalues run from {float(xp.min(values)):.3g} to {float(xp.max(values)):.3g}"


def summed_products(left: Array, right: Array) -> Array:
    """Σ_i left_i right_i', in float64.  Shapes: [n, C], [n, R] -> [C, R].

    Away from NumPy rows may be a million, too many for sums in single precision: blocks of them are multiplied in the
    precision of the arrays, all at once, and added up in double.
    """
    xp = array_namespace(left, right)
    if not is_torch_namespace(xp):
        return xp.astype(xp.matrix_transpose(left) @ right, xp.float64, copy=False)
    n_items = left.shape[0]
    whole = n_items - n_items % SUMMED_ROWS
    rest = (xp.matrix_transpose(left[whole:, :]) @ right[whole:, :])[None, ...]
    first, second = (xp.reshape(part[:whole, :], (-1, SUMMED_ROWS, part.shape[1])) for part in (left, right))
    return xp.sum(xp.concat((xp.matmul(xp.matrix_transpose(first), second), rest)), axis=0, dtype=xp.float64)


def weighted_gram(phi: Array, weights: Array) -> Array:
    """Φ' diag(θ_c) Φ for every component, in float64.                                         Equation (GP.1)

        Σ_i θ_ic φ_i φ_i' = A_c' A_c,     A_c = diag(√θ_c) Φ

    Shapes: [n, R], [n, C] with weights ≥ 0 -> [C, R, R].  A matrix times its own transpose costs half of a product of
    two.  Blocks of rows are multiplied in the dtype of `phi` and added up in float64.
    """
    xp = array_namespace(phi, weights)
    if is_torch_namespace(xp):
        return _wide_gram(phi, weights)
    n_items, n_columns = phi.shape
    roots = xp.astype(xp.sqrt(weights), phi.dtype, copy=False)
    total = xp.zeros((weights.shape[1], n_columns, n_columns), dtype=xp.float64, device=device(phi))
    rows = max(FEWEST_GRAM_ROWS, GRAM_ROWS_A_COLUMN * n_columns)
    for first in range(0, n_items, rows):
        last = min(first + rows, n_items)
        block, root = phi[first:last, :], roots[first:last, :]
        for component in range(weights.shape[1]):
            scaled = block * root[:, component][:, None]
            total[component, ...] += xp.astype(scaled.T @ scaled, xp.float64, copy=False)
    return total


def _wide_gram(phi: Array, weights: Array) -> Array:
    """The same by few large products, Φ' [diag(θ_1) Φ … diag(θ_C) Φ]: half of each is made twice, all at full rate."""
    xp = array_namespace(phi, weights)
    n_items, n_columns = phi.shape
    n_components = weights.shape[1]
    weights = xp.astype(weights, phi.dtype, copy=False)
    total = xp.zeros((n_columns, n_components * n_columns), dtype=xp.float64, device=device(phi))
    rows = -(-WIDE_ENTRIES // max(1, n_columns * n_components) // SUMMED_ROWS) * SUMMED_ROWS
    for first in range(0, n_items, rows):
        block = phi[first : first + rows, :]
        scaled = block[:, None, :] * weights[first : first + rows, :, None]
        total += summed_products(block, xp.reshape(scaled, (block.shape[0], n_components * n_columns)))
    grams = xp.permute_dims(xp.reshape(total, (n_columns, n_components, n_columns)), (1, 0, 2))
    return (grams + xp.matrix_transpose(grams)) / 2


def quadratic_forms(phi: Array, covariances: Array) -> Array:
    """φ_i' S_c φ_i for every item and component, never below 0.                               Equation (GP.2)

        φ' S φ = |T' φ|²,     T T' = S, T lower triangular

    Shapes: [n, R], [C, R, R] -> [n, C] in the dtype of `phi`.
    """
    xp = array_namespace(phi, covariances)
    rounding = float(xp.finfo(covariances.dtype).eps) * covariances.shape[-1]
    factors = cholesky(covariances, jitter=rounding, what="a covariance of weights")
    return squared_lengths(phi, xp.astype(factors, phi.dtype, copy=False))


def squared_lengths(phi: Array, factors: Array) -> Array:
    """|T_c' φ_i|² for lower triangular T_c.  Shapes: [n, R], [C, R, R] -> [n, C].

    The columns of T are taken in panels, all components at once, without the rows above the triangle.
    """
    xp = array_namespace(phi, factors)
    n_items, n_columns = phi.shape
    n_components = factors.shape[0]
    width, rows = FORM_COLUMNS, FORM_ROWS
    if is_torch_namespace(xp):
        width, rows = n_columns, max(FORM_ROWS, WIDE_ENTRIES // max(1, n_columns * n_components))
    panels = []
    for first in range(0, n_columns, width):
        last = min(first + width, n_columns)
        panel = xp.permute_dims(factors[:, first:, first:last], (1, 0, 2))
        panels.append((first, xp.reshape(panel, (n_columns - first, -1))))
    forms = xp.zeros((n_items, n_components), dtype=phi.dtype, device=device(phi))
    for start in range(0, n_items, rows):
        here = slice(start, min(start + rows, n_items))
        block = phi[here, :]
        for first, panel in panels:
            parts = xp.reshape(block[:, first:] @ panel, (block.shape[0], n_components, -1))
            forms[here, :] += xp.vecdot(parts, parts)
    return forms


class RitzPairs(NamedTuple):
    """Approximate eigenpairs, largest value first."""

    values: Array
    """λ, [m]."""
    vectors: Array
    """Orthonormal columns u, [n, m]."""
    errors: Array
    """|A u − λ u|: no value is farther than this from an eigenvalue, [m]."""


def lanczos(apply: Callable[[Array], Array], start: Array, n_vectors: int) -> RitzPairs:
    """Ritz pairs of a symmetric operator A from the Krylov space of several start vectors.    Equation (GP.3)

        span{ V, A V, A² V, … },     Q' A Q = U Λ U',     vectors Q U

    `apply` maps [n, p] to [n, p]; `start` is [n, p]; `n_vectors` is the dimension of the space, at most n.  Every block
    is orthogonalised against all before it, twice, so that no eigenvalue appears more often than it should.  A space
    that closes early (repeated eigenvalues, fewer of them than asked) goes on with the least covered coordinates.
    """
    xp = array_namespace(start)
    n_vectors = min(n_vectors, start.shape[0])
    basis = _new_directions(start, None, min(start.shape[1], n_vectors))
    image = apply(basis)
    images = [image]
    while basis.shape[1] < n_vectors:
        block = _new_directions(image, basis, min(start.shape[1], n_vectors - basis.shape[1]))
        basis = xp.concat((basis, block), axis=1)
        image = apply(block)
        images.append(image)
    image = xp.concat(images, axis=1)
    projected = basis.T @ image
    values, rotation = xp.linalg.eigh((projected + projected.T) / 2)
    values, rotation = xp.flip(values), xp.flip(rotation, axis=1)
    vectors = basis @ rotation
    misfit = image @ rotation - vectors * values
    return RitzPairs(values, vectors, xp.sqrt(xp.sum(misfit * misfit, axis=0)))


def _new_directions(vectors: Array, basis: Array | None, wanted: int) -> Array:
    """Orthonormal columns, orthogonal to the basis: of the vectors where they reach, else of coordinates.  [n, wanted].

    The singular vectors of what is left of the vectors tell directions from rounding.
    """
    xp = array_namespace(vectors)
    n_rows = vectors.shape[0]
    scale = float(xp.max(xp.abs(vectors)))
    left, sizes, _ = xp.linalg.svd(_without(vectors, basis), full_matrices=False)
    threshold = n_rows * float(xp.finfo(vectors.dtype).eps) * scale
    count = min(wanted, int(xp.count_nonzero(sizes > threshold)))
    found = left[:, :count]
    if basis is not None and count:
        found = xp.linalg.qr(_without(found, basis)).Q
    while found.shape[1] < wanted:
        known = found if basis is None else xp.concat((basis, found), axis=1)
        least_covered = int(xp.argmin(xp.sum(known * known, axis=1)))
        coordinate = xp.astype(xp.arange(n_rows, device=device(vectors)) == least_covered, vectors.dtype)[:, None]
        rest = _without(coordinate, known)
        found = xp.concat((found, rest / xp.sqrt(xp.sum(rest * rest))), axis=1)
    return found


def _without(vectors: Array, basis: Array | None) -> Array:
    """What is left of the columns outside the span of an orthonormal basis; twice, for the rounding of the first."""
    if basis is None:
        return vectors
    for _ in range(2):
        vectors = vectors - basis @ (basis.T @ vectors)
    return vectors


class PivotedFactor(NamedTuple):
    """A partial Cholesky factor of a kernel matrix: K ≈ F F'."""

    pivots: list[int]
    """The rows whose columns were used, the most telling first, r of them."""
    factor: Array
    """F, [n, r]."""
    residual: Array
    """diag(K − F F') ≥ 0, [n]."""


def pivoted_cholesky(
    column: Callable[[int], Array], diagonal: Array, n_columns: int, *, tolerance: float | None = None
) -> PivotedFactor:
    """Greedy partial Cholesky: the next pivot is the row with the largest residual.           Equation (GP.4)

        f_r = ( K_·p − F F_p·' ) / √res_p,     res ← res − f_r²

    `column(p)` gives K_·p, [n].  It ends before `n_columns` where no residual is above `tolerance` times the largest
    diagonal (√eps by default): duplicates of a pivot never become one.
    """
    xp = array_namespace(diagonal)
    limit = (jitter_of(diagonal) if tolerance is None else tolerance) * float(xp.max(diagonal))
    factor = xp.zeros((diagonal.shape[0], min(n_columns, diagonal.shape[0])), dtype=diagonal.dtype)
    residual = diagonal + 0  # a copy
    pivots: list[int] = []
    for rank in range(factor.shape[1]):
        pivot = int(xp.argmax(residual))
        size = float(residual[pivot])
        if not size > limit:
            break
        done = factor[:, :rank]
        factor[:, rank] = (column(pivot) - done @ done[pivot, :]) / math.sqrt(size)
        residual = xp.maximum(residual - factor[:, rank] ** 2, xp.zeros_like(residual))
        residual[pivot] = 0.0
        pivots.append(pivot)
    return PivotedFactor(pivots, factor[:, : len(pivots)], residual)
