"""The two linear maps of votes, against loops: dense and packed, sparse, soft, with silence as a label."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable.votes import VoteTable, maps, read_votes
from labelfable.votes.maps import Layout
from tests.crowds import planted_votes, soft_of
from tests.oracles import votes as oracle
from tests.tolerances import assert_close

N_ITEMS = 23
N_COMPONENTS = 3

# labels, sources, sources that share a column block; the last block is ragged except in "exact"
SHAPES = {
    "blocks of 5": (2, 11, 5),
    "blocks of 4": (3, 6, 4),
    "blocks of 3": (7, 7, 3),
    "blocks of 3, exact": (7, 6, 3),
    "blocks of 2": (10, 5, 2),
    "blocks of 1": (30, 3, 1),
    "one source": (4, 1, 1),
    "one block, not full": (2, 3, 3),
    "one label": (1, 13, 9),
}
FORMS = ("dense", "sparse", "soft")


def table_of(form: str, n_labels: int, n_sources: int) -> tuple[VoteTable, np.ndarray]:
    """A table of votes, and the same as a cube for the oracle.  Its first item and its first source have no vote."""
    votes = np.random.default_rng(0).integers(-1, n_labels, (N_ITEMS, n_sources))
    votes[0] = -1
    if n_sources > 1:
        votes[:, 0] = -1
    if form == "soft":
        cube = soft_of(votes, n_labels)
        return read_votes(cube), cube
    cube = oracle.cube_of(votes, n_labels)
    names = tuple(map(str, range(n_sources)))
    stored = votes if form == "dense" else sp.csr_array(cube.reshape(N_ITEMS, -1))
    return VoteTable(stored, np.arange(n_labels), names, np.eye(n_labels)), cube


@pytest.fixture(
    params=[(shape, form, silence) for shape in SHAPES for form in FORMS for silence in (False, True)],
    ids=lambda case: f"{case[1]}, {case[0]}{', silence' if case[2] else ''}",
)
def case(request):
    shape, form, silence = request.param
    n_labels, n_sources, group_size = SHAPES[shape]
    table, cube = table_of(form, n_labels, n_sources)
    assert table.layout.group_size == (group_size if form == "dense" else 1)
    return (table.with_abstain_as_label(), oracle.with_silence(cube)) if silence else (table, cube)


def random_weights(table: VoteTable, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(table.n_sources, table.n_labels, N_COMPONENTS))


def random_shares(table: VoteTable) -> np.ndarray:
    return np.random.default_rng(2).dirichlet(np.ones(N_COMPONENTS), size=table.n_items)


def test_evidence_is_what_the_loops_say(case):
    table, cube = case
    weights = random_weights(table)
    assert_close(table.evidence(weights), oracle.evidence(cube, weights))


def test_counts_are_what_the_loops_say(case):
    table, cube = case
    shares = random_shares(table)
    assert_close(table.counts(shares), oracle.counts(cube, shares))


def test_rounding_leaves_no_negative_count_of_silence():
    votes, _ = planted_votes(500, [0.7], 4, coverage=1.0)
    table = read_votes(np.repeat(votes, 8, axis=1)).with_abstain_as_label()  # nobody is ever silent
    shares = np.random.default_rng(2).dirichlet(np.ones(N_COMPONENTS), size=500)
    counts = table.counts(shares)
    assert (shares.sum(axis=0) - counts[:, :-1].sum(axis=1)).min() < 0  # what is left of the whole: a hair too little
    assert counts.min() == 0


def test_the_maps_are_adjoint(case):
    table, _ = case
    weights, shares = random_weights(table), random_shares(table)
    assert_close(np.sum(table.evidence(weights) * shares), np.sum(weights * table.counts(shares)))


def test_maps_of_rows_are_rows_of_the_maps(case):
    table, _ = case
    weights, shares = random_weights(table), random_shares(table)
    cuts = (0, 1, 9, N_ITEMS)
    parts = [table.maps(first, last) for first, last in pairwise(cuts)]
    assert [part.n_items for part in parts] == [1, 8, N_ITEMS - 9]
    packed = table.layout.pack(weights)
    assert_close(np.concatenate([part.evidence(packed) for part in parts]), table.evidence(weights))
    added = sum(part.counts(shares[slice(*cut)]) for part, cut in zip(parts, pairwise(cuts), strict=True))
    assert_close(table.layout.unpack(added), table.counts(shares))


def test_evidence_follows_float32(case):
    table, cube = case
    weights = random_weights(table).astype(np.float32)
    assert table.layout.pack(weights).dtype == np.float32
    assert_close(table.evidence(weights).astype(np.float32), oracle.evidence(cube, weights).astype(np.float32))


def test_counts_of_single_precision_come_in_double(case):
    table, cube = case
    shares = random_shares(table).astype(np.float32)
    counts = table.maps().counts(shares)
    assert counts.dtype == np.float64
    expected = oracle.counts(cube, shares.astype(np.float64)).astype(np.float32)
    assert_close(table.layout.unpack(counts), expected)


@pytest.mark.parametrize("form", FORMS)
def test_maps_of_some_rows_are_made_once_in_the_memory_of_all(form):
    table, _ = table_of(form, *SHAPES["blocks of 3"][:2])
    part = table.maps(1, 9)
    assert table.maps(1, 9) is part
    assert np.shares_memory(part.votes if form == "dense" else part.incidence.data, _memory_of(table))
    assert table.maps(0, N_ITEMS + 5) is table.maps()


def _memory_of(table: VoteTable) -> np.ndarray:
    return table.votes if table.is_dense else table.votes.data


@pytest.mark.parametrize("silence", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_dense_and_sparse_agree(shape, silence):
    dense, sparse = (table_of(form, *SHAPES[shape][:2])[0] for form in ("dense", "sparse"))
    assert (dense.plain_incidence != sparse.plain_incidence).nnz == 0
    if silence:
        dense, sparse = dense.with_abstain_as_label(), sparse.with_abstain_as_label()
    weights, shares = random_weights(dense), random_shares(dense)
    assert_close(dense.evidence(weights), sparse.evidence(weights))
    assert_close(dense.counts(shares), sparse.counts(shares))


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_packing_is_exact_for_any_shape(n_labels, n_sources, seed):
    votes = np.random.default_rng(seed).integers(-1, n_labels, (5, n_sources))
    packed, plain = Layout.for_codes(n_sources, n_labels), Layout(n_sources, n_labels)
    assert packed.n_codes <= maps.MOST_CODES
    weights = np.random.default_rng(seed).integers(-9, 9, (n_sources, n_labels, 2)).astype(float)  # sums are exact
    shares = np.random.default_rng(seed).integers(0, 9, (5, 2)).astype(float)
    np.testing.assert_array_equal(
        packed.columns(votes) @ packed.pack(weights), plain.columns(votes) @ plain.pack(weights)
    )
    np.testing.assert_array_equal(
        packed.unpack(packed.columns(votes).T @ shares), plain.unpack(plain.columns(votes).T @ shares)
    )


def test_an_item_costs_one_entry_a_block_that_votes():
    layout = Layout.for_codes(11, 2)
    votes = np.full((3, 11), -1)
    votes[1, 10] = 1
    votes[2] = 0
    assert np.diff(layout.columns(votes).indptr).tolist() == [0, 1, 3]
