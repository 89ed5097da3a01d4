"""Draws that belong to blocks of items, whoever holds the items."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable.numerics.random import BLOCK_ITEMS, block_generators, seed_of


def draws_of(seed: int, start: int, stop: int) -> np.ndarray:
    """What a holder of the items [start, stop) draws, when both ends are block edges or the end of the items."""
    values = np.full(stop - start, np.nan)
    for rows, generator in block_generators(seed, start, stop):
        values[rows] = generator.random(rows.stop - rows.start)
    return values


@settings(max_examples=30, deadline=None)
@given(
    n_items=st.integers(1, 5 * BLOCK_ITEMS),
    cuts=st.lists(st.integers(1, 4), max_size=3, unique=True),
    seed=st.integers(0, 2**31),
)
def test_draws_do_not_depend_on_how_items_are_cut(n_items, cuts, seed):
    edges = [0, *sorted(cut * BLOCK_ITEMS for cut in cuts if cut * BLOCK_ITEMS < n_items), n_items]
    parts = [draws_of(seed, start, stop) for start, stop in pairwise(edges)]
    whole = draws_of(seed, 0, n_items)
    assert np.array_equal(np.concatenate(parts), whole)
    assert not np.isnan(whole).any()


@settings(deadline=None)
@given(start=st.integers(0, 3 * BLOCK_ITEMS), length=st.integers(1, 3 * BLOCK_ITEMS))
def test_blocks_cover_every_item_once(start, length):
    seen = np.zeros(length, dtype=int)
    for rows, _ in block_generators(0, start, start + length):
        seen[rows] += 1
        assert (rows.start + start) // BLOCK_ITEMS == (rows.stop - 1 + start) // BLOCK_ITEMS
    assert np.all(seen == 1)


def test_blocks_and_seeds_differ():
    one = draws_of(0, 0, 3 * BLOCK_ITEMS).reshape(3, -1)
    assert len(np.unique(one)) == one.size
    assert not np.intersect1d(one, draws_of(1, 0, 3 * BLOCK_ITEMS)).size


def test_no_items_need_no_generator():
    assert block_generators(0, 0, 0) == []


@pytest.mark.parametrize("state", [7, np.int64(7), np.uint8(7)])
def test_an_integer_is_its_own_seed(state):
    assert seed_of(state) == 7


def test_generators_give_another_seed_each_time_and_start_alike():
    for kind in (np.random.default_rng, np.random.RandomState):
        state, twin = kind(3), kind(3)
        drawn = [seed_of(state) for _ in range(4)]
        assert drawn == [seed_of(twin) for _ in range(4)]
        assert len(set(drawn)) == 4


def test_none_is_a_fresh_seed():
    assert len({seed_of(None) for _ in range(4)}) > 1
