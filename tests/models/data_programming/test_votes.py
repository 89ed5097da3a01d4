"""DataProgramming on odd votes, and what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest

from labelfable.errors import LabelfableError, ModelError, NotConvergedWarning
from labelfable.models.data_programming.estimator import DataProgramming
from labelfable.votes import read_votes
from tests.crowds import planted_votes, soft_of
from tests.factor_models import TANGLED
from tests.real_data import real_set
from tests.tolerances import assert_close

VOTES, _ = planted_votes(400, [0.9, 0.7, 0.6, 0.8], 3)


def fitted(votes, gold=None, **settings) -> DataProgramming:
    return DataProgramming(**{"n_jobs": 1, **settings}).fit(votes, gold)


def weights_of(model: DataProgramming) -> np.ndarray:
    return np.concatenate((model.accuracy_weights_, model.propensity_weights_, model.dependency_weights_))


# -- odd votes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradient", ["exact", "gibbs"])
@pytest.mark.parametrize(
    "votes",
    {
        "one source": [[0], [1], [-1], [1]],
        "two sources": [[0, 0], [1, 0], [-1, 1], [1, -1]],
        "one item": [[1, 0, 1]],
        "an item without votes": [[-1, -1, -1], [0, 1, 1]],
        "a silent source": [[0, -1, 1], [1, -1, 1], [0, -1, 0]],
        "unanimous": [[1, 1, 1]] * 40 + [[0, 0, 0]] * 40,
        "all of one class": [[1, 1, 1]] * 40,
        "a class without votes": [[0, 3, 3], [0, 0, 3], [3, 3, 3]],
        "always voting": [[0, 1, 0], [1, 1, 1], [0, 0, 0]],
        "always disagreeing": [[0, 1], [1, 0]] * 20,
    }.items(),
    ids=lambda case: case[0],
)
@pytest.mark.parametrize("class_prior", ["uniform", "votes", "learned"])
def test_odd_votes_have_sound_answers(votes, gradient, class_prior):
    table = read_votes(np.array(votes[1]))
    dependencies = [(0, 1, "similar")] if table.n_sources > 1 else None
    settings = {"max_iter": 40, "n_chains": 30, "tol": 1.0} if gradient == "gibbs" else {}
    model = fitted(table, gradient=gradient, dependencies=dependencies, class_prior=class_prior, **settings)
    probabilities = model.predict_proba(table)
    assert np.all(np.isfinite(weights_of(model)))
    assert np.all(np.isfinite(probabilities))
    assert_close(probabilities.sum(axis=1), np.ones(len(probabilities)))
    assert_close(
        probabilities[~table.covered], np.broadcast_to(model.class_prior_, probabilities[~table.covered].shape)
    )
    if votes[0] == "unanimous":
        assert np.array_equal(model.predict(table), np.array(votes[1])[:, 0])


def test_votes_for_a_single_class_that_has_a_name():
    model = fitted(np.array([["spam", "spam"], ["spam", None]], dtype=object))
    assert_close(model.predict_proba(np.array([["spam", None]], dtype=object)), np.ones((1, 1)))


def test_gold_is_held_and_moves_the_accuracies():
    votes = np.array([[0, 1]] * 30)
    trusting = fitted(votes, np.array([0] * 10 + [-1] * 20), l2=0.001)
    assert trusting.accuracies_[0] > 0.9
    assert trusting.accuracies_[1] < 0.1
    assert np.array_equal(trusting.predict(votes), np.zeros(30))


def test_silence_as_a_label_is_still_silence():
    table = read_votes(VOTES)
    plain, with_silence = (
        fitted(table, dependencies=TANGLED),
        fitted(table.with_abstain_as_label(), dependencies=TANGLED),
    )
    assert_close(weights_of(with_silence), weights_of(plain), "sweeps")


def test_many_connected_sources_are_sampled_and_the_seed_decides(monkeypatch):
    votes, _ = planted_votes(300, [0.8] * 12, 2, seed=2)
    chain = [(j, j + 1, "similar") for j in range(11)]
    settings = {"dependencies": chain, "max_iter": 40, "n_chains": 100, "tol": 1.0}
    first, again, other = (fitted(votes, **settings, random_state=seed) for seed in (0, 0, 1))
    assert first.report_.notes == ["gradient by Gibbs sampling: the objective is an estimate"]
    assert np.array_equal(weights_of(first), weights_of(again))
    assert not np.array_equal(weights_of(first), weights_of(other))
    with pytest.raises(ModelError, match=re.escape("sum over 531,441 joint votes")):
        fitted(votes, **settings, gradient="exact")


def test_too_few_steps_are_not_called_convergence():
    with pytest.warns(NotConvergedWarning):
        fitted(VOTES, gradient="gibbs", max_iter=2, n_chains=10_000, l2=1e-6)
    with pytest.warns(NotConvergedWarning):
        fitted(VOTES, max_iter=2)


# -- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dependencies", "message"),
    [
        ([(0, 1)], "(0, 1) is not a dependency (dependencies[0]). It is a triple (source, source, kind)"),
        (["ab similar"], "'ab similar' is not a dependency"),
        ([7], "7 is not a dependency"),
        ([(0, 1, "alike")], "kind 'alike' is unknown (dependencies[0]). The kinds are 'similar', 'fixing'"),
        ([(0, 1, ["similar"])], "kind ['similar'] is unknown"),
        (
            [(0, 2, "similar"), (0, 4, "fixing")],
            "there is no source 4 (dependencies[1]). Give a name, or a number from 0 to 3; the sources are",
        ),
        ([(0, -1, "similar")], "there is no source -1"),
        ([(0, True, "similar")], "there is no source True"),
        (
            [("a", "z", "similar")],
            "there is no source 'z' (dependencies[0]). Give a name, or a number from 0 to 3; the sources are 'a', 'b',",
        ),
        ([("b", 1, "similar")], "source 'b' is to depend on itself (dependencies[0])"),
        ([(0, 1, "similar"), (1, 0, "similar")], "(1, 0, 'similar') is given twice (dependencies[1])"),
        ([(0, 1, "fixing"), (0, 1, "fixing")], "(0, 1, 'fixing') is given twice"),
    ],
)
def test_dependencies_that_make_no_sense_are_refused(dependencies, message):
    table = read_votes(VOTES, sources=["a", "b", "c", "d"])
    with pytest.raises(ModelError, match=re.escape(message)):
        fitted(table, dependencies=dependencies)


def test_sources_go_by_name_and_by_number():
    table = read_votes(VOTES, sources=["a", "b", "c", "d"])
    named = fitted(table, dependencies=[("a", "c", "fixing"), ("c", "a", "fixing"), ("b", 3, "similar")])
    numbered = fitted(VOTES, dependencies=[(0, 2, "fixing"), (2, 0, "fixing"), (np.int64(1), 3, "similar")])
    assert named.dependencies_ == numbered.dependencies_ == [(0, 2, "fixing"), (2, 0, "fixing"), (1, 3, "similar")]
    assert np.array_equal(named.dependency_weights_, numbered.dependency_weights_)


def test_votes_that_name_no_single_class_are_refused():
    with pytest.raises(ModelError, match="cannot use soft votes"):
        fitted(soft_of(VOTES, 3))
    excluding = read_votes([["a", "not a"], ["b", "a"]], classes=["a", "b", "c"], exclusions={"not a": "a"})
    with pytest.raises(ModelError, match="cannot use exclusion votes"):
        fitted(excluding)
    with pytest.raises(LabelfableError, match="cannot use soft votes"):
        fitted(VOTES).predict_proba(soft_of(VOTES, 3))


@pytest.mark.parametrize("settings", [{"l2": 0}, {"gradient": "newton"}, {"n_chains": 0}, {"accuracy_weight": np.nan}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        fitted(VOTES, **settings)


def test_a_prior_that_is_no_distribution_is_refused():
    with pytest.raises(ModelError, match="is not a distribution over the 3 classes"):
        fitted(VOTES, class_prior=[0.5, 0.5])


# -- real votes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["youtube", "spambase", "cdr", "semeval"])
def test_the_default_keeps_unanimous_votes_and_classes(name):
    """Chosen on votes alone: the least l2 of 1e-3, 0.01, 0.03, 0.1 at which this holds on every set at hand."""
    report = fitted(real_set(name).votes).report_
    assert report.contradicted == 0
    assert report.collapsed == []
