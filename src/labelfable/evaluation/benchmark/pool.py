"""Cells over cores: each in a process of its own, which may die without harm to the others.

A process a cell gives each its own peak of memory, and a cell that crashes or is killed for its memory is recorded and
the run goes on.  Processes are forked from a server that has loaded the package already.  They end with whoever
started them, even where that one was killed.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

from labelfable.errors import LabelfableError, MissingExtraError
from labelfable.evaluation.benchmark.cells import commit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess

    from labelfable.evaluation.benchmark.cells import Cell, CellStore

GIVEN_UP = "given up after"
POLL_SECONDS = 1.0  # how often time limits are looked at

# What measures a cell of each kind: job -> what was found, in JSON values.  Each is imported where it runs.
WORK = {
    "table": ("labelfable.evaluation.benchmark.measure", "measure_set"),
    "size": ("labelfable.evaluation.benchmark.measure", "measure_size"),
    "gain": ("labelfable.evaluation.benchmark.measure", "measure_gain"),
}


PRELOADED = ("labelfable.evaluation.benchmark.measure", "labelfable.evaluation.benchmark.experiments")


class CellSkippedError(LabelfableError):
    """A cell that does not apply, as a model of features on a set that has none."""


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    done: int
    """Cells that are finished, those of earlier runs included."""
    total: int
    last: str
    """The cell that was finished last."""
    seconds_left: float | None
    """An estimate; None where nothing like the cells that are left has been measured."""


@dataclass
class Running:
    """A cell under way."""

    cell: Cell
    process: SpawnProcess | ForkServerProcess
    answer: Connection
    began: float


def run_cells(
    cells: Sequence[Cell],
    store: CellStore,
    *,
    n_jobs: int,
    limit: float = float("inf"),
    retry: bool = False,
    on_done: Callable[[Progress], None] | None = None,
) -> list[dict[str, Any]]:
    """Measure what is missing, `n_jobs` at a time; give back what was found for every cell, in their order.

    A cell that fails, or takes more than `limit` seconds, is recorded with its error and not tried again, unless
    `retry`.  What takes too long once is not begun with another seed.  Where the store cannot be written to, the run
    ends with that error; what is finished is kept.
    """
    found = {cell.key: store.read(cell) for cell in cells}
    missing = [cell for cell in cells if _is_open(found[cell.key], retry=retry)]
    waiting, running = list(reversed(missing)), list[Running]()
    context = _context()
    try:
        while waiting or running:
            while waiting and len(running) < n_jobs:
                running.append(_start(context, waiting.pop()))
            for each in _finished(running, limit):
                running.remove(each)
                answer = _answer(each, limit)
                alike = [cell for cell in waiting if cell.group == each.cell.group] if _is_late(answer) else []
                waiting = [cell for cell in waiting if cell not in alike]
                for cell in (each.cell, *alike):
                    found[cell.key] = answer
                    store.write(cell, answer)
                if on_done is not None:
                    left = [*waiting, *(other.cell for other in running)]
                    seconds = estimate(left, cells, found, n_jobs)
                    on_done(Progress(len(cells) - len(left), len(cells), each.cell.name, seconds))
    finally:
        for each in running:
            each.process.kill()
            each.process.join()
    return [found[cell.key] or {} for cell in cells]


def estimate(
    left: Sequence[Cell], cells: Sequence[Cell], found: dict[str, dict[str, Any] | None], n_jobs: int
) -> float | None:
    """Seconds for the cells that are left, by the mean of their group's finished ones; None where one is unknown."""
    spent: dict[str, list[float]] = {}
    for cell in cells:
        result = found.get(cell.key)
        if result:
            spent.setdefault(cell.group, []).append(result["wall"])
    if any(cell.group not in spent for cell in left):
        return None
    return sum(sum(spent[cell.group]) / len(spent[cell.group]) for cell in left) / n_jobs


def _is_open(found: dict[str, Any] | None, *, retry: bool) -> bool:
    return found is None or (retry and found["status"] == "failed")


def _is_late(found: dict[str, Any]) -> bool:
    return str(found["reason"]).startswith(GIVEN_UP)


def _context() -> ForkServerContext | SpawnContext:
    """Processes that start with no threads and no open files of this one's."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", *PRELOADED])  # once in the server, not again in each process
    return context


def _start(context: ForkServerContext | SpawnContext, cell: Cell) -> Running:
    """Set a process to work on a cell."""
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, *WORK[cell.kind], cell.job | cell.where))
    process.start()
    theirs.close()  # so that its end is seen here when the process is gone
    return Running(cell, process, ours, time.monotonic())


def _finished(running: list[Running], limit: float) -> list[Running]:
    """Cells whose process has answered, is gone, or took too long: at least one, after a wait."""
    while True:
        ready = set(connection.wait([each.answer for each in running], POLL_SECONDS))
        late = time.monotonic() - limit
        done = [each for each in running if each.answer in ready or each.began < late]
        if done:
            return done


def _answer(each: Running, limit: float) -> dict[str, Any]:
    """What a process found, or why it found nothing."""
    wall = time.monotonic() - each.began
    try:
        answer: dict[str, Any] = each.answer.recv() if each.answer.poll() else {}
    except (EOFError, OSError):  # it ended before its answer was whole
        answer = {}
    if answer:
        each.process.join()
    elif wall >= limit:
        each.process.kill()
        each.process.join()
        answer = {"status": "failed", "reason": f"{GIVEN_UP} {limit:g} seconds"}
    else:
        each.process.join()
        code = each.process.exitcode or 0
        how = f"was killed by signal {-code}: was there too little memory?" if code < 0 else f"ended with status {code}"
        answer = {"status": "failed", "reason": f"its process {how}"}
    each.answer.close()
    return answer | {"wall": wall, "commit": commit()}


def _work(answer: Connection, module: str, function: str, job: dict[str, Any]) -> None:
    """In a process of its own: measure, and send what was found."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who presses Ctrl-C means the whole run, which ends its processes
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        found = {"status": "ok", "reason": ""} | getattr(importlib.import_module(module), function)(job)
    except (CellSkippedError, MissingExtraError) as error:
        found = {"status": "skipped", "reason": str(error)}
    except LabelfableError as error:
        found = {"status": "failed", "reason": str(error)}
    except Exception as error:  # noqa: BLE001 (whatever a cell meets, the others go on and the table says what it was)
        reason = f"{type(error).__name__}: {error}"
        found = {"status": "failed", "reason": reason, "traceback": traceback.format_exc()}
    answer.send(found)


def _end_with_parent() -> None:
    """Leave when the process that asked for the work is gone: nobody waits for the answer."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
