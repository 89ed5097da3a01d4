import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from labelfable.errors import FileError, ModelError
from labelfable.evaluation.benchmark import CellStore, ModelSpec, RunOptions, cells, pages, plots, run_table
from labelfable.evaluation.benchmark.measure import measure_set
from labelfable.evaluation.benchmark.pages import renew, table_text
from labelfable.evaluation.benchmark.published import PAPER, REPLICATION, published_figure
from labelfable.evaluation.benchmark.table import plan_table, summarise
from tests.crowds import planted_votes
from tests.tolerances import assert_close

MODELS = [ModelSpec("MajorityVote"), ModelSpec("FABLE"), ModelSpec("MVLogistic")]


def write_set(folder, name, *, features=True, seed=0):
    votes, gold = planted_votes(120, [0.9, 0.8, 0.75, 0.7], 2, coverage=0.5, seed=seed)
    arrays = {"votes": votes.astype(np.int8), "gold": gold}
    if features:
        draws = np.random.default_rng(seed)
        arrays["features"] = (draws.standard_normal((120, 3)) + 2 * gold[:, None]).astype(np.float16)
    np.savez(folder / f"{name}.npz", **arrays)


def planned(folder, models=MODELS, seeds=(0, 1)):
    sets = {path.stem: path for path in sorted(folder.glob("*.npz"))}
    return plan_table(sets, models, seeds, n_threads=1)


@pytest.fixture
def two_sets(tmp_path):
    write_set(tmp_path, "youtube")
    write_set(tmp_path, "bare", features=False, seed=1)
    return tmp_path


def result(**found):
    base = {
        "status": "ok",
        "reason": "",
        "commit": "abc",
        "threads": 1,
        "wall": 1.0,
        "seconds": 1.0,
        "cpu_seconds": 1.0,
    }
    scores = {"covered": 0.5, "whole": 0.5, "log_loss": 1.0, "calibration_error": 0.1, "peak_mb": 100.0}
    bins = {"items": [10.0, 90.0], "confidence": [0.5, 0.9], "accuracy": [0.4, 0.8]}
    return base | scores | {"bins": bins} | found


# What a cell hangs on


def test_a_cell_changes_with_data_settings_seed_and_code_and_not_with_the_place(
    two_sets, tmp_path_factory, monkeypatch
):
    before = {cell.name: cell.key for cell in planned(two_sets)}
    assert len(set(before.values())) == len(before) == 12
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for path in two_sets.glob("*.npz"):
        (elsewhere / path.name).write_bytes(path.read_bytes())
    assert {cell.name: cell.key for cell in planned(elsewhere)} == before
    write_set(elsewhere, "bare", features=False, seed=2)
    moved = {cell.name: cell.key for cell in planned(elsewhere)}
    assert {name for name in before if before[name] != moved[name]} == {n for n in before if n.startswith("bare.")}
    (settings,) = planned(two_sets, [ModelSpec("FABLE", {"variance": 3.0})], (0,))[:1]
    assert settings.key not in before.values()
    monkeypatch.setattr(cells, "code_digest", lambda: "other")
    assert not set(before.values()) & {cell.key for cell in planned(two_sets)}


def test_what_only_presents_results_is_no_part_of_the_codes_digest(monkeypatch, tmp_path):
    for name in ("models/a.py", "cli/b.py", "evaluation/benchmark/plots.py", "evaluation/benchmark/measure.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(cells, "PACKAGE", tmp_path)
    digest = cells.code_digest.__wrapped__
    before = digest()
    for name, matters in (("cli/b.py", False), ("evaluation/benchmark/plots.py", False), ("models/a.py", True),
                          ("evaluation/benchmark/measure.py", True)):  # fmt: skip
        (tmp_path / name).write_text("two")
        assert (digest() != before) == matters, name
        before = digest()


def test_a_model_is_not_asked_for_twice(two_sets):
    with pytest.raises(ModelError, match="FABLE is asked for twice"):
        planned(two_sets, [ModelSpec("FABLE"), ModelSpec("FABLE")])


# Measuring


def test_a_cell_holds_both_scores_and_honest_probabilities(two_sets):
    from labelfable import MajorityVote
    from labelfable.evaluation import covered_accuracy, expected_calibration_error, f1, log_loss

    job = {"path": str(two_sets / "youtube.npz"), "model": "MajorityVote", "settings": {}, "seed": 3, "threads": 1}
    found = measure_set(job)
    with np.load(job["path"]) as stored:
        votes, gold = stored["votes"].astype(int), stored["gold"]
    model = MajorityVote(random_state=3).fit(votes)
    labels, shares, covered = model.predict(votes), model.predict_proba(votes), (votes >= 0).any(axis=1)
    assert found["covered"] == covered_accuracy(labels, gold, covered)
    assert found["whole"] == f1(labels, gold)
    assert_close(found["log_loss"], log_loss(shares[covered], gold[covered]))
    assert_close(found["calibration_error"], expected_calibration_error(shares[covered], gold[covered]))
    assert sum(found["bins"]["items"]) == covered.sum()
    assert found["peak_mb"] > 30  # Python with NumPy is larger than that
    assert found["cpu_seconds"] > 0


# The document


def test_means_ranks_and_published_figures_are_by_hand(two_sets):
    scores = {
        ("youtube", "MajorityVote"): (0.80, 0.82),
        ("youtube", "FABLE"): (0.90, 0.90),
        ("youtube", "MVLogistic"): (0.81, 0.81),
        ("bare", "MajorityVote"): (0.60, 0.60),
        ("bare", "FABLE"): (0.70, 0.72),
    }
    cells_ = planned(two_sets)
    found = []
    for cell in cells_:
        values = scores.get((cell.job["set"], cell.job["model"]))
        skipped = {"status": "skipped", "reason": "needs features", "commit": "abc", "wall": 0.1}
        found.append(skipped if values is None else result(covered=values[cell.job["seed"]]))
    document = summarise(cells_, found)
    entries = {(entry["set"], entry["model"]): entry for entry in document["summary"]}
    assert_close(entries["youtube", "MajorityVote"]["covered"], 81.0)
    assert_close(entries["youtube", "MajorityVote"]["covered_spread"], 1.0)
    assert entries["youtube", "FABLE"]["covered_published"] == 87.7
    assert entries["youtube", "FABLE"]["whole_published"] == 88.56
    assert entries["bare", "FABLE"]["covered_published"] is None
    assert document["common_sets"] == ["youtube"]
    overall = {row["model"]: row for row in document["overall"]}
    assert_close(overall["FABLE"]["covered"], (90 + 71) / 2)
    assert overall["MVLogistic"]["covered"] is None  # a mean over fewer sets would look like one over all
    assert_close(overall["MVLogistic"]["covered_common"], 81.0)
    ranks = {name: row["covered_rank"] for name, row in overall.items()}
    assert ranks == {"FABLE": 1.0, "MajorityVote": 2.5, "MVLogistic": 2.5}  # equal means share their ranks
    assert overall["FABLE"]["log_loss_rank"] == 2.0
    text = table_text(document)
    assert "| youtube | 81.0 ± 1.0 / 85.0 | 90.0 / 87.7 | 81.0 |" in text
    assert "| bare | 60.0 | 71.0 ± 1.0 | — |" in text
    assert "| mean of 2 | 70.5 | 80.5 | — |" in text
    assert "- MVLogistic skipped on bare: needs features" in text
    assert "commit abc" in text
    assert "2 seeds" in text
    assert "Ties: random" in text


def test_published_figures_are_the_plans():
    assert len(PAPER.figures) == len(REPLICATION.figures) == 11
    for model, mean in (("DawidSkene", 65.13), ("FlyingSquid", 59.42), ("IBCC", 54.54), ("EBCC", 61.48)):
        assert round(np.mean([row[model] for row in PAPER.figures.values()]), 2) == mean  # as the paper prints it
    for model, mean in (("MajorityVote", 76.8), ("FlyingSquid", 69.7), ("FABLE", 76.1), ("Denoise", 76.7)):
        assert round(np.mean([row[model] for row in REPLICATION.figures.values()]), 1) == mean
    assert published_figure("covered", "youtube", "MeTaL") == 74.5  # snorkel's
    assert published_figure("covered", "youtube", "IBCC") is None
    assert published_figure("whole", "sms", "FABLE:inference=published") == 48.81
    assert published_figure("whole", "sms", "FABLE:kernel=rbf") is None


# From end to end


def test_a_whole_run_writes_every_form_and_a_second_one_measures_nothing(two_sets, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "deep"
    page = two_sets / "page.md"
    page.write_text("Before\n<!-- begin: benchmark -->\nold\n<!-- end -->\nAfter\n")
    told = []
    options = RunOptions(out, n_jobs=2, docs=page, on_done=told.append)
    outcome = run_table(two_sets, MODELS, 2, options)
    assert [path.exists() for path in outcome.files] == [True] * 10
    document = json.loads((out / "benchmark.json").read_text())
    assert document == json.loads(json.dumps(outcome.document))
    status = {(r["set"], r["model"], r["seed"]): r["status"] for r in document["cells"]}
    assert {key: value for key, value in status.items() if value != "ok"} == {
        ("bare", "MVLogistic", seed): "skipped" for seed in (0, 1)
    }
    table = pq.read_table(out / "benchmark.parquet")
    assert table.num_rows == 12
    assert {"set", "model", "seed", "status", "covered", "whole", "log_loss", "seconds", "peak_mb"} <= set(
        table.column_names
    )
    text = page.read_text()
    assert text.startswith("Before\n<!-- begin: benchmark -->\n\nlabelfable ")
    assert text.endswith("<!-- end -->\nAfter\n")
    assert "old" not in text
    assert (two_sets / "figures" / "reliability.svg").exists()
    assert "](figures/reliability.svg)" in text
    for name in ("dots_covered", "dots_whole", "reliability"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"</svg>" in (out / f"{name}.svg").read_bytes()[-20:]
    assert len(told) == 12
    svg = (out / "dots_covered.svg").read_bytes()
    again = run_table(two_sets, MODELS, 2, options)
    assert len(told) == 12
    assert again.document == outcome.document
    assert (out / "dots_covered.svg").read_bytes() == svg
    assert len(planned(two_sets, MODELS, (0, 1, 2))) == 18


def test_without_matplotlib_the_tables_are_written_all_the_same(two_sets, monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda _: None)
    cells_ = planned(two_sets, MODELS[:1])
    store = CellStore(two_sets / "out" / "cells")
    for cell in cells_:
        store.write(cell, result())
    outcome = run_table(two_sets, MODELS[:1], 2, RunOptions(two_sets / "out", n_jobs=1))
    assert outcome.notes == ["no figures were drawn: matplotlib is not installed (pip install 'labelfable[plots]')"]
    assert not list((two_sets / "out").glob("*.png"))


def test_a_page_without_the_marks_is_refused_and_left_alone(tmp_path):
    page = tmp_path / "page.md"
    for text in ("no marks", "<!-- begin: benchmark --> no end"):
        page.write_text(text)
        with pytest.raises(FileError, match="this page has no part for benchmark"):
            renew(page, "benchmark", "new")
        assert page.read_text() == text
    with pytest.raises(FileError, match="cannot read this page"):
        renew(tmp_path / "none.md", "benchmark", "new")


def test_mean_reliability_weighs_sets_alike():
    few = {"items": [1.0, 1.0], "confidence": [0.5, 0.9], "accuracy": [0.0, 1.0]}
    many = {"items": [900.0, 100.0], "confidence": [0.5, 0.9], "accuracy": [0.5, 0.5]}
    confidence, accuracy, share = plots.mean_curve([few, many])
    assert_close(confidence, np.array([0.5, 0.9]))
    assert_close(accuracy, np.array([0.5 * 0.9 / 1.4, (0.5 + 0.05) / 0.6]))
    assert_close(share, np.array([0.7, 0.3]))


def test_parquet_has_what_is_a_number_or_a_word(tmp_path):
    pages.write_parquet(
        [{"a": 1, "b": [1]}, {"a": None, "b": None, "c": "x", "traceback": "t"}], tmp_path / "t.parquet"
    )
    assert pq.read_table(tmp_path / "t.parquet").to_pydict() == {"a": [1, None], "c": [None, "x"]}
    assert not list(Path(tmp_path).glob(".*"))
