"""Further items: sums that add up, old items that fade, and answers close to those of one fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import labelfable
from labelfable import FABLE
from labelfable.errors import LabelfableError, ModelError
from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial
from labelfable.models.fable.search import Start, climb
from labelfable.models.fable.streaming import Stream, single_layout, stream_of
from tests.fable_problems import EMISSIONS, READINGS, Case
from tests.tolerances import assert_close

CASE = Case(n_items=40, n_sources=4, n_classes=3, shard_items=16, process="inducing")


def drawn(seed, n=400, classes=3, shift=2.0):
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, classes, n)
    features = generator.normal(size=(n, 3)) + shift * np.eye(3)[truth % 3]
    votes = np.where(generator.random((n, 6)) < 0.65, truth[:, None], generator.integers(0, classes, (n, 6)))
    votes[generator.random(votes.shape) < 0.5] = -1
    return votes, features, truth


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("reading", READINGS)
def test_what_a_fit_remembers_gives_back_its_globals(reading, emission):
    problem = replace(CASE, reading=reading, emission=emission).problem()
    peak = climb(Start(problem.sweeps, problem.shards), Serial(), Stopping(1e-13, 3000, 40))
    stream = stream_of(problem.sweeps, peak.factors, peak.curvature, 40)
    told = problem.statistics(peak.factors)
    assert_close(stream.sums.gram, told.gram, "minimum")
    assert_close(stream.sums.potential, told.potential, "minimum")
    assert_close(
        stream.sums.counts, problem.sweeps.layout.unpack(told.counts).reshape(stream.sums.counts.shape), "minimum"
    )
    assert_close(stream.sums.proportions, told.proportions if reading != "joint" else 0 * told.proportions, "minimum")


@pytest.mark.parametrize("emission", EMISSIONS)
def test_without_fading_the_same_items_again_leave_the_globals_where_twice_the_items_put_them(emission):
    """Items that were there before and come again count twice: the optimum of the sums of both."""
    problem = replace(CASE, emission=emission).problem()
    peak = climb(Start(problem.sweeps, problem.shards), Serial(), Stopping(1e-13, 3000, 40))
    stream = stream_of(problem.sweeps, peak.factors, peak.curvature, 40)
    after, global_ = stream.absorb(problem.sweeps, problem.shards, peak.factors, Serial(), 1.0)
    assert after.n_items == 80
    single = replace(problem.sweeps, layout=single_layout(global_))
    assert_close(single.global_step(after.sums).weights.mean, global_.weights.mean)
    first = problem.statistics(peak.factors)
    assert_close(after.sums.totals.sum(), stream.sums.totals.sum() + first.totals.sum(), "sums")


def test_with_fading_both_count_as_all_items_at_their_rate():
    problem = CASE.problem()
    peak = climb(Start(problem.sweeps, problem.shards), Serial(), Stopping(1e-10, 500, 40))
    empty = stream_of(problem.sweeps, peak.factors, peak.curvature, 120)
    zero = Stream(replace(empty.sums.times(0.0)), 120.0)
    found, _ = zero.absorb(problem.sweeps, problem.shards, peak.factors, Serial(), 0.5)
    rate = (40 / 160) ** 0.5
    # what is left of nothing is nothing: the batch alone, as rate · 160 / 40 times its items
    whole = problem.sweeps.layout.unpack(problem.statistics(peak.factors).counts).sum()
    assert_close(found.sums.counts.sum(), whole * rate * 160 / 40, "minimum")


@pytest.mark.parametrize("tilt", ["mean", "posterior"])
@pytest.mark.parametrize("emission", EMISSIONS)
def test_shards_one_after_another_come_close_to_one_fit(emission, tilt):
    votes, features, truth = drawn(0, 1600)
    model = FABLE(emission=emission, tilt=tilt)
    for first in range(0, 1600, 400):
        here = slice(first, first + 400)
        model.partial_fit(votes[here], features=features[here], classes=[0, 1, 2])
    whole = FABLE(emission=emission, tilt=tilt).fit(votes, features=features)
    right = [np.mean(fit.predict(votes, features=features) == truth) for fit in (model, whole)]
    assert right[0] >= right[1] - 0.02
    assert np.mean(model.predict(votes, features=features) == whole.predict(votes, features=features)) > 0.95


def test_the_first_call_is_a_fit():
    votes, features, _ = drawn(1)
    first, fit = FABLE().partial_fit(votes, features=features), FABLE().fit(votes, features=features)
    assert_close(first.predict_proba(votes, features=features), fit.predict_proba(votes, features=features))


def test_a_source_that_turns_bad_is_found_out_sooner_where_old_items_fade():
    votes, features, _ = drawn(2, 1200)
    later, further, truth = drawn(3, 1200)
    later[:, 0] = np.where(later[:, 0] >= 0, (truth + 1) % 3, -1)
    trust = {}
    for decay in (1.0, 0.5):
        model = FABLE(decay=decay, emission="fired").fit(votes, features=features)
        before = np.exp(model.globals_.votes.logs[0, 0, 0])
        for first in range(0, 1200, 300):
            model.partial_fit(later[first : first + 300], features=further[first : first + 300])
        trust[decay] = np.exp(model.globals_.votes.logs[0, 0, 0])
    assert trust[0.5] < trust[1.0] < before


def test_a_saved_model_goes_on_as_the_one_that_was_saved(tmp_path):
    votes, features, _ = drawn(4)
    more, further, _ = drawn(5)
    model = FABLE().fit(votes, features=features)
    model.save(tmp_path / "model")
    found = [
        fit.partial_fit(more, features=further).predict_proba(more, features=further)
        for fit in (labelfable.load(tmp_path / "model"), model)
    ]
    assert_close(*found)
    model.save(tmp_path / "later")
    twice = [
        fit.partial_fit(votes, features=features).predict_proba(votes, features=features)
        for fit in (labelfable.load(tmp_path / "later"), model)
    ]
    assert_close(*twice)


@pytest.mark.parametrize("sharing", ["source", "hierarchical"])
def test_priors_in_proportion_grow_with_the_votes(sharing):
    votes, features, _ = drawn(6)
    model = FABLE(sharing=sharing).fit(votes, features=features)
    before = model.sweeps_.vote_prior.concentration.sum()
    model.partial_fit(votes, features=features)
    assert_close(model.sweeps_.vote_prior.concentration.sum(), 2 * before, "sums")


def test_gold_may_come_with_a_batch_and_the_report_is_about_the_batch():
    votes, features, truth = drawn(7)
    model = FABLE().fit(votes, features=features).partial_fit(votes[:50], truth[:50], features=features[:50])
    assert model.report_.n_items == 50


@pytest.mark.parametrize("settings", [{"inference": "published"}, {"emission": "silence", "silence_weight": 0.5}])
def test_what_cannot_go_on_says_so(settings):
    votes, features, _ = drawn(8)
    with pytest.raises(ModelError, match="partial_fit"):
        FABLE(**settings).partial_fit(votes, features=features)


def test_a_batch_must_look_like_the_first():
    votes, features, _ = drawn(9)
    model = FABLE().fit(votes, features=features)
    with pytest.raises((LabelfableError, ValueError), match="sources"):
        model.partial_fit(votes[:, :2], features=features)
    with pytest.raises(LabelfableError):
        model.partial_fit(votes, features=features[:, :2])
