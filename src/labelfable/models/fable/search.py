"""From the starts to the peak: each start climbs a little, the one with the highest bound climbs on.

One subtype a class climbs to its own peak whatever the others do, so that more of them are kept only where they raise
the bound.  Where items are many the starts climb on a sample of them, whose sums count as those of all; only the last
stretch is climbed with every item.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Engine
from labelfable.inference.sweep import Fit, run_sweeps
from labelfable.models.fable.factors import GlobalFactors
from labelfable.models.fable.light import Curvature, LightSweeps
from labelfable.models.fable.steps import FableShard, FableSweeps

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCOUT_SWEEPS = 12  # of each start
SAMPLE_ITEMS = 2**14
SAMPLE_ITEMS_A_COLUMN = 64
SAMPLE_TOLERANCE = 1e-4  # a sample's own peak is not that of all items anyway
FEWEST_SAMPLES = 4  # with less in all, a sample saves nothing


@dataclass(frozen=True)
class Start:
    """One model and where its items begin."""

    sweeps: FableSweeps
    shards: list[FableShard]


@dataclass(frozen=True)
class Peak:
    """Where the climb from a start ended."""

    sweeps: FableSweeps
    fit: Fit[Any, None]

    @property
    def height(self) -> float:
        """The bound."""
        return self.fit.history.totals[-1]

    @property
    def curvature(self) -> Curvature | None:
        """By what the processes were moved; None where each component has its own."""
        return self.fit.global_.curvature if self.sweeps.is_point else None

    @property
    def factors(self) -> GlobalFactors:
        """What was fitted."""
        found: GlobalFactors = _model(self.sweeps).factors(self.fit.global_)
        return found


def climb_best(
    starts: Iterable[Start], engine: Engine, stopping: Stopping, whole: list[FableShard] | None = None
) -> Peak:
    """The higher of the first start's peak and that of the most promising of the others.

    Where the starts' items are a sample, `whole` are all of them.
    """
    first, *others = starts
    to_peak = stopping if whole is None else replace(stopping, tolerance=max(SAMPLE_TOLERANCE, stopping.tolerance))
    peaks = [climb(first, engine, to_peak)]
    few = replace(stopping, max_iter=min(SCOUT_SWEEPS, stopping.max_iter))
    scouted = [(start, climb(start, engine, few)) for start in others]
    if scouted:
        start, begun = max(scouted, key=lambda scout: scout[1].height)
        peaks.append(climb(start, engine, to_peak, begun))
    if whole is not None:
        peaks = [climb(Start(replace(peak.sweeps, copies=1.0), whole), engine, stopping, peak) for peak in peaks]
    return max(peaks, key=lambda peak: peak.height)


def climb(start: Start, engine: Engine, stopping: Stopping, begun: Peak | None = None) -> Peak:
    """Sweep to the peak, or on to it from where another climb ended."""
    model = _model(start.sweeps)
    begin = None if begun is None else begun.fit.global_
    return Peak(start.sweeps, run_sweeps(model, start.shards, engine, stopping, model, begin=begin))


def sampled(n_items: int, n_columns: int, seed: int) -> NDArray[np.integer] | None:
    """Numbers of the items that the starts climb on, in order; None for all.

    It is a share of the items that leaves many for each column.
    """
    size = max(SAMPLE_ITEMS, SAMPLE_ITEMS_A_COLUMN * n_columns)
    if n_items < FEWEST_SAMPLES * size:
        return None
    return np.sort(np.random.default_rng(seed).choice(n_items, size, replace=False))


def _model(sweeps: FableSweeps) -> Any:
    """Light sweeps where the processes are points, else a Gram of each component's own."""
    return LightSweeps(sweeps) if sweeps.is_point else sweeps
