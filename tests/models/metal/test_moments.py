"""MeTaL: moments, loss and gradient against the oracle, with planted slips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from labelfable import read_votes
from labelfable.models import moments as metal_moments
from labelfable.models.metal.completion import Completion, Pull
from labelfable.models.metal.descent import onto_tables
from labelfable.models.metal.estimator import MeTaL
from labelfable.models.moments import Moments, vote_moments
from labelfable.votes import products as vote_products
from tests.crowds import planted_votes, soft_of
from tests.oracles import metal as oracle
from tests.planted_tables import tables_of
from tests.tolerances import TOLERANCE, assert_close

VOTES, TRUTH = planted_votes(30, [0.9, 0.7, 0.5, 0.8], 3, coverage=0.6)


@pytest.mark.parametrize("kind", ["hard", "soft", "sparse", "repeated", "slabs"])
def test_moments_are_those_of_the_loops(kind, monkeypatch):
    votes, weights = VOTES, np.ones(len(VOTES))
    spread = oracle.one_hot(votes, 3)
    if kind == "soft":
        votes = spread = soft_of(VOTES, 3)
    if kind == "slabs":
        monkeypatch.setattr(metal_moments, "SLAB_ITEMS", 7)
    if kind == "sparse":
        monkeypatch.setattr(vote_products, "DENSE_PRODUCT_COLUMNS", 1)
    if kind == "repeated":
        weights = np.arange(len(VOTES)) % 3 + 1.0
        spread = np.repeat(spread, weights.astype(int), axis=0)
    found = vote_moments(read_votes(votes, classes=3), weights)
    assert sp.issparse(found.products) == (kind == "sparse")
    products = found.products.toarray() if sp.issparse(found.products) else found.products
    expected = oracle.moments(spread)
    assert_close(products, expected.reshape(products.shape), "sums")
    assert_close(found.block(1, 3), expected[1, :, 3, :], "sums")


def loss_case(components, *, sparse: bool):
    """A loss with all its terms at a point that is no minimum."""
    draws = np.random.default_rng(1)
    prior = np.array([0.5, 0.2, 0.3])
    seen = oracle.moments(oracle.one_hot(VOTES, 3))
    tables = draws.random((4, 3, 3)) / 4
    pulls = [([0.3, 0.0, 0.7], draws.random((4, 3, 3)) / 4), ([0.1, 0.1, 0.1], draws.random((4, 3, 3)) / 4)]
    products = seen.reshape(12, 12)
    moments = Moments(sp.csr_array(products) if sparse else products, 30.0, 4, 3)
    roots = np.sqrt(prior)
    centred = {
        str(number): Pull(np.array(weights), centre.reshape(12, 3) * roots)
        for number, (weights, centre) in enumerate(pulls)
    }
    components = np.asarray(components)
    loss = Completion(moments.between(components), components, moments.rates, roots, centred)

    def slow(point):
        return oracle.loss(seen, tables_of(point, (4, 3, 3), prior), prior, components.tolist(), pulls)

    return loss, tables.reshape(12, 3) * roots, slow


def assert_gradient(loss, point, slow):
    """The gradient's slope along random directions is that of the oracle's loss."""
    step = TOLERANCE["float64"].step
    _, gradient = loss(point)
    draws = np.random.default_rng(2)
    for _ in range(8):
        direction = draws.standard_normal(point.shape)
        direction /= np.linalg.norm(direction)
        ahead, behind = (sum(slow(point + sign * step * direction).values()) for sign in (1, -1))
        assert_close(np.vdot(gradient, direction), (ahead - behind) / (2 * step), "slope")


COMPONENTS = {"independent": [0, 1, 2, 3], "two joined": [0, 1, 0, 2], "numbered otherwise": [2, 0, 1, 3]}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("graph", COMPONENTS)
def test_loss_and_gradient_are_those_of_the_loops(graph, sparse):
    loss, point, slow = loss_case(COMPONENTS[graph], sparse=sparse)
    terms, _ = loss(point)
    expected = slow(point)
    assert_close(terms["moments"], expected["moments"])
    assert_close(terms["marginals"], expected["marginals"])
    assert_close(terms["0"] + terms["1"], expected["pulls"])
    assert_gradient(loss, point, slow)


def no_own_blocks(loss):
    return lambda point: (None, loss(point)[1] + 4 * np.concatenate([b @ b.T @ b for b in np.split(point, 4)]))


def half_of_the_moments(loss):
    bare = replace(loss, rates=None, root_prior=None, pulls={})
    return lambda point: (None, loss(point)[1] - bare(point)[1] / 2)


def marginals_the_other_way(loss):
    def slipped(point):
        excess = point @ loss.root_prior - loss.rates
        return None, loss(point)[1] - 4 * np.outer(excess, loss.root_prior)

    return slipped


def proportions_forgotten(loss):
    return lambda point: (None, loss(point)[1] * loss.root_prior)


@pytest.mark.parametrize("slip", [no_own_blocks, half_of_the_moments, marginals_the_other_way, proportions_forgotten])
def test_a_slip_in_the_gradient_is_found(slip):
    loss, point, slow = loss_case([0, 1, 2, 3], sparse=False)
    with pytest.raises(AssertionError):
        assert_gradient(slip(loss), point, slow)


@pytest.mark.parametrize("dependencies", [None, [(0, 2)]])
def test_dense_and_sparse_moments_give_the_same_fit(dependencies, monkeypatch):
    dense = MeTaL(dependencies).fit(VOTES)
    monkeypatch.setattr(vote_products, "DENSE_PRODUCT_COLUMNS", 1)
    sparse = MeTaL(dependencies).fit(VOTES)
    assert_close(sparse.confusion_, dense.confusion_, "minimum")
    assert_close(sparse.predict_proba(VOTES), dense.predict_proba(VOTES), "minimum")


def test_projection_gives_tables_and_is_the_nearest():
    draws = np.random.default_rng(0)
    roots = np.sqrt([0.6, 0.4])
    point = draws.normal(0.2, 0.5, (15, 2))
    found = onto_tables(point, 5, roots)
    room = roots - found.reshape(5, 3, 2).sum(axis=1)
    assert found.min() >= 0
    assert room.min() >= -TOLERANCE["float64"].rounding
    assert_close(onto_tables(found, 5, roots), found)
    for _ in range(50):  # the way back makes an obtuse angle with the way to any other table
        other = onto_tables(draws.normal(0.2, 0.5, (15, 2)), 5, roots)
        assert np.vdot(point - found, other - found) <= TOLERANCE["float64"].rounding
