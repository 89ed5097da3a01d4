"""Cutting items into shards: the unit of work, and of summation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from labelfable.numerics.random import BLOCK_ITEMS
from labelfable.votes.census import VoteCensus
from labelfable.votes.maps import VoteMaps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

FEWEST_ITEMS = 4 * BLOCK_ITEMS  # fits a core's cache together with its responsibilities
MOST_ITEMS = 64 * BLOCK_ITEMS


@dataclass(frozen=True)
class Shard:
    """Consecutive rows of a table."""

    start: int
    """Number of the first row."""
    maps: VoteMaps
    weights: NDArray[np.floating]
    """How many items each row stands for, [rows]."""
    gold: NDArray[np.integer] | None
    """Known class of each row, −1 where unknown, [rows]."""

    @cached_property
    def is_weighted(self) -> bool:
        """Whether some row stands for more or less than one item."""
        return bool((self.weights != 1).any())

    @property
    def stop(self) -> int:
        """Number past the last row."""
        return self.start + self.maps.n_items


class Source(Protocol):
    """What stored shards are read from.  It is small: places of files, and what is done to their rows."""

    def load(self, start: int, stop: int, gold: NDArray[np.integer] | None) -> Any:
        """The shard of the items [start, stop)."""
        ...


class LazyShard:
    """What stands for a shard that is not in memory."""

    def load(self) -> Any:
        """The shard itself."""
        raise NotImplementedError


@dataclass(frozen=True)
class StoredShard(LazyShard):
    """A shard that is read from the user's own files when it is needed."""

    source: Source
    start: int
    stop: int
    gold: NDArray[np.integer] | None = None

    def load(self) -> Any:
        """The shard itself."""
        return self.source.load(self.start, self.stop, self.gold)


@dataclass(frozen=True)
class StoredShards:
    """Where shards of stored votes are read from: the votes, and how a model hears them."""

    census: VoteCensus

    @property
    def memory(self) -> int:
        """Bytes that a fit may have resident."""
        return self.census.stored_votes.memory

    def load(self, start: int, stop: int, gold: NDArray[np.integer] | None) -> Shard:
        """The shard of the items [start, stop)."""
        return self.shard_of(self.census.rows_of(start, stop).votes, gold, start)

    def shard_of(self, votes: Any, gold: NDArray[np.integer] | None, start: int) -> Shard:
        """A shard of these rows."""
        table = self.census.with_rows(votes)
        return Shard(start, table.maps(), np.ones(table.n_items), gold)

    def bytes_of(self, n_items: int) -> int:
        """Bytes of a shard of so many items: votes, Ψ, a weight, and perhaps a known class."""
        return n_items * (4 * self.census.layout.n_groups + self.census.n_sources + 20)

    def pack(self, shard: Shard) -> dict[str, Any]:
        """A shard as arrays."""
        votes = shard.maps.votes
        arrays = {"votes": votes} if not sp.issparse(votes) else _parts(votes)
        return arrays if shard.gold is None else arrays | {"gold": shard.gold}

    def unpack(self, arrays: Any, start: int) -> Shard:
        """The shard again."""
        layout = self.census.layout
        votes = arrays.get("votes")
        if votes is None:
            parts = arrays["data"], arrays["indices"], arrays["indptr"]
            votes = sp.csr_array(parts, shape=(len(parts[2]) - 1, layout.n_columns))
        return Shard(start, VoteMaps(layout, votes), np.ones(votes.shape[0]), arrays.get("gold"))


def _parts(votes: sp.csr_array) -> dict[str, Any]:
    return {"data": votes.data, "indices": votes.indices, "indptr": votes.indptr}


def loaded(piece: Any) -> Any:
    """A shard, read where it is stored."""
    return piece.load() if isinstance(piece, LazyShard) else piece


def cut_stored(source: Source, n_items: int, gold: NDArray[np.integer] | None, rows_each: int) -> list[StoredShard]:
    """Consecutive items of a source, each shard to be read on its own."""
    return [
        StoredShard(
            source, start, min(start + rows_each, n_items), None if gold is None else gold[start : start + rows_each]
        )
        for start in range(0, n_items, rows_each)
    ]


def shard_items(statistics_size: int, fewest: int | None = None) -> int:
    """Rows of one shard.

    It depends on the model's shape alone, never on how many threads or machines there are, so that sums come out the
    same everywhere.  Large statistics (1,200 sources × 56 classes) get longer shards, else adding up would cost more
    than the work.
    """
    items = fewest or FEWEST_ITEMS
    while items < MOST_ITEMS and items * 16 < statistics_size:
        items *= 2
    return items


def cut(table: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None, rows_each: int) -> list[Any]:
    """The table's rows in consecutive shards."""
    if isinstance(table, VoteCensus):
        return cut_stored(StoredShards(table), table.stored_items, gold, rows_each)
    return [
        Shard(
            start,
            table.maps(start, start + rows_each),
            weights[start : start + rows_each],
            None if gold is None else gold[start : start + rows_each],
        )
        for start in range(0, table.n_items, rows_each)
    ]
