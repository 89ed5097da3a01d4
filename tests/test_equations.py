"""docs/equations.md says where each equation is computed and which test pins it: it must not lag behind the code."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TAG = re.compile(r"\(([A-Z]{1,2}(?:\.\d+)?'?)\)")
COLUMNS = 6  # tag, equation, reference, function, test, deviation


def rows_of_the_page() -> list[list[str]]:
    lines = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line.startswith("|")]
    return [row for row in cells if row[0] != "tag" and not set(row[0]) <= {"-"}]


def tags_in_the_code() -> set[str]:
    """Every tag that a docstring of src/ mentions after the word Equation(s), ranges written out."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "Equation" not in line:
                continue
            after = line[line.index("Equation") :]
            found |= set(TAG.findall(after))
            for start, end in re.findall(r"\(([A-Z]+\.?\d*)\)-\(([A-Z]+\.?\d*)\)", after):
                found |= set(between(start, end))
    return found


def between(start: str, end: str) -> list[str]:
    """B.1 … B.4, or A … H."""
    if "." not in start:
        return [chr(letter) for letter in range(ord(start), ord(end) + 1)]
    family, first, last = start.split(".", maxsplit=1)[0], int(start.split(".")[1]), int(end.split(".")[1])
    return [f"{family}.{number}" for number in range(first, last + 1)]


ROWS = rows_of_the_page()


def test_every_tag_of_the_code_has_its_row_and_the_other_way_round():
    tags = [row[0] for row in ROWS]
    assert len(tags) == len(set(tags))
    assert set(tags) == tags_in_the_code()


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_functions_of_a_row_exist_and_carry_its_tag(row):
    assert len(row) == COLUMNS
    names = re.findall(r"`([\w.]+)`", row[3])
    assert names
    if any(name.startswith("models.neural") for name in names):
        pytest.importorskip("torch", reason="needs the extra 'neural'")
    sources = []
    for name in names:
        module, _, member = name.rpartition(".")
        sources.append(str(found_member(module, member).__doc__))
    assert any(re.search(rf"\({re.escape(row[0])}\)", doc) or in_a_range(row[0], doc) for doc in sources), names


def found_member(module: str, member: str) -> object:
    """`models.metal.completion` + `Completion`, or a class and its method; a module alone where the member is one."""
    try:
        return getattr(importlib.import_module(f"labelfable.{module}"), member)
    except ModuleNotFoundError:
        outer, _, owner = module.rpartition(".")
        return getattr(getattr(importlib.import_module(f"labelfable.{outer}"), owner), member)
    except AttributeError:
        return importlib.import_module(f"labelfable.{module}.{member}")


def in_a_range(tag: str, doc: str) -> bool:
    pairs = re.findall(r"\(([A-Z]+\.?\d*)\)-\(([A-Z]+\.?\d*)\)", doc)
    return any(tag in between(start, end) for start, end in pairs)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_tests_of_a_row_exist(row):
    names = re.findall(r"`([\w/.]+)::(\w+)`", row[4])
    assert names
    for path, name in names:
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (path, name)
