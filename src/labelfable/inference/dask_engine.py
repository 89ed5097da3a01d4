"""Shards on a cluster, by Dask.

Every worker reads its own shards and keeps them; a sweep sends it the globals and gets sums back.  Shards are answers
of tasks, never scattered data: when a worker is lost, the scheduler has another one run the tasks that read its shards.
"""

from __future__ import annotations

import logging
import pickle
import time
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from labelfable.errors import EngineError, LabelfableError, MissingExtraError, ModelError
from labelfable.inference.execution import ONE_BLAS_THREAD, S, Serial, add_in_order
from labelfable.inference.shards import StoredShard, loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

RUNS_A_THREAD = 4  # so that a slow or lost worker leaves little to wait for
LONGEST_RUN = 256  # shards that one task sums up: 4 million items or more
FETCHED_AT_ONCE = 16
ASKED_SECONDS = 5.0  # for the scheduler to answer a question
LOOK_SECONDS = 1.0  # between looks at the cluster while an answer is awaited
GRACE_SECONDS = 20.0  # without any worker, or without the scheduler, before the fit gives up


@dataclass
class HeldRuns:
    """Aligned runs of shards, each in the memory of some worker."""

    futures: list[Any]
    run: int
    """Shards in each run but the last."""
    n_shards: int
    workers: frozenset[str]
    """The workers when the runs were last spread over them."""


class DaskEngine:
    """Runs of shards are loaded once by tasks; each sweep is one task a run, which adds its shards' statistics up."""

    def __init__(self, client: Any, grace: float = GRACE_SECONDS) -> None:
        self.client = client
        self.grace = grace

    def map(self, function: Callable[[Any], Any], work: Sequence[Any]) -> Iterator[Any]:
        """Answers in order; pieces are read by the tasks, and forgotten."""
        run = run_length(len(work), RUNS_A_THREAD * self._threads())
        call = self._send(function)
        tasks = [
            self.client.submit(_map_run, call, *group, pure=False, key=_key("map")) for group in self._groups(work, run)
        ]
        for answers in self._results(tasks):
            yield from answers

    def hold(self, shards: Sequence[Any]) -> Any:
        """Have the workers read the shards; one shard alone stays here, where its products may have all cores."""
        if len(shards) == 1:
            return shards
        run = run_length(len(shards), RUNS_A_THREAD * self._threads())
        futures = [
            self.client.submit(_load_run, *group, pure=False, key=_key("load")) for group in self._groups(shards, run)
        ]
        return HeldRuns(futures, run, len(shards), self._workers())

    def total(
        self, function: Callable[[Any, Any], tuple[Any, S]], held: Any, locals_: Sequence[Any]
    ) -> tuple[list[Any], S]:
        """Item factors, and the sum of all statistics."""
        if not isinstance(held, HeldRuns):
            return Serial().total(function, held, locals_)
        self._spread(held)
        call = self._send(function)
        tasks = []
        for number, future in enumerate(held.futures):
            own = list(locals_[number * held.run : (number + 1) * held.run])
            tasks.append(self.client.submit(_sum_run, call, future, Sealed(own), pure=False, key=_key("sweep")))
        kept: list[Any] = []

        def sums() -> Iterator[S]:
            for own, statistics in self._results(tasks):
                kept.extend(own)
                yield statistics

        return kept, add_in_order(sums())

    def _groups(self, shards: Sequence[Any], run: int) -> Iterator[tuple[Any, Sealed]]:
        """What the shards of each run are read from, sent once for all runs, and the shards without it."""
        sent: dict[int, Any] = {}
        for first in range(0, len(shards), run):
            group = list(shards[first : first + run])
            if not isinstance(group[0], StoredShard):
                yield None, Sealed(group)
                continue
            source = group[0].source
            if id(source) not in sent:
                sent[id(source)] = self._send(source)
            yield sent[id(source)], Sealed([replace(shard, source=None) for shard in group])

    def _send(self, thing: Any) -> Any:
        """Something as the answer of a task: it travels once to each worker, and is made again where it was lost."""
        with warnings.catch_warnings():
            # what a task carries lies at the scheduler: that is what makes it safe, and globals are small
            warnings.filterwarnings("ignore", "Sending large graph")
            return self.client.submit(_same, Sealed(thing), pure=False, key=_key("send"))

    def _results(self, tasks: list[Any]) -> Iterator[Any]:
        """The tasks' answers in order.  Some are fetched at once: each fetch is a round trip."""
        while tasks:
            batch, tasks[:] = tasks[:FETCHED_AT_ONCE], tasks[FETCHED_AT_ONCE:]
            self._wait(batch)
            yield from (answer.content for answer in self._asked(self.client.gather, batch))

    def _wait(self, batch: list[Any]) -> None:
        """Until all are done, well or not; an error where there is nobody left to do them."""
        lost_since = None
        for future in batch:
            while True:
                try:
                    self._asked(future.exception, timeout=LOOK_SECONDS)
                    break
                except TimeoutError as error:
                    trouble = self._trouble()
                    lost_since = None if not trouble else lost_since or time.monotonic()
                    if lost_since is not None and time.monotonic() - lost_since > self.grace:
                        raise _gone(trouble) from error

    def _asked(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What a function of Dask's gives; its own errors become one of ours, those of the work are passed on."""
        try:
            return function(*arguments, **options)
        except (LabelfableError, TimeoutError):
            raise
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in {"distributed", "concurrent", "asyncio"}:
                raise
            raise _gone(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error

    def _trouble(self) -> str:
        """Why nothing can get done at the moment, if so."""
        if self.client.status != "running":
            return "the scheduler does not answer"
        return "" if self._workers() else "no worker is left"

    def _workers(self) -> frozenset[str]:
        return frozenset(self._threads_each() or {})

    def _threads_each(self) -> dict[str, int] | None:
        """Threads of each worker; None where the scheduler does not answer soon."""
        if self.client.status != "running":
            return None
        try:
            found: dict[str, int] = self.client.sync(self.client.scheduler.ncores, callback_timeout=ASKED_SECONDS)
        except Exception:  # noqa: BLE001 (whatever a dying scheduler raises, it means that it does not answer)
            return None
        return found

    def _threads(self) -> int:
        """Threads of all workers; waits for the first worker."""
        deadline = time.monotonic() + self.grace
        while True:
            number = sum((self._threads_each() or {}).values())
            if number:
                return number
            if time.monotonic() > deadline:
                raise _gone(self._trouble())
            time.sleep(0.1)

    def _spread(self, held: HeldRuns) -> None:
        """Have new workers take their share of the runs, and let the lost ones' be read again."""
        workers = self._workers()
        if workers and workers != held.workers:
            held.workers = workers
            try:
                self.client.rebalance([future for future in held.futures if future.status == "finished"])
            except Exception as error:  # noqa: BLE001 (it only makes sweeps faster; the sweep itself tells what is wrong)
                warnings.warn(f"shards could not be spread over the workers anew: {error}", stacklevel=2)


def run_length(n_shards: int, wanted_runs: int) -> int:
    """Shards a task sums up: a power of two, so that sums come out the same however many workers there are."""
    run = 1
    while run < LONGEST_RUN and -(-n_shards // (2 * run)) >= wanted_runs:
        run *= 2
    return run


def dask_engine(engine: Any) -> DaskEngine:
    """The engine on a client, on the scheduler at an address, or ("dask") on a cluster of this machine's cores."""
    if isinstance(engine, DaskEngine):
        return engine
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("engine= needs distributed", hint="pip install 'labelfable[dask]'") from error
    if isinstance(engine, distributed.Client):
        return DaskEngine(engine)
    if engine == "dask":
        return DaskEngine(_embedded())
    if isinstance(engine, str):
        return DaskEngine(_connected(engine))
    raise ModelError(
        f"engine={engine!r} is no engine", hint="It is None, 'dask', a scheduler's address, or a dask Client"
    )


@cache
def _embedded() -> Any:
    """A cluster of processes on this machine, one a core; it lives as long as this process."""
    import distributed

    make: Any = distributed  # it has no types
    cluster = make.LocalCluster(
        threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=logging.ERROR
    )
    return make.Client(cluster, set_as_default=False)


@cache
def _connected(address: str) -> Any:
    import distributed

    try:
        make: Any = distributed  # it has no types
        return make.Client(address, set_as_default=False, timeout=GRACE_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        raise EngineError(
            "no Dask scheduler answers", where=address, hint="Start one with `dask scheduler`, and workers beside it"
        ) from error


def _gone(trouble: str) -> EngineError:
    return EngineError(
        f"the cluster is gone: {trouble}",
        hint="Fit again once it is back; with checkpoint=FOLDER the fit goes on from its last sweep",
    )


def _key(what: str) -> str:
    from uuid import uuid4

    return f"labelfable-{what}-{uuid4().hex}"


class Sealed:
    """Anything on its way between processes, copied as a whole.

    Arrays that Dask sends lie in its buffers, at any address.  From an odd address the linear algebra takes another
    path to a result that differs in its last digits; a copy of one's own lies where any array would.
    """

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce__(self) -> Any:
        import cloudpickle

        return _unseal, (cloudpickle.dumps(self.content, protocol=4),)  # 5 would leave arrays in buffers again


def _unseal(copied: bytes) -> Sealed:
    return Sealed(pickle.loads(copied))  # noqa: S301 (between the processes of one cluster, as all that Dask sends)


def _same(thing: Sealed) -> Sealed:
    return thing


def _load_run(source: Sealed | None, shards: Sealed) -> Sealed:
    """Read a run of shards, on the worker that will keep them."""
    with ONE_BLAS_THREAD:
        return Sealed([_read(source, shard) for shard in shards.content])


def _map_run(function: Sealed, source: Sealed | None, shards: Sealed) -> Sealed:
    with ONE_BLAS_THREAD:
        return Sealed([function.content(_read(source, shard)) for shard in shards.content])


def _sum_run(function: Sealed, shards: Sealed, locals_: Sealed) -> Sealed:
    with ONE_BLAS_THREAD:
        answers = list(map(function.content, shards.content, locals_.content))
    return Sealed(([local for local, _ in answers], add_in_order(statistics for _, statistics in answers)))


def _read(source: Sealed | None, shard: Any) -> Any:
    return loaded(shard if source is None else replace(shard, source=source.content))
