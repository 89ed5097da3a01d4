"""FABLE's sweep: every update stationary, none lowers the bound, and src's bound is the oracle's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial, add_in_order
from labelfable.inference.sweep import run_sweeps
from tests.ascent import assert_ascent
from tests.fable_problems import EMISSIONS, NORMALISERS, READINGS, TILTS, Case, every_case
from tests.tolerances import TOLERANCE, assert_close
from tests.walk import chained

each_case = pytest.mark.parametrize("case", every_case(), ids=str)


@each_case
def test_each_update_is_stationary_and_none_lowers_the_bound(case):
    problem = case.problem()
    assert_ascent(problem.objective, problem.updates(1), problem.event_axes)


@each_case
def test_the_bound_is_the_oracles_term_by_term(case):
    problem = case.problem()
    for factors, reported in chained(problem, 3):
        expected = problem.terms(**factors)
        assert expected.keys() == reported.keys()
        for name, value in expected.items():
            assert_close(reported[name], value, "sums", message=name)


def test_updates_cover_every_factor():
    """The list that the checks go through has all that is inferred, in every kind of problem."""
    found = {update.of for case in every_case() for update in case.problem().updates(1)}
    assert found == {"t", "γ", "a", "b", "ρ", "m", "S", "μ", "rate", "speech", "strengths", "accuracy", "ν"}


LONG = Case(n_items=60, n_sources=5, n_classes=3, shard_items=25, process="linear")


@pytest.mark.parametrize("normaliser", NORMALISERS)
@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("reading", READINGS)
def test_the_bound_rises_over_a_whole_run(reading, emission, tilt, normaliser):
    tables = "point" if tilt == "mean" else "posterior"
    case = replace(LONG, reading=reading, emission=emission, tilt=tilt, tables=tables, normaliser=normaliser)
    problem = replace(case, weight=0.7, has_gold=True).problem()
    fit = run_sweeps(problem.sweeps, problem.shards, Serial(), Stopping(0.0, 80, case.n_items))
    totals = np.array(fit.history.totals)
    assert len(totals) > 10
    assert np.all(np.diff(totals) >= -TOLERANCE["float64"].climb * np.abs(totals[:-1]))
    assert np.all(np.diff(totals[:10]) > 0)


@pytest.mark.parametrize("process", ["exact", "inducing", "flat"])
def test_the_bound_rises_over_a_whole_run_of_other_processes(process):
    _, totals = replace(LONG, process=process, n_items=30).problem().run(60)
    assert np.all(np.diff(totals) >= -TOLERANCE["float64"].climb * np.abs(totals[:-1]))
    assert totals[-1] > totals[0]


@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("reading", READINGS)
def test_integrating_λ_out_raises_the_bound_wherever_the_globals_are(reading, tilt):
    """Every item's normaliser gains, as a factor of its own only loses; nothing else of the bound changes."""
    factored = replace(LONG, reading=reading, tilt=tilt).problem()
    collapsed = replace(LONG, reading=reading, tilt=tilt, normaliser="collapsed").problem()
    global_ = factored.first_globals()
    for _ in range(5):
        before, after = (
            problem.sweeps.bound(problem.statistics(global_), global_) for problem in (factored, collapsed)
        )
        assert sum(after.values()) > sum(before.values())
        if reading != "conditional":  # there the normalisers also move ρ
            assert after.pop("normaliser") > before.pop("normaliser")
            assert after == before
        global_ = factored.sweeps.global_step(factored.statistics(global_))


def test_known_labels_stay_what_they_are():
    problem = replace(LONG, has_gold=True).problem()
    global_, _ = problem.run(5)
    ρ = problem.item_factors(global_)["ρ"]
    classes = ρ.reshape(len(ρ), 3, -1).sum(axis=2)
    known = problem.gold >= 0
    assert known.sum() > 10
    assert_close(classes[known], np.eye(3)[problem.gold[known]])
    assert classes[~known].max() < 1


def test_statistics_are_sums_over_items():
    """Every part of a shard's message, item by item from the item factors."""
    problem = Case("conditional", "rates", process="inducing", weight=0.7).problem()
    global_, _ = problem.run(2)
    found = problem.statistics(global_)
    factors = problem.item_factors(global_)
    model, size = problem.model, problem.reading.n_components
    gram, potential = np.zeros((size, 3, 3)), np.zeros((3, size))
    counts, totals = np.zeros(problem.prior.concentration.shape), np.zeros(size)
    shares = np.zeros(model.n_classes)
    for i, entries in enumerate(model.spoken):
        for c in range(size):
            k = model.class_of(c)
            ρ, t = factors["ρ"][i, c], factors["t"][i, c]
            r = sum(factors["ρ"][i, c] for c in model.groups[k])
            γ = r * factors["γ"][i, c]
            θ = (ρ + γ) * np.tanh(t / 2) / (2 * t)
            gram[c] += θ * np.outer(model.phi[i], model.phi[i])
            potential[:, c] += model.phi[i] * ((ρ - γ) / 2 - θ * model.process_mean[c])
            totals[c] += 0.7 * ρ
            shares[k] += ρ
            for j, label, _ in entries:
                counts[j, label, c] += 0.7 * ρ
    assert_close(found.gram, gram)
    assert_close(found.potential, potential)
    assert_close(problem.table.layout.unpack(found.counts), counts)
    assert_close(found.totals, totals)
    assert_close(found.proportions, shares)


def test_the_start_takes_its_responsibilities_as_they_are():
    problem = Case("joint", "fired").problem()
    statistics = add_in_order(problem.sweeps.start(shard)[1] for shard in problem.shards)
    assert_close(statistics.totals, problem.start.sum(axis=0))
    assert_close(problem.table.layout.unpack(statistics.counts), problem.table.counts(problem.start))


def test_one_class_and_one_subtype_is_no_special_case():
    """One component, joint: the bound holds, and the answer is certain."""
    problem = Case("joint", "pattern", n_classes=1, n_subtypes=1).problem()
    assert_ascent(problem.objective, problem.updates(2), problem.event_axes)
    global_, _ = problem.run(3)
    assert np.array_equal(problem.item_factors(global_)["ρ"], np.ones((7, 1)))
