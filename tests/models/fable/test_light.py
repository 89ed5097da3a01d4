"""Light sweeps: the gradient of the whole bound, ascent under a curvature that bounds, and rest where (F) rests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial, add_in_order
from labelfable.inference.sweep import run_sweeps
from labelfable.models.fable.light import LightSweeps, point_weights
from labelfable.models.fable.search import Start, climb
from tests.fable_problems import EMISSIONS, READINGS, TILTS, Case
from tests.tolerances import TOLERANCE, assert_close

CASE = Case(n_items=40, n_sources=4, n_classes=3, shard_items=16, process="inducing", tilt="mean")
EXACT = TOLERANCE["float64"]


def begun(problem: Any, sweeps: LightSweeps, n_sweeps: int = 2) -> Any:
    """Globals after a few light sweeps."""
    return run_sweeps(sweeps, problem.shards, Serial(), Stopping(0.0, n_sweeps, 1)).global_


def statistics_at(problem: Any, sweeps: LightSweeps, global_: Any) -> Any:
    return add_in_order(sweeps.local_step(shard, None, global_)[1] for shard in problem.shards)


def total_at(problem: Any, sweeps: LightSweeps, global_: Any, mean: np.ndarray) -> float:
    """The whole bound where the processes' weights are these, its items at their optimum."""
    moved = replace(global_, factors=replace(global_.factors, weights=point_weights(mean)))
    return sum(sweeps.bound(statistics_at(problem, sweeps, moved), moved).values())


def gradient_error(problem: Any, sweeps: LightSweeps) -> float:
    """Largest difference between slope − m and the slope of the bound by finite differences, relative."""
    global_ = begun(problem, sweeps)
    mean = global_.factors.weights.mean
    told = statistics_at(problem, sweeps, global_).sums.potential - mean
    seen = np.empty_like(mean)
    for place in np.ndindex(*mean.shape):
        nudge = np.zeros_like(mean)
        nudge[place] = EXACT.step
        ends = [total_at(problem, sweeps, global_, mean + sign * nudge) for sign in (1, -1)]
        seen[place] = (ends[0] - ends[1]) / (2 * EXACT.step)
    return float(np.abs(told - seen).max() / np.abs(seen).max())


@pytest.mark.parametrize("normaliser", ["collapsed", "factored"])
@pytest.mark.parametrize("reading", READINGS)
def test_the_slope_is_that_of_the_whole_bound(reading, normaliser):
    problem = replace(CASE, reading=reading, normaliser=normaliser, n_items=14, n_subtypes=2).problem()
    assert gradient_error(problem, LightSweeps(problem.sweeps)) < EXACT.slope


@pytest.mark.parametrize("slip", ["θ f", "½"])
def test_a_slip_in_the_slope_is_seen(slip, monkeypatch):
    problem = replace(CASE, n_items=14).problem()
    sweeps = LightSweeps(problem.sweeps)
    true = type(problem.sweeps).quadratic

    def wrong(self, items):
        curvature, lean = true(self, items)
        return (curvature / 2, lean) if slip == "θ f" else (curvature, 2 * lean)

    monkeypatch.setattr(type(problem.sweeps), "quadratic", wrong)
    assert gradient_error(problem, sweeps) > 1000 * EXACT.slope


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("reading", READINGS)
def test_no_step_falls_where_the_curvature_bounds_that_of_every_item(emission, reading):
    problem = replace(CASE, emission=emission, reading=reading).problem()
    sweeps = LightSweeps(problem.sweeps)
    global_, totals = begun(problem, sweeps, 1), []
    for _ in range(30):
        largest = max(float(problem.sweeps.quadratic(problem.sweeps.item_factors(shard, global_.factors)[0])[0].max())
                      for shard in problem.shards)  # fmt: skip
        enough = replace(global_.curvature, caution=largest / float(global_.curvature.weight.min()))
        global_ = replace(global_, curvature=enough)
        statistics = statistics_at(problem, sweeps, global_)
        totals.append(sum(sweeps.bound(statistics, global_).values()))
        global_ = sweeps.global_step(statistics)
    assert np.all(np.diff(totals) >= -EXACT.climb * np.abs(totals[:-1]))


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("reading", READINGS)
def test_it_rests_where_the_full_updates_rest(emission, reading):
    problem = replace(CASE, emission=emission, reading=reading).problem()
    stopping = Stopping(1e-13, 4000, CASE.n_items)
    light = climb(Start(problem.sweeps, problem.shards), Serial(), stopping)
    full = run_sweeps(problem.sweeps, problem.shards, Serial(), Stopping(0.0, 3000, 1))
    again = problem.sweeps.global_step(problem.statistics(light.factors))
    assert light.fit.converged
    assert np.all(np.diff(light.fit.history.totals) >= 0)
    assert_close(again.weights.mean, light.factors.weights.mean, "minimum")
    assert_close(again.votes.logs, light.factors.votes.logs, "minimum")
    assert light.fit.history.totals[-1] >= full.history.totals[-1] - EXACT.minimum * abs(full.history.totals[-1])


@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("reading", READINGS)
def test_coordinates_lead_back_to_the_same_factors_and_their_bound_is_the_oracles(emission, reading, tilt):
    problem = replace(CASE, emission=emission, reading=reading, tilt=tilt).problem()
    full = problem.sweeps
    before, after = (run_sweeps(full, problem.shards, Serial(), Stopping(0.0, n, 1)).global_ for n in (1, 2))
    back = full.at(full.coordinates(after), after)
    assert_close(back.weights.mean, after.weights.mean)
    assert_close(back.votes.concentration, after.votes.concentration)
    assert full.metric(after).shape == full.coordinates(after).shape
    far = full.at(3 * full.coordinates(after) - 2 * full.coordinates(before), after)
    factors = problem.item_factors(far) | problem.global_factors(far)
    assert_close(sum(full.bound(problem.statistics(far), far).values()), problem.objective(**factors), "sweeps")


def test_turned_coordinates_lead_back_too():
    problem = CASE.problem()
    sweeps = LightSweeps(problem.sweeps)
    global_ = begun(problem, sweeps)
    back = sweeps.at(sweeps.coordinates(global_), global_)
    assert_close(back.factors.weights.mean, global_.factors.weights.mean)
    assert sweeps.metric(global_).shape == sweeps.coordinates(global_).shape


def test_the_curvature_is_that_of_the_equation():
    problem = CASE.problem()
    sweeps = LightSweeps(problem.sweeps)
    statistics = add_in_order(sweeps.start(shard)[1] for shard in problem.shards)
    curvature = replace(sweeps.first_curvature(statistics), caution=3.0)
    gradient = np.random.default_rng(0).normal(size=(problem.phi.shape[1], problem.reading.n_components))
    for c in range(problem.reading.n_components):
        dense = np.eye(len(gradient)) + 3.0 * curvature.weight[c] * problem.phi.T @ problem.phi
        assert_close(curvature.step(gradient)[:, c], np.linalg.solve(dense, gradient[:, c]), "sweeps")


def test_posteriors_climb_to_where_they_rest_in_fewer_sweeps():
    problem = replace(CASE, tilt="posterior").problem()
    plain = run_sweeps(problem.sweeps, problem.shards, Serial(), Stopping(1e-9, 4000, CASE.n_items))
    fast = climb(Start(problem.sweeps, problem.shards), Serial(), Stopping(1e-9, 4000, CASE.n_items))
    assert fast.fit.converged
    assert len(fast.fit.history.terms) < len(plain.history.terms)
    assert fast.fit.history.totals[-1] >= plain.history.totals[-1] - EXACT.minimum * abs(plain.history.totals[-1])
