"""The sweep, the same for every model whose statistics add up over items.

globals ──▶ local step of each shard ──▶ statistics, added in shard order ──▶ bound ──▶ stop, or global step ──▶ globals
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from labelfable.inference.acceleration import Memory, Path
from labelfable.inference.convergence import History, Stopping
from labelfable.inference.execution import Engine, Summable, add_in_order

if TYPE_CHECKING:
    from collections.abc import Sequence


Piece_contra = TypeVar("Piece_contra", contravariant=True)  # a shard, in the form that the model takes
Global = TypeVar("Global")
Local = TypeVar("Local")
Statistics = TypeVar("Statistics", bound=Summable)


class SweepModel(Protocol[Piece_contra, Global, Local, Statistics]):
    """What a model gives to the sweep: pure functions of shards, item factors and globals."""

    def start(self, shard: Piece_contra) -> tuple[Local, Statistics]:
        """Item factors to begin with, and their statistics."""
        ...

    def local_step(self, shard: Piece_contra, local: Local, global_: Global) -> tuple[Local, Statistics]:
        """The shard's item factors given the globals, and their statistics."""
        ...

    def global_step(self, statistics: Statistics) -> Global:
        """The globals given the statistics of all items."""
        ...

    def bound(self, statistics: Statistics, global_: Global) -> dict[str, float]:
        """The objective, term by term."""
        ...


@dataclass(frozen=True)
class Fit(Generic[Global, Local]):
    """Where the sweeps ended."""

    global_: Global
    locals_: list[Local]
    history: History
    converged: bool


def run_sweeps(
    model: SweepModel[Piece_contra, Global, Local, Any],
    shards: Sequence[Piece_contra],
    engine: Engine,
    stopping: Stopping,
    path: Path[Global, Any] | None = None,
    *,
    begin: Global | None = None,
) -> Fit[Global, Local]:
    """Sweep until the bound stops rising.

    The bound is taken after each local step, so the globals that come back are the ones that the last responsibilities
    were made with: predicting the training items gives the training responsibilities.

    With a `path` the last updates are combined (see `acceleration.py`).  A combination that lowers the bound is dropped
    for the update itself, an update that does so for a more careful one, so the history never falls; only an update
    that gains too little ends the fit.  It is for models that carry no item factors: those of a step that was taken
    back would stay.  Such a model can also `begin` where an earlier fit ended.
    """
    locals_: list[Any] = []
    if begin is None:
        global_ = model.global_step(add_in_order(_keep_locals(engine.map(model.start, shards), locals_)))
    else:
        global_, locals_ = begin, [None] * len(shards)
    history, memory = History(), Memory()
    update: Global | None = None  # what a combination falls back to
    best: tuple[Global, Any] | None = None  # the last globals that raised the bound, and their statistics
    while True:
        step = partial(_local_step, model, global_)
        answers = engine.map(step, list(zip(shards, locals_, strict=True)))
        locals_ = []
        statistics = add_in_order(_keep_locals(answers, locals_))
        terms = model.bound(statistics, global_)
        total = sum(terms.values())
        if path is not None and best is not None and not total >= history.totals[-1]:  # lower, or not a number
            memory.forget()
            if update is None:  # so it was an update itself that went too far
                arrived, careful = stopping.is_near(total, history.totals[-1]), path.careful(best[1])
                if arrived or careful is None:
                    return Fit(best[0], locals_, history, arrived)
                best = best[0], careful
                update = model.global_step(careful)
            global_, update = update, None
            continue
        history.record(terms)
        best = global_, statistics
        converged = stopping.is_met(history) and update is None
        if converged or len(history.terms) >= stopping.max_iter:
            return Fit(global_, locals_, history, converged)
        after, update = model.global_step(statistics), None
        if path is not None and not stopping.is_met(history):
            combined = memory.combine(path.coordinates(global_), path.coordinates(after), path.metric(after))
            if combined is not None:
                after, update = path.at(combined, after), after
        global_ = after


def _local_step(
    model: SweepModel[Piece_contra, Global, Local, Any], global_: Global, work: tuple[Piece_contra, Local]
) -> tuple[Local, Any]:
    shard, local = work
    return model.local_step(shard, local, global_)


def _keep_locals(answers: Any, locals_: list[Any]) -> Any:
    """Pass statistics on one at a time and put the item factors aside."""
    for local, statistics in answers:
        locals_.append(local)
        yield statistics
