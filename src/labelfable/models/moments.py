"""Second moments of the votes: all that MeTaL and FlyingSquid need of them.

With Ψ the votes as a matrix (one column a source and label), O = Ψ' diag(w) Ψ / n holds how often two votes occur
together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.inference.execution import sum_over
from labelfable.votes.products import hard_products, vote_products

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

SLAB_ITEMS = 2**17  # counted at a time


@dataclass(frozen=True)
class Moments:
    """How often votes occur together.  Columns are numbered source · labels + label."""

    products: Any
    """O, [columns, columns], dense or sparse."""
    n_items: float
    n_sources: int
    n_labels: int

    @property
    def rates(self) -> NDArray[np.floating]:
        """Share of the items that get each vote.  [columns]."""
        return np.asarray(self.products.diagonal())

    def block(self, first: int, second: int) -> NDArray[np.floating]:
        """O between two sources, [labels, labels]."""
        rows, columns = (slice(j * self.n_labels, (j + 1) * self.n_labels) for j in (first, second))
        part = self.products[rows, columns]
        return np.asarray(part.toarray() if sp.issparse(part) else part)

    def between(self, components: NDArray[np.integer]) -> Any:
        """O with zeros where both sources are of one component.  Shapes: [sources] -> [columns, columns]."""
        of_column = np.repeat(components, self.n_labels)
        if sp.issparse(self.products):
            products = self.products
            rows = np.repeat(np.arange(products.shape[0], dtype=np.int32), np.diff(products.indptr))
            kept = of_column[rows] != of_column[products.indices]
            # 32-bit indices, which fit in any matrix that fits in memory here, make the product with X twice as fast
            entries = (products.data[kept], (rows[kept], products.indices[kept].astype(np.int32)))
            return sp.csr_array(entries, shape=products.shape)
        shape = (self.n_sources, self.n_labels, self.n_sources, self.n_labels)
        masked = np.array(self.products)
        masked.reshape(shape).swapaxes(1, 2)[components[:, None] == components] = 0
        return masked


def vote_moments(rows: VoteTable, weights: NDArray[np.floating]) -> Moments:
    """The moments of a table whose rows stand for `weights` items each."""
    n_items = float(weights.sum())
    products: Any
    if rows.is_dense:
        votes = np.asarray(rows.votes)
        slabs = [slice(first, first + SLAB_ITEMS) for first in range(0, rows.n_items, SLAB_ITEMS)]
        products = sum_over(slabs, lambda slab: hard_products(votes[slab], rows.n_spoken, weights[slab]), None)
    else:
        products = vote_products(rows.plain_incidence, weights)
    products /= n_items
    return Moments(products, n_items, rows.n_sources, rows.n_spoken)
