"""Steps longer than the update: faster to the same place, never downhill."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable import read_votes
from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial
from labelfable.inference.shards import cut
from labelfable.inference.sweep import run_sweeps
from tests.tolerances import assert_close

TARGET, RATE = 3.0, 0.05


class SlowClimb:
    """One number whose update goes a twentieth of the way to the peak of −(x − 3)²."""

    def __init__(self):
        self.asked = []

    def start(self, _shard):
        return None, np.zeros(1)

    def local_step(self, _shard, _local, global_):
        self.asked.append(global_)
        return None, np.array([global_])

    def global_step(self, statistics):
        return float(statistics[0] + RATE * (TARGET - statistics[0]))

    def bound(self, _statistics, global_):
        return {"height": -((global_ - TARGET) ** 2)}


def on_the_line(before, after, length):
    return before + length * (after - before)


def climb(stretch, tolerance=1e-10):
    shards = cut(read_votes(np.array([[0], [1]])), np.ones(2), None, 2)
    model = SlowClimb()
    return model, run_sweeps(model, shards, Serial(), Stopping(tolerance, 1000, 1.0), stretch)


def test_it_ends_where_plain_updates_end_and_sooner():
    _, plain = climb(None)
    _, long = climb(on_the_line)
    assert plain.converged
    assert long.converged
    assert abs(long.global_ - TARGET) <= abs(plain.global_ - TARGET)
    assert len(long.history.terms) < len(plain.history.terms) / 3


def test_the_history_never_falls():
    _, fit = climb(on_the_line)
    assert np.all(np.diff(fit.history.totals) >= 0)


@pytest.mark.parametrize("wrong", [lambda before, *_: before - 100, lambda *_: np.nan])
def test_steps_that_fail_are_taken_back_to_the_update(wrong):
    model, fit = climb(wrong)
    _, plain = climb(None)
    assert_close(fit.history.totals, plain.history.totals)
    assert len(model.asked) > len(plain.history.terms)  # the failed ones were tried


def test_a_fit_never_ends_on_a_stretched_step():
    """Else a step far too long, which gains nothing on the other side of the peak, would pass for the peak."""

    def mirrored(before, after, length):
        return 2 * TARGET - before + 1e-9 if before < TARGET else after

    _, fit = climb(mirrored)
    _, plain = climb(None)
    assert abs(fit.global_ - TARGET) <= abs(plain.global_ - TARGET)
