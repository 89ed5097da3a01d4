"""Factors beyond an update: at length one the update itself, and sound factors at any length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial
from labelfable.inference.sweep import run_sweeps
from tests.fable_problems import EMISSIONS, READINGS, TILTS, Case
from tests.tolerances import assert_close

CASE = Case(n_items=40, n_sources=4, n_classes=3, shard_items=16, process="inducing")


def two_updates(problem):
    return [run_sweeps(problem.sweeps, problem.shards, Serial(), Stopping(0.0, n, 1)).global_ for n in (1, 2)]


@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("emission", EMISSIONS)
def test_length_one_is_the_update(emission, tilt):
    problem = replace(CASE, emission=emission, tilt=tilt).problem()
    before, after = two_updates(problem)
    found = problem.sweeps.stretched(before, after, 1.0)
    assert_close(found.weights.mean, after.weights.mean)
    assert_close(found.weights.divergence, after.weights.divergence)
    assert_close(found.votes.concentration, after.votes.concentration)
    assert_close(found.votes.logs, after.votes.logs)
    assert_close(found.votes.divergence, after.votes.divergence, "sweeps")


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("tilt", TILTS)
def test_the_bound_of_a_stretched_factor_is_the_oracles(reading, tilt):
    problem = replace(CASE, reading=reading, tilt=tilt).problem()
    before, after = two_updates(problem)
    far = problem.sweeps.stretched(before, after, 4.0)
    found = problem.sweeps.bound(problem.statistics(far), far)
    factors = problem.item_factors(far) | problem.global_factors(far)
    assert_close(sum(found.values()), problem.objective(**factors), "sweeps")
    assert np.abs(far.weights.mean - before.weights.mean).sum() > np.abs(after.weights.mean - before.weights.mean).sum()


def test_the_end_is_that_of_plain_updates_in_fewer_sweeps():
    problem = CASE.problem()
    stopping = Stopping(1e-9, 4000, CASE.n_items)
    plain = run_sweeps(problem.sweeps, problem.shards, Serial(), stopping)
    long = run_sweeps(problem.sweeps, problem.shards, Serial(), stopping, problem.sweeps.stretched)
    assert long.converged
    assert len(long.history.terms) < len(plain.history.terms)
    assert long.history.totals[-1] >= plain.history.totals[-1] - 1e-6 * abs(plain.history.totals[-1])
    assert np.all(np.diff(long.history.totals) >= 0)
