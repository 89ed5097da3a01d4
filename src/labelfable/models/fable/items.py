"""Items in shards: their votes, their columns of the processes, their start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.inference.shards import cut, shard_items
from labelfable.models.fable.projection import Projected
from labelfable.models.fable.steps import FableShard
from labelfable.numerics.random import BLOCK_ITEMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable


def cut_items(
    rows: VoteTable, gold: NDArray[np.integer] | None, projected: Projected, start: NDArray[np.floating] | None
) -> list[FableShard]:
    """Items in shards whose columns fit a core's cache, each with its votes."""
    shards = cut(rows, np.ones(rows.n_items), gold, shard_items(rows.layout.n_columns, BLOCK_ITEMS))
    return [
        FableShard(
            shard,
            rows_of(projected, slice(shard.start, shard.stop)),
            None if start is None else start[shard.start : shard.stop],
        )
        for shard in shards
    ]


Scene = tuple["VoteTable", "NDArray[np.integer] | None", Projected]
"""Items: their votes, their known classes, their columns."""


def part_of(scene: Scene, chosen: NDArray[np.integer]) -> Scene:
    """Some items, in order; all of them are not copied."""
    table, gold, projected = scene
    if len(chosen) == table.n_items:
        return scene
    return table.rows(chosen), None if gold is None else gold[chosen], rows_of(projected, chosen)


def rows_of(projected: Projected, chosen: Any) -> Projected:
    """Some items' columns: a slice or numbers."""
    return Projected(projected.phi[chosen], projected.residual[chosen])


def features_or_none(features: Any, n_items: int) -> Any:
    """No features are features without a column: only the constant is left of each process."""
    return np.zeros((n_items, 0)) if features is None else features
