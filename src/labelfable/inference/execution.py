"""Where shards run, and in which order their answers are added."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from labelfable.errors import ModelError
from labelfable.inference.shards import loaded
from labelfable.inference.spill import hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

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

    def map(self, function: Callable[[Any], Answer], work: Sequence[Any]) -> Iterator[Answer]:
        """Answers in order, whatever order they were computed in.  Stored shards are read where the function runs."""
        ...

    def hold(self, shards: Sequence[Any]) -> Any:
        """Shards made ready for many sweeps: what `total` takes."""
        ...

    def total(self, function: Callable[[Any, Any], tuple[Any, S]], held: Any, locals_: Sequence[Any]) -> tuple[Any, S]:
        """The function of each shard and its item factors: new item factors, and the sum of all statistics."""
        ...


class OneBlasThread:
    """While any shard is at work, the linear algebra inside it stays on one core.

    The last digits of a product depend on how many threads share it, and threads of several shards wait for each other.
    """

    def __init__(self) -> None:
        self.inside = 0
        self.lock = threading.Lock()
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                self.limit = _blas_libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
                self.limit.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.limit.__exit__(kind, error, trace)


@cache
def _blas_libraries(with_scipy: bool) -> Any:  # noqa: FBT001 (only tells one state of the process from another)
    """Handles of the libraries that are loaded: SciPy brings one of its own, later than NumPy's."""
    from threadpoolctl import ThreadpoolController

    del with_scipy
    return ThreadpoolController()


ONE_BLAS_THREAD = OneBlasThread()


class Serial:
    """One shard after another."""

    def map(self, function: Callable[[Any], Answer], work: Sequence[Any]) -> Iterator[Answer]:
        """Answers in order."""
        if len(work) == 1:  # the only shard may have all cores for its products
            yield function(loaded(work[0]))
            return
        with ONE_BLAS_THREAD:
            for piece in work:
                yield function(loaded(piece))

    def hold(self, shards: Sequence[Any]) -> Sequence[Any]:
        """The shards as they are; stored ones are read, and kept in memory or beside on disk."""
        return hold(shards, self.map)

    def total(
        self, function: Callable[[Any, Any], tuple[Any, S]], held: Sequence[Any], locals_: Sequence[Any]
    ) -> tuple[list[Any], S]:
        """Item factors, and the sum of all statistics."""
        kept: list[Any] = []
        answers = self.map(partial(_with_local, function), [_Pair(*pair) for pair in zip(held, locals_, strict=True)])
        return kept, add_in_order(_keep_locals(answers, kept))


class Threads(Serial):
    """Several shards at once: NumPy and SciPy let go of the interpreter's lock inside their loops."""

    def __init__(self, number: int) -> None:
        self.number = number

    def map(self, function: Callable[[Any], Answer], work: Sequence[Any]) -> Iterator[Answer]:
        """Answers in order, with at most a few shards' answers waiting in memory."""
        if len(work) == 1:  # a thread of its own would only cost its start, in every sweep
            yield function(loaded(work[0]))
            return
        with ONE_BLAS_THREAD, ThreadPoolExecutor(self.number) as pool:
            waiting: list[Any] = []
            for piece in work:
                waiting.append(pool.submit(_call, function, piece))
                if len(waiting) > 2 * self.number:
                    yield waiting.pop(0).result()
            for future in waiting:
                yield future.result()


def _call(function: Callable[[Any], Answer], piece: Any) -> Answer:
    return function(loaded(piece))


class _Pair:
    """A shard, which may be stored, and its item factors."""

    def __init__(self, piece: Any, local: Any) -> None:
        self.piece = piece
        self.local = local


def _with_local(function: Callable[[Any, Any], Answer], pair: _Pair) -> Answer:
    return function(loaded(pair.piece), pair.local)


def _keep_locals(answers: Iterable[tuple[Any, S]], kept: list[Any]) -> Iterator[S]:
    """Pass statistics on one at a time and put the item factors aside."""
    for local, statistics in answers:
        kept.append(local)
        yield statistics


def engine_of(n_jobs: int | None, engine: Any = None, device: Any = None) -> Engine:
    """Threads as asked (None or −1 means all cores), a device, or a cluster: "dask", an address, or a client."""
    if device is not None:
        from labelfable.inference.device_engine import DeviceEngine

        if engine is not None:
            raise ModelError("engine= runs on the CPU", hint="Leave device= out")
        return DeviceEngine(device)
    if engine is not None:
        from labelfable.inference.dask_engine import dask_engine

        return dask_engine(engine)
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
