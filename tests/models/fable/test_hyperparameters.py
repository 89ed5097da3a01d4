"""Kernel hyperparameters by the bound: their slopes are those of the whole bound, and the search climbs it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labelfable import FABLE
from labelfable.errors import ModelError
from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial
from labelfable.inference.shards import cut
from labelfable.models.fable import hyperparameters as module
from labelfable.models.fable.hyperparameters import Profile, learn_parameters, parameter_slopes
from labelfable.models.fable.items import rows_of
from labelfable.models.fable.projection import build_projection
from labelfable.models.fable.search import Start, climb
from labelfable.models.fable.steps import FableShard
from tests.fable_problems import EMISSIONS, READINGS, Case
from tests.oracles.kernels import slopes
from tests.tolerances import TOLERANCE, assert_close

NAMES = ("variance", "lengthscale", "constant")
EXACT = TOLERANCE["float64"]


class Scene:
    """A problem's votes and sweeps over a projection of features, whose hyperparameters can move."""

    def __init__(self, kernel="rbf", lengthscale=None, **case):
        self.problem = replace(Case(n_items=30, n_sources=4, tables="point"), **case).problem()
        self.features = np.random.default_rng(1).normal(size=(30, 3)) + 2 * self.problem.truth[:, None]
        self.projection = build_projection(
            self.features, kernel=kernel, n_inducing=6, lengthscale=lengthscale, variance=1.5, constant=2.0
        )

    def start(self, projected, responsibilities):
        table = self.problem.table
        shards = [
            FableShard(shard, rows_of(projected, here), responsibilities[here])
            for shard in cut(table, np.ones(table.n_items), self.problem.gold, 16)
            for here in [slice(shard.start, shard.stop)]
        ]
        return Start(self.problem.sweeps, shards)

    def profile(self, names=NAMES):
        return Profile(self.projection, self.features, names, self.start, Serial(), self.problem.start)

    def error(self, names=NAMES):
        """Largest difference between the slopes and those by finite differences, all global factors held."""
        profile = self.profile(names)
        start = self.start(self.projection.project(self.features), self.problem.start)
        global_ = climb(start, Serial(), Stopping(0.0, 5, 1)).factors

        def bound(logs):
            moved = self.start(profile.moved(logs).project(self.features), self.problem.start)
            parts = [moved.sweeps.item_factors(shard, global_)[1] for shard in moved.shards]
            return sum(sum(part.values()) for part in parts)

        found = parameter_slopes(start, global_, self.projection, self.features)
        told = np.concatenate([np.atleast_1d(found[f"log {name}"]) for name in names])
        seen = slopes(bound, profile.logs, EXACT.step)
        return float(np.abs(told - seen).max() / np.abs(seen).max())


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("reading", READINGS)
def test_slopes_are_those_of_the_whole_bound(reading, emission):
    assert Scene(reading=reading, emission=emission).error() < EXACT.slope


@pytest.mark.parametrize("normaliser", ["factored", "collapsed"])
@pytest.mark.parametrize(("kernel", "lengthscale"), [("linear", None), ("matern32", "ard"), ("cosine", None)])
def test_slopes_are_those_of_the_bound_for_every_kind_of_kernel(kernel, lengthscale, normaliser):
    scene = Scene(kernel, lengthscale, normaliser=normaliser)
    assert scene.error(NAMES if kernel != "cosine" else ("variance", "constant")) < EXACT.slope


@pytest.mark.parametrize("slip", ["covariance", "residual"])
def test_a_slip_in_the_slopes_is_seen(slip, monkeypatch):
    right = module.projection_gradient

    def wrong(projection, features, d_phi, d_residual):
        given = (d_phi / 2, d_residual) if slip == "covariance" else (d_phi, 0 * d_residual)
        return right(projection, features, *given)

    monkeypatch.setattr(module, "projection_gradient", wrong)
    assert Scene().error() > 1000 * EXACT.slope


def test_learning_never_lowers_the_peak_and_moves():
    scene = Scene()
    first, _ = scene.profile()(scene.profile().logs)
    learnt = learn_parameters(scene.profile())
    last, _ = scene.profile()(replace(scene.profile(), projection=learnt).logs)
    assert last > first
    assert learnt.kernel.lengthscale != scene.projection.kernel.lengthscale


def noisy_case(seed=0, n=600, d=4):
    """Only the first feature tells the classes apart."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, 2, n)
    features = generator.normal(size=(n, d))
    features[:, 0] += 3 * truth
    right = generator.random((n, 3)) < 0.75
    votes = np.where(right, truth[:, None], 1 - truth[:, None])
    votes[generator.random((n, 3)) < 0.4] = -1
    return votes, features, truth


def test_lengthscales_grow_along_features_that_say_nothing():
    votes, features, truth = noisy_case()
    model = FABLE(kernel="rbf", lengthscale="ard", learn=("lengthscale", "variance"), n_inducing=40)
    model.fit(votes, features=features)
    found = np.asarray(model.projection_.kernel.lengthscale)
    assert found[0] < found[1:].min()
    assert any("learned by the bound" in note for note in model.report_.notes)
    assert np.mean(model.predict(votes, features=features) == truth) > 0.9


@pytest.mark.parametrize("learn", ["variance", ("variance",), ["variance", "constant"]])
def test_one_name_or_several_may_be_given(learn):
    votes, features, _ = noisy_case(n=80)
    model = FABLE(learn=learn).fit(votes, features=features)
    assert model.projection_.kernel.variance != FABLE().variance


@pytest.mark.parametrize("learn", [("width",), ("variance", "variance"), 3])
def test_what_cannot_be_learned_is_refused(learn):
    votes, features, _ = noisy_case(n=40)
    with pytest.raises((ModelError, ValueError), match="learn"):
        FABLE(learn=learn).fit(votes, features=features)


def test_the_constant_alone_is_learned_where_there_are_no_features():
    votes, _, _ = noisy_case(n=80)
    model = FABLE(learn="constant", uncovered="in").fit(votes)
    assert model.projection_.constant > 0


def test_what_was_learned_does_not_depend_on_threads():
    votes, features, _ = noisy_case(n=5000)
    found = [
        FABLE(learn="variance", n_jobs=n).fit(votes, features=features).projection_.kernel.variance for n in (1, 2)
    ]
    assert found[0] == found[1]


def test_slopes_scale_with_what_each_item_stands_for():
    scene = Scene()
    start = scene.start(scene.projection.project(scene.features), scene.problem.start)
    global_ = climb(start, Serial(), Stopping(0.0, 3, 1)).factors
    once = parameter_slopes(start, global_, scene.projection, scene.features)
    twice = replace(start, sweeps=replace(start.sweeps, copies=2.0))
    assert_close(
        parameter_slopes(twice, global_, scene.projection, scene.features)["log variance"], 2 * once["log variance"]
    )
