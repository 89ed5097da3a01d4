"""The public names, and how little it takes to import them."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys

import pytest

import labelfable
from labelfable import models, votes
from labelfable.models.protocol import BaseLabelModel

HEAVY = ["pandas", "polars", "pyarrow", "narwhals", "typer", "rich", "torch", "dask", "distributed", "matplotlib"]

MODELS = [
    name
    for name in labelfable.__all__
    if inspect.isclass(getattr(labelfable, name)) and issubclass(getattr(labelfable, name), BaseLabelModel)
]

# What labelfable's own modules import, and what its import brings along that scikit-learn's would not.
WATCH = """
import builtins, json, sys
import numpy, scipy.sparse, scipy.special, sklearn.base, sklearn.utils.validation
before, asked, real = set(sys.modules), [], builtins.__import__
def watched(name, globals=None, *rest):
    who = (globals or {}).get("__name__", "")
    if who.split(".")[0] == "labelfable":
        asked.append(name.split(".")[0])
    return real(name, globals, *rest)
builtins.__import__ = watched
import labelfable
brought = {name.split(".")[0] for name in set(sys.modules) - before}
print(json.dumps({"asked": sorted(set(asked)), "brought": sorted(brought)}))
"""


@pytest.fixture(scope="module")
def import_in_a_fresh_process() -> dict[str, list[str]]:
    told = subprocess.run([sys.executable, "-c", WATCH], capture_output=True, text=True, check=True)
    return json.loads(told.stdout)


@pytest.mark.parametrize("package", HEAVY)
def test_importing_labelfable_does_not_load_a_heavy_package(package, import_in_a_fresh_process):
    """scikit-learn loads some of them where they are installed; what counts is that labelfable adds none."""
    assert package not in import_in_a_fresh_process["asked"]
    assert package not in import_in_a_fresh_process["brought"]


def test_importing_labelfable_asks_for_the_core_alone(import_in_a_fresh_process):
    core = {"labelfable", "numpy", "scipy", "sklearn", "array_api_compat"}
    ours = {name for name in import_in_a_fresh_process["asked"] if name and name not in sys.stdlib_module_names}
    assert ours <= core
    assert {"numpy", "sklearn"} <= ours  # the watch sees what there is to see


@pytest.mark.parametrize("package", [labelfable, models, votes], ids=lambda package: package.__name__)
def test_public_names_exist_and_are_explained(package):
    assert package.__all__
    for name in package.__all__:
        assert inspect.getdoc(getattr(package, name)), name
    assert len(set(package.__all__)) == len(package.__all__)


@pytest.mark.parametrize("name", labelfable.__all__)
def test_public_methods_are_explained(name):
    found = getattr(labelfable, name)
    if inspect.isclass(found):
        for method, value in vars(found).items():
            if not method.startswith("_") and callable(value):
                assert inspect.getdoc(value), f"{name}.{method}"


@pytest.mark.parametrize("name", MODELS)
def test_every_setting_of_a_model_is_explained_in_its_docstring(name):
    text = inspect.getdoc(getattr(labelfable, name))
    for setting in inspect.signature(getattr(labelfable, name)).parameters:
        assert re.search(rf"^\s*(\w+, )*{setting}(, \w+)* : ", text, re.MULTILINE), setting


def test_the_version_is_that_of_the_installed_package():
    from importlib.metadata import version

    assert labelfable.__version__ == version("labelfable")
