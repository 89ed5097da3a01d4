"""The commands that measure, through the command line; a benchmark that is killed goes on where it was."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from labelfable.evaluation.benchmark.measure import measure_set
from tests.commands import refused, run, told, write_files
from tests.crowds import planted_votes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sets").mkdir()
    for number, name in enumerate(("one", "two")):
        votes, gold = planted_votes(100, [0.9, 0.8, 0.7], 2, seed=number)
        np.savez(f"sets/{name}.npz", votes=votes.astype(np.int8), gold=gold)
    return tmp_path


def test_bench_prints_the_table_and_says_where_it_is(folder):
    shown = run("bench", "sets", "--models", "mv,ds,ebcc:n_subtypes=2", "--seeds", 2, "--out", "out").stdout
    assert "| set | MajorityVote | DawidSkene | EBCC:n_subtypes=2 |" in shown
    assert "written: out/benchmark.md" in shown


def test_comparators_join_and_are_skipped_with_a_reason_where_they_do_not_apply(folder):
    document = told("bench", "sets", "--models", "mv", "--peers", "--seeds", 1, "--sets", "one", "--limit", 0.01)
    labels = {entry["model"]: entry["status"] for entry in document["summary"]}
    assert list(labels)[:4] == ["MajorityVote", "MVLogistic", "MVLogisticProduct", "DSLogistic"]
    assert "cleanlab:CROWDLAB" in labels


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_killed_benchmark_goes_on_where_it_was_and_gives_the_same(folder):
    words = ["bench", "sets", "--sets", "one", "--models", "mv,ds,ibcc", "--seeds", "5", "--jobs", "1", "--out"]
    command = [sys.executable, "-m", "labelfable", *words, "killed"]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | paths())
    finished = Path("killed/cells/table")
    end = time.monotonic() + 90
    while len(list(finished.glob("*.json"))) < 3:
        assert program.poll() is None, program.communicate()
        assert time.monotonic() < end
        time.sleep(0.005)
    program.send_signal(signal.SIGKILL)
    program.communicate()
    before = {path: path.stat().st_mtime_ns for path in finished.glob("*.json")}
    assert 3 <= len(before) < 15
    for path in before:
        json.loads(path.read_text())  # none is half-written
    assert not Path("killed/benchmark.json").exists()
    resumed = told(*words, "killed")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(finished.glob("*.json"))) == 15
    for cell in resumed["cells"]:
        job = {"path": "sets/one.npz", "model": cell["model"], "settings": {}, "seed": cell["seed"], "threads": 1}
        alone = measure_set(job)
        for score in ("covered", "whole", "log_loss", "calibration_error"):
            assert cell[score] == alone[score]


def paths():
    """So that another interpreter finds the package under test."""
    import labelfable

    return {"PYTHONPATH": str(Path(labelfable.__file__).parents[1])}


def test_advise_says_in_words_and_numbers_whether_features_should_help(folder):
    write_files()
    draws = np.random.default_rng(0)
    np.save("noise.npy", draws.standard_normal((120, 3)))
    shown = run("advise", "task.npz", "--features", "noise.npy").stdout
    assert shown.startswith("Features should not help")
    assert "distance correlation" in shown
    found = told("advise", "task.npz", "--features", "noise.npy")
    assert found["verdict"] == "no"
    assert found["words"] in shown
    with np.load("task.npz") as stored:
        np.save("good.npy", np.eye(3)[stored["gold"]] + 0.1 * draws.standard_normal((120, 3)))
    assert told("advise", "task.npz", "--features", "good.npy")["verdict"] == "strong"


@pytest.mark.parametrize("command", ["bench", "bench-size", "bench-gain", "advise"])
def test_help_has_an_example(command):
    assert f"Example: labelfable {command}" in run(command, "--help").stdout


REFUSED = {
    "no folder": (["bench", "none"], "no such folder"),
    "an empty folder": (["bench", "empty"], "holds no data set"),
    "an unknown model": (["bench", "sets", "--models", "mv,glat"], "there is no model 'glat'"),
    "no model": (["bench", "sets", "--models", ","], "no model is named"),
    "a model twice": (["bench", "sets", "--models", "mv,MajorityVote"], "asked for twice"),
    "an unknown setting": (["bench", "sets", "--models", "ds:speed=9"], "DawidSkene has no setting 'speed'"),
    "an unknown set": (["bench", "sets", "--sets", "three"], "no data set 'three'"),
    "no seed": (["bench", "sets", "--seeds", "0"], "0 seeds"),
    "fewer jobs than none": (["bench", "sets", "--jobs", "-2"], "-2 jobs"),
    "a page without the part": (["bench", "sets", "--models", "mv", "--docs", "page.md"], "no part for benchmark"),
    "a place that cannot be written to": (["bench", "sets", "--models", "mv", "--out", "page.md/x"], "cannot make"),
    "sizes in words": (["bench-size", "--sizes", "many"], "not whole numbers"),
    "no draws": (["bench-size", "--repetitions", "0"], "0 repetitions"),
    "no synthetic sets": (["bench-gain", "--sets", "0"], "0 sets"),
    "no features to advise on": (["advise", "task.npz", "--features", "none.npy"], "no such file"),
}


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
def test_what_cannot_be_done_is_one_clear_line(folder, case):
    write_files()
    Path("empty").mkdir()
    Path("page.md").write_text("no marks")
    arguments, message = REFUSED[case]
    line = refused(*arguments)
    assert message in line
    assert line.count("\n") == 1


def test_a_damaged_set_is_recorded_and_the_others_are_measured(folder):
    Path("sets/broken.npz").write_bytes(b"PK\x03\x04 broken")
    document = told("bench", "sets", "--models", "mv", "--seeds", 1, "--out", "out")
    entries = {entry["set"]: entry for entry in document["summary"]}
    assert entries["broken"]["status"] == "failed"
    assert "broken.npz" in entries["broken"]["reason"]
    assert entries["one"]["status"] == entries["two"]["status"] == "ok"
