import numpy as np
import pytest
from scipy import stats

from labelfable.errors import InputError
from labelfable.evaluation.benchmark import ModelSpec, RunOptions, gain, run_gain, run_size, size
from labelfable.evaluation.benchmark.size import PUBLISHED, findings
from tests.tolerances import assert_close

SIZES = (1000, 20000)


def accuracies(**means):
    """Made-up accuracies of twenty draws around the means at both sizes."""
    draws = np.random.default_rng(0)
    return {
        (name, n_items): mean + spread * draws.standard_normal(20)
        for name, (ends, spread) in means.items()
        for n_items, mean in zip(SIZES, ends, strict=True)
    }


def verdicts(made):
    found = findings(made, list(dict.fromkeys(name for name, _ in made)), SIZES)
    return {each["claim"]: each["holds"] for each in found}


def test_the_papers_claim_is_found_true_where_it_is():
    told = verdicts(
        accuracies(MajorityVote=((75, 75), 1), IBCC=((76, 70), 1), EBCC=((78, 69), 1), FABLE=((85, 85), 0.1))
    )
    assert len(told) == 5
    assert all(told.values())


def test_each_part_of_it_is_found_false_where_it_is_not():
    told = verdicts(accuracies(MajorityVote=((75, 75), 1), IBCC=((70, 76), 1), EBCC=((78, 78), 1), FABLE=((85, 70), 3)))
    assert len(told) == 5
    assert set(told.values()) == {False}


def test_numbers_of_a_finding_are_those_of_the_draws():
    made = accuracies(MajorityVote=((75, 75), 1), IBCC=((76, 70), 1))
    (found,) = (each for each in findings(made, ["MajorityVote", "IBCC"], SIZES) if "IBCC" in each["claim"])
    change = made["IBCC", 20000].mean() - made["IBCC", 1000].mean()
    error = np.sqrt(made["IBCC", 20000].var(ddof=1) / 20 + made["IBCC", 1000].var(ddof=1) / 20)
    assert found["numbers"] == f"{change:+.2f} ± {error:.2f} points from 1,000 to 20,000 items"


def test_too_few_draws_are_not_taken_for_an_answer():
    assert size.exceeds(3.0, 1.0) is True
    assert size.exceeds(1.0, 0.6) is False  # it may be 2.2 at most
    assert size.exceeds(1.0, 2.0) is None
    assert size.exceeds(-9.0, 2.0) is False
    assert size.exceeds(9.0, float("inf")) is None


def test_one_draw_tells_nothing():
    made = {key: values[:1] for key, values in accuracies(MajorityVote=((75, 75), 1), FABLE=((85, 85), 1)).items()}
    assert set(verdicts(made).values()) == {None}


def test_published_rules_are_left_out_above_their_size():
    cells = size.plan([ModelSpec("FABLE"), PUBLISHED], (1000, 5000), 2, n_threads=1, published_up_to=1000)
    assert len(cells) == 6
    published = [cell for cell in cells if cell.job["settings"]]
    assert {cell.job["n_items"] for cell in published} == {1000}


def test_the_size_figure_from_end_to_end(tmp_path):
    models = [ModelSpec("MajorityVote"), ModelSpec("EBCC"), PUBLISHED]
    outcome = run_size(models, (200, 400), 2, RunOptions(tmp_path, n_jobs=2), published_up_to=200)
    entries = {(entry["model"], entry["n_items"]): entry for entry in outcome.document["summary"]}
    assert set(entries) == {(m.label, n) for m in models for n in (200, 400)} - {(PUBLISHED.label, 400)}
    assert all(entry["runs"] == 2 for entry in entries.values())
    cells = [r for r in outcome.document["cells"] if (r["model"], r["set"]) == ("EBCC", "400")]
    assert_close(entries["EBCC", 400]["accuracy"], 100 * np.mean([record["accuracy"] for record in cells]))
    assert "were run up to 200 items" in outcome.text
    assert "| 400 |" in outcome.text
    assert outcome.document["seconds_a_repetition"] > 0
    assert (tmp_path / "dataset_size.png").read_bytes().startswith(b"\x89PNG")
    assert len(outcome.files) == 5


# When features help


def test_the_regression_is_scipys_and_its_verdict_follows():
    cells = gain.plan(20, 100, ModelSpec("FABLE"), n_threads=1)
    draws = np.random.default_rng(0)
    x = draws.uniform(size=20)
    for sign, word in ((1, "true"), (-1, "false")):
        y = sign * x + 0.3 * draws.standard_normal(20)
        base = {"status": "ok", "reason": "", "commit": "abc", "threads": 1}
        found = [base | {"correlation": a, "gain": b} for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        found[3] = {"status": "failed", "reason": "broken", "commit": "abc"}
        document = gain.summarise(cells, found)
        kept = np.arange(20) != 3
        r, p = stats.pearsonr(x[kept], y[kept])
        assert_close(document["regression"]["r"], r)
        assert_close(document["regression"]["p"], p)
        text = gain.text(document)
        assert f"**{word}** here (r = {r:.3f}" in text
        assert "0.469" in text
        assert "0.496" in text
        assert "Left out: broken" in text


def test_the_gain_figure_from_end_to_end(tmp_path):
    outcome = run_gain(3, 150, RunOptions(tmp_path, n_jobs=2))
    records = outcome.document["cells"]
    assert [record["status"] for record in records] == ["ok"] * 3
    for record in records:
        assert_close(record["gain"], 100 * (record["accuracy"] - record["accuracy_without"]))
        assert 0 < record["correlation"] <= 1
    assert len({record["correlation"] for record in records}) == 3
    assert (tmp_path / "feature_gain.svg").exists()


def test_too_few_sets_have_no_line(tmp_path):
    outcome = run_gain(2, 100, RunOptions(tmp_path, n_jobs=2))
    assert outcome.document["regression"] is None
    assert "Too few sets" in outcome.text


def test_nothing_to_do_is_refused(tmp_path):
    for run in (
        lambda options: run_gain(0, 100, options),
        lambda options: run_size(size.MODELS, (100,), 0, options),
        lambda _: run_gain(2, 100, RunOptions(tmp_path, n_jobs=-1)),
    ):
        with pytest.raises(InputError):
            run(RunOptions(tmp_path))
