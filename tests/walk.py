"""Takes a model through its sweeps one step at a time, with src's own functions, and shows what each step made.

The settings are those that the estimator itself hands to the sweep: nothing is set up twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from labelfable.inference.execution import add_in_order
from labelfable.models import confusion
from labelfable.votes import read_votes
from labelfable.votes.read import read_gold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from numpy.typing import NDArray

    from labelfable.inference.shards import Shard
    from tests.fable_problems import FableProblem


class State(NamedTuple):
    """Where a sweep stands after one step."""

    after: str
    """"local" or "global"."""
    responsibilities: NDArray[np.floating]
    """Of every item, [items, C]."""
    global_: Any
    reported: dict[str, float]
    """src's own bound here, by term."""


@dataclass(frozen=True)
class Setting:
    """What an estimator hands to the sweep."""

    sweeps: Any
    shards: list[Shard]
    row_of_item: NDArray[np.integer]
    """Equal items share a row."""

    def walk(self, n_sweeps: int) -> Iterator[State]:
        """The state after the local step and after the global step of each sweep."""
        global_ = self.sweeps.global_step(add_in_order(self.sweeps.start(shard)[1] for shard in self.shards))
        for _ in range(n_sweeps):
            ρ = np.concatenate([self._responsibilities(shard, global_) for shard in self.shards])[self.row_of_item]
            statistics = add_in_order(self.sweeps.local_step(shard, None, global_)[1] for shard in self.shards)
            yield State("local", ρ, global_, self.sweeps.bound(statistics, global_))
            global_ = self.sweeps.global_step(statistics)
            yield State("global", ρ, global_, self.sweeps.bound(statistics, global_))

    def _responsibilities(self, shard: Shard, global_: Any) -> NDArray[np.floating]:
        return confusion.responsibilities(shard, global_.logs, self.sweeps.n_classes)[0]


class _SettingReadyError(Exception):
    """Ends a fit once the sweep's settings are known."""


def setting_of(model: Any, module: ModuleType, votes: Any, y: Any = None) -> Setting:
    """The settings with which a model's fit would start its (first) sweep."""
    found: list[Any] = []

    def keep(sweeps: Any, shards: Any, *_: Any, **__: Any) -> None:
        found.extend((sweeps, shards))
        raise _SettingReadyError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run_sweeps", keep)
        with pytest.raises(_SettingReadyError):
            model.fit(votes, y)
    table, gold = read_gold(y, read_votes(votes))
    return Setting(found[0], found[1], table.distinct(gold)[1])


def chained(problem: FableProblem, n_sweeps: int) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
    """All factors after each local step, with src's own bound there."""
    global_ = problem.first_globals()
    for _ in range(n_sweeps):
        statistics = problem.statistics(global_)
        factors = problem.item_factors(global_) | problem.global_factors(global_)
        yield factors, problem.sweeps.bound(statistics, global_)
        global_ = problem.sweeps.global_step(statistics)
