"""The two checks that a rule which claims to raise an objective has to pass.

At its output the derivative of that objective is zero along every direction in which the factor may move, and no update
lowers it.  The objective is handed in, written from the equations in tests/oracles; the updates come from src.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.tolerances import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Factors = Mapping[str, NDArray[np.floating] | None]
    Objective = Callable[..., float]
    EventAxis = int | str | None

DIRECTIONS = 6
REAL = "real"
"""In place of an event axis: numbers of any sign."""
MATRIX = "matrix"
"""In place of an event axis: symmetric positive matrices on the last two axes."""


@dataclass(frozen=True)
class Update:
    """All factors right after one of them was updated."""

    of: str
    factors: dict[str, Any]


def assert_ascent(objective: Objective, updates: Sequence[Update], event_axes: Mapping[str, EventAxis]) -> None:
    """Every update ends where its factor's derivative is zero, and none lowers the objective."""
    assert_stationary(objective, updates, event_axes)
    assert_rising(objective, updates)


def assert_stationary(objective: Objective, updates: Sequence[Update], event_axes: Mapping[str, EventAxis]) -> None:
    """The objective is flat, along random directions, in the factor that was just updated.

    A factor that is a distribution (`event_axes` names the axis that sums to 1) moves by p ∝ p exp(h d); one of
    positive numbers by x exp(h d), REAL ones by x + h d, MATRIX ones by (I + h D) X (I + h D)'.  So every direction
    stays inside what the factor may be.  Zeros stay zeros on the first two paths, so a distribution is also moved by
    (1 − h) p + h e_l, where the slope must not be positive.  An objective of −inf says that a move is not allowed.
    """
    limits = TOLERANCE["float64"]
    draws = np.random.default_rng(0)
    for number, update in enumerate(updates):
        size = max(1.0, abs(objective(**update.factors)))
        factor = update.factors[update.of]
        for direction in _directions(factor.shape, draws):
            slope = _slope(objective, update, direction, event_axes[update.of], limits.step)
            assert abs(slope) <= limits.slope * size, (
                f"update {number}, of {update.of}: not stationary, slope {slope:.3g} at objective {size:.6g}"
            )
        if isinstance(event_axes[update.of], int):
            for place in _places(factor.shape, draws):
                slope = _slope_towards(objective, update, place, event_axes[update.of], limits.step)
                assert slope <= limits.slope * size, (
                    f"update {number}, of {update.of}: not stationary, slope {slope:.3g} towards {place}"
                )


def assert_rising(objective: Objective, updates: Sequence[Update]) -> None:
    """No update lowers the objective by more than rounding."""
    values = [objective(**update.factors) for update in updates]
    for number in range(1, len(values)):
        before, after = values[number - 1], values[number]
        assert after >= before - TOLERANCE["float64"].climb * abs(before), (
            f"update {number}, of {updates[number].of}: the objective fell from {before!r} to {after!r}"
        )
    assert values[-1] > values[0], "the objective never rose: the check saw nothing"


def _directions(shape: tuple[int, ...], draws: np.random.Generator) -> list[NDArray[np.floating]]:
    """Some that move everything, and some that move one entry: a slip in one entry is not averaged away."""
    everything = [draws.standard_normal(shape) for _ in range(DIRECTIONS)]
    single = []
    for place in _places(shape, draws):
        one = np.zeros(shape)
        one[place] = 1.0
        single.append(one)
    return everything + single


def _places(shape: tuple[int, ...], draws: np.random.Generator) -> list[tuple[int, ...]]:
    size = int(np.prod(shape))
    flat = draws.choice(size, size=min(2 * DIRECTIONS, size), replace=False)
    return [tuple(int(part) for part in np.unravel_index(place, shape)) for place in flat]


def _slope(
    objective: Objective, update: Update, direction: NDArray[np.floating], event_axis: EventAxis, step: float
) -> float:
    sides = []
    for signed in (step, -step):
        moved = _moved(update.factors[update.of], signed * direction, event_axis)
        sides.append(objective(**{**update.factors, update.of: moved}))
    return (sides[0] - sides[1]) / (2 * step)


def _moved(factor: NDArray[np.floating], move: NDArray[np.floating], event_axis: EventAxis) -> NDArray[np.floating]:
    if event_axis == REAL:
        return factor + move
    if event_axis == MATRIX:
        turned = np.eye(factor.shape[-1]) + move
        return turned @ factor @ np.swapaxes(turned, -1, -2)
    moved = factor * np.exp(move)
    return moved if event_axis is None else moved / moved.sum(axis=event_axis, keepdims=True)


def _slope_towards(objective: Objective, update: Update, place: tuple[int, ...], event_axis: int, step: float) -> float:
    moved = update.factors[update.of].copy()
    event = tuple(slice(None) if axis == event_axis else part for axis, part in enumerate(place))
    moved[event] *= 1 - step
    moved[place] += step
    return (objective(**{**update.factors, update.of: moved}) - objective(**update.factors)) / step
