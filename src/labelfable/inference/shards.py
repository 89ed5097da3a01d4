"""Cutting items into shards: the unit of work, and of summation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from labelfable.numerics.random import BLOCK_ITEMS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from labelfable.votes.maps import VoteMaps
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


def shard_items(statistics_size: int, fewest: int = FEWEST_ITEMS) -> int:
    """Rows of one shard.

    It depends on the model's shape alone, never on how many threads or machines there are, so that sums come out the
    same everywhere.  Large statistics (1,200 sources × 56 classes) get longer shards, else adding up would cost more
    than the work.
    """
    items = fewest
    while items < MOST_ITEMS and items * 16 < statistics_size:
        items *= 2
    return items


def cut(
    table: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None, rows_each: int
) -> list[Shard]:
    """The table's rows in consecutive shards."""
    return [
        Shard(
            start,
            table.maps(start, start + rows_each),
            weights[start : start + rows_each],
            None if gold is None else gold[start : start + rows_each],
        )
        for start in range(0, table.n_items, rows_each)
    ]
