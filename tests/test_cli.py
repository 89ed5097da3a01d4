import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import labelfable
from labelfable import FABLE, DawidSkene, MajorityVote, read_votes
from labelfable.datasets import bundled_data
from labelfable.models.registry import available_models, load
from tests.commands import ITEMS, NAMES, TRUTH, VOTES, WORDS, run, told, write_files
from tests.tolerances import assert_close


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files()
    return tmp_path


def labels_in(name):
    return pq.read_table(name).to_pydict()


def named_table():
    return read_votes("votes.parquet")


# demo


def test_the_demo_writes_labels_and_a_page_that_needs_nothing_else(tmp_path):
    result = run("demo", "--out", tmp_path / "new" / "demo")
    task = bundled_data("breast_cancer")
    fitted = FABLE().fit(task.table(), features=task.features)
    expected = fitted.label_table(task.table(), features=task.features).to_pydict()
    assert labels_in(tmp_path / "new" / "demo" / "labels.parquet") == expected
    assert len((tmp_path / "new" / "demo" / "labels.csv").read_text().splitlines()) == 570
    page = (tmp_path / "new" / "demo" / "report.html").read_text("utf-8")
    assert not [word for word in ("http:", "https:", "src=", "href=", "url(", "@import", "<script") if word in page]
    for name in available_models():
        assert name in result.stdout
        assert name in page
    for name, words in task.rules.items():
        assert name in page
        assert words.split(":")[0].replace("'", "&#x27;") in page


def test_the_demo_tells_the_same_as_a_program_would_find_out(tmp_path):
    from labelfable.evaluation import compare_models

    rows = told("demo", "--out", tmp_path)
    task = bundled_data("breast_cancer")
    expected = compare_models(task.table(), features=task.features, gold=task.gold_names).records()
    assert [row["model"] for row in rows] == [
        "MajorityVote",
        *(name for name in available_models() if name != "MajorityVote"),
    ]
    for row, other in zip(rows, expected, strict=True):
        assert row | {"seconds": 0} == json.loads(json.dumps(other)) | {"seconds": 0}
    assert all(row["covered_accuracy"] > 0.85 for row in rows)


# fit and predict


@pytest.mark.parametrize("votes", ["votes.csv", "votes.parquet"])
def test_fit_writes_what_the_model_says(files, votes):
    run("fit", votes, "--out", "labels.parquet", "--seed", 3)
    expected = DawidSkene(random_state=3).fit(named_table()).label_table(named_table()).to_pydict()
    assert labels_in("labels.parquet") == expected
    assert expected["item"] == ITEMS


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "jsonl", "pq"])
def test_every_kind_of_labels_file_says_the_same(files, suffix):
    run("fit", "votes.csv", "--out", "labels.parquet")
    run("fit", "votes.csv", "--out", f"labels.{suffix}")
    expected = labels_in("labels.parquet")
    text = Path(f"labels.{suffix}")
    if suffix == "pq":
        assert labels_in(text) == expected
        return
    if suffix in {"csv", "tsv"}:
        with text.open(newline="") as handle:
            records = list(csv.DictReader(handle, delimiter="\t" if suffix == "tsv" else ","))
    else:
        records = (
            json.loads(text.read_text()) if suffix == "json" else list(map(json.loads, text.read_text().splitlines()))
        )
    assert [record["item"] for record in records] == expected["item"]
    assert [record["label"] for record in records] == expected["label"]
    assert_close(np.array([float(record["p(bee)"]) for record in records]), np.array(expected["p(bee)"]))


def test_a_saved_model_predicts_what_fit_said(files):
    run("fit", "votes.csv", "--model", "ibcc", "--save", "model", "--out", "fitted.parquet")
    result = run("predict", "model", "votes.parquet", "--out", "predicted.parquet")
    assert labels_in("predicted.parquet") == labels_in("fitted.parquet")
    assert "labels written to predicted.parquet" in result.stdout
    assert type(load("model")).__name__ == "IBCC"
    counts = told("predict", "model", "votes.csv")["labels"]
    assert counts["items"] == 120
    assert counts["covered"] == int((VOTES >= 0).any(axis=1).sum())
    assert sum(counts["by_label"].values()) == 120


def test_arrays_and_long_tables_label_as_wide_tables_do(files):
    run("fit", "task.npz", "--out", "array.parquet", "--save", "model")
    run("predict", "model", "task.npz", "--out", "predicted.parquet")
    run("fit", "votes.csv", "--out", "wide.parquet")
    run("fit", "long.csv", "--out", "long.parquet")
    array, wide, long = (labels_in(f"{kind}.parquet") for kind in ("array", "wide", "long"))
    assert labels_in("predicted.parquet") == array
    assert_close(np.array(array["p(2)"]), np.array(wide["p(cat)"]))
    by_item = dict(zip(long["item"], long["p(cat)"], strict=True))  # items without votes are not in a long table
    assert_close(np.array(list(by_item.values())), np.array([wide["p(cat)"][ITEMS.index(item)] for item in by_item]))


def test_known_labels_are_used_and_kept(files):
    known = np.where(np.arange(120) % 4 == 0, TRUTH, -1)
    np.save("known.npy", known)
    report = told("fit", "task.npz", "--known", "known.npy", "--gold", "task.npz", "--out", "labels.parquet")
    labels = labels_in("labels.parquet")
    model = DawidSkene().fit(VOTES, known)
    expected = model.fit_predict(VOTES, known)
    assert labels["label"] == expected.tolist()
    held = known >= 0
    shares = np.column_stack([labels[f"p({k})"] for k in range(3)])
    assert (shares[held] == np.eye(3)[known[held]]).all()
    assert_close(shares[~held], model.predict_proba(VOTES)[~held])
    unseen = (expected == TRUTH)[~held].mean()
    assert_close(report["scores"]["accuracy"], unseen)  # known items say nothing about the model


def test_gold_may_be_a_file_in_another_order_a_column_or_in_the_same_npz(files):
    scores = told("fit", "votes.csv", "--gold", "gold.csv")["scores"]
    lines = Path("votes.csv").read_text().splitlines()
    answers = ["answer", *["" if number < 20 else WORDS[label] for number, label in enumerate(TRUTH)]]
    Path("both.csv").write_text("\n".join(f"{line},{answer}" for line, answer in zip(lines, answers, strict=True)))
    assert told("fit", "both.csv", "--gold", "answer")["scores"] == scores
    in_npz = told("fit", "task.npz", "--gold", "task.npz", "--features", "task.npz", "--model", "ds")["scores"]
    labels = DawidSkene().fit(VOTES).predict(VOTES)
    assert_close(in_npz["accuracy"], (labels == TRUTH).mean())
    assert_close(scores["accuracy"], (labels == TRUTH)[20:].mean())


def test_settings_and_reading_reach_their_functions(files):
    np.save("zeros.npy", VOTES + 1)
    reading = ["--read", "abstain=0", "--read", "classes=1,2,3"]
    settings = ["--set", "class_prior=0.2,0.3,0.5", "--set", "smoothing=0.5"]
    report = told("fit", "zeros.npy", *reading, *settings, "--save", "model")
    assert report["report"]["n_classes"] == 3
    model = load("model")
    assert model.smoothing == 0.5
    assert list(model.class_prior) == [0.2, 0.3, 0.5]
    expected = DawidSkene(class_prior=[0.2, 0.3, 0.5], smoothing=0.5).fit(VOTES).predict_proba(VOTES)
    assert_close(model.predict_proba(np.where(VOTES < 0, -1, VOTES + 1)), expected)
    told("predict", "model", "zeros.npy", "--read", "abstain=0")


def test_ties_are_what_was_asked_for(files):
    np.save("ties.npy", np.array([[0, 1]] * 40 + [[1, 1]]))
    counts = {
        rule: told("fit", "ties.npy", "--model", "mv", "--ties", rule)["labels"]["by_label"]
        for rule in ("random", "first", "abstain")
    }
    assert counts["first"] == {"0": 40, "1": 1}
    assert counts["abstain"] == {"-1": 40, "1": 1}
    assert 5 < counts["random"]["0"] < 35


# sources and compare


def test_sources_are_described_under_snorkels_names(files):
    rows = told("sources", "votes.csv", "--gold", "gold.csv")
    assert list(rows[0]) == ["source", "j", "Polarity", "Coverage", "Overlaps", "Conflicts", "Correct", "Incorrect",
                             "Emp. Acc.", "Est. Acc."]  # fmt: skip
    for j, row in enumerate(rows):
        spoken = (VOTES[:, j] >= 0) & (np.arange(120) >= 20)  # the others have no gold
        assert row["source"] == NAMES[j]
        assert row["Correct"] == int((VOTES[spoken, j] == TRUTH[spoken]).sum())
        assert_close(row["Coverage"], (VOTES[:, j] >= 0).mean())
    plain = told("sources", "votes.csv", "--model", "none")
    assert list(plain[0])[-1] == "Conflicts"
    assert "rule 0" in run("sources", "votes.csv").stdout


def test_a_source_without_votes_has_no_accuracy(files):
    np.savez("mute.npz", votes=np.column_stack((VOTES, np.full(120, -1))), gold=TRUTH)
    mute = told("sources", "mute.npz", "--gold", "mute.npz")[-1]
    assert mute["Emp. Acc."] is None
    assert mute["Polarity"] == []
    assert "nan" not in run("sources", "mute.npz", "--gold", "mute.npz").stdout


def test_compare_puts_majority_vote_first(files):
    rows = told("compare", "votes.csv", "--models", "ds, IBCC", "--gold", "gold.csv")
    assert [row["model"] for row in rows] == ["MajorityVote", "DawidSkene", "IBCC"]
    vote = MajorityVote().fit(named_table())
    right = vote.predict(named_table())[20:] == WORDS[TRUTH][20:]
    assert_close(rows[0]["accuracy"], right.mean())
    for row in rows:
        assert_close(row["against_majority"]["accuracy"], row["accuracy"] - rows[0]["accuracy"])
    without = told("compare", "votes.csv", "--models", "mv")
    assert "accuracy" not in without[0]
    out = run("compare", "votes.csv", "--models", "mv,ds").stdout
    assert out.index("MajorityVote") < out.index("DawidSkene")


# What is told on the way


def test_warnings_are_lines_on_standard_error(files):
    result = run("fit", "votes.csv", "--set", "max_iter=2", "--json")
    assert result.stderr.startswith("Warning: DawidSkene stopped after 2 iterations")
    assert result.stderr.count("\n") == 1
    json.loads(result.stdout)


def test_nothing_is_told_where_there_is_nothing_to_tell(files):
    assert run("fit", "votes.csv", "--out", "labels.csv").stderr == ""


@pytest.mark.parametrize("command", ["demo", "fit", "predict", "explain", "sources", "compare"])
def test_help_has_an_example(command):
    assert f"Example: labelfable {command}" in run(command, "--help").stdout


# As a program


def as_program(*arguments, **options):
    command = [sys.executable, "-m", "labelfable", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, **options)


def test_the_package_is_a_program(files):
    assert run("--version").stdout == f"labelfable {labelfable.__version__}\n"
    failed = as_program("fit", "no.csv", text=True)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == "Error: no such file (no.csv)\n"


def test_names_that_the_terminal_cannot_write_do_not_end_the_program(files):
    np.save("cats.npy", np.where(VOTES >= 0, np.array(["köter", "猫", "ant"])[VOTES], ""))
    result = as_program("fit", "cats.npy", env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": "", "PATH": ""})
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"k?ter" in result.stdout
