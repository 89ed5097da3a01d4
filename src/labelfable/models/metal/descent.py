"""Minimising a loss of conditional vote tables, and what makes a table a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import Bounds, minimize

from labelfable.inference.convergence import History

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Terms = dict[str, float]
    Loss = Callable[[NDArray[np.floating]], tuple[Terms, NDArray[np.floating]]]

REMEMBERED = 10  # pairs of moves and gradients that L-BFGS keeps
EVALUATIONS_EACH = 20  # an iteration needs one gradient, now and then two: this never binds
OUT_OF_ITERATIONS = 1  # SciPy's status


@dataclass(frozen=True)
class Descent:
    """Where the descent ended."""

    point: NDArray[np.floating]
    terms: dict[str, float]
    history: History
    converged: bool


def descend(
    loss: Loss,
    start: NDArray[np.floating],
    scale: float,
    limits: NDArray[np.floating] | None,
    *,
    tol: float,
    max_iter: int,
) -> Descent:
    """A minimum near `start`, by L-BFGS with bounds: 0 ≤ x ≤ limits, or none where `limits` is None.

    Measured against spectral projected gradients: about the same number of gradients where the anchor is strong, a
    third to a hundredth of them where it is not, since weak sources make long valleys.

    The point is measured in units of the start's length and the loss in units of `scale`, the loss at 0.  The descent
    ends where no projected gradient in these units exceeds tol / √(number of entries), or where an iteration gains less
    than tol²; with tol = 0 all iterations are made, unless rounding hides any further gain.
    """
    length = float(np.linalg.norm(start))
    history, shape = History(), start.shape
    if length == 0 or scale == 0:
        terms, _ = loss(start)
        history.record(terms)
        return Descent(start, terms, history, converged=True)
    last: dict[str, float] = {}

    def measured(flat: NDArray[np.floating]) -> tuple[float, NDArray[np.floating]]:
        terms, gradient = loss(flat.reshape(shape) * length)
        last.clear()
        last.update(terms)
        gradient *= length / scale
        return sum(terms.values()) / scale, gradient.ravel()

    def keep(intermediate_result: Any) -> None:
        del intermediate_result  # a step is taken where the loss was asked for last
        history.record(last)

    found = minimize(
        measured,
        (start / length).ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=None if limits is None else Bounds(0, limits.ravel() / length),
        callback=keep,
        options={
            "maxcor": REMEMBERED,
            "maxiter": max_iter,
            "maxfun": EVALUATIONS_EACH * max_iter,
            "ftol": tol**2,
            "gtol": tol / np.sqrt(start.size),
        },
    )
    point = found.x.reshape(shape) * length
    terms, _ = loss(point)
    if not history.terms:
        history.record(terms)
    return Descent(point, terms, history, bool(found.status != OUT_OF_ITERATIONS))


def onto_tables(point: NDArray[np.floating], n_sources: int, roots: NDArray[np.floating]) -> NDArray[np.floating]:
    """The nearest X whose tables are distributions: x ≥ 0, and over each source's labels Σ_l x_jlk ≤ √p_k.

    What is left of √p_k belongs to silence.  Shapes: [columns, classes], [classes] -> [columns, classes].
    """
    tables = np.maximum(point, 0).reshape(n_sources, -1, point.shape[1])
    over = np.argwhere(tables.sum(axis=1) > roots)
    if len(over):
        source, k = over.T
        columns = point.reshape(tables.shape)[source, :, k]
        falling = -np.sort(-columns, axis=1)
        ranks = np.arange(1, columns.shape[1] + 1)
        levels = (np.cumsum(falling, axis=1) - roots[k, None]) / ranks
        n_kept = np.maximum((falling > levels).sum(axis=1), 1)
        level = levels[np.arange(len(over)), n_kept - 1]
        tables[source, :, k] = np.maximum(columns - level[:, None], 0)
    return np.asarray(tables.reshape(point.shape))
