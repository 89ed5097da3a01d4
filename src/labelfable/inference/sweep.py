"""The sweep, the same for every model whose statistics add up over items.

globals ──▶ local step of each shard ──▶ statistics, added in shard order ──▶ bound ──▶ stop, or global step ──▶ globals
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from labelfable.inference.acceleration import Memory, Path
from labelfable.inference.convergence import History, Stopping
from labelfable.inference.execution import Engine, Summable

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


@dataclass(frozen=True)
class SweepState(Generic[Global]):
    """All that the next sweep depends on: a fit that goes on from here ends where it would have ended."""

    global_: Global
    terms: list[dict[str, float]] = field(default_factory=list)
    """The objective after each sweep so far."""
    memory: Memory = field(default_factory=Memory)
    update: Global | None = None
    """What a combination falls back to."""
    best: tuple[Global, Any] | None = None
    """The last globals that raised the bound, and their statistics."""
    finished: bool = False
    converged: bool = False


class Checkpoint(Protocol):
    """Where the state is kept between sweeps, so that a fit that is killed can go on."""

    def load(self) -> SweepState[Any] | None:
        """The state that was kept last, or None."""
        ...

    def save(self, state: SweepState[Any]) -> None:
        """Keep a state in the place of the last one, whole or not at all."""
        ...


def run_sweeps(  # noqa: PLR0917 (what sweeps, over what, where, until when; then what few fits need)
    model: SweepModel[Piece_contra, Global, Local, Any],
    shards: Sequence[Piece_contra],
    engine: Engine,
    stopping: Stopping,
    path: Path[Global, Any] | None = None,
    checkpoint: Checkpoint | None = None,
    *,
    begin: Global | None = None,
) -> Fit[Global, Local]:
    """Sweep until the bound stops rising.

    The bound is taken after each local step, so the globals that come back are the ones that the last responsibilities
    were made with: predicting the training items gives the training responsibilities.

    With a `path` the last updates are combined (see `acceleration.py`).  A combination that lowers the bound is dropped
    for the update itself, an update that does so for a more careful one, so the history never falls; only an update
    that gains too little ends the fit.  It is for models that carry no item factors: those of a step that was taken
    back would stay.  Such a model can also `begin` where an earlier fit ended, and keep its state after each sweep in a
    `checkpoint`, to take it up again.
    """
    state = None if checkpoint is None else checkpoint.load()
    locals_: Any = [None] * len(shards)
    held = None if state is not None and state.finished else engine.hold(shards)
    if state is None and begin is not None:
        state = SweepState(begin)
    if state is None:
        locals_, statistics = engine.total(partial(_start, model), held, locals_)
        state = SweepState(model.global_step(statistics))
    while not state.finished:
        if checkpoint is not None:
            checkpoint.save(state)
        locals_, statistics = engine.total(partial(_local_step, model, state.global_), held, locals_)
        state = _next_state(model, state, statistics, stopping, path)
    if checkpoint is not None:
        checkpoint.save(state)
    return Fit(state.global_, locals_, History(state.terms), state.converged)


def _next_state(
    model: SweepModel[Any, Global, Any, Any],
    state: SweepState[Global],
    statistics: Any,
    stopping: Stopping,
    path: Path[Global, Any] | None,
) -> SweepState[Global]:
    """What one sweep leads to: the end, a step back from what went too far, or new globals."""
    terms = model.bound(statistics, state.global_)
    total = sum(terms.values())
    history = History(list(state.terms))
    if path is not None and state.best is not None and not total >= history.totals[-1]:  # lower, or not a number
        return _taken_back(model, state, path, arrived=stopping.is_near(total, history.totals[-1]))
    history.record(terms)
    here = replace(state, terms=history.terms, best=None if path is None else (state.global_, statistics))
    converged = stopping.is_met(history) and state.update is None
    if converged or len(history.terms) >= stopping.max_iter:
        return replace(here, finished=True, converged=converged)
    after = model.global_step(statistics)
    if path is not None and not stopping.is_met(history):
        combined = state.memory.combine(path.coordinates(state.global_), path.coordinates(after), path.metric(after))
        if combined is not None:
            return replace(here, global_=path.at(combined, after), update=after)
    return replace(here, global_=after, update=None)


def _taken_back(
    model: SweepModel[Any, Global, Any, Any], state: SweepState[Global], path: Path[Global, Any], *, arrived: bool
) -> SweepState[Global]:
    """The update in the place of a combination that lowered the bound, or a more careful one in that of an update."""
    state.memory.forget()
    if state.update is not None:
        return replace(state, global_=state.update, update=None)
    assert state.best is not None  # noqa: S101 (there is no fall without something to fall from)
    before, statistics = state.best
    careful = path.careful(statistics)
    if arrived or careful is None:  # it was an update itself that went too far
        return replace(state, global_=before, finished=True, converged=arrived)
    return replace(state, global_=model.global_step(careful), best=(before, careful))


def _start(model: SweepModel[Piece_contra, Any, Local, Any], shard: Piece_contra, local: Any) -> tuple[Local, Any]:
    del local  # there is none yet
    return model.start(shard)


def _local_step(
    model: SweepModel[Piece_contra, Global, Local, Any], global_: Global, shard: Piece_contra, local: Local
) -> tuple[Local, Any]:
    return model.local_step(shard, local, global_)
