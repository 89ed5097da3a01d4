"""How often two votes occur together, in each of the ways to count it, against loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelfable.votes import products, read_votes
from labelfable.votes.maps import Layout
from labelfable.votes.products import hard_products, joint_products, vote_products
from tests.crowds import planted_votes
from tests.oracles import votes as oracle
from tests.tolerances import assert_close
from tests.votes.test_maps import FORMS, N_ITEMS, table_of


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dense_columns", [0, products.DENSE_PRODUCT_COLUMNS])
def test_vote_products_are_what_the_loops_say(monkeypatch, form, weighted, dense_columns):
    monkeypatch.setattr(products, "DENSE_PRODUCT_COLUMNS", dense_columns)
    monkeypatch.setattr(products, "BLOCK_ENTRIES", 100)  # several blocks, the last of them shorter
    table, cube = table_of(form, 3, 5)
    weights = np.random.default_rng(3).gamma(1.0, size=N_ITEMS) if weighted else np.ones(N_ITEMS)
    found = vote_products(table.plain_incidence, weights)
    assert sp.issparse(found) == (dense_columns == 0)
    assert_close(found.toarray() if sp.issparse(found) else found, oracle.products(cube, weights))


def test_counts_of_whole_votes_are_exact_past_what_float32_holds_in_one_sum():
    n_items = 2**24 + 3  # one more than this in float32 is this: sums must be carried on in float64
    incidence = sp.csr_array(
        (np.ones(n_items), np.zeros(n_items, np.int32), np.arange(n_items + 1, dtype=np.int32)), shape=(n_items, 1)
    )
    assert vote_products(incidence, np.ones(n_items)).tolist() == [[float(n_items)]]


def test_vote_products_of_votes_as_they_are_read():
    votes, _ = planted_votes(200, [0.9, 0.7, 0.6], 3)
    found = vote_products(read_votes(votes).plain_incidence, np.ones(200))
    assert found.diagonal().tolist() == [float(np.sum(votes[:, j] == label)) for j in range(3) for label in range(3)]
    assert found[0, 3] == np.sum((votes[:, 0] == 0) & (votes[:, 1] == 0))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("n_sources", "n_labels", "size"), [(6, 3, 2), (5, 3, 2), (7, 2, 4), (3, 5, 1), (1, 2, 1), (2, 2, 3)]
)
def test_joint_codes_count_what_the_loops_count(n_sources, n_labels, size, weighted):
    votes = np.random.default_rng(0).integers(-1, n_labels, (N_ITEMS, n_sources))
    weights = np.random.default_rng(3).gamma(1.0, size=N_ITEMS) if weighted else np.ones(N_ITEMS)
    found = joint_products(votes, n_labels, weights, size)
    assert_close(found, oracle.products(oracle.cube_of(votes, n_labels), weights))


@pytest.mark.parametrize(
    ("n_sources", "n_labels", "coverage", "by_codes"),
    [(30, 10, 1.0, True), (30, 10, 0.3, True), (30, 10, 0.02, False), (12, 2, 1.0, False), (3, 20, 1.0, True)],
)
def test_the_way_of_counting_changes_nothing(n_sources, n_labels, coverage, by_codes, monkeypatch):
    """Whole numbers, so that every way is exact.  Joint codes are taken where they cost least."""
    votes, _ = planted_votes(15_000, [0.7] * n_sources, n_labels, coverage=coverage)
    expected = vote_products(Layout(n_sources, n_labels).columns(votes), np.ones(len(votes)))
    taken = []
    monkeypatch.setattr(products, "joint_products", lambda *given: taken.append(1) or joint_products(*given))
    np.testing.assert_array_equal(hard_products(votes, n_labels, np.ones(len(votes))), expected)
    assert bool(taken) == by_codes
    few = hard_products(votes[:100], n_labels, np.ones(100))  # too few items to fill a table
    np.testing.assert_array_equal(few, vote_products(Layout(n_sources, n_labels).columns(votes[:100]), np.ones(100)))
