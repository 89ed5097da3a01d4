"""iBCC and EBCC: the mathematics of mean-field inference, in the order of power of docs/design.md."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labelfable import EBCC, IBCC, read_votes
from labelfable.models import confusion as confusion_module
from labelfable.models.bcc import sweeps as bcc_module
from labelfable.models.confusion import ConfusionLogs
from labelfable.numerics.distributions import dirichlet_divergence, dirichlet_mean, dirichlet_mean_log
from labelfable.numerics.namespace import digamma
from tests.ascent import assert_ascent
from tests.oracles import confusion as oracle
from tests.problems import BCC_CASES, N_CLASSES, BCCProblem, fitted, prior_of
from tests.tolerances import assert_close


@pytest.fixture(params=BCC_CASES)
def problem(request) -> BCCProblem:
    return BCCProblem(request.param)


# -- 1 and 2: stationarity and strict monotonicity --------------------------------------------------------------------


def test_each_update_is_stationary_and_none_lowers_the_bound(problem):
    assert_ascent(problem.objective, problem.updates(2), problem.event_axes)


def test_history_rises_strictly(problem):
    objective = fitted(problem.model, problem.votes, problem.gold).report_.objective
    assert len(objective) == 8
    assert np.all(np.diff(objective) > 0)


# -- 3: the bound is below the evidence -------------------------------------------------------------------------------

FEW = np.array([[0, 0, 1], [1, 1, -1], [0, -1, 0], [1, 0, 1]])
FEW_GOLD = np.array([-1, 1, -1, -1])


@pytest.mark.parametrize("abstain", ["missing", "label"])
@pytest.mark.parametrize("class_prior", ["learned", [0.7, 0.3]], ids=["learned", "fixed"])
@pytest.mark.parametrize("n_subtypes", [1, 2])
@pytest.mark.parametrize("gold", [None, FEW_GOLD], ids=["no gold", "gold"])
def test_the_bound_stays_below_the_exact_log_evidence(abstain, class_prior, n_subtypes, gold):
    """Four items, all 2⁴ or 4⁴ assignments summed: no constant may be missing and none may be added."""
    model = EBCC(n_subtypes, abstain=abstain, class_prior=class_prior, n_init=3, subtype_concentration=0.5)
    proportions = None if class_prior == "learned" else np.array(class_prior)
    spoken = oracle.spoken_of(FEW, 2 if abstain == "label" else None)
    for right, wrong in ((0.2, 0.02), (2.0, 0.5), (20.0, 1.0)):
        prior = prior_of(model.set_params(right=right, wrong=wrong), FEW, proportions, 2)
        assert max(fitted(model, FEW, gold).report_.objective) < oracle.bcc_log_evidence(spoken, prior, gold)


def test_the_bound_meets_the_evidence_where_the_tables_are_known():
    """With firm priors the factors hardly depend on each other: the gap shrinks with the prior's size, to nothing."""
    gaps = []
    for counts in (1.0, 10.0, 100.0, 1000.0, 10_000.0):
        model = IBCC(abstain="missing", class_prior=[0.6, 0.4], right=0.9 * counts, wrong=0.1 * counts)
        evidence = oracle.bcc_log_evidence(oracle.spoken_of(FEW), prior_of(model, FEW, np.array([0.6, 0.4]), 2))
        gaps.append(evidence - fitted(model, FEW, max_iter=50).report_.objective[-1])
    assert np.all(np.diff(gaps) < 0)
    assert 0 < gaps[-1] < gaps[0] / 1000


# -- 4: agreement with loops ------------------------------------------------------------------------------------------


def test_every_step_agrees_with_loops_written_from_the_equations(problem):
    ρ = None
    for state in problem.setting.walk(3):
        expected = None if ρ is None else oracle.bcc_update(problem.spoken, ρ, problem.prior)
        found = problem.factors_of(state.global_)
        if expected is not None:
            for name, value in zip(("μ", "η", "ν"), expected, strict=True):
                assert (found[name] is None) == (value is None)
                if value is not None:
                    assert_close(found[name], value, "sums", message=name)
        logs = oracle.expected_logs(*found.values(), problem.prior.proportions)
        n_subtypes = problem.prior.subtypes.shape[1]
        if state.after == "local":
            ρ = oracle.responsibilities(problem.spoken, *logs, problem.gold, n_subtypes)
            assert_close(state.responsibilities, ρ, "sums")
        bound = problem.objective(ρ=state.responsibilities, **found)
        assert_close(sum(state.reported.values()), bound, "sums", message=state.after)


def test_start_is_majority_vote_split_over_subtypes(problem):
    """Class sums of the first totals are those of majority vote's shares, whatever the split."""
    sweeps, shards = problem.setting.sweeps, problem.setting.shards
    totals = sum(sweeps.start(shard)[1].totals for shard in shards).reshape(problem.prior.subtypes.shape)
    shares = oracle.majority_shares(problem.spoken, problem.meaning, problem.gold)
    assert_close(totals.sum(axis=1), shares.sum(axis=0), "sums")
    if totals.shape[1] > 1:
        assert len(np.unique(np.round(totals, 6))) == totals.size


def test_fitted_attributes_are_the_ones_that_the_probabilities_come_from(problem):
    model = fitted(problem.model, problem.votes, problem.gold)
    n_subtypes = problem.prior.subtypes.shape[1]
    assert_close(model.confusion_.sum(axis=1), np.ones_like(model.confusion_.sum(axis=1)))
    assert_close(model.confusion_, model.vote_concentration_ / model.vote_concentration_.sum(axis=1, keepdims=True))
    assert_close(model.class_prior_.sum(), 1.0)
    assert_close(model.subtype_prior_.sum(axis=1), np.ones(N_CLASSES))
    if problem.prior.proportions is not None:
        assert_close(model.class_prior_, problem.prior.proportions)
    ρ = oracle.responsibilities(problem.spoken, model.log_confusion_, model.log_components_)
    assert_close(model.predict_proba(problem.votes), ρ.reshape(len(ρ), N_CLASSES, n_subtypes).sum(axis=2), "sums")


def test_prior_counts_follow_what_a_label_speaks_for():
    """A class: its own; an exclusion: all others; silence: all."""
    table = read_votes(np.array([["a", "not c"]]), classes=["a", "b", "c"], exclusions={"not c": "c"})
    found = bcc_module.vote_concentration(table.with_abstain_as_label(), 3.0, 0.5, 2)
    expected = np.array([[3, 0.5, 0.5], [0.5, 3, 0.5], [0.5, 0.5, 3], [3, 3, 0.5], [3, 3, 3]])
    assert np.array_equal(found, np.broadcast_to(np.repeat(expected, 2, axis=1), (2, 5, 6)))


# -- 8: teeth ---------------------------------------------------------------------------------------------------------

true_responsibilities = confusion_module.responsibilities
true_local_statistics = confusion_module.local_statistics
true_globals_of = bcc_module.BCCSweeps.globals_of


def without_components(shard, logs, n_classes):
    return true_responsibilities(shard, replace(logs, components=0 * logs.components), n_classes)


def hard(shard, logs, n_classes):
    ρ, normaliser = true_responsibilities(shard, logs, n_classes)
    return (ρ >= ρ.max(axis=1, keepdims=True)).astype(float), normaliser


def normalised_within_classes(shard, logs, n_classes):
    """Subtypes' responsibilities sum to one in each class, then classes are weighted alike."""
    ρ, normaliser = true_responsibilities(shard, logs, n_classes)
    by_class = ρ.reshape(len(ρ), n_classes, -1) + 1e-12
    return (by_class / by_class.sum(axis=2, keepdims=True) / n_classes).reshape(ρ.shape), normaliser


def without_weights(shard, logs, n_classes):
    return true_local_statistics(replace(shard, weights=np.ones_like(shard.weights)), logs, n_classes)


def without_whole(concentration):
    """E log v without ψ(Σ μ)."""
    return digamma(concentration)


def log_of_mean(concentration):
    return np.log(dirichlet_mean(concentration))


def over_components(concentration):
    """E log v normalised over components, not labels."""
    return dirichlet_mean_log(concentration)


def subtypes_forgotten(self, votes, classes, subtypes):
    whole = true_globals_of(self, votes, classes, subtypes)
    log_classes = np.log(self.proportions) if classes is None else dirichlet_mean_log(classes)
    components = np.repeat(log_classes, subtypes.shape[1])
    return replace(whole, logs=ConfusionLogs(whole.logs.votes, components))


def classes_forgotten(self, votes, classes, subtypes):
    whole = true_globals_of(self, votes, classes, subtypes)
    return replace(whole, logs=ConfusionLogs(whole.logs.votes, dirichlet_mean_log(subtypes).ravel()))


SLIPS = {
    "ρ forgets the proportions": (confusion_module, "responsibilities", without_components),
    "ρ takes the likeliest component (no entropy)": (confusion_module, "responsibilities", hard),
    "ρ normalised within classes": (confusion_module, "responsibilities", normalised_within_classes),
    "ρ forgets the classes' proportions": (bcc_module.BCCSweeps, "globals_of", classes_forgotten),
    "ρ forgets the subtypes' proportions": (bcc_module.BCCSweeps, "globals_of", subtypes_forgotten),
    "weights of rows forgotten": (bcc_module, "local_statistics", without_weights),
    "E log v without ψ(Σ μ)": (bcc_module, "dirichlet_mean_log", without_whole),
    "log of the mean for the mean of the log": (bcc_module, "dirichlet_mean_log", log_of_mean),
    "E log v normalised over components": (bcc_module, "mean_log_votes", over_components),
    "μ forgets its prior": (bcc_module, "update_votes", lambda counts, _prior: counts + 1e-9),
    "μ with the prior's sign": (bcc_module, "update_votes", lambda counts, prior: np.abs(counts - prior)),
    "μ with the prior off by one": (bcc_module, "update_votes", lambda counts, prior: counts + prior + 1),
    "μ with counts of the other axis": (
        bcc_module,
        "update_votes",
        lambda counts, prior: prior + counts.sum(axis=1, keepdims=True) / counts.shape[1],
    ),
    "ν forgets its prior": (bcc_module, "update_classes", lambda totals, _prior: totals.sum(axis=1) + 1e-9),
    "ν counts subtypes for classes": (bcc_module, "update_classes", lambda totals, prior: prior + totals.mean(axis=1)),
    "η forgets its prior": (bcc_module, "update_subtypes", lambda totals, _prior: totals + 1e-9),
    "η shared by all classes": (
        bcc_module,
        "update_subtypes",
        lambda totals, prior: prior + np.broadcast_to(totals.sum(axis=0), totals.shape),
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_planted_slip_is_caught(slip, monkeypatch):
    problem = BCCProblem("EBCC, repeated rows")
    monkeypatch.setattr(*SLIPS[slip])
    with pytest.raises(AssertionError, match=r"not stationary|fell|never rose"):
        assert_ascent(problem.objective, problem.updates(2), problem.event_axes)


def no_entropy(shard, logs, n_classes):
    return replace(true_local_statistics(shard, logs, n_classes), entropy=0.0)


BOUND_SLIPS = {
    "no entropy": ("local_statistics", no_entropy),
    "divergences with the wrong sign": ("dirichlet_divergence", lambda q, p: -dirichlet_divergence(q, p)),
    "divergences from prior to posterior": ("dirichlet_divergence", lambda q, p: dirichlet_divergence(p, q)),
    "divergences without their constants": (
        "dirichlet_divergence",
        lambda q, p: np.sum((q - p) * dirichlet_mean_log(q), axis=-1),
    ),
}


@pytest.mark.parametrize("slip", BOUND_SLIPS)
def test_a_slip_in_the_bound_is_caught(slip, monkeypatch):
    monkeypatch.setattr(bcc_module, *BOUND_SLIPS[slip])
    with pytest.raises(AssertionError):
        test_every_step_agrees_with_loops_written_from_the_equations(BCCProblem("EBCC, repeated rows"))
