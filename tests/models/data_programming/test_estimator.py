"""DataProgramming as a whole: its maximum, its answers, what it recovers, and odd votes.

The gradient is in test_weights.py, sampling in test_gibbs.py.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from labelfable.inference import shards as shards_module
from labelfable.inference.execution import add_in_order
from labelfable.models.data_programming import estimator as data_programming
from labelfable.models.data_programming import sweeps
from labelfable.models.data_programming import weights as factor_weights
from labelfable.models.data_programming.estimator import DataProgramming
from labelfable.models.data_programming.graph import KINDS
from labelfable.models.majority_vote import MajorityVote
from labelfable.votes import read_votes
from tests.crowds import planted_votes, some_gold, sparse_of
from tests.factor_models import TANGLED, each_graph, each_size, random_model
from tests.oracles.data_programming import Model
from tests.tolerances import STANDARD_ERRORS, TOLERANCE, assert_close
from tests.walk import setting_of

LIKELIHOOD = 1e-6
"""A penalty so small that what is left is maximum likelihood."""

VOTES, TRUTH = planted_votes(400, [0.9, 0.7, 0.6, 0.8], 3)
GOLD = some_gold(TRUTH, 5)
CASES = {
    "default": (None, {}),
    "likelihood": (None, {"l2": LIKELIHOOD, "class_prior": "votes"}),
    "learned prior": (None, {"l2": 0.01, "class_prior": "learned"}),
    "some gold": (GOLD, {"l2": 0.01, "class_prior": "learned"}),
    "dependencies": (None, {"l2": 0.01, "dependencies": TANGLED}),
    "dependencies, some gold": (GOLD, {"l2": 0.001, "dependencies": TANGLED, "class_prior": [0.2, 0.3, 0.5]}),
}
each_case = pytest.mark.parametrize(("gold", "settings"), CASES.values(), ids=CASES.keys())


def fitted(votes, gold=None, **settings) -> DataProgramming:
    return DataProgramming(**{"n_jobs": 1, **settings}).fit(votes, gold)


def weights_of(model: DataProgramming) -> np.ndarray:
    return np.concatenate((model.accuracy_weights_, model.propensity_weights_, model.dependency_weights_))


def oracle_of(model: DataProgramming) -> Model:
    """The oracle at a fitted model's weights."""
    parts = (model.accuracy_weights_, model.propensity_weights_, model.dependency_weights_)
    return Model(*parts, tuple(model.dependencies_), model.class_prior_)


def gradient_at(model: DataProgramming, votes, gold=None, weights=None) -> np.ndarray:
    """The gradient of the objective that `fit` climbed, at the fitted weights or at others."""
    setting = setting_of(DataProgramming(**model.get_params()), data_programming, votes, gold)
    sweeps, weights = setting.sweeps, weights_of(model) if weights is None else weights
    global_ = sweeps.globals_of(weights, model.class_prior_)
    statistics = add_in_order(sweeps.local_step(shard, None, global_)[1] for shard in setting.shards)
    expected = factor_weights.expected_factors(sweeps.graph, weights)
    return factor_weights.score(sweeps.observed_factors(statistics), sweeps.n_items, expected, weights, sweeps.penalty)


def standard_errors(model: DataProgramming, votes) -> np.ndarray:
    """Of the weights, from the curvature of the likelihood at its maximum (differences of the gradient)."""
    weights, step = weights_of(model), TOLERANCE["float64"].step
    sides = [
        [gradient_at(model, votes, weights=weights + sign * move) for sign in (1, -1)]
        for move in step * np.eye(len(weights))
    ]
    curvature = np.array([(before - after) / (2 * step) for after, before in sides])
    return np.sqrt(np.diag(np.linalg.inv((curvature + curvature.T) / 2)))


# -- the maximum ------------------------------------------------------------------------------------------------------


def assert_climbs_to_a_flat_place(gold, settings) -> None:
    model = fitted(VOTES, gold, **settings, tol=0, max_iter=2000)
    objective = model.report_.objective
    assert len(objective) > 3
    for before, after in pairwise(objective):
        assert after >= before - TOLERANCE["float64"].climb * abs(before), "the objective fell"
    slope = gradient_at(model, VOTES, gold)
    assert np.abs(slope).max() <= TOLERANCE["float64"].slope * abs(objective[-1]), f"not stationary: {slope}"


@each_case
def test_em_never_loses_and_ends_where_the_gradient_is_zero(gold, settings):
    assert_climbs_to_a_flat_place(gold, settings)


def stop_the_m_step_half_way(patch):
    sound = sweeps.update_weights

    def half(graph, observed, n_items, penalty):
        return (sound(graph, observed, n_items, penalty) + factor_weights.start_weights(graph, observed, n_items)) / 2

    patch.setattr(sweeps, "update_weights", half)


def count_silence_as_right(patch):
    sound = sweeps.FactorSweeps.observed_factors

    def slipped(self, statistics):
        observed = sound(self, statistics)
        observed[self.graph.accuracy] += 0.01 * (self.n_items - observed[self.graph.propensity])
        return observed

    patch.setattr(sweeps.FactorSweeps, "observed_factors", slipped)


@pytest.mark.parametrize("slip", [stop_the_m_step_half_way, count_silence_as_right])
def test_a_slip_in_em_is_found(slip, monkeypatch):
    slip(monkeypatch)
    with pytest.raises(AssertionError, match=r"stationary|fell"):
        assert_climbs_to_a_flat_place(*CASES["dependencies"])


def test_the_objective_is_the_likelihood_of_the_oracle():
    model = fitted(VOTES[:60], GOLD[:60], l2=0.01, dependencies=TANGLED, max_iter=500)
    oracle, rows = oracle_of(model), [tuple(row) for row in VOTES[:60].tolist()]
    assert_close(model.report_.history[-1]["log-likelihood"], oracle.log_likelihood(rows, GOLD[:60].tolist()), "sums")


# -- the answer -------------------------------------------------------------------------------------------------------


@each_graph
@each_size
def test_probabilities_are_those_of_the_whole_sum(pairs, n_classes):
    votes, _ = random_model(pairs, n_classes).draw(60, seed=4)
    table = read_votes(votes, classes=n_classes)
    model = fitted(table, dependencies=pairs, l2=0.02, class_prior="learned")
    oracle = oracle_of(model)
    wanted = np.array([oracle.posterior(tuple(row)) for row in votes.tolist()])
    assert_close(model.predict_proba(table), wanted)
    expected = oracle.expected()
    assert_close(model.propensities_, expected[4:8])
    assert_close(model.accuracies_, expected[:4] / expected[4:8])


@pytest.mark.parametrize("dependencies", [None, TANGLED], ids=["independent", "tangled"])
def test_sparse_votes_are_dense_ones(dependencies):
    dense = fitted(VOTES, dependencies=dependencies)
    sparse = fitted(sparse_of(VOTES), dependencies=dependencies)
    assert_close(weights_of(sparse), weights_of(dense), "sweeps")
    assert_close(sparse.predict_proba(sparse_of(VOTES)), dense.predict_proba(VOTES), "sweeps")


def test_shards_and_threads_change_nothing(monkeypatch):
    whole = fitted(VOTES, dependencies=TANGLED)
    for name in ("FEWEST_ITEMS", "MOST_ITEMS"):
        monkeypatch.setattr(shards_module, name, 16)
    serial, threads = (fitted(VOTES, dependencies=TANGLED, n_jobs=n) for n in (1, 2))
    assert np.array_equal(weights_of(serial), weights_of(threads))
    assert_close(weights_of(serial), weights_of(whole), "sweeps")
    sampled = {"dependencies": TANGLED, "gradient": "gibbs", "max_iter": 20, "n_chains": 50, "tol": 1.0}
    assert np.array_equal(*(weights_of(fitted(VOTES, **sampled, n_jobs=n)) for n in (1, 2)))


def test_permuting_sources_and_classes_permutes_the_answer():
    model, order, renamed = fitted(VOTES, dependencies=TANGLED), [2, 0, 3, 1], np.array([1, 2, 0, -1])
    moved = [(order.index(first), order.index(second), kind) for first, second, kind in TANGLED]
    other = fitted(renamed[VOTES[:, order]], dependencies=moved)
    assert_close(other.accuracy_weights_, model.accuracy_weights_[order], "sweeps")
    assert_close(other.dependency_weights_, model.dependency_weights_, "sweeps")
    assert_close(other.predict_proba(renamed[VOTES[:, order]])[:, renamed[:3]], model.predict_proba(VOTES), "sweeps")


# -- what it recovers -------------------------------------------------------------------------------------------------


def test_planted_accuracies_come_back():
    """Within the standard errors of counting right votes, as if it were known which they are."""
    accuracies = np.array([0.9, 0.8, 0.65, 0.75, 0.85, 0.45])
    votes, _ = planted_votes(40_000, accuracies.tolist(), 3, coverage=0.6, seed=8)
    model = fitted(votes, l2=LIKELIHOOD)
    counted = (votes >= 0).sum(axis=0)
    limit = STANDARD_ERRORS * np.sqrt(accuracies * (1 - accuracies) / counted)
    assert np.all(np.abs(model.accuracies_ - accuracies) <= limit)
    assert_close(model.propensities_, counted / len(votes), "sweeps")


def test_a_source_worse_than_chance_is_turned_round_and_the_others_stay():
    accuracies = [0.8, 0.75, 0.85, 0.2]
    votes, truth = planted_votes(5_000, accuracies, 2, seed=1)
    model = fitted(votes, l2=LIKELIHOOD)
    assert model.accuracy_weights_[3] < 0 < model.accuracy_weights_[:3].min()
    assert np.mean(model.predict(votes) == truth) > np.mean(MajorityVote().fit(votes).predict(votes) == truth)


@pytest.mark.parametrize("l2", [LIKELIHOOD, 0.1])
def test_the_mirror_image_is_worth_less(l2):
    """With two classes the likelihood is the same when all accuracies change sign; the prior decides."""
    votes, _ = planted_votes(2_000, [0.8, 0.7, 0.6], 2, seed=1)
    model = fitted(votes, l2=l2)
    setting = setting_of(DataProgramming(**model.get_params()), data_programming, votes)
    flipped = weights_of(model)
    flipped[:3], flipped[3:6] = -flipped[:3], flipped[3:6] + flipped[:3]
    found = []
    for weights in (weights_of(model), flipped):
        global_ = setting.sweeps.globals_of(weights, model.class_prior_)
        statistics = add_in_order(setting.sweeps.local_step(shard, None, global_)[1] for shard in setting.shards)
        found.append(setting.sweeps.bound(statistics, global_))
    assert_close(found[0]["log-likelihood"], found[1]["log-likelihood"], "sums")
    assert sum(found[0].values()) > sum(found[1].values())
    assert model.accuracy_weights_.min() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_planted_dependencies_come_back(kind):
    planted = random_model(((1, 3, kind),), 3, seed=2)
    votes, _ = planted.draw(30_000, seed=5)
    settings = {"l2": LIKELIHOOD / 10, "class_prior": planted.prior, "tol": 1e-9, "max_iter": 3000}
    model = fitted(votes, dependencies=[(1, 3, kind)], **settings)
    away = np.abs(weights_of(model) - planted.vector) / standard_errors(model, votes)
    assert away.max() <= STANDARD_ERRORS, f"standard errors away: {away.round(1)}"


def test_a_copy_that_is_declared_counts_less():
    votes, truth = planted_votes(4_000, [0.7, 0.75, 0.75, 0.75], 2, coverage=0.9, seed=3)
    doubled = np.column_stack((votes, votes[:, 0]))
    alone = fitted(votes, l2=0.001)
    undeclared = fitted(doubled, l2=0.001)
    declared = fitted(doubled, l2=0.001, dependencies=[(0, 4, "similar")])
    pair = [model.accuracy_weights_[[0, 4]].sum() for model in (undeclared, declared)]
    assert pair[1] < pair[0] / 2
    assert declared.dependency_weights_[0] > 1
    against = (votes[:, 0] == 0) & np.all(votes[:, 1:] == 1, axis=1)
    trust = [model.predict_proba(doubled[against])[0, 0] for model in (undeclared, declared)]
    assert trust[1] < trust[0]
    right = [
        np.mean(model.predict(v) == truth) for model, v in ((alone, votes), (declared, doubled), (undeclared, doubled))
    ]
    assert min(right[:2]) > right[2]
