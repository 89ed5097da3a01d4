"""From the starts to the peak: each start climbs a little, the one with the highest bound climbs on.

One subtype a class climbs to its own peak whatever the others do, so that more of them are kept only where they raise
the bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from labelfable.inference.convergence import History, Stopping
from labelfable.inference.execution import Engine
from labelfable.inference.sweep import Fit, run_sweeps
from labelfable.models.fable.factors import GlobalFactors
from labelfable.models.fable.light import LightSweeps
from labelfable.models.fable.steps import FableShard, FableSweeps

SCOUT_SWEEPS = 12  # of each start; measured: by then the order of their bounds is that of their peaks, or nearly


@dataclass(frozen=True)
class Start:
    """One model and where its items begin."""

    sweeps: FableSweeps
    shards: list[FableShard]


@dataclass(frozen=True)
class Peak:
    """Where the climb from a start ended."""

    sweeps: FableSweeps
    factors: GlobalFactors
    history: History
    converged: bool


def climb_best(starts: Iterable[Start], engine: Engine, stopping: Stopping) -> Peak:
    """The highest of: the first start's peak, and the peak of the most promising of the others."""
    first, *others = starts
    peak = climb(first, engine, stopping)
    few = replace(stopping, max_iter=min(SCOUT_SWEEPS, stopping.max_iter))
    scouted = [(start, _sweep(start, engine, few)) for start in others]
    if not scouted:
        return peak
    start, begun = max(scouted, key=lambda scout: scout[1].history.totals[-1])
    other = climb(start, engine, stopping, begun)
    return max(peak, other, key=lambda found: found.history.totals[-1])


def climb(start: Start, engine: Engine, stopping: Stopping, begun: Fit[Any, None] | None = None) -> Peak:
    """Sweep to the peak, or on to it from where a fit was left."""
    fit = _sweep(start, engine, stopping, None if begun is None else begun.global_)
    terms = [*([] if begun is None else begun.history.terms[:-1]), *fit.history.terms]
    return Peak(start.sweeps, _model(start).factors(fit.global_), History(terms), fit.converged)


def _sweep(start: Start, engine: Engine, stopping: Stopping, begin: Any = None) -> Fit[Any, None]:
    model = _model(start)
    return run_sweeps(model, start.shards, engine, stopping, model, begin=begin)


def _model(start: Start) -> Any:
    """Light sweeps where the processes are points, else a Gram of each component's own."""
    return LightSweeps(start.sweeps) if start.sweeps.is_point else start.sweeps
