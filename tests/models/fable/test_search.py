"""From the starts to the peak: samples whose sums count as those of all, and the best of several starts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labelfable import FABLE
from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial, add_in_order
from labelfable.models.fable import search as module
from labelfable.models.fable.light import LightSweeps
from labelfable.models.fable.search import Start, climb, climb_best, sampled
from tests.fable_problems import TILTS, Case
from tests.tolerances import TOLERANCE, assert_close

CASE = Case(n_items=40, n_sources=4, n_classes=3, shard_items=16, process="inducing")
STOPPING = Stopping(1e-13, 4000, CASE.n_items)


@pytest.mark.parametrize("tilt", TILTS)
def test_items_that_stand_for_two_have_the_sums_of_twice_as_many(tilt):
    problem = replace(CASE, tilt=tilt).problem()
    twice = replace(problem.sweeps, copies=2.0)
    wrap = LightSweeps if tilt == "mean" else (lambda sweeps: sweeps)
    found = add_in_order(wrap(twice).start(shard)[1] for shard in problem.shards)
    doubled = add_in_order(wrap(problem.sweeps).start(shard)[1] for shard in [*problem.shards, *problem.shards])
    parts = (found.sums, doubled.sums) if tilt == "mean" else (found, doubled)
    for name in ("gram", "potential", "counts", "totals", "proportions"):
        assert_close(*(getattr(part, name) for part in parts), message=name)
    assert_close(*(sum(part.bound.values()) for part in parts))


def test_the_climb_from_a_sample_ends_where_the_climb_of_all_items_ends():
    problem = replace(CASE, tilt="mean").problem()
    sample = replace(problem.sweeps, copies=2.0)
    part = climb_best([Start(sample, problem.shards[:2])], Serial(), STOPPING, problem.shards)
    alone = climb(Start(problem.sweeps, problem.shards), Serial(), STOPPING)
    assert part.sweeps.copies == 1.0
    assert_close(part.height, alone.height, "minimum")
    assert_close(part.factors.votes.logs, alone.factors.votes.logs, "minimum")


def test_the_best_start_wins_and_the_first_is_never_undercut():
    problem = replace(CASE, tilt="mean", n_subtypes=2).problem()
    generator = np.random.default_rng(0)
    starts = [Start(problem.sweeps, problem.shards)]
    for _ in range(3):
        ρ = generator.dirichlet(np.ones(6), CASE.n_items)
        shards = [replace(s, start=ρ[s.votes.start : s.votes.stop]) for s in problem.shards]
        starts.append(Start(problem.sweeps, shards))
    best = climb_best(starts, Serial(), STOPPING)
    assert best.height >= climb(starts[0], Serial(), STOPPING).height


def test_a_climb_goes_on_where_another_ended():
    problem = replace(CASE, tilt="mean").problem()
    start = Start(problem.sweeps, problem.shards)
    few = climb(start, Serial(), replace(STOPPING, max_iter=5))
    rest = climb(start, Serial(), STOPPING, few)
    assert_close(rest.fit.history.totals[0], few.height)
    assert rest.height > few.height


@pytest.mark.parametrize(("n_items", "is_sample"), [(100, False), (2**16 - 1, False), (2**16, True), (10**6, True)])
def test_only_many_items_are_sampled_each_once_and_in_order(n_items, is_sample):
    found = sampled(n_items, 100, seed=0)
    assert (found is not None) == is_sample
    if found is not None:
        assert len(found) == module.SAMPLE_ITEMS
        assert np.all(np.diff(found) > 0)
        assert found[-1] < n_items
        assert np.array_equal(found, sampled(n_items, 100, seed=0))
        assert not np.array_equal(found, sampled(n_items, 100, seed=1))


@pytest.mark.parametrize("tilt", TILTS)
def test_a_fit_that_begins_on_a_sample_gives_the_labels_of_one_that_does_not(tilt, monkeypatch):
    generator = np.random.default_rng(0)
    truth = np.sort(generator.integers(0, 3, 900))  # in order, so that a slice would be no sample
    features = generator.normal(size=(900, 3)) + 2 * np.eye(3)[truth]
    votes = np.where(generator.random((900, 5)) < 0.6, truth[:, None], generator.integers(0, 3, (900, 5)))
    votes[generator.random(votes.shape) < 0.5] = -1
    settings = {"n_subtypes": 2, "tilt": tilt, "tol": 1e-9, "n_jobs": 1, "calibration": "none"}
    whole = FABLE(**settings).fit(votes, features=features)
    monkeypatch.setattr(module, "SAMPLE_ITEMS", 200)
    monkeypatch.setattr(module, "SAMPLE_ITEMS_A_COLUMN", 1)
    part = FABLE(**settings).fit(votes, features=features)
    assert part.report_.converged
    assert part.report_.n_items == 900
    heights = part.report_.objective[-1], whole.report_.objective[-1]
    assert heights[0] >= heights[1] - TOLERANCE["float64"].minimum * abs(heights[1])
    assert np.array_equal(part.predict(votes, features=features), whole.predict(votes, features=features))
