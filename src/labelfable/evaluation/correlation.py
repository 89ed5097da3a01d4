"""Distance correlation: how far two sets of measurements of the same items depend on each other, in whatever way.

0 for independent ones, 1 where one is the other turned, scaled and moved.  Every figure comes from three sums over the
pairs of items (`PairSums`), so no matrix of items × items is kept: one dimension takes O(n log n), several take n²
distances in blocks of bounded memory.

G. Székely, M. Rizzo, N. Bakirov: Measuring and testing dependence by correlation of distances.  Ann. Statist. 2007.
G. Székely, M. Rizzo: The distance correlation t-test of independence in high dimension.  J. Multivar. Anal. 2013.
X. Huo, G. Székely: Fast computing for distance covariance.  Technometrics 2016.
A. Chaudhuri, W. Hu: A fast algorithm for computing distance correlation.  Comput. Stat. Data Anal. 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import t as student

from labelfable.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

BLOCK_BYTES = 2**25  # of distances at a time, for each of the two sides
MATRIX = 2  # axes: items, columns
LEAST_ITEMS = 4  # the unbiased form divides by n − 3


@dataclass(frozen=True)
class PairSums:
    """All that distance covariance needs of two sides with distances a_ij and b_ij."""

    products: float
    """Σ_ij a_ij b_ij."""
    left: NDArray[np.float64]
    """a_i = Σ_j a_ij, [items]."""
    right: NDArray[np.float64]
    """b_i = Σ_j b_ij, [items]."""

    @property
    def covariance(self) -> float:
        """Squared distance covariance of the sample.                                          Equation (DC.1)

        V² = (1/n²) Σ_ij a_ij b_ij − (2/n³) Σ_i a_i b_i + (1/n⁴) Σ_i a_i Σ_i b_i
        """
        n = len(self.left)
        return float(
            self.products / n**2
            - 2 * (self.left @ self.right) / n**3
            + self.left.sum() / n**2 * self.right.sum() / n**2
        )

    @property
    def unbiased_covariance(self) -> float:
        """Its unbiased estimate, which may be negative.                                       Equation (DC.2)

        Ω = (1/n(n−3)) ( Σ_ij a_ij b_ij − (2/(n−2)) Σ_i a_i b_i + (1/(n−1)(n−2)) Σ_i a_i Σ_i b_i )
        """
        n = len(self.left)
        across = 2 * (self.left @ self.right) / (n - 2)
        means = self.left.sum() * self.right.sum() / ((n - 1) * (n - 2))
        return float((self.products - across + means) / (n * (n - 3)))


@dataclass(frozen=True)
class Dependence:
    """Distance correlation of a sample, and whether it could be chance."""

    n_items: int
    correlation: float
    """0 to 1; of a small sample above 0 by chance alone."""
    unbiased: float
    """Squared correlation, free of that: 0 on average for independent sides, below 0 by chance."""
    p_value: float
    """Chance of so large an `unbiased` where nothing depends, by the t-test of Székely and Rizzo."""


def distance_correlation(left: ArrayLike, right: ArrayLike) -> float:
    """R = √( V²(X, Y) / √( V²(X) V²(Y) ) ), 0 where a side is constant.                          Equation (DC.3)

    Shapes: [items] or [items, columns] -> a number between 0 and 1.
    """
    return dependence(left, right).correlation


def dependence(left: ArrayLike, right: ArrayLike) -> Dependence:
    """Distance correlation, its unbiased square, and the t-test of independence.                Equation (DC.3)

    R*² = Ω(X, Y) / √( Ω(X) Ω(Y) );   √(ν − 1) R*² / √(1 − R*⁴) ~ t(ν − 1),   ν = n(n − 3)/2
    """
    x, y = _columns(left, "left"), _columns(right, "right")
    if len(x) != len(y):
        raise InputError(f"{len(x)} and {len(y)} items are measured", hint="Give both sides of the same items")
    n = len(x)
    if n < LEAST_ITEMS:
        raise InputError(f"{n} items are too few for a distance correlation", hint=f"Give at least {LEAST_ITEMS}")
    sums = pair_sums(x, y)
    own = [PairSums(_squares(side), rows, rows) for side, rows in ((x, sums.left), (y, sums.right))]
    share = _share(sums.covariance, *(each.covariance for each in own))
    unbiased = _share(sums.unbiased_covariance, *(each.unbiased_covariance for each in own))
    freedom = n * (n - 3) / 2 - 1
    p_value = 1.0
    if freedom > 0 and own[0].covariance > 0 and own[1].covariance > 0:
        statistic = np.sqrt(freedom) * unbiased / np.sqrt(max(1 - unbiased**2, np.finfo(float).tiny))
        p_value = float(student.sf(statistic, freedom))
    return Dependence(n, float(np.sqrt(np.clip(share, 0, 1))), unbiased, p_value)


def pair_sums(left: NDArray[np.float64], right: NDArray[np.float64]) -> PairSums:
    """The three sums, by the fast way where both sides have one column.  Shapes: [items, columns] twice."""
    if left.shape[1] == right.shape[1] == 1:
        x, y = left[:, 0], right[:, 0]
        return PairSums(_products_on_lines(x, y), _row_sums_on_line(x), _row_sums_on_line(y))
    return _sums_by_blocks(left, right)


def _sums_by_blocks(left: NDArray[np.float64], right: NDArray[np.float64]) -> PairSums:
    """A block of rows of both distance matrices at a time."""
    n = len(left)
    step = max(1, BLOCK_BYTES // (8 * n))
    products, rows = 0.0, (np.empty(n), np.empty(n))
    for first in range(0, n, step):
        block = slice(first, first + step)
        a, b = cdist(left[block], left), cdist(right[block], right)
        products += float(np.vdot(a, b))
        rows[0][block], rows[1][block] = a.sum(axis=1), b.sum(axis=1)
    return PairSums(products, *rows)


def _squares(side: NDArray[np.float64]) -> float:
    """Σ_ij |x_i − x_j|² = 2n Σ_i |x_i − mean|²."""
    return float(2 * len(side) * np.sum((side - side.mean(axis=0)) ** 2))


def _row_sums_on_line(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_j |x_i − x_j| of each i, from the running sums of the sorted values.  [items]."""
    n = len(values)
    order = np.argsort(values, kind="stable")
    ordered = values[order] - values.mean()
    below = np.cumsum(ordered) - ordered
    rank = np.arange(n)
    rows = np.empty(n)
    rows[order] = (2 * rank - n + 1) * ordered + ordered.sum() - ordered - 2 * below
    return rows


def _products_on_lines(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Σ_ij |x_i − x_j| |y_i − y_j| in O(n log n).

    In the order of x a pair i < j gives (x_j − x_i)(y_j − y_i), with a minus sign where y_j < y_i.  So it is enough to
    know for each j the number, Σx, Σy and Σxy of those before it that are lower in y.  They are found as in a merge
    sort: at each size of blocks those in a left half count for those of the right half that are higher.  The order by y
    within blocks of half the size is the old one, parted in two without a comparison.
    """
    order = np.argsort(x, kind="stable")
    x, y = x[order] - x.mean(), y[order] - y.mean()
    n = len(x)
    amounts = np.stack((np.ones(n), x, y, x * y))
    lower = np.zeros_like(amounts)
    inside = np.argsort(y, kind="stable")  # positions in x, block by block in the order of y; first a single block
    for bit in reversed(range(max(n - 1, 1).bit_length())):
        block, is_right = inside >> (bit + 1), (inside >> bit) & 1 == 1
        first = np.searchsorted(block, block)  # where the block of each entry begins
        running = np.zeros((4, n + 1))
        np.cumsum(np.where(is_right, 0, amounts[:, inside]), axis=1, out=running[:, 1:])
        lower[:, inside[is_right]] += (running[:, :-1] - running[:, first])[:, is_right]
        n_left = np.concatenate(([0], np.cumsum(~is_right)))
        lefts = n_left[:-1] - n_left[first]  # of the entry's block, before it
        size = np.minimum((block + 1) << (bit + 1), n) - (block << (bit + 1))
        in_left = np.minimum(size, 1 << bit)
        place = first + np.where(is_right, in_left + np.arange(n) - first - lefts, lefts)
        parted = np.empty_like(inside)
        parted[place] = inside
        inside = parted
    before = np.cumsum(amounts, axis=1) - amounts
    number, sum_x, sum_y, sum_xy = 2 * lower - before
    return float(2 * np.sum(x * y * number - x * sum_y - y * sum_x + sum_xy))


def _share(both: float, left: float, right: float) -> float:
    """A covariance over its sides' own, 0 where a side does not vary."""
    scale = np.sqrt(max(left, 0.0)) * np.sqrt(max(right, 0.0))
    return float(both / scale) if scale > 0 else 0.0


def _columns(values: ArrayLike, name: Literal["left", "right"]) -> NDArray[np.float64]:
    """Finite numbers, [items, columns], scaled so that squares neither overflow nor vanish."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the {name} side does not hold numbers", hint="Give an array [items, columns]") from error
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != MATRIX or not array.shape[1]:
        raise InputError(f"the {name} side has shape {array.shape}", hint="Expected [items] or [items, columns]")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise InputError(f"the {name} side holds a value that is no number", where=f"row {row}", hint="Leave it out")
    moved = array - array[:1]
    largest = float(np.abs(moved).max(initial=0.0))
    return moved / largest if largest > 0 else moved
