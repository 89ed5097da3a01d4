"""Columns of numbers -> features on one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError
from labelfable.numerics.scaling import SCALINGS, fit_scaling
from labelfable.votes.features import read_features

if TYPE_CHECKING:
    from numpy.typing import NDArray


def numeric_features(
    values: Any, scaling: str = "standardise", *, max_columns: int = 128, seed: int = 0
) -> NDArray[np.floating]:
    """Numbers of items (an array, a sparse matrix or a table) on one scale, [items, columns], dense.

    - "standardise": each column has mean 0 and variance 1; one that never varies becomes 0.
    - "whiten": the principal axes of that, at most `max_columns` of them, each with variance 1.
    - "normalise": each row has length 1.
    - "none": as they are.

    Items with a missing number do not count, and stay NaN as a whole.  FABLE standardises by itself (its setting
    `scaling`): this is for other models, and for who wants to see what a scaling does.
    """
    if scaling not in SCALINGS:
        raise InputError(f"there is no scaling {scaling!r}", hint=f"There are {', '.join(SCALINGS)}")
    features = read_features(values)
    if features.missing.all():
        raise InputError("no item has all of its numbers", hint="Fill in the missing ones, or leave columns out")
    scaled = fit_scaling(features, scaling, max_columns, seed)
    answer = np.full((features.n_items, scaled.n_outputs), np.nan, dtype=features.dtype)
    for here, block in features.blocks(scaled.n_outputs):
        answer[here] = scaled.rows(block).dense()
    return answer
