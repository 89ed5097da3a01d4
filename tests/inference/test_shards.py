"""Cuts: every item once, on block edges, sized by the model's shape alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable import read_votes
from labelfable.inference.shards import FEWEST_ITEMS, MOST_ITEMS, cut, shard_items
from labelfable.numerics.random import BLOCK_ITEMS
from tests.crowds import planted_votes
from tests.tolerances import assert_close


@settings(deadline=None)
@given(size=st.integers(0, 10**9))
def test_shards_end_on_block_edges_and_stay_within_limits(size):
    items = shard_items(size)
    assert items % BLOCK_ITEMS == 0
    assert FEWEST_ITEMS <= items <= MOST_ITEMS
    assert items == MOST_ITEMS or items * 16 >= size  # adding up costs little beside the work
    assert items == FEWEST_ITEMS or items * 8 < size  # and no longer than that needs


@settings(deadline=None)
@given(one=st.integers(0, 10**9), other=st.integers(0, 10**9))
def test_larger_statistics_never_get_shorter_shards(one, other):
    small, large = sorted((one, other))
    assert shard_items(small) <= shard_items(large)


@pytest.mark.parametrize("rows_each", [1, 7, 40, 41, 1000])
@pytest.mark.parametrize("with_gold", [False, True])
def test_shards_hold_every_row_once_in_order(rows_each, with_gold):
    votes, truth = planted_votes(41, [0.8, 0.7, 0.6], 3)
    table = read_votes(votes)
    weights = np.arange(1.0, 42.0)
    shards = cut(table, weights, truth if with_gold else None, rows_each)
    assert [shard.start for shard in shards] == list(range(0, 41, rows_each))
    assert [shard.stop for shard in shards] == [*range(rows_each, 41, rows_each), 41]
    assert np.array_equal(np.concatenate([shard.weights for shard in shards]), weights)
    if with_gold:
        assert np.array_equal(np.concatenate([shard.gold for shard in shards]), truth)
    else:
        assert all(shard.gold is None for shard in shards)
    table_of_weights = np.random.default_rng(0).normal(size=(3, 3, 2))
    packed = table.layout.pack(table_of_weights)
    assert_close(
        np.concatenate([shard.maps.evidence(packed) for shard in shards]), table.evidence(table_of_weights), "sums"
    )
