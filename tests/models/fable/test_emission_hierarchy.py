"""Learned strengths of the votes' prior: slopes, the maximum, and strengths that were planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labelfable.models.fable import emission as emission_module
from labelfable.models.fable.emission import Emission, VotePrior
from labelfable.models.fable.emission_hierarchy import Hierarchy, rate_slopes, table_slopes, update_strengths
from tests.fable_problems import EMISSIONS, Case
from tests.oracles import fable as oracle
from tests.tolerances import TOLERANCE, assert_close

L, LABELS, C = 3, 3, 2
DRAWS = np.random.default_rng(0)
RIGHT = DRAWS.uniform(0, 2, size=(L, LABELS, C)) * (DRAWS.random((L, LABELS, C)) < 0.6)
WRONG = DRAWS.uniform(0, 2, size=(L, LABELS, C))
UNIT = DRAWS.uniform(0.5, 2, size=C)
START = (1.3, 0.6)
AFTER = DRAWS.uniform(0.2, 9, size=(L, LABELS, C))
RATE = DRAWS.uniform(3, 9, size=C)
STEP = TOLERANCE["float64"].step


def hierarchy(emission="fired", firmness=2.0):
    return Hierarchy(RIGHT, WRONG, 0.05, START, firmness, UNIT if emission == "rates" else None)


def model(emission, *, is_point):
    """What the oracle needs to price tables."""
    nothing = np.zeros(0)
    return oracle.Model(
        "joint", C, 1, emission, [], nothing, nothing, nothing, RIGHT, point_tables=is_point,
        learned=oracle.Learned(**vars(hierarchy(emission))),
    )  # fmt: skip


def parameters(emission):
    """Any q(v): concentration, rate and speech."""
    speech = AFTER[:, 0] + 1 if emission == "silence" else None
    return AFTER, RATE if emission == "rates" else None, speech


def price(emission, strengths, *, is_point):
    """What the strengths have to say in the bound, by the oracle."""
    known = model(emission, is_point=is_point)
    fall = oracle.strengths_fall(known, strengths)
    return -oracle.vote_divergence(known, *parameters(emission), strengths) - fall


def learned(emission, start=START, *, is_point):
    return Emission(emission, is_point)._strengths(hierarchy(emission), start, *parameters(emission))


def caught(emission, monkeypatch, *, is_point):
    """The slopes that a factor hands to Newton."""
    seen = []
    monkeypatch.setattr(emission_module, "update_strengths", lambda _h, at, slopes, **_: seen.append(slopes) or at)
    learned(emission, is_point=is_point)
    return seen[0]


@pytest.mark.parametrize("is_point", [False, True])
@pytest.mark.parametrize("emission", EMISSIONS)
def test_slopes_are_those_of_the_oracles_divergence(emission, is_point, monkeypatch):
    slopes = caught(emission, monkeypatch, is_point=is_point)
    known, here = model(emission, is_point=is_point), np.array([0.9, 1.1])

    def value(at):
        return -oracle.vote_divergence(known, *parameters(emission), at)

    found = slopes(tuple(here))
    assert_close(found.value - slopes((2.0, 0.3)).value, value(here) - value((2.0, 0.3)), "sums")
    for axis in range(2):
        aside = STEP * np.eye(2)[axis]
        slope = (value(here + aside) - value(here - aside)) / (2 * STEP)
        assert_close(found.gradient[axis], slope, "quadrature")
        bend = (slopes(tuple(here + aside)).gradient - slopes(tuple(here - aside)).gradient) / (2 * STEP)
        assert_close(found.curvature[axis], bend, "quadrature")


@pytest.mark.parametrize("is_point", [False, True])
@pytest.mark.parametrize("emission", EMISSIONS)
def test_the_maximum_is_found_from_anywhere(emission, is_point):
    """It is concave in both: no place near the end is better, and every start ends there."""
    ends = [learned(emission, at, is_point=is_point) for at in ((1.3, 0.6), (1.0, 0.9), (1.89, 0.01), (1e-3, 1.899))]
    best = price(emission, ends[0], is_point=is_point)
    for end in ends[1:]:
        assert_close(np.array(end), np.array(ends[0]), "sweeps")
    if is_point:
        assert_close(sum(ends[0]), sum(START))
        others = [(ends[0][0] + d, ends[0][1] - d) for d in (-0.1, -1e-3, 1e-3, 0.1)]
    else:
        assert_close(np.array(learned(emission, (40.0, 1e-4), is_point=is_point)), np.array(ends[0]), "sweeps")
        others = [(ends[0][0] * x, ends[0][1] * y) for x in (0.9, 1, 1.1) for y in (0.9, 1, 1.1) if (x, y) != (1, 1)]
    assert all(price(emission, other, is_point=is_point) < best for other in others)


@pytest.mark.parametrize("is_point", [False, True])
@pytest.mark.parametrize("emission", EMISSIONS)
def test_without_votes_the_strengths_stay_where_they_were_set(emission, is_point):
    kept = hierarchy(emission)
    prior = VotePrior(kept.concentration(START), kept.rate(START), kept)
    found = Emission(emission, is_point).factor(prior, 0 * RIGHT, np.zeros(C))
    assert_close(np.array(found.strengths), np.array(START))
    assert_close(found.divergence, 0.0)


@pytest.mark.parametrize("emission", ["pattern", "fired"])
def test_planted_strengths_come_back(emission):
    """Tables drawn from the prior, each seen thousands of times: x and y within a few of their own errors."""
    draws, size, truth = np.random.default_rng(1), 400, (6.0, 2.5)
    right = np.broadcast_to(np.eye(3), (size, 3, 3))
    kept = Hierarchy(right, (1 - right) / 2, 0.01, (1.0, 1.0), 1e-6)
    rule, β = Emission(emission), kept.concentration(truth)
    tables = draws.gamma(β)
    tables /= tables.sum(axis=(0, 1) if emission == "pattern" else 1, keepdims=True)
    prior = VotePrior(kept.concentration(kept.start), None, kept)
    found = rule.factor(prior, 1e6 * tables, np.ones(3))
    for _ in range(3):
        found = rule.factor(prior, 1e6 * tables, np.ones(3), found.strengths)
    assert abs(found.strengths[0] / truth[0] - 1) < 5 / np.sqrt(3 * size)
    assert abs(found.strengths[1] / truth[1] - 1) < 5 / np.sqrt(3 * size)


@pytest.mark.parametrize("tables", ["posterior", "point"])
@pytest.mark.parametrize("emission", EMISSIONS)
def test_held_firmly_the_prior_is_a_fixed_one(emission, tables):
    case = Case(n_items=30, n_sources=4, emission=emission, tables=tables, firmness=1e14, process="inducing")
    problem, fixed = case.problem(), case.problem()
    fixed.prior = replace(fixed.prior, hierarchy=None)
    expected, found = fixed.run(8)[1], problem.run(8)[1]
    assert_close(np.array(found), np.array(expected), "sweeps")


@pytest.mark.parametrize("tables", ["posterior", "point"])
@pytest.mark.parametrize("emission", EMISSIONS)
def test_learning_raises_the_bound_in_every_sweep_and_above_that_of_a_fixed_prior(emission, tables):
    case = Case(n_items=60, n_sources=5, emission=emission, tables=tables, firmness=0.5, process="linear", weight=0.7)
    problem, fixed = case.problem(), case.problem()
    fixed.prior = replace(fixed.prior, hierarchy=None)
    totals = np.array(problem.run(60)[1])
    assert np.all(np.diff(totals) >= -TOLERANCE["float64"].climb * np.abs(totals[1:]))
    assert totals[-1] > fixed.run(60)[1][-1]


def test_newton_never_ends_lower_even_where_its_curvature_is_wrong():
    """A step that overshoots is halved; one that cannot rise is not taken."""

    logs = np.log(AFTER / AFTER.sum(axis=-1, keepdims=True))

    def slopes(at):
        right = table_slopes(logs, hierarchy().concentration(at), (RIGHT, WRONG), is_point=False)
        return right._replace(curvature=right.curvature * 1e-3)

    end = update_strengths(hierarchy(), START, slopes, is_point=False)
    assert slopes(end).value - hierarchy().fall(end) >= slopes(START).value
    assert min(end) > 0


def test_slopes_of_rates_count_the_unit():
    """Twice the unit of the rate is half a strength's worth of votes: a slip that leaves it out shows."""
    moments, β = (np.log(AFTER / RATE), AFTER / RATE), hierarchy("rates").concentration(START)
    one, two = (
        rate_slopes(moments, β, (1.9 * unit, unit), (RIGHT, WRONG), is_point=False) for unit in (UNIT, 2 * UNIT)
    )
    paid = float((UNIT * (AFTER / RATE).sum(axis=(0, 1))).sum())
    assert_close(two.gradient - one.gradient, np.log(2) * np.array([RIGHT.sum(), WRONG.sum()]) - paid)
