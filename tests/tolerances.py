"""How closely numbers must agree: one table by dtype, looked up by what is compared.  No test has a number of its own.

Extend the table where a new kind of comparison needs it; do not loosen a row to let a test pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """Relative to the larger of 1 and the largest number compared, except where the row says otherwise."""

    rounding: float
    """A formula written in two ways: a few operations on the same numbers."""
    sums: float
    """Sums of up to a million terms, in another order or grouping."""
    sweeps: float
    """Some tens of sweeps, each of which passes on the rounding of the one before."""
    climb: float
    """How far an objective may fall in one update, relative to its size: rounding, and nothing but rounding."""
    step: float
    """The step of a central difference, on the logarithm of what is moved."""
    slope: float
    """What is left of a derivative that is zero: the rounding of the objective over the step, and the step squared."""
    quadrature: float
    """A numerical integral."""
    minimum: float
    """Where the minimum of a function lies: next to it the function's own rounding hides a square root of that."""
    jitter: float
    """What is left out where √eps of float64 is added to a kernel's diagonal before it is factorised."""


TOLERANCE = {
    "float64": Tolerance(
        rounding=1e-12,
        sums=1e-10,
        sweeps=1e-8,
        climb=1e-9,
        step=1e-4,
        slope=1e-7,
        quadrature=1e-7,
        minimum=1e-6,
        jitter=1e-7,
    ),
    "float32": Tolerance(
        rounding=1e-5,
        sums=1e-4,
        sweeps=1e-3,
        climb=1e-5,
        step=1e-2,
        slope=1e-3,
        quadrature=1e-4,
        minimum=1e-2,
        jitter=1e-5,
    ),
}

STANDARD_ERRORS = 5.0
"""How many standard errors a mean over random draws may be away.  Draws are seeded: past that it is an error."""

MEAN_FIELD_SLACK = 0.03
"""How far mean-field class probabilities may be from exact ones, on average, where classes are well told apart.

Not rounding, but the price of factors that ignore each other: 0.01 to 0.02 is usual, a wrong update costs 0.1 and more.
"""


def tolerance_of(*arrays: Any) -> Tolerance:
    """The row of the coarsest dtype among the arrays."""
    kinds = {str(array.dtype).rsplit(".", maxsplit=1)[-1] for array in arrays if hasattr(array, "dtype")}
    return TOLERANCE["float32" if "float32" in kinds else "float64"]


def assert_close(actual: Any, desired: Any, row: str = "rounding", *, message: str = "") -> None:
    """Agreement of numbers or arrays, by the named row of the table."""
    limit = getattr(tolerance_of(actual, desired), row)
    actual, desired = np.asarray(actual, dtype=np.float64), np.asarray(desired, dtype=np.float64)
    assert actual.shape == desired.shape, f"{message} shapes {actual.shape} and {desired.shape}"
    finite = np.abs(desired[np.isfinite(desired)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    np.testing.assert_allclose(actual, desired, rtol=0, atol=limit * scale, err_msg=message)
