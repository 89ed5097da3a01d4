"""Rows of votes that are equal, found by one integer key an item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAMPLE_ITEMS = 20_000
MOST_DISTINCT_SHARE = 0.7  # in a sample; past this, looking for repeated rows costs more than it saves
KEY_LIMIT = 2**62
BLOCK_ITEMS = 2**15  # whose keys stay in cache while digits are added to them
MOST_COUNTED_KEYS = 2**22


def seem_distinct(votes: Any, extra: NDArray[np.integer] | None) -> bool:
    """Whether a sample of the rows shows few repeats."""
    n_items = votes.shape[0]
    if n_items <= SAMPLE_ITEMS:
        return False
    step = n_items // SAMPLE_ITEMS
    sample = row_keys(votes[::step], None if extra is None else extra[::step])
    return len(np.unique(sample)) > MOST_DISTINCT_SHARE * len(sample)


def row_keys(votes: Any, extra: NDArray[np.integer] | None) -> NDArray[np.int64]:
    """One integer an item, equal exactly where rows (and `extra`) are equal.  [items]."""
    if sp.issparse(votes):
        return _sparse_row_keys(votes, extra)
    keys, used = np.zeros(len(votes), dtype=np.int64), 1
    for columns in (votes,) if extra is None else (votes, extra[:, None]):
        base = int(columns.max()) + 2
        first = 0
        while first < columns.shape[1]:
            if used * base >= KEY_LIMIT:  # no room for another digit: number the distinct keys and go on from there
                distinct, keys = np.unique(keys, return_inverse=True)
                used = len(distinct)
            last = first
            while last < columns.shape[1] and used * base < KEY_LIMIT:
                last, used = last + 1, used * base
            _append_digits(keys, columns[:, first:last], base)
            first = last
    return keys


def _append_digits(keys: NDArray[np.int64], digits: NDArray[np.integer], base: int) -> None:
    """Each key · base^columns + the digits, which count from −1.  In place, by blocks of items that stay in cache."""
    for start in range(0, len(keys), BLOCK_ITEMS):
        block = keys[start : start + BLOCK_ITEMS]
        for column in digits[start : start + BLOCK_ITEMS].T:
            block *= base
            block += column
            block += 1


def group(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """First item of each distinct key in the keys' order, each item's group, and the groups' sizes.

    By counting where the keys are small numbers (ten times faster than sorting ten million of them), else by sorting.
    """
    low, high = int(keys.min()), int(keys.max())
    if low < 0 or high > max(MOST_COUNTED_KEYS, len(keys)):
        _, first, number, sizes = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        return first, number, sizes
    sizes = np.bincount(keys, minlength=high + 1)
    first_of_key = np.empty(high + 1, dtype=np.int64)
    first_of_key[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)  # the last write is the first item
    present = np.flatnonzero(sizes)
    group_of_key = np.cumsum(sizes > 0) - 1
    return first_of_key[present], group_of_key[keys], sizes[present]


def _sparse_row_keys(votes: sp.csr_array, extra: NDArray[np.integer] | None) -> NDArray[np.int64]:
    """A hash of each row, or the row's own number where the hash is found to merge rows that differ.  [items]."""
    mixers = _mixers(votes.shape[1] + 1)
    strengths = np.unique(votes.data, return_inverse=True)[1].astype(np.uint64) + np.uint64(1)
    terms = mixers[votes.indices] * strengths
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)))
    keys = sums[votes.indptr[1:]] - sums[votes.indptr[:-1]]
    if extra is not None:
        keys += mixers[-1] * (extra.astype(np.int64) + 1).astype(np.uint64)
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    merged = (votes[first][number] != votes).nnz > 0
    merged = merged or (extra is not None and bool(np.any(extra[first][number] != extra)))
    return np.arange(votes.shape[0]) if merged else keys.view(np.int64)


def _mixers(number: int) -> NDArray[np.uint64]:
    """A large odd random factor for each column, the same in every run."""
    return np.random.default_rng(0).integers(1, 2**62, size=number, dtype=np.uint64) * 2 + 1
