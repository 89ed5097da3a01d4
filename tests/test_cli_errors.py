"""What the command line refuses: one clear line on standard error, exit code 2, nothing written."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from labelfable.cli import app
from labelfable.errors import FileError
from tests.commands import refused, write_csv, write_files


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files()
    return tmp_path


REFUSED = {
    "no such votes": (["fit", "no.csv"], "no such file (no.csv)"),
    "no such command's model": (["fit", "votes.csv", "--model", "dawid"], "there is no model 'dawid'"),
    "labels of an unknown kind": (["fit", "no.csv", "--out", "labels.xlsx"], "cannot write a .xlsx file"),
    "labels without a kind": (["predict", "no", "no.csv", "--out", "labels"], "cannot write a nameless file"),
    "labels into a folder that is not there": (
        ["fit", "no.csv", "--out", "no/labels.csv"],
        "no such folder to write to",
    ),
    "a model over other files": (["fit", "no.csv", "--save", "."], "this folder holds other files"),
    "no such saved model": (["predict", "no", "votes.csv"], "no such folder"),
    "a folder that is no model": (["predict", ".", "votes.csv"], "there is no model.json"),
    "no such setting": (["fit", "votes.csv", "--set", "speed=9"], "DawidSkene has no setting 'speed'"),
    "a setting without a value": (["fit", "votes.csv", "--set", "tol"], "'tol' is not of the form KEY=VALUE"),
    "a setting out of its limits": (["fit", "votes.csv", "--set", "tol=-1"], "'tol' parameter of DawidSkene"),
    "an unknown way to read": (["fit", "votes.csv", "--read", "speed=9"], "--read knows no 'speed'"),
    "gold from nowhere": (["fit", "votes.csv", "--gold", "nix"], "no such file, and no column 'nix'"),
    "gold for arrays from nowhere": (["fit", "task.npz", "--gold", "nix"], "no such file, and no column 'nix'"),
    "too little gold": (["fit", "task.npz", "--gold", "short.npy"], "y has shape (2,) but there are 120 items"),
    "gold of other items": (["fit", "votes.csv", "--gold", "others.csv"], "none of the items in this file has votes"),
    "gold that knows nothing": (["fit", "task.npz", "--gold", "unknown.npy"], "no gold label is known"),
    "gold in other words": (["compare", "votes.csv", "--gold", "task.npz"], "the classes are"),
    "features in words": (["fit", "votes.csv", "--features", "gold.csv"], "does not hold numbers"),
    "features without gold's name": (
        ["fit", "task.npz", "--features", "short.npy"],
        "Expected numbers [items, columns]",
    ),
    "votes of unknown kind": (["sources", "notes.txt"], "cannot tell what a .txt file is"),
    "no npz": (["sources", "task.npz", "--gold", "broken.npz"], "cannot read this file as npz"),
    "another npz": (["sources", "task.npz", "--gold", "other.npz"], "no array named 'gold'"),
}


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
def test_what_cannot_be_done_is_one_clear_line(files, case):
    np.save("short.npy", [0, 1])
    np.save("unknown.npy", np.full(120, -1))
    np.savez("other.npz", a=np.ones(2), b=np.ones(2))
    Path("broken.npz").write_bytes(b"PK\x03\x04 broken")
    Path("notes.txt").write_text("text")
    write_csv("others.csv", {"item": ["x", "y"], "gold": ["ant", "bee"]})
    arguments, message = REFUSED[case]
    line = refused(*arguments)
    assert message in line
    assert line.count("\n") == 1


def test_debug_shows_where_an_error_came_from(files):
    result = CliRunner().invoke(app, ["--debug", "fit", "no.csv"])
    assert isinstance(result.exception, FileError)


def test_wrong_usage_is_explained(files):
    result = CliRunner().invoke(app, ["fit", "votes.csv", "--ties", "coin"])
    assert result.exit_code == 2
    assert "random" in result.stderr


def test_labels_that_cannot_be_written_leave_the_old_ones(files, monkeypatch):
    from pyarrow import csv as arrow

    Path("labels.csv").write_text("old")

    def refuse(*arguments):
        Path(arguments[1]).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(arrow, "write_csv", refuse)
    assert "No space left on device" in refused("fit", "votes.csv", "--out", "labels.csv")
    assert Path("labels.csv").read_text() == "old"
    assert not list(files.glob(".*.tmp"))


def test_the_demo_in_a_place_where_it_cannot_write(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot make this folder" in refused("demo", "--out", tmp_path / "file" / "x")
    assert "no bundled data set 'mnist'" in refused("demo", "--data", "mnist", "--out", tmp_path)
