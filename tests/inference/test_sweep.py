"""The sweep's contract, with a model that writes down what it is asked."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable import read_votes
from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial, Threads
from labelfable.inference.shards import cut
from labelfable.inference.sweep import run_sweeps
from tests.tolerances import assert_close


class Averages:
    """Item factors run after the globals by half their distance; the globals are the items' mean.

    The objective, minus the mean squared distance, rises by a factor of four a sweep towards zero.
    """

    def __init__(self):
        self.calls = []

    def start(self, shard):
        self.calls.append(("start", shard.start))
        local = shard.weights.copy()
        return local, np.array([local.sum(), len(local)])

    def local_step(self, shard, local, global_):
        self.calls.append(("local", shard.start, global_, tuple(local)))
        moved = (local + global_) / 2
        return moved, np.array([moved.sum(), len(moved)])

    def global_step(self, statistics):
        self.calls.append(("global", statistics[0]))
        return float(statistics[0] / statistics[1])

    def bound(self, statistics, global_):
        self.calls.append(("bound", statistics[0], global_))
        sweeps = sum(1 for call in self.calls if call[0] == "bound")
        return {"gap": -(4.0**-sweeps), "constant": 2.0}


@pytest.fixture
def shards():
    table = read_votes(np.arange(10)[:, None] % 2)
    return cut(table, np.arange(10.0), None, 3)


def sweep(shards, max_iter=100, tolerance=1e-3, engine=None):
    model = Averages()
    return model, run_sweeps(model, shards, engine or Serial(), Stopping(tolerance, max_iter, 1.0))


def test_it_starts_each_shard_once_and_takes_the_globals_from_there(shards):
    model, _ = sweep(shards, max_iter=1)
    assert model.calls[:5] == [("start", 0), ("start", 3), ("start", 6), ("start", 9), ("global", 45.0)]


def test_each_sweep_is_local_steps_then_bound_then_the_globals(shards):
    model, fit = sweep(shards, max_iter=3)
    one_sweep = ["local"] * 4 + ["bound"]
    assert [call[0] for call in model.calls[5:]] == [*one_sweep, "global", *one_sweep, "global", *one_sweep]
    assert len(fit.history.terms) == 3
    assert not fit.converged


def test_the_globals_that_come_back_are_those_of_the_last_local_step(shards):
    model, fit = sweep(shards)
    last = [call for call in model.calls if call[0] == "local"][-4:]
    assert [call[2] for call in last] == [fit.global_] * 4
    assert model.calls[-1][0] == "bound"
    assert model.calls[-1][2] == fit.global_


def test_the_item_factors_are_carried_from_sweep_to_sweep(shards):
    model, fit = sweep(shards, max_iter=2)
    first, second = (call for call in model.calls if call[:2] == ("local", 3))
    assert first[3] == (3.0, 4.0, 5.0)
    assert second[3] == tuple((np.array(first[3]) + first[2]) / 2)
    assert_close(np.concatenate(fit.locals_), 4.5 + (np.arange(10) - 4.5) / 4)


def test_it_stops_when_the_gain_is_small_and_says_so(shards):
    _, fit = sweep(shards, tolerance=1e-3)
    gains = np.diff(fit.history.totals)
    assert fit.converged
    assert gains[-1] <= 1e-3 < gains[-2]


def test_a_tolerance_met_in_the_last_sweep_allowed_is_met(shards):
    _, free = sweep(shards, tolerance=1e-3)
    _, limited = sweep(shards, tolerance=1e-3, max_iter=len(free.history.terms))
    _, shorter = sweep(shards, tolerance=1e-3, max_iter=len(free.history.terms) - 1)
    assert limited.converged
    assert not shorter.converged


def test_threads_are_serial_bit_for_bit(shards):
    _, one = sweep(shards)
    _, other = sweep(shards, engine=Threads(3))
    assert one.global_ == other.global_
    assert one.history.terms == other.history.terms
    assert all(np.array_equal(a, b) for a, b in zip(one.locals_, other.locals_, strict=True))
