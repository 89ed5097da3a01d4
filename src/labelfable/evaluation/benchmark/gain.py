"""Figure "when features help": gain of FABLE over EBCC against how far votes depend on features, on synthetic sets.

The paper reports a Pearson correlation of 0.469 between the two in its text, and of 0.496 in its introduction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import linregress

from labelfable.evaluation.benchmark import plots
from labelfable.evaluation.benchmark.cells import Cell, versions
from labelfable.evaluation.benchmark.measure import GAIN_OVER
from labelfable.evaluation.benchmark.pages import how_made, markdown
from labelfable.evaluation.benchmark.table import ModelSpec, made

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SETS = 50
ITEMS = 5_000
PAPER = {"text": 0.469, "introduction": 0.496}
CHOSEN = ModelSpec("FABLE")
SURE = 0.05  # the p-value below which a correlation counts
FEW = 3  # a line through fewer points says nothing


def plan(n_sets: int, n_items: int, model: ModelSpec, *, n_threads: int) -> list[Cell]:
    """A cell a set."""
    known = versions()
    return [
        Cell(
            "gain",
            f"set{number}.{n_items}.{model.label}",
            {"set": str(number), "n_items": n_items, "model": model.name, "settings": model.settings, "seed": number},
            known,
            {"threads": n_threads},
            str(n_items),
        )
        for number in range(n_sets)
    ]


def summarise(cells: Sequence[Cell], found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One document: a record a set, the regression, the finding."""
    records = [
        {"set": cell.job["set"], "n_items": cell.job["n_items"], **result}
        for cell, result in zip(cells, found, strict=True)
    ]
    good = [record for record in records if record.get("status") == "ok"]
    points = np.array([[record["correlation"], record["gain"]] for record in good]).reshape(-1, 2)
    line = None
    if len(points) >= FEW and np.ptp(points[:, 0]) > 0:
        fitted = linregress(points[:, 0], points[:, 1])
        line = {"slope": fitted.slope, "intercept": fitted.intercept, "r": fitted.rvalue, "p": fitted.pvalue}
        line = {name: float(value) for name, value in line.items()}
    return {
        "made": made([result for result in found if result]),
        "n_items": cells[0].job["n_items"],
        "model": ModelSpec(cells[0].job["model"], cells[0].job["settings"]).label,
        "sets": len(good),
        "regression": line,
        "mean_gain": float(np.mean(points[:, 1])) if len(points) else None,
        "paper": PAPER,
        "failures": sorted({record["reason"] for record in records if record.get("status") != "ok"}),
        "cells": records,
    }


def text(document: dict[str, Any]) -> str:
    """Findings in Markdown."""
    line, paper = document["regression"], document["paper"]
    drawn = (
        f"{how_made(document['made'])} {document['sets']} synthetic sets of {document['n_items']:,} items, each with"
        f" its own ψ ~ Uniform(1, 3); gain: accuracy over all items of {document['model']} less that of"
        f" {GAIN_OVER}, in points."
    )
    parts = [drawn]
    if line is None:
        parts.append("Too few sets were measured for a regression.")
    else:
        numbers = [("Pearson r", f"{line['r']:.3f}"), ("p", f"{line['p']:.2g}")]
        numbers += [
            ("slope, points for a correlation of 1", f"{line['slope']:.1f}"),
            ("intercept", f"{line['intercept']:.1f}"),
        ]
        numbers += [("mean gain", f"{document['mean_gain']:.2f}")]
        numbers += [(f"r in the paper's {place}", f"{value:.3f}") for place, value in paper.items()]
        parts.append(markdown(["", "value"], [list(pair) for pair in numbers]))
        holds = line["r"] > 0 and line["p"] < SURE
        parts.append(
            "The paper's claim, that features help more where votes depend on them more:"
            f" **{'true' if holds else 'false'}** here (r = {line['r']:.3f}, p = {line['p']:.2g};"
            f" it counts as true where r > 0 and p < {SURE:g})."
        )
    if document["failures"]:
        parts.append("Left out: " + "; ".join(document["failures"]))
    return "\n\n".join(parts)


def draw(document: dict[str, Any], folder: Path) -> list[Path]:
    """A dot a set, and the regression line."""
    good = [record for record in document["cells"] if record.get("status") == "ok"]
    x, y = (np.array([record[key] for record in good]) for key in ("correlation", "gain"))
    with plots.drawing(size=(5.2, 3.8)) as (figure, axes):
        axes.scatter(x, y, s=22, color=plots.COLOURS[0], alpha=0.8, linewidth=0)
        line = document["regression"]
        if line is not None:
            ends = np.array([x.min(), x.max()])
            words = f"r = {line['r']:.3f}, p = {line['p']:.2g}"
            axes.plot(ends, line["intercept"] + line["slope"] * ends, color=plots.COLOURS[1], label=words)
            axes.legend(loc="best")
        axes.axhline(0, color="#999999", linewidth=0.8)
        axes.set_xlabel("distance correlation of features and votes")
        axes.set_ylabel(f"accuracy of {document['model']} − {GAIN_OVER}, points")
        title = f"{len(good)} synthetic sets of {document['n_items']:,} items"
        axes.set_title(title, loc="left", fontsize=8, color="#555555")
        return plots.save(figure, folder, "feature_gain")
