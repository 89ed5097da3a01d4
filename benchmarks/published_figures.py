"""The vote-only models on real votes, beside the figures that were published for them.

    make bench BENCH=published_figures ARGS="--data ../shared/data --docs docs/results.md"

Two scores, because the literature has both: the metric of the FABLE paper over all items (binary F1 or accuracy, items
without votes guessed at random) and accuracy on covered items.  Ties are drawn at random, five seeds; no fit sees gold.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import warnings
from pathlib import Path

import numpy as np
from pages import renew

import labelfable
from labelfable.errors import LabelfableError, LabelfableWarning
from labelfable.models import registry

MODELS = ("MajorityVote", "DawidSkene", "DataProgramming", "FlyingSquid", "MeTaL", "IBCC", "EBCC", "FABLE")
SEEDS = range(5)
TITLES = {
    "covered": "Accuracy on covered items",
    "whole": "F1 or accuracy over all items",
    "log loss": "Log loss on covered items, in nats",
}
SETS = (
    "imdb", "youtube", "sms", "cdr", "cdr_metal", "commercial", "tennis", "basketball",
    "trec", "semeval", "chemprot", "music_genres", "spambase",
)  # fmt: skip

PAPER = {  # whole set, F1 or accuracy: Table 2 of the FABLE paper
    "imdb": (72.19, 70.32, 72.26, 72.45, 72.10, 66.74, 74.18, 73.96),
    "youtube": (80.74, 81.62, 74.90, 78.83, 76.63, 73.83, 86.57, 88.56),
    "sms": (32.80, 43.58, 32.79, 30.05, 32.27, 48.41, 48.41, 48.81),
    "cdr": (63.16, 53.64, 53.37, 64.81, 43.28, 9.59, 23.89, 62.15),
    "commercial": (84.23, 88.31, 76.43, 80.86, 78.61, 76.83, 76.43, 86.62),
    "tennis": (83.82, 83.56, 84.29, 83.31, 83.62, 83.64, 83.67, 83.63),
    "trec": (52.35, 47.18, 55.07, 48.32, 41.94, 41.91, 46.94, 53.20),
    "semeval": (78.35, 73.53, 73.53, 11.20, 72.69, 73.53, 73.53, 74.32),
    "chemprot": (47.96, 38.82, 45.71, 46.25, 49.76, 31.84, 33.80, 48.35),
}
REPLICATION = {  # covered items, accuracy: stevenan5/bayesian-bf-neurips-2025; no DP ("Snorkel" is MeTaL), no iBCC
    "imdb": (73.7, 50.3, None, 74.5, 72.8, None, 74.4, 72.2),
    "youtube": (85.0, 83.9, None, 83.6, 74.5, None, 45.7, 87.7),
    "sms": (93.9, 87.2, None, 91.9, 81.5, None, 84.6, 93.9),
    "cdr": (72.4, 45.8, None, 73.6, 64.4, None, 63.0, 71.6),
    "commercial": (90.6, 93.6, None, 87.3, 89.8, None, 83.3, 92.6),
    "tennis": (86.9, 86.5, None, 86.0, 86.6, None, 87.3, 86.6),
    "trec": (54.5, 47.7, None, 50.1, 45.9, None, 21.0, 53.6),
    "semeval": (79.1, 73.5, None, 12.2, 72.8, None, 30.2, 73.6),
    "chemprot": (54.7, 52.7, None, 52.4, 56.2, None, 35.1, 54.4),
}


def main() -> None:
    """Measure, print two tables in Markdown, and write the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--docs", type=Path, help="a page whose table is to be renewed")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting for all models")
    options = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in options.set)
    models = [name for name in options.models.split(",") if name in registry.MODELS]
    cells = []
    for name in options.sets.split(","):
        path = options.data / f"{name}.npz"
        if not path.exists():
            print(f"{name}: left out, {path} is absent")
            continue
        with np.load(path) as file:
            votes, gold = file["votes"], file["gold"].astype(int)
            features = file["features"].astype(np.float32) if "features" in file else None
        cells += [measure(model, name, (votes, gold, features), settings) for model in models]
    made = f"Ours / published; ties at random, {len(SEEDS)} seeds, commit {commit_of()}."
    tables = [
        as_markdown(cells, models, *kind) for kind in (("covered", REPLICATION), ("whole", PAPER), ("log loss", {}))
    ]
    text = "\n\n".join([made, *tables])
    print("\n" + text)
    if options.docs:
        renew(options.docs, __file__, text)
    options.out.mkdir(parents=True, exist_ok=True)
    document = {"labelfable": labelfable.__version__, "seeds": len(SEEDS), "ties": "random", "cells": cells}
    (options.out / "published_figures.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def commit_of() -> str:
    """The commit that is measured."""
    told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S607 (the git of whoever runs this)
    return told.stdout.strip() or "unknown"


def measure(
    model: str, name: str, data: tuple[np.ndarray, np.ndarray, np.ndarray | None], settings: dict[str, str]
) -> dict[str, object]:
    """One model on one set: means over the seeds of both scores and of the log loss on covered items."""
    votes, gold, features = data
    n_classes = int(max(votes.max(), gold.max())) + 1
    table = labelfable.read_votes(votes, classes=n_classes)
    known, fitted = gold >= 0, None
    covered_known = known & table.covered
    found: dict[str, list[float]] = {"whole": [], "covered": [], "log loss": [], "seconds": []}
    for seed in SEEDS:
        began = time.perf_counter()
        if fitted is None or model != "FABLE":  # whose fit has no chance in it: only its ties are drawn again
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", LabelfableWarning)
                    chosen = registry.model_named(model)(random_state=seed, **settings)
                    fitted = chosen.fit(table, features=features)
            except LabelfableError as error:
                return {"set": name, "model": model, "note": str(error)} | dict.fromkeys(found)
            found["seconds"].append(time.perf_counter() - began)
            probabilities = fitted.predict_proba(table, features=features)
        fitted.random_state = seed
        labels = fitted.predict(table, features=features)
        found["whole"].append(100 * paper_metric(labels[known], gold[known], n_classes))
        found["covered"].append(100 * float(np.mean((labels == gold)[covered_known])))
        truth = probabilities[covered_known, gold[covered_known]]
        found["log loss"].append(-float(np.mean(np.log(np.clip(truth, 1e-12, 1)))))
    means = {key: float(np.mean(values)) for key, values in found.items()}
    print(f"{name} {model}: {means['covered']:.1f}", flush=True)
    return {"set": name, "model": model, "note": ""} | means | {"spread": float(np.std(found["covered"]))}


def paper_metric(labels: np.ndarray, gold: np.ndarray, n_classes: int) -> float:
    """F1 of class 1 where there are two classes, else accuracy."""
    if n_classes > 2:
        return float(np.mean(labels == gold))
    right = np.sum((labels == 1) & (gold == 1))
    return float(2 * right / max(np.sum(labels == 1) + np.sum(gold == 1), 1))


def as_markdown(cells: list[dict[str, object]], models: list[str], score: str, published: dict[str, tuple]) -> str:
    """Ours / published, a row a set."""
    lines = [f"**{TITLES[score]}**", "", "| set | " + " | ".join(models) + " |", "|---" * (len(models) + 1) + "|"]
    digits = 2 if score == "log loss" else 1
    for name in dict.fromkeys(str(cell["set"]) for cell in cells):
        row = []
        for model in models:
            ours = next(cell[score] for cell in cells if cell["set"] == name and cell["model"] == model)
            theirs = published[name][MODELS.index(model)] if name in published else None
            row.append("—" if ours is None else f"{ours:.{digits}f}" + ("" if theirs is None else f" / {theirs:.1f}"))
        lines.append(f"| {name} | " + " | ".join(row) + " |")
    means = []
    for model in models:
        values = [cell[score] for cell in cells if cell["model"] == model and cell[score] is not None]
        means.append(f"{np.mean(values):.2f}" if values else "—")
    return "\n".join([*lines, "| mean | " + " | ".join(means) + " |"])


if __name__ == "__main__":
    main()
