"""The command line over files that stay on disk, and the plan for them."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from labelfable import FABLE, DawidSkene, MajorityVote, open_votes
from labelfable.cli import large
from labelfable.evaluation import plan as plan_module
from labelfable.evaluation.plan import plan_fit
from tests.commands import TRUTH, VOTES, refused, run, told, write_files


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files()
    np.save("x.npy", np.eye(3)[TRUTH] + np.random.default_rng(0).normal(size=(120, 3)) / 2)
    return tmp_path


def test_fit_and_predict_from_files_say_and_write_what_memory_does(files):
    beside = ("--features", "x.npy", "--out")
    disk = told(
        "fit", "votes.parquet", *beside, "disk.parquet", "--memory", "1GB", "--save", "model", "--checkpoint", "k"
    )
    memory = told("fit", "votes.parquet", *beside, "memory.parquet")
    one, other = (pq.read_table(name).to_pydict() for name in ("disk.parquet", "memory.parquet"))
    assert one["item"] == other["item"]
    assert one["label"] == other["label"]
    assert disk["labels"]["by_label"] == memory["labels"]["by_label"]
    assert disk["report"]["n_items"] == 120
    assert (files / "k" / "first" / "model.json").is_file()
    again = told("predict", "model", "votes.parquet", *beside, "again.parquet", "--memory", "1GB")
    assert again["labels"] == disk["labels"]
    assert pq.read_table("again.parquet").equals(pq.read_table("disk.parquet"))
    text = run("fit", "votes.parquet", "--memory", "1GB", "--model", "mv", "--out", "mv.parquet").stdout
    assert "MajorityVote: 120 items" in text
    assert "labels written to mv.parquet" in text
    assert "MajorityVote: 120 items" in run("fit", "votes.parquet", "--memory", "1GB", "--model", "mv").stdout


@pytest.mark.usefixtures("files")
def test_what_cannot_be_is_refused_before_the_work():
    on_disk = ("fit", "votes.parquet", "--memory", "1GB")
    assert "--gold needs votes in memory" in refused(*on_disk, "--gold", "gold.csv")
    assert "written as Parquet" in refused(*on_disk, "--out", "labels.csv")
    assert "no size" in refused("fit", "votes.parquet", "--memory", "lots")
    assert "--engine ray is unknown" in refused("fit", "votes.parquet", "--engine", "ray")
    assert "MajorityVote has no checkpoint" in refused("fit", "votes.csv", "--model", "mv", "--checkpoint", "k")
    assert "Parquet or .npy" in refused("fit", "votes.csv", "--memory", "1GB")
    assert "no Dask scheduler answers" in refused("fit", "votes.csv", "--scheduler", "not-an-address")


def test_the_place_of_work_is_a_setting_of_the_model():
    model = DawidSkene()
    large.place_of_work(model, "dask", None, None)
    assert model.engine == "dask"
    large.place_of_work(model, "dask", "tcp://10.0.0.1:8786", large.Path("k"))
    assert (model.engine, model.checkpoint) == ("tcp://10.0.0.1:8786", "k")


@pytest.mark.usefixtures("files")
def test_the_plan_counts_what_there_is_and_grows_with_the_items(monkeypatch):
    np.save("v.npy", VOTES)
    np.save("many.npy", np.tile(VOTES, (1000, 1)))
    np.save("many-x.npy", np.tile(np.load("x.npy"), (1000, 1)))
    monkeypatch.setattr(plan_module, "SAMPLE_ITEMS", 240)
    small = plan_fit(FABLE(max_iter=20), open_votes("v.npy"), "x.npy")
    large_one = plan_fit(FABLE(max_iter=20), open_votes("many.npy"), "many-x.npy")
    assert (small.n_items, small.n_sources, small.n_classes, small.n_features) == (120, 4, 3, 3)
    assert large_one.n_items == 120_000
    assert large_one.memory == 1000 * small.memory
    assert large_one.seconds > small.seconds > 0
    assert 0 < small.sweeps <= 20
    assert small.advice == "this machine, in memory; below 100,000 items a GPU gains little"
    votes_only = plan_fit(MajorityVote(), open_votes("many.npy"))
    assert votes_only.sweeps == 0
    assert 0 < votes_only.distinct_share <= 1


@pytest.mark.parametrize(("n_items", "words"), [(99_999, "gains little"), (100_000, "device='cuda'")])
def test_the_plan_says_when_a_gpu_pays(n_items, words):
    assert words in plan_module._device_advice(n_items)


@pytest.mark.parametrize(
    ("memory", "disk", "seconds", "words"),
    [
        (1e9, 0, 60, "this machine, in memory"),
        (30e9, 1e9, 60, "this machine, from files: --memory"),
        (30e9, 80e9, 60, "neither memory nor disk"),
        (1e9, 0, 40 * 3600, "10 machines like this one"),
    ],
)
def test_the_advice_follows_what_is_scarce(memory, disk, seconds, words):
    assert words in plan_module._advice(int(memory), (int(20e9), int(100e9)), disk, seconds)


@pytest.mark.usefixtures("files")
def test_the_plan_is_told_in_words_and_as_json():
    np.save("v.npy", VOTES)
    text = run("plan", "v.npy", "--features", "x.npy", "--set", "max_iter=20").stdout
    for word in (
        "FABLE: 120 items, 4 sources, 3 classes, 3 features",
        "in memory",
        "from files",
        "s a sweep",
        "advice",
    ):
        assert word in text
    assert told("plan", "v.npy", "--set", "max_iter=5")["model"] == "DawidSkene"
