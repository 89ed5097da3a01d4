"""Kernels of Gaussian processes: values, diagonals, and what they pass back to their parameters.

Everything goes through inner products, so no array has an entry for every pair *and* dimension.  They are taken in
float64 whatever comes in: a squared distance is a small difference of large numbers.  Values keep the points' dtype.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from labelfable.numerics.namespace import Array

SAME_POINT = 1e-13
"""Squared distances below this share of the squared lengths are rounding: the two points are one."""


@dataclass(frozen=True)
class ParameterSlopes:
    """How a scalar B changes with a kernel's parameters.  They add up over blocks of pairs."""

    log_variance: float
    log_lengthscale: Any
    """A number where the lengthscale is one, else one for each dimension, [d]."""

    def __add__(self, other: ParameterSlopes) -> ParameterSlopes:
        """The slopes of both parts."""
        return ParameterSlopes(self.log_variance + other.log_variance, self.log_lengthscale + other.log_lengthscale)


class Pairs(NamedTuple):
    """Two sets of embedded points and all their inner products, in float64."""

    left: Array
    """[n, d]"""
    right: Array
    """[m, d]"""
    cross: Array
    """[n, m]"""
    left_squares: Array
    """[n]"""
    right_squares: Array
    """[m]"""


@dataclass(frozen=True, eq=False)
class Kernel:
    """k(x, y) = variance · g(x / lengthscale, y / lengthscale), the lengthscale a number or one for each dimension."""

    variance: float = 1.0
    lengthscale: Any = 1.0

    is_stationary: ClassVar[bool] = False
    """Whether only the difference of two points counts."""

    @property
    def is_ard(self) -> bool:
        """Whether each dimension has a lengthscale of its own."""
        return np.ndim(self.lengthscale) == 1

    def values(self, left: Array, right: Array) -> Array:
        """K with K_ij = k(left_i, right_j).  Shapes: [n, d], [m, d] -> [n, m]."""
        xp = array_namespace(left, right)
        pairs = self._pairs(left, right)
        found = self.from_products(pairs.cross, pairs.left_squares, pairs.right_squares)
        return xp.astype(found, xp.result_type(left, right), copy=False)

    def diagonal(self, points: Array) -> Array:
        """k(x_i, x_i).  Shapes: [n, d] -> [n]."""
        xp = array_namespace(points)
        found = self.diagonal_from_squares(squares(self.embed(points, None)))
        return xp.astype(found, points.dtype, copy=False)

    def gradient(self, left: Array, right: Array, d_values: Array) -> ParameterSlopes:
        """Slopes of B in log variance and log lengthscale from dB/dK.  Shapes of `d_values`: [n, m]."""
        xp = array_namespace(left, right)
        pairs = self._pairs(left, right)
        upstream = xp.astype(d_values, xp.float64, copy=False)
        values = self.from_products(pairs.cross, pairs.left_squares, pairs.right_squares)
        return self._slopes(xp.sum(upstream * values), self._stretch(pairs, upstream))

    def diagonal_gradient(self, points: Array, d_diagonal: Array) -> ParameterSlopes:
        """Slopes of B in log variance and log lengthscale from dB/d diag(K).  Shapes of `d_diagonal`: [n]."""
        xp = array_namespace(points)
        upstream = xp.astype(d_diagonal, xp.float64, copy=False)
        embedded = self.embed(points, None)
        values = self.diagonal_from_squares(squares(embedded))
        return self._slopes(xp.sum(upstream * values), self._diagonal_stretch(embedded, upstream))

    def embed(self, points: Array, origin: Array | None) -> Array:
        """(x − origin) / lengthscale, in float64.  Shapes: [n, d], [d] -> [n, d]."""
        xp = array_namespace(points)
        moved = xp.astype(points, xp.float64, copy=False)
        if origin is not None:
            moved = moved - origin
        if self.is_ard:
            return moved / xp.asarray(self.lengthscale, dtype=xp.float64, device=device(points))
        return moved / float(self.lengthscale)

    def origin(self, points: Array) -> Array | None:
        """A point amid the others, whose differences lose least to rounding; None where the true origin counts."""
        xp = array_namespace(points)
        if not self.is_stationary or points.shape[0] == 0:
            return None
        return xp.mean(xp.astype(points, xp.float64, copy=False), axis=0)

    @abstractmethod
    def from_products(self, cross: Array, left_squares: Array, right_squares: Array) -> Array:
        """K from inner products of embedded points.  Shapes: [n, m], [n], [m] -> [n, m], all float64."""

    @abstractmethod
    def diagonal_from_squares(self, sizes: Array) -> Array:
        """diag(K) from squared lengths of embedded points.  Shapes: [n] -> [n], float64."""

    @abstractmethod
    def _stretch(self, pairs: Pairs, upstream: Array) -> Array:
        """Slope of B in each dimension's log lengthscale, [d]; any shape of the same sum where there is only one."""

    def _diagonal_stretch(self, embedded: Array, upstream: Array) -> Array:
        """The same from the diagonal, [d]: nothing, where a point's relation to itself is always the same."""
        xp = array_namespace(embedded, upstream)
        return xp.zeros(embedded.shape[1], dtype=upstream.dtype)

    def _slopes(self, raised: Array, stretch: Array) -> ParameterSlopes:
        xp = array_namespace(stretch)
        return ParameterSlopes(float(raised), stretch if self.is_ard else float(xp.sum(stretch)))

    def _pairs(self, left: Array, right: Array) -> Pairs:
        origin = self.origin(right)
        first, second = self.embed(left, origin), self.embed(right, origin)
        return Pairs(first, second, first @ second.T, squares(first), squares(second))


@dataclass(frozen=True, eq=False)
class Linear(Kernel):
    """k = v x·y"""

    def from_products(self, cross: Array, left_squares: Array, right_squares: Array) -> Array:
        """v x·y"""
        del left_squares, right_squares
        return self.variance * cross

    def diagonal_from_squares(self, sizes: Array) -> Array:
        """v |x|²"""
        return self.variance * sizes

    def _stretch(self, pairs: Pairs, upstream: Array) -> Array:
        """dk / d log ℓ_d = −2 v x_d y_d"""
        xp = array_namespace(upstream)
        return -2 * self.variance * xp.sum(pairs.left * (upstream @ pairs.right), axis=0)

    def _diagonal_stretch(self, embedded: Array, upstream: Array) -> Array:
        """−2 v x_d²"""
        return -2 * self.variance * (upstream @ (embedded * embedded))


@dataclass(frozen=True, eq=False)
class Cosine(Kernel):
    """k = v x·y / (|x| |y|), and 0 where a point is the origin"""

    def from_products(self, cross: Array, left_squares: Array, right_squares: Array) -> Array:
        """v x·y / (|x| |y|)"""
        return self.variance * cross * _inverse_roots(left_squares)[:, None] * _inverse_roots(right_squares)[None, :]

    def diagonal_from_squares(self, sizes: Array) -> Array:
        """v, or 0 at the origin"""
        xp = array_namespace(sizes)
        return self.variance * xp.astype(sizes > 0, sizes.dtype)

    def _stretch(self, pairs: Pairs, upstream: Array) -> Array:
        """dk / d log ℓ_d = −2 v x̂_d ŷ_d + k (x̂_d² + ŷ_d²), with x̂ = x / |x|"""
        xp = array_namespace(upstream)
        left = pairs.left * _inverse_roots(pairs.left_squares)[:, None]
        right = pairs.right * _inverse_roots(pairs.right_squares)[:, None]
        weighted = upstream * self.from_products(pairs.cross, pairs.left_squares, pairs.right_squares)
        own = xp.sum(weighted, axis=1) @ (left * left) + xp.sum(weighted, axis=0) @ (right * right)
        return own - 2 * self.variance * xp.sum(left * (upstream @ right), axis=0)


@dataclass(frozen=True, eq=False)
class _Stationary(Kernel):
    """k = v h(r²), r² = Σ_d (x_d − y_d)² / ℓ_d², h(0) = 1"""

    is_stationary: ClassVar[bool] = True

    def from_products(self, cross: Array, left_squares: Array, right_squares: Array) -> Array:
        """v h(|x|² + |y|² − 2 x·y)"""
        return self.variance * self._profile(_squared_distances(cross, left_squares, right_squares))

    def diagonal_from_squares(self, sizes: Array) -> Array:
        """v"""
        xp = array_namespace(sizes)
        return xp.full_like(sizes, self.variance)

    def _stretch(self, pairs: Pairs, upstream: Array) -> Array:
        """dk / d log ℓ_d = −2 v h'(r²) (x_d − y_d)²

        With A = −2 v h' ∘ dB/dK:  Σ_ij A_ij (x_id − y_jd)² = Σ_i A_i· x_id² + Σ_j A_·j y_jd² − 2 Σ_i x_id (A y)_id
        """
        xp = array_namespace(upstream)
        distances = _squared_distances(pairs.cross, pairs.left_squares, pairs.right_squares)
        weighted = -2 * self.variance * upstream * self._profile_slope(distances)
        if not self.is_ard:
            return weighted * distances
        left, right = pairs.left, pairs.right
        own = xp.sum(weighted, axis=1) @ (left * left) + xp.sum(weighted, axis=0) @ (right * right)
        return own - 2 * xp.sum(left * (weighted @ right), axis=0)

    @abstractmethod
    def _profile(self, distances: Array) -> Array:
        """h(r²), shape-preserving."""

    @abstractmethod
    def _profile_slope(self, distances: Array) -> Array:
        """h'(r²), shape-preserving; 0 where it is infinite, at r = 0: there it only ever meets a distance of 0."""


@dataclass(frozen=True, eq=False)
class RBF(_Stationary):
    """h = exp(−r² / 2)"""

    def _profile(self, distances: Array) -> Array:
        """exp(−r² / 2)"""
        xp = array_namespace(distances)
        return xp.exp(distances * -0.5)

    def _profile_slope(self, distances: Array) -> Array:
        """−½ exp(−r² / 2)"""
        return -0.5 * self._profile(distances)


@dataclass(frozen=True, eq=False)
class Matern(_Stationary):
    """With a = √(2ν) r:  h = exp(−a) · { 1 | 1 + a | 1 + a + a²/3 }  for ν = 1/2, 3/2, 5/2"""

    smoothness: float = 2.5
    """ν: 0.5, 1.5 or 2.5."""

    def _profile(self, distances: Array) -> Array:
        """exp(−a) · { 1 | 1 + a | 1 + a + a²/3 }"""
        xp = array_namespace(distances)
        a = xp.sqrt(2 * self.smoothness * distances)
        rising = {0.5: 1.0, 1.5: 1 + a, 2.5: 1 + a + a * a / 3}[self.smoothness]
        return rising * xp.exp(-a)

    def _profile_slope(self, distances: Array) -> Array:
        """−½ exp(−r) / r,   −3/2 exp(−a),   −5/6 (1 + a) exp(−a)"""
        xp = array_namespace(distances)
        a = xp.sqrt(2 * self.smoothness * distances)
        if self.smoothness == 0.5:  # noqa: PLR2004 (ν = 1/2)
            apart = a > 0
            return xp.where(apart, -0.5 * xp.exp(-a) / xp.where(apart, a, xp.ones_like(a)), xp.zeros_like(a))
        rising = {1.5: 1.5, 2.5: (1 + a) * (5 / 6)}[self.smoothness]
        return -rising * xp.exp(-a)


KERNELS: dict[str, Any] = {
    "linear": Linear,
    "rbf": RBF,
    "matern12": partial(Matern, smoothness=0.5),
    "matern32": partial(Matern, smoothness=1.5),
    "matern52": partial(Matern, smoothness=2.5),
    "cosine": Cosine,
}
"""Name -> what makes the kernel from `variance` and `lengthscale`."""


def squares(points: Array) -> Array:
    """|x_i|².  Shapes: [n, d] -> [n]."""
    xp = array_namespace(points)
    return xp.vecdot(points, points)


def _squared_distances(cross: Array, left_squares: Array, right_squares: Array) -> Array:
    """|x|² + |y|² − 2 x·y, with 0 for what is rounding.  Shapes: [n, m], [n], [m] -> [n, m]."""
    xp = array_namespace(cross)
    sizes = left_squares[:, None] + right_squares[None, :]
    distances = sizes - 2 * cross
    return xp.where(distances > SAME_POINT * sizes, distances, xp.zeros_like(distances))


def _inverse_roots(sizes: Array) -> Array:
    """1 / √s, and 0 at s = 0.  Shape-preserving."""
    xp = array_namespace(sizes)
    positive = sizes > 0
    return xp.where(positive, 1 / xp.sqrt(xp.where(positive, sizes, xp.ones_like(sizes))), xp.zeros_like(sizes))
