"""Ψ' diag(w) Ψ: how often two votes occur together, all that moment-based models need of the votes.

Three ways, each the fastest somewhere: tables of joint codes where labels are several, pairs of an item's votes where
votes are few, products of whole rows where columns are few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from labelfable.votes.maps import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

DENSE_PRODUCT_COLUMNS = 4096  # up to this many columns the answer is a dense matrix, past it a sparse one
MOST_PAIRED_CODES = 128  # of a group of sources: a table of two groups' codes stays in cache while it is filled
COST_OF_A_TABLE = 100  # one more table for each item, in entries of the product of two dense rows: measured
COST_OF_A_PAIR = 500  # one pair of votes, likewise
PAIRED_ITEMS = 2**14  # so that a block of Ψ stays in cache while its pairs are counted
BLOCK_ENTRIES = 2**22  # 16 MB of float32 at a time: stays in cache.  Counts up to 2^24 are exact in float32


def hard_products(
    votes: NDArray[np.integer], n_labels: int, weights: NDArray[np.floating]
) -> NDArray[np.floating] | sp.csr_array:
    """The products of hard votes.  Shapes: [n, sources] (−1 = abstain), [n] -> [columns, columns]."""
    n_items, n_sources = votes.shape
    layout = Layout(n_sources, n_labels)
    grouped = Layout.for_codes(n_sources, n_labels, most=MOST_PAIRED_CODES)
    n_codes = (n_labels + 1) ** grouped.group_size
    if layout.n_columns <= DENSE_PRODUCT_COLUMNS and n_items >= n_codes**2:  # else tables cost more than they count
        votes_each = np.count_nonzero(votes >= 0) / n_items
        others = min(layout.n_columns**2, COST_OF_A_PAIR * votes_each**2)
        if COST_OF_A_TABLE * grouped.n_groups**2 < others:
            return joint_products(votes, n_labels, weights, grouped.group_size)
    return vote_products(layout.columns(votes), weights)


def joint_products(
    votes: NDArray[np.integer], n_labels: int, weights: NDArray[np.floating], size: int
) -> NDArray[np.floating]:
    """The products from how often joint codes of `size` sources occur with those of `size` others.

    Shapes: [n, sources], [n] -> [columns, columns].
    """
    n_items, n_sources = votes.shape
    symbols, n_groups = n_labels + 1, -(-n_sources // size)
    codes = np.zeros((n_groups, n_items), dtype=np.intp)
    for source in range(n_groups * size):
        own = codes[source // size]
        own *= symbols
        if source < n_sources:  # in a last group with fewer sources the missing ones abstain
            own += votes[:, source]
            own += 1
    votes_of_codes = np.indices((symbols,) * size).reshape(size, -1).T - 1
    holds = Layout(size, n_labels).columns(votes_of_codes).T.tocsr()  # sparse: BLAS would start threads for each table
    n_columns, n_codes = holds.shape
    counted = None if (weights == 1).all() else weights
    total = np.empty((n_groups, n_columns, n_groups, n_columns))
    for first in range(n_groups):
        rows = codes[first] * n_codes
        for second in range(first, n_groups):
            table = np.bincount(rows + codes[second], counted, n_codes**2).reshape(n_codes, n_codes)
            block = holds @ (holds @ table).T
            total[second, :, first], total[first, :, second] = block, block.T
    spoken = slice(n_sources * n_labels)
    return total.reshape(n_groups * n_columns, -1)[spoken, spoken]


def vote_products(incidence: sp.csr_array, weights: NDArray[np.floating]) -> NDArray[np.floating] | sp.csr_array:
    """Ψ' diag(w) Ψ of any Ψ.  Shapes: [n, columns], [n] -> [columns, columns].

    Dense where the columns are few, sparse past that: 1,200 sources × 56 labels would need 36 GB dense.  Where votes
    are few the pairs of an item's votes are counted, else whole rows are multiplied.
    """
    if incidence.shape[1] > DENSE_PRODUCT_COLUMNS:
        weighted = incidence.multiply(weights[:, None]).tocsr()
        return sp.csr_array(incidence.T @ weighted)
    total = np.zeros((incidence.shape[1], incidence.shape[1]))
    few = total.size > COST_OF_A_PAIR * (incidence.nnz / max(1, incidence.shape[0])) ** 2
    if few:
        for first in range(0, incidence.shape[0], PAIRED_ITEMS):
            block = incidence[first : first + PAIRED_ITEMS]
            weighted = sp.csr_array(block.multiply(weights[first : first + PAIRED_ITEMS, None]))
            total += (block.T.tocsr() @ weighted).toarray()
        return total
    rows = BLOCK_ENTRIES // max(1, incidence.shape[1])
    exact = bool(np.all(weights == 1) and np.all(incidence.data == 1))
    for first in range(0, incidence.shape[0], rows):
        block = incidence[first : first + rows].astype(np.float32 if exact else np.float64).toarray()
        weighted = block if exact else block * weights[first : first + rows, None]
        total += block.T @ weighted
    return total
