"""Engines: answers in order, sums with one association, the same bits from threads."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable.inference.execution import Serial, Threads, add_in_order, engine_of

ENGINES = [Serial(), Threads(1), Threads(2), Threads(5)]


@dataclass(frozen=True)
class Written:
    """A sum that remembers how it was bracketed."""

    text: str

    def __add__(self, other: Written) -> Written:
        return Written(f"({self.text}+{other.text})")


def leaves(n):
    return [Written(str(number)) for number in range(n)]


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (1, "0"),
        (2, "(0+1)"),
        (3, "((0+1)+2)"),
        (4, "((0+1)+(2+3))"),
        (5, "(((0+1)+(2+3))+4)"),
        (7, "(((0+1)+(2+3))+((4+5)+6))"),
    ],
)
def test_neighbours_are_added_pairwise_as_in_a_binary_counter(n, text):
    assert add_in_order(leaves(n)) == Written(text)


@settings(deadline=None)
@given(n=st.integers(1, 70), power=st.integers(0, 6))
def test_aligned_runs_may_be_added_up_beforehand(n, power):
    """Runs of 2^power shards that start on multiples of 2^power, the last one cut short where the shards end."""
    parts, run = leaves(n), 2**power
    runs = [add_in_order(parts[first : first + run]) for first in range(0, n, run)]
    assert add_in_order(runs) == add_in_order(parts)


@settings(deadline=None)
@given(values=st.lists(st.integers(-1000, 1000), min_size=1, max_size=40))
def test_every_part_is_added_once(values):
    assert add_in_order([Fraction(value) for value in values]) == sum(values)


def test_parts_are_taken_one_at_a_time():
    """At most log n partial sums are held: a million shards need not be in memory."""
    alive: set[int] = set()
    most = 0

    class Counted:
        def __init__(self, name):
            self.name = name
            alive.add(name)
            nonlocal most
            most = max(most, len(alive))

        def __add__(self, other):
            alive.discard(other.name)
            return self

    add_in_order(Counted(number) for number in range(1000))
    assert most <= 12


def test_nothing_to_add_is_an_error():
    with pytest.raises(ValueError, match="no shard"):
        add_in_order([])


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: type(engine).__name__)
@pytest.mark.parametrize("n", [0, 1, 2, 17])
def test_answers_come_in_the_order_of_the_work(engine, n):
    def slow_at_first(number):
        time.sleep(0.002 if number % 5 == 0 else 0)
        return number**2

    assert list(engine.map(slow_at_first, list(range(n)))) == [number**2 for number in range(n)]


def test_threads_work_at_the_same_time():
    """Two pieces of work that wait for each other: one after the other they would never end."""
    meeting = threading.Barrier(2, timeout=10)
    assert list(Threads(2).map(lambda number: (meeting.wait(), number)[1], [0, 1])) == [0, 1]


def test_threads_do_not_run_far_ahead_of_who_takes_the_answers():
    done = []
    answers = Threads(2).map(lambda number: done.append(number) or number, list(range(100)))
    next(answers)
    time.sleep(0.05)
    assert len(done) <= 2 * 2 + 1
    assert list(answers) == list(range(1, 100))


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: type(engine).__name__)
def test_an_error_in_the_work_reaches_the_caller(engine):
    def fail_at_three(number):
        if number == 3:
            message = "three"
            raise RuntimeError(message)
        return number

    with pytest.raises(RuntimeError, match="three"):
        list(engine.map(fail_at_three, list(range(6))))


def test_the_same_sum_from_every_engine_bit_for_bit():
    work = [np.random.default_rng(number).normal(size=5) * 10.0 ** (number % 7) for number in range(37)]
    sums = [add_in_order(engine.map(np.exp2, [np.clip(part, -9, 9) for part in work])) for engine in ENGINES]
    for other in sums[1:]:
        assert np.array_equal(sums[0], other)


def test_jobs_choose_the_engine(monkeypatch):
    assert isinstance(engine_of(1), Serial)
    assert engine_of(3).number == 3
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: set(range(6)), raising=False)
    assert engine_of(None).number == engine_of(-1).number == engine_of(0).number == 6
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0})
    assert isinstance(engine_of(None), Serial)
