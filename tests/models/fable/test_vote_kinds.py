"""Soft votes and exclusion votes in FABLE's sweep, in every emission: the same bound, the same checks."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from labelfable import FABLE, read_votes
from labelfable.errors import LabelfableWarning
from tests.ascent import assert_ascent
from tests.crowds import planted_votes
from tests.fable_problems import EMISSIONS, Case
from tests.tolerances import TOLERANCE, assert_close
from tests.walk import chained

USUAL = Case(process="inducing", tilt="mean", normaliser="collapsed", n_classes=3, n_subtypes=1, weight=0.7)
CASES = [
    replace(
        USUAL,
        kind=kind,
        emission=emission,
        tables=("posterior", "point")[number % 2],
        silence_weight=0.4,
        firmness=(None, 3.0)[number // 2 % 2],
        seed=number,
    )
    for kind in ("soft", "exclusions")
    for number, emission in enumerate([*EMISSIONS, "pattern", "silence"])
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_emission = pytest.mark.parametrize("emission", EMISSIONS)


@each_case
def test_each_update_is_stationary_and_the_bound_is_the_oracles(case):
    problem = case.problem()
    assert problem.table.is_hard == (case.kind == "exclusions")
    assert problem.table.is_plain == (case.kind == "soft")
    assert_ascent(problem.objective, problem.updates(1), problem.event_axes)
    for factors, reported in chained(problem, 2):
        for name, value in problem.terms(**factors).items():
            assert_close(reported[name], value, "sums", message=name)


@each_case
def test_the_bound_rises_over_a_whole_run(case):
    _, totals = replace(case, n_items=40, n_sources=5, shard_items=16).problem().run(40)
    assert np.all(np.diff(totals) >= -TOLERANCE["float64"].climb * np.abs(totals[:-1]))
    assert totals[-1] > totals[0]


VOTES, TRUTH = planted_votes(150, [0.85, 0.7, 0.65, 0.8], 3, coverage=0.6)
FEATURES = np.eye(3)[TRUTH] + np.random.default_rng(0).normal(scale=0.9, size=(150, 3))


def fitted(votes, emission):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        return FABLE(emission=emission, max_iter=40, n_jobs=1, calibration="none").fit(votes, features=FEATURES)


@each_emission
def test_soft_votes_that_are_sure_are_hard_votes(emission):
    sure = np.where(VOTES[:, :, None] >= 0, np.eye(3)[VOTES], 0.0)
    expected = fitted(VOTES, emission).predict_proba(VOTES, features=FEATURES)
    assert_close(fitted(sure, emission).predict_proba(sure, features=FEATURES), expected, "sweeps")


@each_emission
def test_what_soft_votes_leave_open_stays_open(emission):
    """Half a vote for each of two classes tells less than a vote; evidence is linear in it."""
    model = fitted(VOTES, emission)
    votes = np.repeat(np.where(VOTES[:, :, None] >= 0, np.eye(3)[VOTES], 0.0)[:1], 3, axis=0)
    votes[:, 0] = np.array([[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]])
    logs = np.log(model.predict_proba(votes, features=np.repeat(FEATURES[:1], 3, axis=0)))
    odds = logs[:, 0] - logs[:, 1]
    assert_close(odds[2], (odds[0] + odds[1]) / 2, "sums")
    assert odds[0] > odds[2] > odds[1]


@each_emission
def test_an_exclusion_speaks_against_its_class(emission):
    """A source whose exclusions are right moves its items away from the class that it rules out."""
    names = np.array(["ant", "bee", "cat", None], dtype=object)
    words = names[VOTES]
    rules_out = (TRUTH != 0) & (np.arange(150) % 2 == 0)
    words = np.column_stack((words, np.where(rules_out, "not ant", None)))
    table = read_votes(words, classes=["ant", "bee", "cat"], exclusions={"not ant": "ant"})
    model = fitted(table, emission)
    without = words.copy()
    without[:, -1] = None
    given, none = (model.predict_proba(votes, features=FEATURES)[rules_out, 0] for votes in (words, without))
    assert np.all(given < none)
