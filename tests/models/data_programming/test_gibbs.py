"""The sampled side of data programming: Gibbs sampling against whole sums, the stochastic ascent against EM."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable.models.confusion import ConfusionLogs
from labelfable.models.data_programming import estimator as data_programming
from labelfable.models.data_programming import gibbs
from labelfable.models.data_programming.estimator import DataProgramming
from labelfable.models.data_programming.forest import forests_of
from labelfable.models.data_programming.gibbs import gibbs_sweep, start_chains
from labelfable.models.data_programming.graph import Dependency, FactorGraph
from labelfable.models.data_programming.sweeps import FactorGlobals
from tests.factor_models import GRAPHS, TANGLED, Pairs, each_graph, each_size, graph_of, random_model
from tests.oracles.data_programming import Model
from tests.tolerances import STANDARD_ERRORS, assert_close
from tests.walk import setting_of

N_CHAINS = 10_000
N_SWEEPS = 25


def globals_at(model: Model) -> FactorGlobals:
    """The weights as the sampler takes them."""
    return FactorGlobals(ConfusionLogs(np.zeros((0, 0)), np.log(model.prior)), model.vector)


def check_sampling(model: Model) -> None:
    """Means over independent chains, and the means that the gradient uses, against the oracle's whole sums."""
    graph, generator = graph_of(model), np.random.default_rng(5)
    global_ = globals_at(model)
    chains, forests = start_chains(graph, global_, N_CHAINS, generator), forests_of(graph)
    for _ in range(N_SWEEPS):
        chains, expected = gibbs_sweep(graph, global_, chains, forests, generator)
    states, number = np.unique(np.column_stack((chains.votes, chains.labels)), axis=0, return_inverse=True)
    sampled = np.array([model.factors(tuple(state[:-1]), state[-1]) for state in states.tolist()])[number]
    limit = STANDARD_ERRORS * sampled.std(axis=0) / np.sqrt(N_CHAINS)
    wanted = model.expected()
    assert np.all(np.abs(sampled.mean(axis=0) - wanted) <= limit), "the samples are off"
    assert np.all(np.abs(expected - wanted) <= limit), "the gradient's expectation is off"
    shares = np.bincount(chains.labels, minlength=len(model.prior)) / N_CHAINS
    assert np.all(np.abs(shares - model.prior) <= STANDARD_ERRORS * np.sqrt(model.prior / N_CHAINS))


@each_graph
@each_size
def test_sampled_expectations_agree_with_whole_sums(pairs, n_classes):
    check_sampling(random_model(pairs, n_classes))


def forget_the_neighbours(patch):
    patch.setattr(gibbs, "neighbours_of", lambda *_: [])


def forget_the_leaves(patch):
    patch.setattr(gibbs, "log_sum_exp", lambda both: np.zeros(both.shape[:-1]))


def swap_the_sources(patch):
    sound = gibbs.dependency_factor
    patch.setattr(gibbs, "dependency_factor", lambda kind, first, second, y: sound(kind, second, first, y))


@pytest.mark.parametrize(
    ("slip", "pairs"),
    [
        (forget_the_neighbours, "tangled"),
        (forget_the_leaves, "similar"),
        (swap_the_sources, "fixing"),
        (swap_the_sources, "tangled"),
    ],
)
def test_a_slip_in_the_sampling_is_found(slip, pairs, monkeypatch):
    slip(monkeypatch)
    with pytest.raises(AssertionError, match="off"):
        check_sampling(random_model(GRAPHS[pairs], 3))


TREE: Pairs = ((0, 1, "similar"), (2, 1, "fixing"), (1, 2, "exclusive"), (3, 1, "reinforcing"), (4, 5, "similar"))


@pytest.mark.parametrize(("pairs", "n_forests"), [((), 1), (TREE, 1), (TANGLED, 2), ((*TREE, (0, 3, "similar")), 2)])
def test_forests_hold_every_source_once_and_no_circle(pairs, n_forests):
    graph = FactorGraph(7, 3, tuple(Dependency(*pair) for pair in pairs))
    forests = forests_of(graph)
    assert len(forests) == n_forests
    held = [forest.alone.tolist() + [branch.source for branch in forest.branches] for forest in forests]
    assert sorted(source for members in held for source in members) == list(range(7))
    for forest, members in zip(forests, held, strict=True):
        inside = {d for d, (a, b, _) in enumerate(graph.dependencies) if {a, b} <= set(members)}
        assert sorted(d for branch in forest.branches for d in branch.links) == sorted(inside)
        above = [branch.source for branch in forest.branches]
        for number, branch in enumerate(forest.branches):
            assert branch.parent in above[: number + 1]
            assert (branch.parent == branch.source) == (not branch.links)


def test_a_tree_is_drawn_at_once_whatever_its_couplings():
    """One sweep from silence is enough, where single draws would take thousands: copies hold each other."""
    chain = tuple((j, j + 1, "similar") for j in range(3))
    model = random_model(chain, 2)
    model = model.at(np.concatenate((model.accuracy, model.propensity, np.full(3, 12.0))))
    graph, generator = graph_of(model), np.random.default_rng(0)
    global_ = globals_at(model)
    chains, expected = gibbs_sweep(
        graph, global_, start_chains(graph, global_, N_CHAINS, generator), forests_of(graph), generator
    )
    limit = STANDARD_ERRORS * 0.5 / np.sqrt(N_CHAINS)
    assert np.all(np.abs(expected - model.expected()) <= limit)
    assert np.mean(chains.votes[:, 0] == chains.votes[:, 3]) > 0.99


def fitted(votes, pairs, **settings) -> DataProgramming:
    return DataProgramming(
        pairs, n_jobs=1, **{"l2": 0.01, "n_chains": 300, "max_iter": 200, "tol": 1e-4, **settings}
    ).fit(votes)


def exact_objective(model: DataProgramming, votes: np.ndarray) -> float:
    """The objective at a fitted model's weights, without sampling."""
    weights = np.concatenate((model.accuracy_weights_, model.propensity_weights_, model.dependency_weights_))
    setting = setting_of(DataProgramming(model.dependencies, l2=model.l2), data_programming, votes)
    global_ = setting.sweeps.globals_of(weights, model.class_prior_)
    statistics = [setting.sweeps.local_step(shard, None, global_)[1] for shard in setting.shards]
    return sum(setting.sweeps.bound(statistics[0], global_).values())


def test_without_dependencies_both_gradients_lead_to_the_same_maximum():
    """Given the class every vote has a distribution of its own, and that is what the gradient averages: no noise."""
    votes, _ = random_model((), 3).draw(2000, seed=2)
    exact, sampled = fitted(votes, None, tol=0), fitted(votes, None, gradient="gibbs")
    assert sampled.report_.notes == ["gradient by Gibbs sampling: the objective is an estimate"]
    assert_close(exact_objective(sampled, votes), exact.report_.objective[-1], "sums")


@pytest.mark.parametrize("pairs", [GRAPHS["similar"], TANGLED], ids=["similar", "tangled"])
def test_with_dependencies_both_gradients_reach_the_same_likelihood(pairs):
    """Sampling noise costs about half a chain's worth for each weight."""
    votes, _ = random_model(pairs, 2).draw(2000, seed=2)
    exact = fitted(votes, pairs, tol=0, max_iter=500)
    sampled = [fitted(votes, pairs, gradient="gibbs", random_state=seed) for seed in range(3)]
    lost = [(exact.report_.objective[-1] - exact_objective(model, votes)) / len(votes) for model in sampled]
    assert max(lost) <= (2 * 4 + len(pairs)) / sampled[0].n_chains
    errors = [(model.report_.objective[-1] - exact_objective(model, votes)) / len(votes) for model in sampled]
    limit = STANDARD_ERRORS * np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert abs(np.mean(errors)) <= limit, "the estimated likelihood is off"
