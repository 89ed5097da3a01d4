"""The sets of ../shared/data, for tests against published figures, which skip where the folder is absent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER = Path(__file__).parents[1].parent / "shared" / "data"


class RealSet(NamedTuple):
    """Votes (−1 = abstain) and gold (−1 = unknown)."""

    votes: NDArray[np.int64]
    gold: NDArray[np.int64]


def real_set(name: str) -> RealSet:
    """One set, or a skip that says why."""
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"needs {path.name} in the folder shared/data beside the repository; it is not part of the project")
    with np.load(path) as stored:
        return RealSet(stored["votes"].astype(np.int64), stored["gold"].astype(np.int64))
