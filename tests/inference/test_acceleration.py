"""Several updates combined: sooner at the same place, never downhill."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable import read_votes
from labelfable.inference.acceleration import Memory
from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial
from labelfable.inference.shards import cut
from labelfable.inference.sweep import run_sweeps
from tests.tolerances import assert_close

TARGET = np.array([3.0, -1.0, 0.5])
RATES = np.array([0.05, 0.02, 0.3])


class SlowClimb:
    """A point whose update goes a small part of the way to the peak of −‖x − target‖², slower along some coordinates.

    Its longest allowed step is `rate` times that; a rate above 2 / RATES leaps over the peak and down.
    """

    def __init__(self, rate=1.0):
        self.rate = rate
        self.asked = []

    def start(self, _shard):
        return None, np.append(np.zeros(3), self.rate)

    def local_step(self, _shard, _local, global_):
        self.asked.append(global_[:3])
        return None, global_

    def global_step(self, statistics):
        x, rate = statistics[:3], statistics[3]
        return np.append(x + rate * RATES * (TARGET - x), rate)

    def bound(self, _statistics, global_):
        return {"height": -float(np.sum((global_[:3] - TARGET) ** 2))}

    def coordinates(self, global_):
        return global_[:3]

    def metric(self, _global):
        return np.ones(3)

    def at(self, coordinates, near):
        return np.append(coordinates, near[3])

    def careful(self, statistics):
        return np.append(statistics[:3], statistics[3] / 2)


def climb(model, *, accelerated=True, tolerance=1e-10, max_iter=3000):
    shards = cut(read_votes(np.array([[0], [1]])), np.ones(2), None, 2)
    stopping = Stopping(tolerance, max_iter, 1.0)
    return run_sweeps(model, shards, Serial(), stopping, model if accelerated else None)


def test_it_ends_where_plain_updates_end_and_sooner():
    plain, fast = climb(SlowClimb(), accelerated=False), climb(SlowClimb())
    assert plain.converged
    assert fast.converged
    assert np.abs(fast.global_[:3] - TARGET).max() <= np.abs(plain.global_[:3] - TARGET).max()
    assert len(fast.history.terms) < len(plain.history.terms) / 10


def test_a_linear_update_is_at_its_end_after_as_many_combinations_as_it_has_coordinates():
    memory, x, combined = Memory(), np.zeros(3), None
    for _ in range(4):
        after = x + np.array([0.1, 0.3, 0.8]) * (TARGET - x)
        combined = memory.combine(x, after, np.ones(3))
        x = after
    assert_close(combined, TARGET, "minimum")


def test_one_update_alone_cannot_be_combined():
    assert Memory().combine(np.zeros(3), np.ones(3), np.ones(3)) is None


def test_what_was_forgotten_does_not_count():
    memory = Memory()
    memory.combine(np.zeros(3), np.ones(3), np.ones(3))
    memory.forget()
    assert memory.combine(np.ones(3), 2 * np.ones(3), np.ones(3)) is None


def test_updates_that_do_not_move_cannot_be_combined():
    memory = Memory()
    memory.combine(TARGET, TARGET, np.ones(3))
    assert memory.combine(TARGET, TARGET, np.ones(3)) is None


@pytest.mark.parametrize("rate", [1.0, 12.0, 1000.0])
def test_the_history_never_falls_though_updates_would(rate):
    fit = climb(SlowClimb(rate))
    assert np.all(np.diff(fit.history.totals) >= 0)
    assert_close(fit.global_[:3], TARGET, "minimum")


@pytest.mark.parametrize("wrong", [lambda _point, near: near - 100, lambda _point, near: np.nan * near])
def test_combinations_that_fail_are_dropped_for_the_update(wrong):
    model = SlowClimb()
    model.at = wrong
    fit, plain = climb(model), climb(SlowClimb(), accelerated=False)
    assert_close(fit.history.totals, plain.history.totals)
    assert len(model.asked) > len(plain.history.terms)  # the failed ones were tried


def test_a_fit_never_ends_on_a_combination():
    """Else a step far too long, which gains nothing on the other side of the peak, would pass for the peak."""
    model = SlowClimb()
    model.at = lambda _point, near: np.append(2 * TARGET - model.asked[-1] + 1e-9, near[3])
    fit, plain = climb(model), climb(SlowClimb(), accelerated=False)
    assert np.sum((fit.global_[:3] - TARGET) ** 2) <= np.sum((plain.global_[:3] - TARGET) ** 2)


def test_an_update_that_falls_and_cannot_be_shortened_ends_the_fit_at_the_best():
    model = SlowClimb(1000.0)
    model.careful = lambda _statistics: None
    fit = climb(model)
    assert not fit.converged
    assert len(fit.history.terms) == 1
