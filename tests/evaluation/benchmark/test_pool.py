import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labelfable.errors import FileError
from labelfable.evaluation.benchmark import Cell, CellStore, pool, run_cells
from labelfable.evaluation.benchmark.pool import estimate
from tests.tolerances import assert_close


@pytest.fixture(autouse=True)
def work(monkeypatch):
    monkeypatch.setitem(pool.WORK, "test", ("tests.benchmark_work", "do"))


def cell(folder, name, way, group="", **job):
    return Cell("test", name, {"name": name, "way": way, **job}, where={"log": str(folder / "log")}, group=group)


def runs(folder):
    return [line.split()[0] for line in (folder / "log").read_text().splitlines()]


def test_every_cell_has_its_answer_in_its_place_and_a_process_of_its_own(tmp_path):
    cells = [cell(tmp_path, f"n{number}", "well", number=number) for number in range(5)]
    found = run_cells(cells, CellStore(tmp_path), n_jobs=2)
    assert [each["value"] for each in found] == [0, 1, 4, 9, 16]
    assert all((each["status"], each["reason"]) == ("ok", "") for each in found)
    processes = {line.split()[1] for line in (tmp_path / "log").read_text().splitlines()}
    assert len(processes) == 5
    assert str(os.getpid()) not in processes


def test_a_cell_that_fails_is_recorded_and_the_others_go_on(tmp_path):
    ways = ("refuse", "lack", "break", "die", "leave", "well")
    cells = [cell(tmp_path, way, way, number=3) for way in ways]
    found = dict(zip(ways, run_cells(cells, CellStore(tmp_path), n_jobs=2), strict=True))
    assert {way: each["status"] for way, each in found.items()} == {
        "refuse": "failed",
        "lack": "skipped",
        "break": "failed",
        "die": "failed",
        "leave": "failed",
        "well": "ok",
    }
    assert found["refuse"]["reason"] == "these votes cannot be fitted. Try others"
    assert found["break"]["reason"].startswith("KeyError: ")
    assert "break_down" in found["break"]["traceback"]
    assert "signal 9" in found["die"]["reason"]
    assert "status 3" in found["leave"]["reason"]


def test_what_is_finished_is_not_done_again(tmp_path):
    cells = [cell(tmp_path, "a", "well", number=1), cell(tmp_path, "b", "refuse")]
    first = run_cells(cells, CellStore(tmp_path), n_jobs=1)
    assert run_cells(cells, CellStore(tmp_path), n_jobs=1) == first
    assert runs(tmp_path) == ["a", "b"]
    run_cells([*cells, cell(tmp_path, "a", "well", number=2)], CellStore(tmp_path), n_jobs=1)
    assert runs(tmp_path) == ["a", "b", "a"]  # another number is another cell
    run_cells(cells, CellStore(tmp_path), n_jobs=1, retry=True)
    assert runs(tmp_path) == ["a", "b", "a", "b"]  # only what failed


def test_a_damaged_cell_is_done_again(tmp_path):
    cells = [cell(tmp_path, "a", "well", number=2)]
    store = CellStore(tmp_path)
    run_cells(cells, store, n_jobs=1)
    path = tmp_path / "test" / cells[0].file_name
    whole = path.read_text()
    for damaged in (whole[:50], "[]", '{"found": 3}', whole.replace(cells[0].key, "0" * 16)):
        path.write_text(damaged)
        assert store.read(cells[0]) is None
    assert run_cells(cells, store, n_jobs=1)[0]["value"] == 4


def test_what_takes_too_long_is_given_up_and_not_begun_with_another_seed(tmp_path):
    cells = [cell(tmp_path, f"slow{seed}", "sleep", "slow", seconds=60) for seed in range(3)]
    cells.append(cell(tmp_path, "quick", "well", "quick", number=1))
    began = time.monotonic()
    found = run_cells(cells, CellStore(tmp_path), n_jobs=1, limit=1.5)
    assert time.monotonic() - began < 30
    assert [each["status"] for each in found] == ["failed"] * 3 + ["ok"]
    assert all(each["reason"] == "given up after 1.5 seconds" for each in found[:3])
    assert runs(tmp_path) == ["slow0", "quick"]


def test_a_full_disk_ends_the_run_with_one_error_and_keeps_what_is_finished(tmp_path, monkeypatch):
    cells = [cell(tmp_path, f"n{number}", "well", number=number) for number in range(4)]
    store, replace, written = CellStore(tmp_path), os.replace, []

    def full(source, target):
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileError, match="No space left on device"):
        run_cells(cells, store, n_jobs=1)
    assert [store.read(each) is not None for each in cells] == [True, True, False, False]
    assert not list((tmp_path / "test").glob(".*"))
    monkeypatch.undo()
    monkeypatch.setitem(pool.WORK, "test", ("tests.benchmark_work", "do"))
    run_cells(cells, store, n_jobs=1)
    assert runs(tmp_path) == ["n0", "n1", "n2", "n2", "n3"]


def test_progress_counts_what_is_finished_and_estimates_the_rest(tmp_path):
    told = []
    cells = [cell(tmp_path, f"n{n}", "well", "ab"[n % 2], number=n) for n in range(4)]
    found = run_cells(cells, CellStore(tmp_path), n_jobs=1, on_done=told.append)
    assert [(each.done, each.total, each.last) for each in told] == [(n + 1, 4, f"n{n}") for n in range(4)]
    assert told[0].seconds_left is None  # nothing is known of group b
    assert_close(told[1].seconds_left, found[0]["wall"] + found[1]["wall"])
    assert told[3].seconds_left == 0
    results = {each.key: result for each, result in zip(cells, found, strict=True)} | {cells[3].key: None}
    walls = found[1]["wall"]
    assert_close(estimate([cells[3]], cells, results, 2), walls / 2)


PROGRAM = """
from pathlib import Path
from labelfable.evaluation.benchmark import Cell, CellStore, pool, run_cells
pool.WORK["test"] = ("tests.benchmark_work", "do")
folder = Path({folder!r})
job = {{"name": "slow", "way": "sleep", "seconds": 60}}
cells = [Cell("test", "slow", job | {{"seed": seed}}, where={{"log": str(folder / "log")}}) for seed in range(2)]
run_cells(cells, CellStore(folder), n_jobs=2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_processes_end_with_whoever_started_them_even_where_that_is_killed(tmp_path):
    program = subprocess.Popen([sys.executable, "-c", PROGRAM.format(folder=str(tmp_path))])
    until(lambda: (tmp_path / "log").exists() and len(runs(tmp_path)) == 2)
    workers = [int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines()]
    program.send_signal(signal.SIGKILL)
    program.wait()
    until(lambda: not any(alive(worker) for worker in workers))
    assert not list(tmp_path.glob("test/*.json"))


def alive(process):
    """Whether a process runs; one that has ended and waits to be noticed does not."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # it has just ended; or there is no such folder, as on a Mac


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_cells_are_named_for_people_and_keyed_by_all_that_they_depend_on(tmp_path):
    base = Cell("test", "a/b c:d", {"seed": 1}, {"numpy": "2"}, {"threads": 1}, "g")
    assert base.file_name.startswith("a-b-c-d.")
    assert "/" not in base.file_name
    others = [
        Cell("test", "a", {"seed": 2}, {"numpy": "2"}),
        Cell("test", "a", {"seed": 1}, {"numpy": "3"}),
        Cell("else", "a", {"seed": 1}, {"numpy": "2"}),
    ]
    assert len({base.key, *(other.key for other in others)}) == 4
    assert Cell("test", "z", {"seed": 1}, {"numpy": "2"}, {"threads": 9}, "h").key == base.key
    store = CellStore(tmp_path)
    store.write(base, {"status": "ok"})
    content = json.loads((tmp_path / "test" / base.file_name).read_text())
    assert (content["job"], content["depends"]) == ({"seed": 1}, {"numpy": "2"})
