"""docs/datasets.md: what it shows runs, in the order of the page."""

import re
import shlex
from pathlib import Path

import pytest

from tests.commands import run
from tests.datasets import wrench_files

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"
BLOCKS = re.findall(r"^```(python|console)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABELFABLE_CACHE", str(tmp_path / "cache"))
    Path("wrench").mkdir()
    wrench_files.write(Path("wrench") / "youtube", wrench_files.entries())
    Path("crowd.csv").write_text("question,worker,answer\n1,ann,yes\n1,bob,no\n2,ann,yes\n")
    Path("crowd.gold.csv").write_text("question,gold\n1,yes\n2,yes\n")
    texts = "free money now\nsee you at eight\nfree tickets now\nat the office\nmoney for you\nsee the office\n"
    Path("texts.txt").write_text(texts * 4)
    Path("votes.csv").write_text("one,two,three\n" + "1,1,\n0,0,0\n1,0,1\n0,,0\n1,1,0\n,0,0\n" * 4)


def test_the_page_runs(files):
    assert {kind for kind, _ in BLOCKS} == {"python", "console"}
    for kind, block in BLOCKS:
        if kind == "python":
            exec(compile(block, str(PAGE), "exec"), {})  # noqa: S102 (the page's own words)
            continue
        for line in block.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "labelfable"
            assert run(*arguments).stdout
    assert Path("labels.csv").is_file()
