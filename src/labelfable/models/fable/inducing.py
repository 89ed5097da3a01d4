"""Where the Gaussian process is pinned down: inducing points, a Krylov basis of items, and a first lengthscale.

Points are in the coordinates of the scaled features, before any lengthscale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.errors import ModelError
from labelfable.models.fable.clusters import Clusters
from labelfable.numerics.kernels import SAME_POINT
from labelfable.numerics.linear_algebra import lanczos, pivoted_cholesky
from labelfable.votes.features import BLOCK_ENTRIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.numerics.kernels import Kernel
    from labelfable.numerics.scaling import Rows, Scaling
    from labelfable.votes.features import Features

EXACT_ITEMS = 5_000
"""The exact process solves with an items × items matrix: 200 MB and some seconds at this size."""
LANCZOS_ITEMS = 20_000
"""Lanczos takes every pair of items about ten times: a few minutes at this size."""
STORED_ITEMS = 5_000
"""Up to this many items their kernel matrix is kept between Lanczos steps, past it computed anew in blocks of rows."""
MOST_POINT_NUMBERS = 2**27
"""Points are dense and travel with the model: 1 GB at most."""

SAMPLE_ITEMS = 8_192  # k-means and pivots look at so many items, or SAMPLE_A_POINT for each point where that is more
SAMPLE_A_POINT = 32
SAMPLE_PAIRS = 1_024  # items whose pairs' distances the starting lengthscale is the median of
KRYLOV_DEPTH = 8  # how many times the kernel is applied to a block of vectors
KRYLOV_SPARE = 10


def choose_points(
    features: Features, scaling: Scaling, kernel: Kernel, n_points: int, *, how: str, seed: int
) -> NDArray[np.floating]:
    """At most `n_points` different points amid the items, by k-means or by pivoted Cholesky.  [P, d].

    Where there are no more different items than that, they are the points.
    """
    _refuse_size(min(n_points, features.n_items), scaling.n_outputs)
    sample = _sample(features, max(SAMPLE_ITEMS, SAMPLE_A_POINT * n_points), seed)
    distinct = _distinct(sample)
    if distinct.n_items <= n_points:
        return scaling.rows(distinct.numbers).dense()
    rows = scaling.rows(sample.numbers)
    choose = _pivots if how == "pivoted" else _centres
    return choose(rows, kernel, n_points, np.random.default_rng([seed, 1]))


def all_points(features: Features, scaling: Scaling, most: int, method: str) -> NDArray[np.floating]:
    """All different items, [P, d]; an error past `most`."""
    count = int((~features.missing).sum())
    if count > most:
        raise ModelError(
            f"method={method!r} takes at most {most:,} items, and {count:,} have features",
            hint="Use inducing points: method='inducing'",
        )
    _refuse_size(count, scaling.n_outputs)
    return scaling.rows(_distinct(_sample(features, count, 0)).numbers).dense()


def krylov_basis(points: NDArray[np.floating], kernel: Kernel, rank: int, seed: int) -> NDArray[np.floating]:
    """Orthonormal directions of nearly the largest variance of the kernel over all points.  [P, R]."""
    n_points = len(points)
    stored = kernel.values(points, points) if n_points <= STORED_ITEMS else None

    def apply(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
        if stored is not None:
            return np.asarray(stored @ vectors)
        rows = max(1, 8 * BLOCK_ENTRIES // n_points)
        parts = [kernel.values(points[first : first + rows], points) @ vectors for first in range(0, n_points, rows)]
        return np.concatenate(parts)

    dimension = min(n_points, 2 * rank + KRYLOV_SPARE)
    start = np.random.default_rng([seed, 2]).standard_normal((n_points, -(-dimension // KRYLOV_DEPTH)))
    found = lanczos(apply, start, dimension)
    telling = int(np.count_nonzero(found.values > n_points * np.finfo(np.float64).eps * found.values[0]))
    return np.ascontiguousarray(found.vectors[:, : max(1, min(rank, telling))])


def median_lengthscale(features: Features, scaling: Scaling, seed: int, *, ard: bool) -> Any:
    """Median distance between items of a sample; or one number a dimension, in proportion to its spread.

    In units of the lengthscale the median distance is 1 in both.
    """
    rows = scaling.rows(_sample(features, SAMPLE_PAIRS, seed).numbers)
    centre = np.asarray(rows.values.mean(axis=0)).ravel() - (0.0 if rows.shift is None else rows.shift)
    rows = rows.minus(centre)
    if not ard:
        return _median_distance(rows)
    spread = np.sqrt(_mean_squares(rows))
    typical = float(np.sqrt((spread**2).mean())) or 1.0
    spread = np.where(spread > 0, spread, typical)  # a dimension without spread in the sample
    return spread * _median_distance(rows.scaled(1 / spread))


def _median_distance(rows: Rows) -> float:
    sizes = rows.squares()
    pairs = np.triu_indices(rows.n_rows, 1)
    both = (sizes[:, None] + sizes[None, :])[pairs]
    distances = both - 2 * rows.products()[pairs]
    distances = np.sqrt(np.where(distances > SAME_POINT * both, distances, 0.0))
    median = float(np.median(distances)) if distances.size else 0.0
    if median > 0:
        return median
    apart = distances[distances > 0]
    return float(apart.mean()) if apart.size else 1.0


def _mean_squares(rows: Rows) -> NDArray[np.floating]:
    """(1/n) Σ_i x_id², [d]."""
    values, shift = rows.values, rows.shift
    squared = values.multiply(values) if sp.issparse(values) else values * values
    mean = np.asarray(squared.mean(axis=0)).ravel()
    if shift is not None:
        mean = mean - 2 * shift * np.asarray(values.mean(axis=0)).ravel() + shift**2
    return np.asarray(np.maximum(mean, 0.0))


def _refuse_size(n_points: int, n_columns: int) -> None:
    if n_points * n_columns > MOST_POINT_NUMBERS:
        raise ModelError(
            f"{n_points:,} points with {n_columns:,} features each are too large to keep in a model",
            hint="Use kernel='linear' or scaling='whiten', which reduce the features, or fewer points",
        )


def _sample(features: Features, most: int, seed: int) -> Features:
    """Some of the items that have features, in their order."""
    known = np.flatnonzero(~features.missing)
    if len(known) > most:
        known = np.sort(np.random.default_rng([seed, 0]).choice(known, most, replace=False))
    return features if len(known) == features.n_items else features.take(known)


def _distinct(features: Features) -> Features:
    """The first of each different row."""
    values = features.numbers
    if sp.issparse(values):
        seen: dict[bytes, int] = {}
        for row in range(features.n_items):
            here = slice(values.indptr[row], values.indptr[row + 1])
            seen.setdefault(values.indices[here].tobytes() + values.data[here].tobytes(), row)
        first = np.fromiter(seen.values(), dtype=np.int64)
    else:
        plain = np.ascontiguousarray(values + 0.0)  # −0 and 0 are one number
        as_bytes = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1]))).ravel()
        first = np.sort(np.unique(as_bytes, return_index=True)[1])
    return features if len(first) == features.n_items else features.take(first)


def _embedded(rows: Rows, kernel: Kernel) -> tuple[Rows, Any]:
    """Rows as the kernel sees them, and the origin that was subtracted."""
    origin = None
    if kernel.is_stationary:
        origin = np.asarray(rows.values.mean(axis=0)).ravel() - (0.0 if rows.shift is None else rows.shift)
    return rows.minus(origin).scaled(1 / np.asarray(kernel.lengthscale)), origin


def _pivots(rows: Rows, kernel: Kernel, n_points: int, generator: np.random.Generator) -> NDArray[np.floating]:
    """The items that a pivoted Cholesky factorisation of the kernel takes first."""
    del generator  # nothing is random
    embedded, _ = _embedded(rows, kernel)
    sizes = embedded.squares()

    def column(pivot: int) -> NDArray[np.floating]:
        one = np.array([pivot])
        cross = embedded.times(embedded.part(one).dense().T)
        return np.asarray(kernel.from_products(cross, sizes, sizes[one])[:, 0])

    found = pivoted_cholesky(column, kernel.diagonal_from_squares(sizes), n_points)
    return rows.part(np.array(found.pivots or [0])).dense()


def _centres(rows: Rows, kernel: Kernel, n_points: int, generator: np.random.Generator) -> NDArray[np.floating]:
    """Centres of a k-means clustering in the kernel's own coordinates."""
    embedded, origin = _embedded(rows, kernel)
    sizes = embedded.squares()
    stretch = np.ones(len(sizes))
    if not kernel.is_stationary:  # only directions count
        stretch = np.where(sizes > 0, 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0)), 0.0)
    clusters = Clusters(embedded, stretch, sizes * stretch**2)
    centres = np.asarray(clusters.improve(clusters.seed(n_points, generator)) * kernel.lengthscale)
    return centres if origin is None else centres + origin
