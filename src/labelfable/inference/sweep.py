"""The sweep, the same for every model whose statistics add up over items.

globals ──▶ local step of each shard ──▶ statistics, added in shard order ──▶ bound ──▶ stop, or global step ──▶ globals
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

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


LENGTHEN = 1.3  # a step that succeeded makes the next one so much longer
LONGEST = 30.0


class Stretch(Protocol[Global]):
    """Globals on the line from one update to the next, beyond it."""

    def __call__(self, before: Global, after: Global, length: float) -> Global:
        """`before` at length 0, `after` at 1."""
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
    terms: list[dict[str, float]]
    """The objective after each sweep so far."""
    plain: Global | None = None
    """The update that a stretched step started from."""
    length: float = 1.0
    """How many times the step was lengthened."""
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


def run_sweeps(
    model: SweepModel[Piece_contra, Global, Local, Any],
    shards: Sequence[Piece_contra],
    engine: Engine,
    stopping: Stopping,
    stretch: Stretch[Global] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fit[Global, Local]:
    """Sweep until the bound stops rising.

    The bound is taken after each local step, so the globals that come back are the ones that the last responsibilities
    were computed from, and prediction repeats them.

    With `stretch` steps grow longer than the update as long as the bound rises (adaptive overrelaxation: Salakhutdinov,
    Roweis 2003).  A step that went too far is taken back to the update itself, which cannot lower the bound; only an
    update that gains too little ends the fit.  It is for models that carry no item factors: those of a step that was
    taken back would stay.  So is `checkpoint`, which keeps the state after each sweep and takes it up again.
    """
    state = None if checkpoint is None else checkpoint.load()
    locals_: list[Any] = [None] * len(shards)
    held = None if state is not None and state.finished else engine.hold(shards)
    if state is None:
        locals_, statistics = engine.total(partial(_start, model), held, locals_)
        state = SweepState(model.global_step(statistics), [])
    while not state.finished:
        if checkpoint is not None:
            checkpoint.save(state)
        locals_, statistics = engine.total(partial(_local_step, model, state.global_), held, locals_)
        terms = model.bound(statistics, state.global_)
        state = _next_state(model, state, (statistics, terms), stopping, stretch)
    if checkpoint is not None:
        checkpoint.save(state)
    return Fit(state.global_, locals_, History(state.terms), state.converged)


def _next_state(
    model: SweepModel[Any, Global, Any, Any],
    state: SweepState[Global],
    found: tuple[Any, dict[str, float]],
    stopping: Stopping,
    stretch: Stretch[Global] | None,
) -> SweepState[Global]:
    """Stop, take a step back that went too far, or go on to new globals."""
    statistics, terms = found
    history = History(list(state.terms))
    if state.plain is not None and not sum(terms.values()) >= history.totals[-1]:  # or is not a number
        return SweepState(state.plain, state.terms)
    history.record(terms)
    converged = stopping.is_met(history) and state.plain is None
    if converged or len(history.terms) >= stopping.max_iter:
        return SweepState(state.global_, history.terms, finished=True, converged=converged)
    update = model.global_step(statistics)
    if stretch is None or stopping.is_met(history):
        return SweepState(update, history.terms)
    length = min(state.length * LENGTHEN, LONGEST)
    return SweepState(stretch(state.global_, update, length), history.terms, update, length)


def _start(model: SweepModel[Piece_contra, Any, Local, Any], shard: Piece_contra, local: Any) -> tuple[Local, Any]:
    del local  # there is none yet
    return model.start(shard)


def _local_step(
    model: SweepModel[Piece_contra, Global, Local, Any], global_: Global, shard: Piece_contra, local: Local
) -> tuple[Local, Any]:
    return model.local_step(shard, local, global_)
