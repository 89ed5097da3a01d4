"""The sweep, the same for every model whose statistics add up over items.

globals ──▶ local step of each shard ──▶ statistics, added in shard order ──▶ bound ──▶ stop, or global step ──▶ globals
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

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


def run_sweeps(
    model: SweepModel[Piece_contra, Global, Local, Any],
    shards: Sequence[Piece_contra],
    engine: Engine,
    stopping: Stopping,
    stretch: Stretch[Global] | None = None,
) -> Fit[Global, Local]:
    """Sweep until the bound stops rising.

    The bound is taken after each local step, so the globals that come back are the ones that the last responsibilities
    were computed from, and prediction repeats them.

    With `stretch` steps grow longer than the update as long as the bound rises (adaptive overrelaxation: Salakhutdinov,
    Roweis 2003).  A step that went too far is taken back to the update itself, which cannot lower the bound; only an
    update that gains too little ends the fit.  It is for models that carry no item factors: those of a step that was
    taken back would stay.
    """
    locals_: list[Local] = []
    global_ = model.global_step(add_in_order(_keep_locals(engine.map(model.start, shards), locals_)))
    history = History()
    plain, length = None, 1.0  # the update that a stretched step started from, and how many times it was lengthened
    while True:
        step = partial(_local_step, model, global_)
        answers = engine.map(step, list(zip(shards, locals_, strict=True)))
        locals_ = []
        statistics = add_in_order(_keep_locals(answers, locals_))
        terms = model.bound(statistics, global_)
        if plain is not None and not sum(terms.values()) >= history.totals[-1]:  # or is not a number
            global_, plain, length = plain, None, 1.0
            continue
        history.record(terms)
        converged = stopping.is_met(history) and plain is None
        if converged or len(history.terms) >= stopping.max_iter:
            return Fit(global_, locals_, history, converged)
        before, global_ = global_, model.global_step(statistics)
        length = 1.0 if stretch is None or stopping.is_met(history) else min(length * LENGTHEN, LONGEST)
        plain = global_ if stretch is not None and length > 1 else None
        if stretch is not None and plain is not None:
            global_ = stretch(before, plain, length)


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
