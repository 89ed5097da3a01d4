"""WeaSEL and Denoise on real votes and features, beside the figures that were published for them.

    make bench BENCH=neural_figures ARGS="--data ../shared/data --docs docs/neural.md"

Scores and tie rule are those of `labelfable bench`.  "default" stops by held-out votes; "published" runs the 10,000
steps of the WRENCH programs, from which the FABLE paper's figures come, and nothing stops them; one seed, as that
takes a minute or more, where there is a figure to compare with.  No fit sees gold.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from pages import renew

from labelfable import Denoise, WeaSEL, read_votes
from labelfable.errors import LabelfableWarning
from labelfable.evaluation import accuracy, covered_accuracy, f1
from labelfable.evaluation.benchmark.cells import commit
from labelfable.evaluation.benchmark.published import PAPER, published_figure
from labelfable.models.neural.estimator import NeuralModel
from labelfable.votes.table import VoteTable

SETS = ("imdb", "youtube", "sms", "cdr_metal", "trec", "semeval", "chemprot", "music_genres", "spambase")
MODELS: dict[str, type[NeuralModel]] = {"WeaSEL": WeaSEL, "Denoise": Denoise}
PUBLISHED_STEPS = 10_000
COLUMNS = tuple((model, run) for model in MODELS for run in ("default", "published"))


def main() -> None:
    """Measure what the JSON file does not hold yet, then print two tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--docs", type=Path, help="a page whose table is to be renewed")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    store = options.out / "neural_figures.json"
    cells = json.loads(store.read_text(encoding="utf-8")) if store.exists() else []
    found = {(cell["set"], cell["model"], cell["run"]) for cell in cells}
    for name in options.sets.split(","):
        path = options.data / f"{name}.npz"
        if not path.exists():
            print(f"{name}: left out, {path} is absent")
            continue
        with np.load(path) as file:
            votes, gold, features = file["votes"], file["gold"].astype(int), file["features"].astype(np.float32)
        table = read_votes(votes, classes=int(max(votes.max(), gold.max())) + 1)
        for model, run in COLUMNS:
            if (name, model, run) in found or (run == "published" and name not in PAPER.figures):
                continue
            head = {"set": name, "model": model, "run": run, "commit": commit()}
            cells.append(head | measure(settings_of(model, run, table, options), table, gold, features))
            store.write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
    commits = ", ".join(sorted({cell["commit"] for cell in cells}))
    made = f"Ours / published; default: means of {options.seeds} seeds ± spread; commit {commits}."
    text = "\n\n".join([made, as_markdown(cells, "covered"), as_markdown(cells, "whole")])
    print("\n" + text)
    if options.docs:
        renew(options.docs, __file__, text)


def settings_of(model: str, run: str, table: VoteTable, options: argparse.Namespace) -> list[NeuralModel]:
    """One unfitted model a seed."""
    chosen = MODELS[model](device=options.device)
    if run == "published":
        steps = -(-int(table.covered.sum()) // chosen.batch_size)
        chosen.set_params(stopping="fixed", max_iter=-(-PUBLISHED_STEPS // steps))
        if model == "WeaSEL":
            chosen.set_params(temperature=1.0)
    seeds = range(options.seeds if run == "default" else 1)
    return [MODELS[model](**chosen.get_params() | {"random_state": seed}) for seed in seeds]


def measure(
    models: list[NeuralModel], table: VoteTable, gold: np.ndarray, features: np.ndarray
) -> dict[str, float | list[int]]:
    """Means over the seeds of both scores, and the spread of each."""
    whole, covered, epochs, seconds = [], [], [], []
    for model in models:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelfableWarning)
            labels = model.fit(table, features=features).predict(table, features=features)
        seconds.append(time.perf_counter() - began)
        epochs.append(model.best_iter_)
        whole.append(100 * (accuracy(labels, gold) if table.n_classes > 2 else f1(labels, gold)))
        covered.append(100 * covered_accuracy(labels, gold, table.covered))
    found = {"whole": whole, "covered": covered, "seconds": seconds}
    means = {key: float(np.mean(values)) for key, values in found.items()}
    spreads = {f"{key} spread": float(np.std(values)) for key, values in found.items()}
    name = type(models[0]).__name__
    print(f"{name} {models[0].stopping}: {means} epochs {epochs}", flush=True)
    return means | spreads | {"epochs": epochs}


def as_markdown(cells: list[dict], score: str) -> str:
    """Ours / published, a row a set."""
    title = {"covered": "Accuracy on covered items", "whole": "F1 or accuracy over all items"}[score]
    header = "| set | " + " | ".join(f"{model}, {run}" for model, run in COLUMNS) + " |"
    lines = [f"**{title}**", "", header, "|---" * (len(COLUMNS) + 1) + "|"]
    for name in dict.fromkeys(cell["set"] for cell in cells):
        row = []
        for model, run in COLUMNS:
            cell = next(
                (cell for cell in cells if (cell["set"], cell["model"], cell["run"]) == (name, model, run)), None
            )
            if cell is None:
                row.append("—")
                continue
            theirs = published_figure(score, name, model)
            ours = f"{cell[score]:.1f}" + (f" ± {cell[score + ' spread']:.1f}" if run == "default" else "")
            row.append(ours + ("" if theirs is None else f" / {theirs:.1f}"))
        lines.append(f"| {name} | " + " | ".join(row) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
