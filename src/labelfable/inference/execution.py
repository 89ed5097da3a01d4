"""Where shards run, and in which order their answers are added."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Work = TypeVar("Work")
Answer = TypeVar("Answer")


class Summable(Protocol):
    """What shards send: statistics that add up."""

    def __add__(self, other: Self) -> Self:
        """The statistics of both."""
        ...


S = TypeVar("S", bound=Summable)


class Engine(Protocol):
    """Runs one function over shards and gives the answers back in the shards' order."""

    def map(self, function: Callable[[Work], Answer], work: Sequence[Work]) -> Iterator[Answer]:
        """Answers in order, whatever order they were computed in."""
        ...


class Serial:
    """One shard after another."""

    def map(self, function: Callable[[Work], Answer], work: Sequence[Work]) -> Iterator[Answer]:
        """Answers in order."""
        return map(function, work)


class Threads:
    """Several shards at once: NumPy and SciPy let go of the interpreter's lock inside their loops."""

    def __init__(self, number: int) -> None:
        self.number = number

    def map(self, function: Callable[[Work], Answer], work: Sequence[Work]) -> Iterator[Answer]:
        """Answers in order, with at most a few shards' answers waiting in memory."""
        if len(work) == 1:  # a thread of its own would only cost its start, in every sweep
            yield function(work[0])
            return
        with ThreadPoolExecutor(self.number) as pool:
            waiting: list[Any] = []
            for piece in work:
                waiting.append(pool.submit(function, piece))
                if len(waiting) > 2 * self.number:
                    yield waiting.pop(0).result()
            for future in waiting:
                yield future.result()


def engine_of(n_jobs: int | None) -> Engine:
    """Threads as asked: None or −1 means all cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number = cores if n_jobs is None or n_jobs < 1 else n_jobs
    return Serial() if number == 1 else Threads(number)


def sum_over(pieces: Sequence[Work], function: Callable[[Work], S], n_jobs: int | None) -> S:
    """Sum of a function's answers over pieces of work, several at once, added in the pieces' order."""
    return add_in_order(engine_of(n_jobs).map(function, pieces))


def add_in_order(parts: Iterable[S]) -> S:
    """Sum over shards with an association that depends on the shards' positions alone.

    Neighbours are added pairwise, then pairs of pairs, as in a binary counter.  So whoever holds an aligned run of
    shards may add it up beforehand, and the floating-point answer stays the same bit for bit.
    """
    held: list[tuple[int, S]] = []  # (how many shards, their sum), sizes falling
    for part in parts:
        size, total = 1, part
        while held and held[-1][0] == size:
            before, left = held.pop()
            size, total = size + before, left + total
        held.append((size, total))
    if not held:
        message = "there is no shard to add up"
        raise ValueError(message)
    total = held.pop()[1]
    while held:
        total = held.pop()[1] + total
    return total
