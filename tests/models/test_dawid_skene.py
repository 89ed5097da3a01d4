"""Dawid-Skene: the mathematics of EM, in the order of power of docs/design.md."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labelfable import DawidSkene, read_votes
from labelfable.models import confusion as confusion_module
from labelfable.models import dawid_skene as dawid_skene_module
from labelfable.numerics.special import softmax
from tests.ascent import assert_ascent
from tests.oracles import confusion as oracle
from tests.problems import DAWID_SKENE_CASES, N_CLASSES, DawidSkeneProblem, fitted
from tests.tolerances import assert_close


@pytest.fixture(params=DAWID_SKENE_CASES)
def problem(request) -> DawidSkeneProblem:
    return DawidSkeneProblem(request.param)


# -- 1 and 2: stationarity and strict monotonicity --------------------------------------------------------------------


def test_each_update_is_stationary_and_none_lowers_the_objective(problem):
    assert_ascent(problem.objective, problem.updates(3), problem.event_axes)


# -- 3: the objective is the likelihood -------------------------------------------------------------------------------


def test_objective_after_the_e_step_is_the_log_likelihood_itself(problem):
    if problem.is_soft:
        pytest.skip("a soft vote is a weight, so that there is no likelihood of hard votes to compare with")
    for state in problem.setting.walk(3):
        if state.after == "local":
            expected = oracle.dawid_skene_log_likelihood(
                problem.spoken,
                np.exp(state.global_.log_confusion),
                np.exp(state.global_.logs.components),
                problem.gold,
            )
            assert_close(state.reported["log-likelihood"], expected, "sums")


def test_history_is_that_likelihood_and_rises_strictly(problem):
    model = fitted(problem.model, problem.votes, problem.gold, max_iter=6)
    reported = [sum(state.reported.values()) for state in problem.setting.walk(6) if state.after == "local"]
    assert model.report_.objective == reported
    assert np.all(np.diff(reported) > 0)


# -- 4: agreement with loops ------------------------------------------------------------------------------------------


def test_every_step_agrees_with_loops_written_from_the_equations(problem):
    ρ = oracle.majority_shares(problem.spoken, problem.meaning, problem.gold)
    smoothing = problem.model.smoothing
    fixed = problem.setting.sweeps.fixed_proportions
    for state in problem.setting.walk(4):
        if state.after == "local":
            tables = oracle.dawid_skene_tables(problem.spoken, ρ, problem.shape, smoothing)
            proportions = oracle.dawid_skene_proportions(ρ, smoothing) if problem.learned else fixed
            assert_close(np.exp(state.global_.log_confusion), tables, "sums")
            assert_close(np.exp(state.global_.logs.components), proportions, "sums")
            ρ = oracle.responsibilities(problem.spoken, oracle.logs_of(tables), np.log(proportions), problem.gold)
            assert_close(state.responsibilities, ρ, "sums")
        tables_here, proportions_here = np.exp(state.global_.log_confusion), np.exp(state.global_.logs.components)
        assert_close(
            sum(state.reported.values()),
            problem.objective(state.responsibilities, tables_here, proportions_here),
            "sums",
            message=state.after,
        )


def test_fitted_attributes_are_the_ones_that_the_probabilities_come_from(problem):
    model = fitted(problem.model, problem.votes, problem.gold)
    assert_close(model.confusion_.sum(axis=1), np.ones((problem.shape[0], N_CLASSES)))
    assert_close(model.class_prior_.sum(), 1.0)
    ρ = oracle.responsibilities(problem.spoken, oracle.logs_of(model.confusion_), np.log(model.class_prior_))
    assert_close(model.predict_proba(problem.votes), ρ, "sums")


def test_exclusion_votes_agree_with_loops():
    words = np.array(
        [["a", "b", None, "c"], ["not c", "a", "b", None], ["not c", None, "c", "c"], ["b", "b", "a", "b"]]
    )
    table = read_votes(words, classes=["a", "b", "c"], exclusions={"not c": "c"})
    model = DawidSkene(abstain="missing", class_prior="learned", smoothing=0.2, tol=1e-10).fit(table)
    codes = {"a": 0, "b": 1, "c": 2, "not c": 3, None: -1}
    spoken = oracle.spoken_of(np.vectorize(codes.get)(words))
    meaning = np.vstack((np.eye(3), [[0.5, 0.5, 0.0]]))
    ρ = oracle.majority_shares(spoken, meaning, None)
    for _ in range(model.report_.iterations):
        tables, shares = oracle.dawid_skene_tables(spoken, ρ, (4, 4), 0.2), oracle.dawid_skene_proportions(ρ, 0.2)
        ρ = oracle.responsibilities(spoken, np.log(tables), np.log(shares))
    assert_close(model.confusion_, tables, "sweeps")
    assert_close(model.predict_proba(table), ρ, "sweeps")


# -- 8: teeth ---------------------------------------------------------------------------------------------------------

true_responsibilities = confusion_module.responsibilities
true_local_statistics = confusion_module.local_statistics


def without_proportions(shard, logs, n_classes):
    return true_responsibilities(shard, replace(logs, components=0 * logs.components), n_classes)


def with_evidence_against(shard, logs, n_classes):
    return true_responsibilities(shard, replace(logs, votes=-logs.votes), n_classes)


def hard(shard, logs, n_classes):
    ρ, normaliser = true_responsibilities(shard, logs, n_classes)
    return (ρ >= ρ.max(axis=1, keepdims=True)).astype(float), normaliser


def normalised_over_items(logits):
    return softmax(logits.T)[0].T, softmax(logits)[1]


def without_weights(shard, logs, n_classes):
    return true_local_statistics(replace(shard, weights=np.ones_like(shard.weights)), logs, n_classes)


def tables_over_classes(counts, smoothing):
    return np.log((counts + smoothing) / (counts + smoothing).sum(axis=2, keepdims=True))


def tables_without_prior(counts, smoothing):
    return np.log((counts + smoothing / 2) / (counts + smoothing / 2).sum(axis=1, keepdims=True))


def tables_with_prior_once(counts, smoothing):
    """The prior's mode taken as Dirichlet(smoothing) − 1, a slip of one."""
    return np.log(
        np.maximum(counts + smoothing - 1, 0.01) / np.maximum(counts + smoothing - 1, 0.01).sum(axis=1)[:, None]
    )


def proportions_without_prior(totals, smoothing):
    return totals / totals.sum()


def proportions_normalised_early(totals, smoothing):
    return (totals / totals.sum() + smoothing) / (1 + len(totals) * smoothing)


SLIPS = {
    "E step forgets the proportions": (confusion_module, "responsibilities", without_proportions),
    "E step has the wrong sign": (confusion_module, "responsibilities", with_evidence_against),
    "E step takes the likeliest class (no entropy)": (confusion_module, "responsibilities", hard),
    "E step normalises over items": (confusion_module, "softmax_below_zero", normalised_over_items),
    "weights of rows forgotten": (dawid_skene_module, "local_statistics", without_weights),
    "tables normalised over classes": (dawid_skene_module, "update_confusion", tables_over_classes),
    "tables with half of the smoothing": (dawid_skene_module, "update_confusion", tables_without_prior),
    "tables with the prior off by one": (dawid_skene_module, "update_confusion", tables_with_prior_once),
    "proportions forget the smoothing": (dawid_skene_module, "update_proportions", proportions_without_prior),
    "proportions smoothed too late": (dawid_skene_module, "update_proportions", proportions_normalised_early),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_planted_slip_is_caught(slip, monkeypatch):
    problem = DawidSkeneProblem("repeated rows")
    assert_ascent(problem.objective, problem.updates(3), problem.event_axes)
    monkeypatch.setattr(*SLIPS[slip])
    with pytest.raises(AssertionError, match=r"not stationary|fell|never rose"):
        assert_ascent(problem.objective, problem.updates(3), problem.event_axes)


def test_a_bound_that_forgets_the_entropy_is_caught(monkeypatch):
    problem = DawidSkeneProblem("smoothed")

    def no_entropy(shard, logs, n_classes):
        return replace(true_local_statistics(shard, logs, n_classes), entropy=0.0)

    monkeypatch.setattr(dawid_skene_module, "local_statistics", no_entropy)
    with pytest.raises(AssertionError):
        test_objective_after_the_e_step_is_the_log_likelihood_itself(problem)
