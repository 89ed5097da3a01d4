"""inference="published": the published method from start to stop, and what it says when it stops.

tests/golden/fable_published.npz holds what the published program (github.com/JieyuZ2/wrench, its labelmodel/fable.py at
commit ae0784e, run with PyTorch 2.14) answers on made-up votes: its random start and Lanczos probes, its answer after
each sound iteration, and its ν and μ where it stops.  Features "apart" are hardly alike, "alike" share a direction.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import labelfable
from labelfable.errors import LabelfableWarning
from labelfable.models.fable import published_rules
from labelfable.models.fable.published import PublishedFit, fit_published
from labelfable.models.fable.published_settings import PublishedSettings
from labelfable.models.fable.published_steps import BrokenDownError, PublishedState, PublishedSteps
from labelfable.votes.features import read_features
from tests.crowds import planted_votes
from tests.oracles import published as oracle
from tests.real_data import FOLDER, real_set
from tests.tolerances import assert_close

K, M = 3, 2
VOTES, TRUTH = planted_votes(40, [0.8, 0.7, 0.6, 0.9], K)
DRAWS = np.random.default_rng(1)
ALIKE = DRAWS.standard_normal((40, 6)) + 2
APART = np.hstack((3 * np.eye(40), np.eye(20)[np.arange(40) % 20]))
EXACT = PublishedSettings(n_subtypes=M, rank=None, tolerance=0)


def fit(votes=VOTES, features=ALIKE, settings=EXACT, *, n_classes=K) -> PublishedFit:
    """A fit that warns once if it stops, and else not at all."""
    table = labelfable.read_votes(votes, classes=n_classes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fit_published(table, features, settings, 0)
    said = [(str(warning.message), warning.category) for warning in caught]
    assert said == ([(found.stopped, LabelfableWarning)] if found.stopped else [])
    return found


@pytest.fixture
def golden():
    with np.load(Path(__file__).parents[2] / "golden" / "fable_published.npz") as stored:
        return {name: stored[name] for name in stored}


@pytest.fixture
def start_of_program(golden, monkeypatch):
    def start(steps):
        ρ = (steps.start_shares[:, :, None] * golden["subtypes"]).reshape(len(golden["mean"]), -1)
        variance = np.repeat(steps.start_variance[:, None], steps.n_components, axis=1)
        return PublishedState(ρ, golden["mean"].astype(float), variance, golden["rate_shape"][:, None].astype(float))

    monkeypatch.setattr(PublishedSteps, "start", start)


class Probes:
    """In the place of the random generator: the program's probes, one iteration after the other."""

    def __init__(self, probes):
        self.left = iter(probes)

    def standard_normal(self, shape):
        return next(self.left).astype(float).reshape(shape)


@pytest.mark.usefixtures("start_of_program")
@pytest.mark.parametrize("case", ["apart", "apart_rank", "alike"])
def test_answers_are_those_of_the_published_program(case, golden, monkeypatch):
    by_rank = case == "apart_rank"
    if by_rank:
        monkeypatch.setattr(np.random, "default_rng", lambda _seed: Probes(golden["apart_rank_probes"]))
    answers, features = golden[f"{case}_answers"], golden[case.removesuffix("_rank")]
    settings = replace(EXACT, variant="code", rank=8 if by_rank else None, tolerance=0.01)
    for iterations, answer in enumerate(answers, 1):
        found = fit(golden["votes"], features, replace(settings, max_iter=iterations))
        assert (found.iterations, found.stopped) == (iterations, None)
        assert_close(found.probabilities, answer)
    found = fit(golden["votes"], features, settings)
    assert found.iterations == len(answers)
    assert f"break down in iteration {len(answers) + 1}: ξ" in found.stopped
    assert_close(found.probabilities, answers[-1])
    if case == "apart":
        assert_close(found.shared.classes, golden["apart_nu"])
        assert_close(found.shared.tables, np.moveaxis(golden["apart_mu"].reshape(-1, K * M, K + 1), 1, 2))


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_iterations_are_those_of_the_oracle_until_both_break_down(variant):
    steps = PublishedSteps(
        labelfable.read_votes(VOTES, classes=K), read_features(APART), replace(EXACT, variant=variant), 0
    )
    method, state, iterations = oracle.Method(VOTES, APART, K, M, variant), steps.start(), 0
    assert_close(steps.start_shares, oracle.start_shares(VOTES, K))
    assert_close(np.array(steps.table_prior[0]), method.prior)
    while state.mean.max() < 2 * np.log(2):
        told = method.iterate(state.responsibilities, state.mean, state.variance, state.rate_shape[:, 0])
        state, _ = steps.iterate(state, steps.shared_factors(state.responsibilities))
        found = (state.responsibilities, state.mean, state.variance, state.rate_shape[:, 0])
        for mine, theirs in zip(found, told, strict=True):
            assert_close(mine, theirs, "sums")
        iterations += 1
    assert iterations > 1
    with pytest.raises(ValueError, match=r"math domain error|expected a positive input"):
        method.iterate(state.responsibilities, state.mean, state.variance, state.rate_shape[:, 0])
    with pytest.raises(BrokenDownError):
        steps.iterate(state, steps.shared_factors(state.responsibilities))


def test_it_stops_where_it_breaks_down_and_keeps_the_last_sound_answer():
    found = fit()
    steps = PublishedSteps(labelfable.read_votes(VOTES, classes=K), read_features(ALIKE), EXACT, 0)
    state = steps.start()
    state, _ = steps.iterate(state, steps.shared_factors(state.responsibilities))
    broken = np.log(2) - state.mean / 2 <= 0
    item, component = np.argwhere(broken)[0].tolist()
    place = f"at item {item}, class {component // M}, subtype {component % M} (and at {broken.sum() - 1} more of 240"
    assert f"rules break down in iteration 2: ξ = log 2 − m̂/2 is {np.log(2) - state.mean[item, component] / 2:.4g}" in (
        found.stopped
    )
    assert place in found.stopped
    assert "Equation (FP.5) takes its logarithm" in found.stopped
    assert "The answer is that of iteration 1, which the features have not reached yet" in found.stopped
    assert found.iterations == len(found.history) == 1
    assert_close(found.probabilities, steps.class_sum(state.responsibilities))
    assert np.array_equal(found.probabilities, fit(settings=replace(EXACT, max_iter=1)).probabilities)


def test_an_answer_of_one_iteration_has_not_seen_the_features():
    once = replace(EXACT, max_iter=1)
    assert np.array_equal(fit().probabilities, fit(features=ALIKE[::-1]).probabilities)
    assert np.array_equal(fit(settings=once).probabilities, fit(features=None, settings=once).probabilities)
    twice = replace(EXACT, max_iter=2)
    assert not np.allclose(fit(features=APART, settings=twice).probabilities, fit(features=None).probabilities)


def planted(value, rule):
    """The rule with one wrong number, at item 4, class 2, subtype 1."""

    def wrong(*arguments):
        found = rule(*arguments)
        spoilt = found[0] if isinstance(found, tuple) else found
        spoilt[4, 2 * M + 1] = value
        return found

    return wrong


@pytest.mark.parametrize(
    ("name", "value", "quantity", "equation"),
    [
        ("update_poisson_mean", np.nan, "γ is nan", "FP.3"),
        ("update_poisson_mean", np.inf, "γ is inf", "FP.3"),
        ("update_coefficients", np.inf, "θ is inf", "FP.6"),
        ("exact_process", np.nan, "m̂ is nan", "FP.6"),
        ("update_responsibilities", np.nan, "ρ is nan", "FP.8"),
    ],
)
def test_every_quantity_that_is_no_number_is_named(name, value, quantity, equation, monkeypatch):
    monkeypatch.setattr(published_rules, name, planted(value, getattr(published_rules, name)))
    found = fit()
    assert f"break down in iteration 1: {quantity} at item 4, class 2, subtype 1" in found.stopped
    assert f"Equation ({equation})" in found.stopped
    assert "The answer is that of the start, the shares of the votes" in found.stopped
    assert (found.iterations, found.history) == (0, [])
    assert_close(found.probabilities, oracle.start_shares(VOTES, K))


def test_it_ends_when_nothing_moves_and_says_how_it_ended():
    found = fit(features=APART, settings=replace(EXACT, tolerance=0.99))
    assert (found.iterations, found.converged, found.stopped) == (1, True, None)
    assert re.fullmatch(r"published rules: the last of 1 iterations moved a probability by 0\.\d+", found.outcome)
    found = fit(features=APART, settings=replace(EXACT, max_iter=1))
    assert not found.converged
    assert found.outcome.endswith(", more than their tolerance")
    assert fit().outcome == fit().stopped


@pytest.mark.parametrize(("variant", "rank"), [("paper", 50), ("code", 50), ("paper", None)])
def test_youtube_breaks_down_in_its_second_iteration_before_the_features_count(variant, rank):
    votes = real_set("youtube").votes
    with np.load(FOLDER / "youtube.npz") as stored:
        features = stored["features"]
    settings = PublishedSettings(variant=variant, rank=rank)
    assert settings.max_iter == 10
    found = fit(votes, features, settings, n_classes=2)
    assert "break down in iteration 2: ξ" in found.stopped
    assert found.iterations == 1
    once = fit(votes, None, replace(settings, max_iter=1), n_classes=2)
    assert once.stopped is None
    assert np.array_equal(found.probabilities, once.probabilities)
