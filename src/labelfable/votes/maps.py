"""Votes as two linear maps.

With Ψ ∈ R^{n × (sources·labels)}, one row an item and a 1 where a source gave a label (a weight where the vote is
soft):

    evidence(W) = Ψ W        what the votes say of each item, given a weight for each (source, label, component)
    counts(R)   = Ψ' R       how often each source gave each label, given the items' responsibilities

Neighbouring sources are packed into groups: a group of g sources with s = labels + 1 symbols each (abstain is symbol
0) is one column block of s^g joint codes, so that an item costs one gather a group instead of one a source.  Both maps
stay exact: a joint code's weight is the sum of its sources' weights, and a source's counts are sums over joint codes.

Where silence counts as a label, Ψ has one more column, of ones: its weight is that of everybody's silence, a vote's
weight is then its difference from silence, and how often a source was silent is what is left of the whole.  So silence
costs one entry an item, however few votes there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.numerics.namespace import Array, through_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
MOST_CODES = 512  # measured: past this, building and folding the joint codes costs more than the gathers saved
BLOCK_ITEMS = 4096  # the joint codes of so many items stay in cache while they are put together
SHARED_ONES = 2**18  # entries of the longest Ψ that borrows its ones: 2 MB


@dataclass(frozen=True)
class Layout:
    """How sources and labels lie along the columns of Ψ."""

    n_sources: int
    n_labels: int
    """Labels that are given aloud; silence is one more where it counts."""
    group_size: int = 1
    silence: bool = False
    """Whether not voting is a label, the last one."""

    @classmethod
    def for_codes(cls, n_sources: int, n_labels: int, *, silence: bool = False, most: int = MOST_CODES) -> Layout:
        """The widest grouping whose joint codes stay few."""
        size = 1
        while size < n_sources and (n_labels + 1) ** (size + 1) <= most:
            size += 1
        return cls(n_sources, n_labels, size, silence)

    @property
    def single(self) -> Layout:
        """The same with a column for each (source, label)."""
        return replace(self, group_size=1)

    @property
    def is_packed(self) -> bool:
        """Whether columns are joint codes of several sources."""
        return self.group_size > 1

    @property
    def n_groups(self) -> int:
        """Number of column blocks."""
        return -(-self.n_sources // self.group_size)

    @property
    def n_codes(self) -> int:
        """Joint codes in one group."""
        return int((self.n_labels + 1) ** self.group_size) if self.is_packed else self.n_labels

    @property
    def n_columns(self) -> int:
        """Columns of Ψ."""
        return self.n_groups * self.n_codes + self.silence

    def columns(self, codes: NDArray[np.integer]) -> sp.csr_array:
        """Ψ of hard votes.  Shapes: [n, sources] (−1 = abstain) -> [n, columns], one entry a group that votes."""
        indices, indptr = self._entries(codes)
        return matrix_of(sp.csr_array, (ones(len(indices)), indices, indptr), (len(codes), self.n_columns))

    def _entries(self, codes: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Where Ψ has its ones: their columns, row by row, and where each row begins among them.

        Shapes: [n, sources] -> [entries], [n + 1].
        """
        firsts = range(0, max(len(codes), 1), BLOCK_ITEMS)
        parts, ends = zip(*(self._block_entries(codes[first : first + BLOCK_ITEMS]) for first in firsts), strict=True)
        before = np.cumsum([0, *(len(part) for part in parts)])
        wide = np.int32 if before[-1] < np.iinfo(np.int32).max else np.int64  # both of one type, or SciPy copies them
        indptr = [np.zeros(1, wide), *((end + shift).astype(wide) for end, shift in zip(ends, before, strict=False))]
        return np.concatenate(parts, dtype=wide), np.concatenate(indptr)

    def _block_entries(self, codes: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Columns of the entries of a few rows of Ψ, row by row, and where each row ends among them."""
        symbols = self.n_labels + 1
        joint = np.zeros((len(codes), self.n_groups + self.silence), dtype=np.int32)
        for place in range(self.group_size):
            members = codes[:, place :: self.group_size]
            joint[:, : self.n_groups] *= symbols  # in a last group with fewer sources the missing ones abstain
            joint[:, : members.shape[1]] += members
            joint[:, : members.shape[1]] += 1
        votes = joint > 0
        if self.silence:
            votes[:, -1] = True  # the column of ones
        first_column = np.arange(joint.shape[1], dtype=np.int32) * self.n_codes
        if not self.is_packed:
            first_column[: self.n_groups] -= 1  # silence is symbol 0 and has no column of its own
        joint += first_column
        ends = np.cumsum(votes.ravel(), dtype=np.int32)[joint.shape[1] - 1 :: joint.shape[1]]
        return joint.ravel()[np.flatnonzero(votes)], ends

    def pack(self, weights: Array) -> Array:
        """Weights of joint codes: each the sum over its sources.  Shapes: [sources, labels, C] -> [columns, C]."""
        if not isinstance(weights, np.ndarray):
            return through_numpy(self.pack, weights)
        if self.silence:
            spoken = replace(self, silence=False).pack(weights[:, :-1] - weights[:, -1:])
            return np.vstack((spoken, weights[:, -1].sum(axis=0)))
        components = weights.shape[2]
        if not self.is_packed:
            return np.ascontiguousarray(weights).reshape(self.n_columns, components)
        symbols = self.n_labels + 1
        padded = np.zeros((self.n_groups * self.group_size, symbols, components), dtype=weights.dtype)
        padded[: self.n_sources, 1:] = weights
        padded = padded.reshape(self.n_groups, self.group_size, symbols, components)
        packed = padded[:, 0]
        for place in range(1, self.group_size):
            packed = packed[:, :, None, :] + padded[:, place, None, :, :]
            packed = packed.reshape(self.n_groups, -1, components)
        return packed.reshape(self.n_columns, components)

    def unpack(self, counts: Array) -> Array:
        """Counts of single sources from those of joint codes.  Shapes: [columns, C] -> [sources, labels, C].

        Where silence counts as a label, counts must be of responsibilities that are not negative.
        """
        if not isinstance(counts, np.ndarray):
            return through_numpy(self.unpack, counts)
        if self.silence:
            spoken = replace(self, silence=False).unpack(counts[:-1])
            silent = np.maximum(counts[-1] - spoken.sum(axis=1), 0)  # rounding may leave a hair below zero
            return np.concatenate((spoken, silent[:, None]), axis=1)
        components = counts.shape[1]
        if not self.is_packed:
            return counts.reshape(self.n_sources, self.n_labels, components)
        symbols = self.n_labels + 1
        single = np.empty((self.n_groups, self.group_size, symbols, components), dtype=counts.dtype)
        for place in range(self.group_size):
            before, after = symbols**place, symbols ** (self.group_size - 1 - place)
            shaped = counts.reshape(self.n_groups, before, symbols, after, components)
            single[:, place] = shaped.sum(axis=(1, 3))
        return single.reshape(-1, symbols, components)[: self.n_sources, 1:]


@dataclass(frozen=True)
class VoteMaps:
    """The two maps of some items.  `evidence` takes packed weights, `counts` gives packed counts.

    Both answer in the namespace of their argument; Ψ itself is SciPy's.  It is made when first asked for, by whichever
    thread runs the shard, and stays in memory.
    """

    layout: Layout
    votes: NDArray[np.integer] | sp.csr_array
    """Hard votes, [n, sources], or Ψ."""

    @property
    def n_items(self) -> int:
        """Rows of Ψ."""
        return int(self.votes.shape[0])

    @property
    def incidence(self) -> sp.csr_array:
        """Ψ, [n, columns]."""
        return self._factors_in(DOUBLE)[0]

    @cached_property
    def _factors(self) -> dict[np.dtype[Any], tuple[sp.csr_array, sp.csc_array]]:
        """What is made so far.  A cached property of its own for Ψ would hold up all threads before Python 3.12."""
        return {}

    def _factors_in(self, dtype: np.dtype[Any]) -> tuple[sp.csr_array, sp.csc_array]:
        """Ψ and Ψ' with entries of some precision, sharing memory: a product of two precisions copies one."""
        if dtype not in self._factors:
            own: Any = self.votes
            is_hard = not sp.issparse(own)
            if is_hard:
                own = self.layout.columns(np.asarray(own)) if dtype == DOUBLE else self.incidence
            entries = ones(len(own.data), dtype) if is_hard else own.data.astype(dtype, copy=False)
            parts = entries, own.indices, own.indptr
            factors = matrix_of(sp.csr_array, parts, own.shape), matrix_of(sp.csc_array, parts, own.shape[::-1])
            self._factors[dtype] = factors
        return self._factors[dtype]

    def evidence(self, packed: Array) -> Array:
        """Ψ W, in the precision of W.  Shapes: [columns, C] -> [n, C]."""
        return through_numpy(lambda weights: np.asarray(self._factors_in(weights.dtype)[0] @ weights), packed)

    def counts(self, responsibilities: Array) -> Array:
        """Ψ' R, summed in the precision of R, given in double.  Shapes: [n, C] -> [columns, C]."""

        def count(shares: NDArray[np.floating]) -> NDArray[np.floating]:
            return np.asarray(self._factors_in(shares.dtype)[1] @ shares, DOUBLE)

        return through_numpy(count, responsibilities)


def matrix_of(kind: Any, parts: tuple[Any, Any, Any], shape: tuple[int, int]) -> Any:
    """A compressed matrix in the memory of its parts: entries, their numbers, where each row (column) begins.

    SciPy's own constructor checks them, and copies those that are a short piece of something longer, which here took
    as long as a product.
    """
    matrix = kind(shape, dtype=parts[0].dtype)
    matrix.data, matrix.indices, matrix.indptr = parts
    return matrix


def rows_of(incidence: sp.csr_array, start: int, stop: int | None) -> sp.csr_array:
    """Some rows of Ψ, in its memory."""
    ends = incidence.indptr[start : None if stop is None else stop + 1]
    inside = slice(ends[0], ends[-1])
    parts = (incidence.data[inside], incidence.indices[inside], ends - ends[0])
    return matrix_of(sp.csr_array, parts, (len(ends) - 1, incidence.shape[1]))


def ones(number: int, dtype: np.dtype[Any] = DOUBLE) -> NDArray[np.floating]:
    """Ones, the same memory for all short arrays: a million items in shards need them once, not sixty times."""
    return _shared_ones(dtype)[:number] if number <= SHARED_ONES else np.ones(number, dtype)


@cache
def _shared_ones(dtype: np.dtype[Any]) -> NDArray[np.floating]:
    ones = np.ones(SHARED_ONES, dtype)
    ones.flags.writeable = False
    return ones
