"""MeTaL: planted tables come back, from exact moments and from votes, with and without dependent sources."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from labelfable import MajorityVote, read_votes
from labelfable.errors import LabelfableWarning, ModelError, NotConvergedWarning
from labelfable.models.metal.completion import Completion
from labelfable.models.metal.estimator import MeTaL, MomentFit
from labelfable.models.metal.inverse import InverseFit, nearest_rotation
from labelfable.models.metal.posterior import effective_votes, log_tables
from labelfable.models.moments import Moments, vote_moments
from labelfable.votes import products as vote_products
from tests.crowds import planted_votes
from tests.oracles import metal as oracle
from tests.planted_tables import (
    exact_moments,
    fit_exactly,
    planted_tables,
    repeated_source,
    rough_start,
    sampled,
    tables_of,
)
from tests.tolerances import TOLERANCE, assert_close

VOTES, TRUTH = planted_votes(30, [0.9, 0.7, 0.5, 0.8], 3, coverage=0.6)


def quiet(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        return model.fit(*args, **kwargs)


@pytest.mark.parametrize("prior", [[0.5, 0.5], [0.8, 0.2]])
@pytest.mark.parametrize("n_sources", [3, 8])
def test_exact_moments_of_two_classes_give_back_the_tables(n_sources, prior):
    tables, prior = planted_tables(n_sources, prior)
    tables[0] = tables[0][:, ::-1]  # one source worse than chance
    found, descent = fit_exactly(tables, prior)
    assert_close(found, tables, "minimum")
    assert sum(descent.terms.values()) <= TOLERANCE["float64"].rounding
    assert descent.converged


def noisy_fit(anchor):
    """A fit to votes of few items by sources that never give some classes some labels: limits are met."""
    tables, prior = planted_tables(6, [0.6, 0.4])
    tables[:3, 0, 1] = 0
    votes, _ = sampled(tables, prior, 300)
    moments = vote_moments(read_votes(votes, classes=2), np.ones(300))
    fitter = MomentFit(moments, moments.between(np.arange(6)), np.arange(6), None, 1e-9, 20_000)
    start = rough_start(tables, prior)
    return fitter, start, prior, fitter.run(start, prior, anchor)


def test_the_fit_is_a_minimum_within_the_limits_of_probabilities():
    fitter, _, prior, found = noisy_fit(0.0)
    roots = np.sqrt(prior)
    loss = Completion(fitter.between, np.arange(6), fitter.moments.rates, roots)
    terms, gradient = loss(found.point)
    moved = np.clip(found.point - gradient, 0, roots)
    assert_close(moved, found.point, "minimum")
    assert np.any((found.point == 0) & (gradient > TOLERANCE["float64"].minimum))
    assert_close(sum(terms.values()), sum(found.terms.values()))


def test_the_anchor_counts_in_mean_curvatures_of_the_loss():
    """Half the second derivative of the loss in one row of X, others held, is 2 X'X + √p√p'."""
    _, start, prior, found = noisy_fit(0.5)
    roots = np.sqrt(prior)
    unit = np.linalg.eigvalsh(2 * start.T @ start + np.outer(roots, roots)).mean()
    assert found.terms["anchor"] > 0
    assert_close(found.terms["anchor"], 0.5 * unit * np.sum((found.point - start) ** 2))


def test_symmetric_sources_of_many_classes_are_given_back():
    n_classes = 4
    prior = np.full(n_classes, 1 / n_classes)
    accuracies = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
    wrong = ((1 - accuracies) / (n_classes - 1))[:, None, None]
    tables = 0.7 * (wrong + (accuracies[:, None, None] - wrong) * np.eye(n_classes))
    found, _ = fit_exactly(tables, prior)
    assert_close(found, tables, "minimum")


def test_moments_of_three_classes_leave_a_rotation():
    """Tables apart, loss the same: what the documentation says of more than two classes."""
    tables, prior = planted_tables(6, [0.4, 0.35, 0.25])
    moments, roots = exact_moments(tables, prior), np.sqrt(prior)
    others = np.linalg.svd(roots[None, :])[2][1:].T  # orthonormal, orthogonal to √p
    angle = 0.07
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned = tables.reshape(-1, 3) * roots @ (np.outer(roots, roots) + others @ turn @ others.T)
    assert turned.min() > 0
    loss = Completion(moments.between(np.arange(6)), np.arange(6), moments.rates, roots)
    assert_close(sum(loss(turned)[0].values()), 0.0)
    assert np.abs(tables_of(turned, tables.shape, prior) - tables).max() > tables.max() / 40


@pytest.mark.parametrize("seed", [0, 1])
def test_sampled_votes_give_tables_that_near_the_planted_ones(seed):
    """Sixteen times the items leave about a quarter of the error, and the anchor lets go."""
    tables, prior = planted_tables(8, [0.6, 0.4], seed=seed)
    votes, _ = sampled(tables, prior, 40_000, seed=seed)
    errors, anchors = [], []
    for n_items in (2_500, 40_000):
        model = MeTaL(class_prior=prior).fit(votes[:n_items])
        errors.append(np.abs(model.confusion_ - tables).mean())
        anchors.append(model.anchor_)
    assert errors[1] < errors[0] / 2
    assert errors[1] < tables.mean() / 20
    assert anchors[1] == 0


def test_labels_are_nearly_as_good_as_those_of_the_true_tables():
    tables, prior = planted_tables(8, [0.7, 0.3])
    votes, truth = sampled(tables, prior, 20_000)
    right = {}
    for name, model in (("metal", MeTaL(class_prior=prior)), ("majority", MajorityVote())):
        right[name] = (model.fit(votes).predict(votes) == truth).mean()
    logs = log_tables(tables, tables @ prior, np.ones(8), silence=False)
    evidence = read_votes(votes, classes=2).evidence(logs) + np.log(prior)
    best = (evidence.argmax(axis=1) == truth).mean()
    assert right["metal"] - right["majority"] > 0.9 * (best - right["majority"]) > 0


def test_the_free_loss_falls_from_the_start_to_the_end():
    model = MeTaL(anchor=0).fit(planted_votes(2000, [0.9, 0.7, 0.6, 0.8], 2)[0])
    objective = model.report_.objective
    assert model.report_.converged
    assert objective[-1] == min(objective) < objective[0]


def test_a_set_number_of_iterations_is_made():
    with pytest.warns(NotConvergedWarning):
        model = MeTaL(anchor=0, tol=0, max_iter=7).fit(VOTES)
    assert model.report_.iterations == 7


# -- dependencies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["moments", "inverse"])
@pytest.mark.parametrize("always", [False, True])
def test_a_graph_gives_back_tables_in_spite_of_a_repeated_source(kind, always):
    """With `always` no source abstains: columns are then linearly dependent."""
    tables, prior = planted_tables(6, [0.6, 0.4], coverage=(1.0, 1.0) if always else (0.4, 0.9))
    tables, moments = repeated_source(tables, prior)
    joined, _ = fit_exactly(tables, prior, [0, 0, 1, 2, 3, 4], moments=moments, kind=kind)
    assert_close(joined, tables, "minimum")
    apart, _ = fit_exactly(tables, prior, moments=moments)
    assert np.abs(apart - tables).max() > tables.max() / 20


@pytest.mark.parametrize("kind", ["moments", "inverse"])
def test_a_graph_of_three_classes_matches_all_that_it_may(kind):
    tables, prior = planted_tables(7, [0.4, 0.35, 0.25])
    tables, moments = repeated_source(tables, prior)
    found, descent = fit_exactly(tables, prior, [0, 0, 1, 2, 3, 4, 5], moments=moments, kind=kind)
    assert sum(descent.terms.values()) <= TOLERANCE["float64"].minimum
    account = np.einsum("jlk,ihk,k->jlih", found, found, prior)[0, :, 2:]
    assert_close(account, oracle.expected_moments(tables, prior)[0, :, 2:], "minimum")


def test_the_inverse_covariance_is_zero_between_sources_and_low_rank_in_the_votes():
    """What the published form rests on, for the model itself."""
    tables, prior = planted_tables(4, [0.4, 0.35, 0.25])
    joint = oracle.joint_inverse_covariance(tables, prior)
    votes, classes = slice(0, 12), slice(12, 14)
    schur = joint[votes, votes] - joint[votes, classes] @ np.linalg.solve(
        joint[classes, classes], joint[classes, votes]
    )
    flat = tables.reshape(12, 3)
    products = oracle.expected_moments(tables, prior).reshape(12, 12)
    assert_close(schur @ (products - np.outer(flat @ prior, flat @ prior)), np.eye(12), "sweeps")
    blocks = joint[votes, votes].reshape(4, 3, 4, 3)
    for j in range(4):
        blocks[j, :, j] = 0
    assert_close(blocks / np.abs(joint).max(), np.zeros_like(blocks), "sums")


@pytest.mark.parametrize("completion", ["moments", "inverse"])
def test_a_graph_recovers_accuracies_that_independence_gets_wrong(completion):
    votes, truth = planted_votes(20_000, [0.6, 0.6, 0.75, 0.8, 0.7, 0.65], 2, coverage=0.8)
    votes[:, 1] = np.where(np.random.default_rng(1).random(len(votes)) < 0.9, votes[:, 0], votes[:, 1])
    prior = np.bincount(truth) / len(truth)
    counted = np.stack([oracle.one_hot(votes, 2)[truth == k].mean(axis=0) for k in (0, 1)], axis=2)
    errors, right = {}, {}
    for name, dependencies in (("independent", None), ("graph", [("a", 1)])):
        named = {letter: votes[:, j] for j, letter in enumerate("abcdef")}
        table = read_votes(_frame(named))
        model = MeTaL(dependencies, completion=completion, class_prior=prior, anchor=0)
        errors[name] = np.abs(quiet(model, table).confusion_ - counted).max()
        right[name] = (model.predict(table) == truth).mean()
    assert errors["graph"] < errors["independent"] / 5
    assert right["graph"] > right["independent"]


def _frame(columns):
    import pandas as pd

    return pd.DataFrame({name: pd.array([None if v < 0 else int(v) for v in votes]) for name, votes in columns.items()})


def test_the_inverse_form_stays_where_the_tables_are_true():
    """Z of the true tables completes the inverse covariance at once."""
    tables, prior = planted_tables(4, [0.4, 0.35, 0.25], coverage=(0.3, 0.5))
    fitter = InverseFit(exact_moments(tables, prior), np.arange(4), 1e-6, 100)
    found = fitter.run(tables.reshape(12, 3) * np.sqrt(prior), prior, 0.0)
    assert max(found.history.totals) <= TOLERANCE["float64"].rounding
    assert_close(tables_of(found.point, tables.shape, prior), tables, "minimum")


def test_the_nearest_rotation_undoes_a_rotation():
    draws = np.random.default_rng(0)
    target, turn = draws.normal(size=(12, 3)), np.linalg.qr(draws.normal(size=(3, 3)))[0]
    assert_close(nearest_rotation(target @ turn, target), turn.T)


def test_a_repeated_source_counts_once():
    tables, prior = planted_tables(6, [0.6, 0.4])
    tables, moments = repeated_source(tables, prior)
    point = tables.reshape(-1, 2) * np.sqrt(prior)
    weights = effective_votes(moments, point, np.array([0, 0, 1, 2, 3, 4]))
    assert_close(weights, [0.5, 0.5, 1, 1, 1, 1], "sums")
    assert_close(effective_votes(moments, point, np.arange(6)), np.ones(6))


def test_weights_of_dependent_sources_are_those_of_the_loops():
    tables, prior = planted_tables(4, [0.4, 0.35, 0.25])
    votes, _ = sampled(tables, prior, 500)
    votes[::2, 1], votes[::3, 2] = votes[::2, 0], votes[::3, 0]
    seen = oracle.moments(oracle.one_hot(votes[:60], 3))
    moments = Moments(seen.reshape(12, 12), 60.0, 4, 3)
    point = tables.reshape(12, 3) * np.sqrt(prior)
    r = {pair: oracle.correlation(seen, tables, prior, *pair) for pair in ((0, 1), (0, 2), (1, 2))}
    expected = [1 / (1 + sum(value for pair, value in r.items() if j in pair)) for j in range(3)]
    assert_close(effective_votes(moments, point, np.array([0, 0, 0, 1])), [*expected, 1.0])


@pytest.mark.parametrize(
    ("dependencies", "message"),
    [
        ([("0", "9")], "no source '9'"),
        ([(0, 4)], "no source 4"),
        ([(0, -1)], "no source -1"),
        ([(1, 1)], "depend on itself"),
        ([(0, 1, 2)], "is not a dependency"),
        (["01"], "is not a dependency"),
        ([3], "is not a dependency"),
    ],
)
def test_a_bad_dependency_is_named(dependencies, message):
    with pytest.raises(ModelError, match=message):
        MeTaL(dependencies).fit(VOTES)


def test_the_inverse_of_sparse_moments_is_refused(monkeypatch):
    monkeypatch.setattr(vote_products, "DENSE_PRODUCT_COLUMNS", 1)
    with pytest.raises(ModelError, match="completion='moments'"):
        MeTaL(completion="inverse").fit(VOTES)
