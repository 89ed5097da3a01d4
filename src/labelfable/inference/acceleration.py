"""Anderson's acceleration: the next globals from the last few updates instead of from the last one alone.

An update x → T(x) that climbs slowly moves along nearly the same way again and again.  The combination of the last
updates whose steps T(x) − x cancel best lies near where they lead to (Anderson 1965; Walker and Ni 2011; kept from
falling as by Henderson and Varadhan 2019: a combination that lowers the objective is dropped for the update itself).
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from array_api_compat import array_namespace

Global = TypeVar("Global")
Statistics = TypeVar("Statistics")

MEMORY_STEPS = 10
MEMORY_NUMBERS = 2**24  # 128 MiB of what is remembered; large tables remember fewer steps
RIDGE = 1e-14  # relative: the rounding of squares, where steps are parallel


class Path(Protocol[Global, Statistics]):
    """What a model tells of its globals so that they can be combined."""

    def coordinates(self, global_: Global) -> Any:
        """The globals as one vector without limits on its values."""
        ...

    def metric(self, global_: Global) -> Any:
        """What each coordinate's steps are multiplied by so that equal lengths matter equally."""
        ...

    def at(self, coordinates: Any, near: Global) -> Global:
        """Globals at these coordinates; what has no coordinates, and how far they may go, is taken from `near`."""
        ...

    def careful(self, statistics: Statistics, /) -> Statistics | None:
        """Statistics from which the update takes a shorter step; None where it cannot lower the bound at all."""
        ...


class Memory:
    """The last points and their updates, in coordinates."""

    def __init__(self) -> None:
        self._points: list[Any] = []
        self._updates: list[Any] = []

    def forget(self) -> None:
        """Start anew."""
        self._points.clear()
        self._updates.clear()

    def combine(self, point: Any, update: Any, metric: Any) -> Any | None:
        """Remember one update, and combine all that are remembered; None where it is the only one.

        x⁺ = T_k − Σ_j γ_j (T_j+1 − T_j),    γ = argmin ‖ D ( s_k − Σ_j γ_j (s_j+1 − s_j) ) ‖,    s = T − x
        """
        xp = array_namespace(update)
        steps = max(2, min(MEMORY_STEPS + 1, MEMORY_NUMBERS // (2 * max(update.shape[0], 1))))
        self._points, self._updates = [*self._points, point][-steps:], [*self._updates, update][-steps:]
        if len(self._updates) < 2:  # noqa: PLR2004 (a difference needs two)
            return None
        updates = xp.stack(self._updates)
        way = (updates - xp.stack(self._points)) * metric
        turns = way[1:, :] - way[:-1, :]
        normal = turns @ turns.T
        size = float(xp.linalg.trace(normal))
        if not 0 < size < float("inf"):
            return None
        normal = normal + RIDGE * size * xp.eye(normal.shape[0], dtype=normal.dtype)
        shares = xp.linalg.solve(normal, (turns @ way[-1, :])[:, None])[:, 0]
        return update - shares @ (updates[1:, :] - updates[:-1, :])
