"""A whole sweep on arrays of other libraries: every answer of that library, and NumPy's numbers."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from labelfable.inference.execution import add_in_order
from labelfable.inference.shards import Shard
from labelfable.models.fable.light import LightSweeps
from labelfable.votes.maps import Layout
from tests.fable_problems import every_case
from tests.tolerances import assert_close

PACKAGES = {
    "array_api_strict": "it has the standard and nothing else",
    "torch": "it comes with the extra `neural`",
}
CASES = every_case()[::5]  # all readings, emissions, tilts, normalisers, kinds of tables and of priors
ITEM_FIELDS = ("responsibilities", "poisson", "rate_shape", "tilt", "group_weight")


@pytest.fixture(params=PACKAGES)
def library(request) -> Any:
    return pytest.importorskip(request.param, reason=f"needs {request.param}: {PACKAGES[request.param]}")


def in_library(value: Any, library: Any) -> Any:
    """The same with every array of NumPy as one of the library; votes stay as they are read."""
    if isinstance(value, np.ndarray):
        return library.asarray(value)
    if is_dataclass(value) and not isinstance(value, (Shard, Layout)):
        moved = {part.name: in_library(getattr(value, part.name), library) for part in fields(value)}
        return replace(value, **moved)
    return value


def assert_same(found: Any, expected: Any, library: Any, where: str = "") -> None:
    """Arrays of the library with the dtype and the numbers of NumPy's; plain numbers as they are."""
    if is_dataclass(expected):
        for part in fields(expected):
            name = part.name
            assert_same(getattr(found, name), getattr(expected, name), library, f"{where}.{name}")
    elif isinstance(expected, np.ndarray):
        assert type(found) is type(library.asarray(expected)), where
        assert found.dtype == getattr(library, str(expected.dtype)), where
        assert_close(found, expected, "sweeps", message=where)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_same(found[name], value, library, f"{where}.{name}")
    elif isinstance(expected, float):
        stays = isinstance(expected, np.floating)  # a sum over items, which waits for the others on its device
        assert type(found) is (type(library.asarray(1.0)) if stays else float), where
        assert_close(found, expected, "sweeps", message=where)
    elif isinstance(expected, tuple):
        assert_close(np.array(found), np.array(expected), "sweeps", message=where)
    else:
        assert found is expected is None, where


def course(sweeps: Any, shards: list[Any]) -> tuple[Any, ...]:
    """The start, two sweeps and a step beyond, with all that is inferred at the end."""
    statistics, steps = add_in_order(sweeps.start(shard)[1] for shard in shards), []
    for _ in range(2):
        steps.append(sweeps.global_step(statistics))
        statistics = add_in_order(sweeps.local_step(shard, None, steps[-1])[1] for shard in shards)
    before, after = map(sweeps.coordinates, steps)
    beyond = sweeps.at(1.5 * after - 0.5 * before, steps[-1])
    items = [sweeps.item_factors(shard, beyond)[0] for shard in shards]
    return statistics, steps[-1], beyond, *items, sweeps.bound(statistics, steps[-1])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_sweep_stays_in_the_library_of_its_arrays(case, library):
    problem = case.problem()
    expected = course(problem.sweeps, problem.shards)
    moved = [in_library(shard, library) for shard in problem.shards]
    found = course(in_library(problem.sweeps, library), moved)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other, library)


@pytest.mark.parametrize("case", [case for case in every_case() if case.tilt == "mean"][::5], ids=str)
def test_so_does_a_light_sweep(case, library):
    """Directions of its curvature have no sign, so what is compared is what follows from them."""
    problem = case.problem()
    expected = light_course(problem.sweeps, problem.shards)
    found = light_course(in_library(problem.sweeps, library), [in_library(shard, library) for shard in problem.shards])
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other, library)


def light_course(full: Any, shards: list[Any]) -> tuple[Any, ...]:
    """Three sweeps, a step beyond, and the bound."""
    sweeps, steps = LightSweeps(full), []
    statistics = add_in_order(sweeps.start(shard)[1] for shard in shards)
    for _ in range(3):
        steps.append(sweeps.global_step(statistics))
        statistics = add_in_order(sweeps.local_step(shard, None, steps[-1])[1] for shard in shards)
    before, after = map(sweeps.coordinates, steps[-2:])
    beyond = sweeps.at(1.5 * after - 0.5 * before, steps[-1])
    return *(sweeps.factors(step) for step in (*steps, beyond)), sweeps.bound(statistics, steps[-1])


def test_columns_in_single_precision_give_sums_in_double(library):
    problem = replace(CASES[0], dtype="float32").problem()
    expected = course(problem.sweeps, problem.shards)
    found = course(in_library(problem.sweeps, library), [in_library(shard, library) for shard in problem.shards])
    assert found[0].gram.dtype == library.float64
    for name in ITEM_FIELDS:
        one, other = getattr(found[3], name), getattr(expected[3], name)
        assert str(one.dtype).rsplit(".", maxsplit=1)[-1] == str(other.dtype)
        assert_close(np.asarray(one).astype(np.float32), other.astype(np.float32), "sweeps")
