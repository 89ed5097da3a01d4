"""How good the labels of `FABLE()` are, untouched, beside all that it must beat; and what each part gives.

    make bench BENCH=quality ARGS="--data ../shared/data --docs docs/results.md"

Fitted on votes and features of each whole set, no gold anywhere, one setting for all sets.  Scores are taken on covered
items; ties are drawn at random, five times.  "MV, regression": scikit-learn's logistic regression (C = 10) on majority
vote's shares; "× votes": its product with them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np
from pages import renew
from published_figures import SETS, paper_metric
from sklearn.linear_model import LogisticRegression

import labelfable
from labelfable.errors import LabelfableWarning
from labelfable.evaluation.metrics import expected_calibration_error
from labelfable.models import registry

DRAWS = range(5)
BY_VOTES = ("MajorityVote", "DawidSkene", "EBCC", "MeTaL", "FlyingSquid")
BY_FEATURES = ("MV, regression", "MV, regression × votes")
RIVALS = ("MajorityVote", "DawidSkene", "EBCC", *BY_FEATURES)  # what sets with features are judged against
SCORES = {
    "covered": ("Accuracy on covered items", 1),
    "log loss": ("Log loss, in nats", 2),
    "ece": ("Expected calibration error", 2),
    "whole": ("F1 or accuracy over all items", 1),
}
FABLE = "labelfable.models.fable."
ABLATIONS: dict[str, tuple[dict[str, object], dict[str, object]]] = {  # settings, constants
    "the default": ({}, {}),
    "one fit, no committee": ({"calibration": "none"}, {}),
    "silence heard by none": ({}, {FABLE + "committee.hearings_of": lambda own: (own, own)}),
    "halves judge, but are not averaged": ({}, {FABLE + "committee.WHOLE_SHARE": 1.0}),
    "views trusted as beforehand": ({}, {FABLE + "committee.VIEW_PRIOR": (8e9, 1e9, 1e9)}),
    "votes and features together only": ({}, {FABLE + "committee.VIEW_PRIOR": (1e12, 1e-12, 1e-12)}),
    "copied sources heard again": ({}, {FABLE + "copies.SAME": 2.0}),
    "constants free without features": ({}, {FABLE + "estimator.HELD_CONSTANT": 4.0}),
    "rarity 0.3": ({"rarity": 0.3}, {}),
    "evidence weight 1": ({"evidence_weight": 1.0}, {}),
    "strength 3": ({"strength": 3.0}, {}),
    "constant 1": ({"constant": 1.0}, {}),
}


def main() -> None:
    """Measure, print the tables in Markdown, and write the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--docs", type=Path, help="a page whose table is to be renewed")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--no-ablation", action="store_true")
    options = parser.parse_args()
    names = [name for name in options.sets.split(",") if (options.data / f"{name}.npz").exists()]
    cells = {name: measure_set(name, options.data) for name in names}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S607 (the git of whoever runs this)
    parts = [f"Defaults of commit {commit.stdout.strip() or 'unknown'}; ties at random, {len(DRAWS)} draws."]
    parts += [score_table(cells, score) for score in SCORES]
    parts.append("**The bars**\n\n" + "\n".join(bars(cells)))
    rows = {} if options.no_ablation else {row: ablation(names, options.data, *how) for row, how in ABLATIONS.items()}
    if rows:
        parts.append(ablation_table(rows))
    text = "\n\n".join(parts)
    print("\n" + text)
    if options.docs:
        renew(options.docs, __file__, text)
    options.out.mkdir(parents=True, exist_ok=True)
    document = {"labelfable": labelfable.__version__, "cells": cells, "ablation": rows}
    (options.out / "quality.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def load(name: str, data: Path) -> tuple[labelfable.VoteTable, np.ndarray, np.ndarray | None]:
    """Votes, gold (−1 = unknown) and features of a set."""
    with np.load(data / f"{name}.npz") as file:
        votes, gold = file["votes"], file["gold"].astype(int)
        features = file["features"].astype(np.float32) if "features" in file else None
    return labelfable.read_votes(votes, classes=int(max(votes.max(), gold.max())) + 1), gold, features


def measure_set(name: str, data: Path) -> dict[str, dict[str, float]]:
    """Every model's scores on one set."""
    table, gold, features = load(name, data)
    found = {}
    for model in (*BY_VOTES, "FABLE"):
        fit = fitted(model, {})
        found[model] = scores(lambda fit=fit: fit(table, features), table, gold)
    if features is not None:
        alone = regression(table, features)
        shares = registry.model_named("MajorityVote")().fit(table).predict_proba(table)
        product = alone * shares
        whole = product.sum(axis=1, keepdims=True)
        product = np.where(whole > 0, product / np.where(whole > 0, whole, 1), alone)
        for rival, answer in zip(BY_FEATURES, (alone, product), strict=True):
            found[rival] = scores(lambda answer=answer: answer, table, gold)
    print(f"{name}: " + ", ".join(f"{model} {cell['covered']:.1f}" for model, cell in found.items()), flush=True)
    return found


def fitted(model: str, settings: dict[str, object]) -> Callable[..., np.ndarray]:
    """Fits a model and gives its probabilities."""

    def answer(table: labelfable.VoteTable, features: np.ndarray | None) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelfableWarning)
            chosen = registry.model_named(model)(**settings).fit(table, features=features)
        return chosen.predict_proba(table, features=features)

    return answer


def regression(table: labelfable.VoteTable, features: np.ndarray) -> np.ndarray:
    """Logistic regression on majority vote's shares of the covered items."""
    shares = registry.model_named("MajorityVote")().fit(table).predict_proba(table)
    items, classes = np.nonzero(shares * table.covered[:, None])
    spread = np.where(features.std(axis=0) > 0, features.std(axis=0), 1)
    scaled = features if features.shape[1] > 128 else (features - features.mean(axis=0)) / spread
    fit = LogisticRegression(C=10, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 200 steps are the comparison's own
        fit.fit(scaled[items], classes, sample_weight=shares[items, classes])
    answer = np.full(shares.shape, 1e-12)
    answer[:, fit.classes_] = fit.predict_proba(scaled)
    return answer


def scores(answer: Callable[[], np.ndarray], table: labelfable.VoteTable, gold: np.ndarray) -> dict[str, float]:
    """Means over the draws of tied items."""
    began = time.process_time()
    probabilities = answer()
    seconds = time.process_time() - began
    known = gold >= 0
    seen = known & table.covered
    best = probabilities >= probabilities.max(axis=1, keepdims=True) - 1e-9
    covered, whole = [], []
    for draw in DRAWS:
        labels = (best * (1 + np.random.default_rng(draw).random(best.shape))).argmax(axis=1)
        covered.append(100 * float(np.mean((labels == gold)[seen])))
        whole.append(100 * paper_metric(labels[known], gold[known], table.n_classes))
    truth = np.clip(probabilities[seen, gold[seen]], 1e-12, 1)
    return {
        "covered": float(np.mean(covered)),
        "whole": float(np.mean(whole)),
        "spread": float(np.ptp(covered)),
        "log loss": -float(np.mean(np.log(truth))),
        "ece": float(expected_calibration_error(probabilities[seen], gold[seen])),
        "seconds": seconds,
    }


def score_table(cells: dict[str, dict[str, dict[str, float]]], score: str) -> str:
    """One score, a row a set; means over sets with features and over those without."""
    title, digits = SCORES[score]
    models = [*BY_VOTES, *BY_FEATURES, "FABLE"]
    lines = [f"**{title}**", "", "| set | " + " | ".join(models) + " |", "|---" * (len(models) + 1) + "|"]
    for name, cell in cells.items():
        row = [f"{cell[model][score]:.{digits}f}" if model in cell else "—" for model in models]
        lines.append(f"| {name} | " + " | ".join(row) + " |")
    for title, group in groups(cells).items():
        row = [
            f"{np.mean([cell[model][score] for cell in group.values()]):.2f}"
            if all(model in cell for cell in group.values())
            else "—"
            for model in models
        ]
        lines.append(f"| mean {title} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def groups(cells: dict[str, dict[str, dict[str, float]]]) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Sets with features, and sets without."""
    split: dict[str, dict[str, dict[str, dict[str, float]]]] = {"with features": {}, "votes only": {}}
    for name, cell in cells.items():
        split["with features" if BY_FEATURES[0] in cell else "votes only"][name] = cell
    return {title: group for title, group in split.items() if group}


def bars(cells: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """What was asked for, whether it holds, and the figure."""
    split = groups(cells)
    lines = []

    def say(what: str, holds: bool, figure: str) -> None:  # noqa: FBT001 (a local shorthand)
        lines.append(f"- {what}: {'holds' if holds else '**missed**'} ({figure})")

    def mean(group: dict[str, dict[str, dict[str, float]]], model: str, score: str) -> float:
        return float(np.mean([cell[model][score] for cell in group.values()]))

    below = {name: cell["MajorityVote"]["covered"] - cell["FABLE"]["covered"] for name, cell in cells.items()}
    worst = max(below, key=lambda name: below[name])
    say("never more than 0.5 below majority vote", below[worst] <= 0.5, f"worst: {worst}, {-below[worst]:+.2f}")
    rich, poor = split.get("with features"), split.get("votes only")
    if rich:
        best = max(mean(rich, model, "covered") for model in RIVALS)
        own = mean(rich, "FABLE", "covered")
        say("3 points above the best comparator's mean", own >= best + 3, f"{own:.2f}, best {best:.2f}")
        near = [
            name for name, cell in rich.items()
            if cell["FABLE"]["covered"] >= max(cell[model]["covered"] for model in RIVALS) - 1
        ]  # fmt: skip
        say("within 1 of the best on two thirds", 3 * len(near) >= 2 * len(rich), f"{len(near)} of {len(rich)} sets")
        loss = mean(rich, "FABLE", "log loss")
        say("mean log loss below 0.6", loss < 0.6, f"{loss:.3f}")
        over = [
            name for name, cell in rich.items()
            if cell["FABLE"]["log loss"] >= cell["MajorityVote"]["log loss"]
            or cell["FABLE"]["log loss"] > cell[BY_FEATURES[0]]["log loss"] + 0.1
        ]  # fmt: skip
        say("log loss below majority vote's, and regression's + 0.1", not over, ", ".join(over) or "every set")
        sure = [name for name, cell in rich.items() if cell["FABLE"]["ece"] < 0.1]
        say("calibration error below 0.1 on most sets", 2 * len(sure) > len(rich), f"{len(sure)} of {len(rich)} sets")
    if poor:
        best = max(mean(poor, model, "covered") for model in BY_VOTES)
        own = mean(poor, "FABLE", "covered")
        say("votes only: at least the best vote-only model's mean", own >= best, f"{own:.2f}, best {best:.2f}")
    spread = max(cell["FABLE"]["spread"] for cell in cells.values())
    say("draws within 1 point of each other", spread <= 1, f"{spread:.2f}; nothing else is drawn")
    return lines


def ablation(
    names: list[str], data: Path, settings: dict[str, object], constants: dict[str, object]
) -> dict[str, list[float]]:
    """Mean accuracy, log loss and the worst distance to majority vote; with features, and all sets without them."""
    found: dict[str, list[float]] = {}
    for title, drop in (("with features", False), ("without", True)):
        rows = []
        for name in names:
            table, gold, features = load(name, data)
            if features is None and not drop:
                continue
            with ExitStack() as patches:
                for path, value in constants.items():
                    patches.enter_context(patch(path, value))
                answer = fitted("FABLE", settings)
                own = scores(lambda: answer(table, None if drop else features), table, gold)  # noqa: B023 (used at once)
            majority = scores(lambda: fitted("MajorityVote", {})(table, None), table, gold)  # noqa: B023 (used at once)
            rows.append((own["covered"], own["log loss"], own["ece"], own["covered"] - majority["covered"]))
        if rows:
            means = np.mean(rows, axis=0)
            found[title] = [*means[:3].tolist(), float(min(row[3] for row in rows))]
    print(f"ablation: {found}", flush=True)
    return found


def ablation_table(rows: dict[str, dict[str, list[float]]]) -> str:
    """A row a choice."""
    kinds = list(next(iter(rows.values())))
    head = [f"{kind}: {what}" for kind in kinds for what in ("accuracy", "log loss", "ECE", "worst against MV")]
    lines = [
        "**What each part gives** (accuracy on covered items; without: the votes alone of all sets)", "",
        "| setting | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|",
    ]  # fmt: skip
    for row, found in rows.items():
        cells = []
        for kind in kinds:
            covered, loss, error, against = found[kind]
            cells += [f"{covered:.2f}", f"{loss:.3f}", f"{error:.3f}", f"{against:+.1f}"]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
