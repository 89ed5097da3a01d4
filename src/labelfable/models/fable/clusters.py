"""k-means, seeded, over dense or sparse rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from labelfable.numerics.kernels import SAME_POINT
from labelfable.votes.features import BLOCK_ENTRIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.numerics.scaling import Rows

SEED_SHARE = 8  # seeds are drawn one by one at first, later an eighth of those drawn before at once, in one product
LLOYD_STEPS = 10


class Clusters:
    """k-means over rows, each stretched by a factor of its own; rows may be sparse."""

    def __init__(self, rows: Rows, stretch: NDArray[np.floating], sizes: NDArray[np.floating]) -> None:
        self.rows = rows
        self.stretch = stretch
        self.sizes = sizes
        self.same = SAME_POINT * float(sizes.max()) * 10

    def seed(self, n_centres: int, generator: np.random.Generator) -> NDArray[np.floating]:
        """Different rows, drawn in proportion to their squared distance from those drawn before, several at a time."""
        chosen = [int(generator.integers(len(self.sizes)))]
        nearest = self.distances(self.dense(chosen))[:, 0]
        while len(chosen) < n_centres and nearest.max() > self.same:
            apart = np.where(nearest > self.same, nearest, 0.0)
            with np.errstate(divide="ignore"):
                keys = generator.exponential(size=len(apart)) / apart  # the least keys are a draw without replacement
            at_once = 1 + len(chosen) // SEED_SHARE
            wanted = min(at_once, n_centres - len(chosen), int(np.count_nonzero(apart)))
            drawn = np.argsort(keys, kind="stable")[:wanted].tolist()
            between = self.distances(self.dense(drawn))
            fresh = [p for k, p in enumerate(drawn) if k == 0 or between[p, :k].min() > self.same]
            nearest = np.minimum(nearest, between.min(axis=1))
            nearest[drawn] = 0.0
            chosen += fresh
        return self.dense(chosen)

    def improve(self, centres: NDArray[np.floating]) -> NDArray[np.floating]:
        """Lloyd's steps: every centre to the mean of the rows that it is nearest to."""
        before = None
        for _ in range(LLOYD_STEPS):
            nearest = self.nearest(centres)
            if before is not None and np.array_equal(nearest, before):
                break
            members = np.bincount(nearest, minlength=len(centres))
            belongs = sp.csr_array(
                (self.stretch, (np.arange(len(nearest)), nearest)), shape=(len(nearest), len(centres))
            )
            means = self.rows.transposed_times(belongs).T / np.maximum(members, 1)[:, None]
            centres = np.where(members[:, None] > 0, means, centres)
            before = nearest
        return centres

    def nearest(self, centres: NDArray[np.floating]) -> NDArray[np.integer]:
        """The number of each row's nearest centre."""
        half = np.vecdot(centres, centres) / 2
        across = np.ascontiguousarray(centres.T)
        found = np.empty(len(self.sizes), dtype=np.int64)
        step = max(1, BLOCK_ENTRIES // len(centres))
        for first in range(0, len(found), step):
            here = slice(first, first + step)
            cross = self.rows.part(here).times(across) * self.stretch[here, None]
            found[here] = (half - cross).argmin(axis=1)
        return found

    def distances(self, centres: NDArray[np.floating]) -> NDArray[np.floating]:
        """Squared distances, [n, P]."""
        cross = self.rows.times(np.ascontiguousarray(centres.T)) * self.stretch[:, None]
        squared = self.sizes[:, None] + np.vecdot(centres, centres) - 2 * cross
        return np.asarray(np.maximum(squared, 0.0))

    def dense(self, chosen: list[int]) -> NDArray[np.floating]:
        """Some of the rows, stretched."""
        return np.asarray(self.rows.part(np.array(chosen)).dense() * self.stretch[chosen, None])
