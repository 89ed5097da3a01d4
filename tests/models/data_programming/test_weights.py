"""The exact side of data programming: enumeration, the gradient, the M step."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable.inference.execution import add_in_order
from labelfable.models.data_programming import graph, sweeps
from labelfable.models.data_programming import weights as factor_weights
from labelfable.models.data_programming.graph import FactorGraph, joint_votes
from labelfable.models.data_programming.weights import Penalty
from tests.factor_models import (
    GRAPHS,
    TANGLED,
    each_graph,
    each_size,
    few_items,
    graph_of,
    penalised,
    random_model,
    setting_at,
)
from tests.tolerances import TOLERANCE, assert_close


@pytest.mark.parametrize("n_sources", [1, 2, 5])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 7])
def test_states_stand_for_every_joint_vote_once(n_sources, n_classes):
    votes, log_ways = joint_votes(n_sources, n_classes)
    assert_close(np.exp(log_ways).sum(), float((n_classes + 1) ** n_sources), "sums")
    assert len(np.unique(votes, axis=0)) == len(votes)
    block = FactorGraph(n_sources, n_classes, ()).blocks[0]
    connected = graph.Block(block.parameters, n_classes, n_sources, ())
    assert connected.n_states == len(votes)


@each_graph
@each_size
def test_normaliser_and_expected_factors_are_those_of_the_whole_sum(pairs, n_classes):
    model = random_model(pairs, n_classes)
    graph = graph_of(model)
    assert_close(factor_weights.log_normaliser(graph, model.vector), np.log(model.partition()))
    assert_close(factor_weights.expected_factors(graph, model.vector), model.expected())
    assert_close(model.class_shares(), model.prior, message="the class prior is the class distribution")


def check_gradient(pairs, n_classes: int) -> None:
    """src's gradient against central differences of the oracle's objective."""
    model, step = random_model(pairs, n_classes), TOLERANCE["float64"].step
    votes, gold = few_items(model)
    setting = setting_at(model, votes, gold)
    sweeps, global_ = setting.sweeps, setting.sweeps.globals_of(model.vector, model.prior)
    statistics = add_in_order(sweeps.local_step(shard, None, global_)[1] for shard in setting.shards)
    observed, expected = (
        sweeps.observed_factors(statistics),
        factor_weights.expected_factors(sweeps.graph, model.vector),
    )
    found = factor_weights.score(observed, sweeps.n_items, expected, model.vector, sweeps.penalty)
    slopes = np.empty(len(found))
    for place, move in enumerate(step * np.eye(len(found))):
        sides = [penalised(setting, model.at(model.vector + sign * move), votes, gold) for sign in (1, -1)]
        slopes[place] = (sides[0] - sides[1]) / (2 * step)
    assert_close(found, slopes, "slope")
    assert_close(sum(sweeps.bound(statistics, global_).values()), penalised(setting, model, votes, gold), "sums")


@each_graph
@each_size
def test_gradient_is_the_derivative_of_the_likelihood(pairs, n_classes):
    check_gradient(pairs, n_classes)


def count_one_wrong_class(patch):
    sound = graph.joint_votes
    patch.setattr(graph, "joint_votes", lambda *sizes: (sound(*sizes)[0], 0 * sound(*sizes)[1]))


def forget_the_second_without_the_first(patch):
    sound = graph.split_dependency
    patch.setattr(sweeps, "split_dependency", lambda *given: (sound(*given)[0], 0 * sound(*given)[1]))


def leave_dependencies_out_of_the_posterior(patch):
    sound = sweeps.vote_logits

    def forgetful(graph, weights):
        return sound(graph, np.where(np.arange(graph.n_weights) < graph.dependency.start, weights, 0))

    patch.setattr(sweeps, "vote_logits", forgetful)


def push_where_the_prior_pulls(patch):
    sound = factor_weights.score
    patch.setattr(
        factor_weights, "score", lambda *given: sound(*given[:-1], Penalty(-given[-1].precision, given[-1].centre))
    )


@pytest.mark.parametrize(
    ("slip", "pairs"),
    [
        (count_one_wrong_class, "independent"),
        (push_where_the_prior_pulls, "independent"),
        (forget_the_second_without_the_first, "reinforcing"),
        (forget_the_second_without_the_first, "exclusive"),
        (leave_dependencies_out_of_the_posterior, "fixing"),
    ],
)
def test_a_slip_in_the_gradient_is_found(slip, pairs, monkeypatch):
    slip(monkeypatch)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_gradient(GRAPHS[pairs], 3)


@each_size
def test_each_m_step_ends_where_its_gradient_is_zero(n_classes):
    model = random_model(TANGLED, n_classes)
    votes, _ = model.draw(500, seed=1)
    setting = setting_at(model, votes)
    sweeps, statistics = setting.sweeps, add_in_order(setting.sweeps.start(shard)[1] for shard in setting.shards)
    for _ in range(3):
        global_, observed = sweeps.global_step(statistics), sweeps.observed_factors(statistics)
        expected = model.at(global_.factor_weights).expected()
        slope = factor_weights.score(observed, sweeps.n_items, expected, global_.factor_weights, sweeps.penalty)
        assert_close(slope / sweeps.n_items, np.zeros(len(slope)), "sweeps")
        statistics = add_in_order(sweeps.local_step(shard, None, global_)[1] for shard in setting.shards)


def test_newton_reaches_the_far_maximum_of_a_source_that_is_never_wrong():
    """Counts on the edge, a penalty of next to nothing: full steps would overshoot."""
    graph, penalty = FactorGraph(3, 4), Penalty(np.full(6, 1e-6), np.zeros(6))
    observed = np.array([1000.0, 0.0, 0.0, 1000.0, 1000.0, 0.0])  # always right, always wrong, never heard
    weights = factor_weights.update_weights(graph, observed, 1000.0, penalty)
    expected = factor_weights.expected_factors(graph, weights)
    slope = factor_weights.score(observed, 1000.0, expected, weights, penalty)
    assert_close(slope / 1000.0, np.zeros(6), "sweeps")
    assert np.all(np.isfinite(weights))
    assert weights[0] > 0 > weights[1]
