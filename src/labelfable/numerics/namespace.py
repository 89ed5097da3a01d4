"""The few functions that the array API standard lacks, each dispatched once on the namespace of its argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from array_api_compat import (
    array_namespace,
    device,
    is_cupy_namespace,
    is_torch_namespace,
    to_device,
)

SHORT_ROW = 64  # entries; measured: past it NumPy's own loop over a row is as fast
FOLDED_ROWS = 128
Array = Any  # an array of any namespace: NumPy, PyTorch, CuPy, array-api-strict


def through_numpy(function: Callable[[Any], Any], values: Array) -> Array:
    """What a function of NumPy arrays makes of an array of any namespace, on the device where that one lives."""
    if isinstance(values, np.ndarray):
        return function(values)
    xp = array_namespace(values)
    elsewhere = is_torch_namespace(xp) or is_cupy_namespace(xp)
    host = to_device(values, "cpu") if elsewhere else values
    return xp.asarray(function(np.asarray(host)), device=device(values))


def digamma(values: Array) -> Array:
    """ψ(x), the derivative of log Γ(x)."""
    xp = array_namespace(values)
    if is_torch_namespace(xp):
        return values.digamma()
    return through_numpy(scipy.special.psi, values)


def trigamma(values: Array) -> Array:
    """ψ'(x), the second derivative of log Γ(x), for x > 0."""
    xp = array_namespace(values)
    if is_torch_namespace(xp):
        return values.polygamma(1)
    return through_numpy(lambda x: scipy.special.zeta(2, x).astype(x.dtype), values)


def log_gamma(values: Array) -> Array:
    """Log Γ(x) for x > 0."""
    xp = array_namespace(values)
    if is_torch_namespace(xp):
        return values.lgamma()
    return through_numpy(scipy.special.gammaln, values)


def row_maximum(values: Array) -> Array:
    """Largest entry of the last axis, which stays with length 1.

    Short rows column by column: NumPy enters its loop once a row, which costs more than the row.
    """
    if not isinstance(values, np.ndarray) or values.shape[-1] > SHORT_ROW:
        return array_namespace(values).max(values, axis=-1, keepdims=True)
    top = values[..., :1].copy()
    for column in range(1, values.shape[-1]):
        np.maximum(top, values[..., column : column + 1], out=top)
    return top


def row_sum(values: Array) -> Array:
    """Sum over the last axis, which stays with length 1.  For short rows `einsum` is several times faster."""
    if isinstance(values, np.ndarray):
        return np.einsum("...c->...", values)[..., None]
    return array_namespace(values).sum(values, axis=-1, keepdims=True)


def folded(values: np.ndarray) -> np.ndarray:
    """The same memory with up to 128 rows side by side, so that a loop over short rows becomes one over long ones."""
    return values.reshape(-1, math.gcd(len(values), FOLDED_ROWS) * values.shape[1])


def column_sum(values: Array) -> Array:
    """Sum over the first axis.  [n, C] -> [C].  Of single precision in double, by sums over every 128th row."""
    if isinstance(values, np.ndarray):
        wide = np.einsum("nc->c", folded(values)).astype(np.float64)
        return wide.reshape(-1, values.shape[1]).sum(axis=0)
    xp = array_namespace(values)
    return xp.sum(values, axis=0, dtype=xp.float64)


def total(values: Array) -> Array:
    """Sum over all entries as a number in double, which stays on the device of its array."""
    if isinstance(values, np.ndarray):
        return np.float64(values.sum())
    xp = array_namespace(values)
    return xp.sum(values, dtype=xp.float64)


def exp_over(values: Array) -> Array:
    """e^x, in the memory of x where the namespace can: fresh memory for large arrays costs more than the function."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return np.exp(values, out=values)
    return array_namespace(values).exp(values)


def inner(left: Array, right: Array) -> Any:
    """Σ a·b over all entries of two arrays of one shape: a number, which stays on the device of its arrays.

    Not by BLAS: it splits long sums over threads of its own.  Then the last digits depend on the number of cores, and
    where several shards run at once those threads wait for one another, which took longer than all the rest.
    """
    if isinstance(left, np.ndarray):
        return float(np.einsum("n,n->", left.ravel(), right.ravel()))
    return total(left * right)
