"""Figure "dataset size": accuracy on synthetic votes against the number of items, as in the FABLE paper.

The paper's claim is that Bayesian confusion models lose accuracy as data grow, while FABLE stays as stable as majority
vote and above it.  `findings` checks each part of it and says in numbers whether it holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.evaluation.benchmark import plots
from labelfable.evaluation.benchmark.cells import Cell, versions
from labelfable.evaluation.benchmark.pages import how_made, markdown
from labelfable.evaluation.benchmark.table import ModelSpec, made, record_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

SIZES = (1_000, 5_000, 10_000, 15_000, 20_000)
REPETITIONS = 100
PUBLISHED = ModelSpec("FABLE", {"inference": "published"})
MODELS = (ModelSpec("MajorityVote"), ModelSpec("IBCC"), ModelSpec("EBCC"), ModelSpec("FABLE"), PUBLISHED)
LARGEST_PUBLISHED = 5_000  # items, for the published rules: 1 GB and ten seconds; both grow with their square or more
ERRORS = 2.0  # standard errors that a difference must exceed to count
PRECISE = 2.0  # points: two standard errors below it are enough to say that there is no difference worth naming
BASELINE, CHOSEN = "MajorityVote", "FABLE"


def plan(
    models: Sequence[ModelSpec], sizes: Sequence[int], n_repetitions: int, *, n_threads: int, published_up_to: int
) -> list[Cell]:
    """All cells, repetition by repetition, so that the time that is left can be told early."""
    known = versions()
    return [
        Cell(
            "size",
            f"{n_items}.{spec.label}.{seed}",
            {"set": str(n_items), "n_items": n_items, "model": spec.name, "settings": spec.settings, "seed": seed},
            known,
            {"threads": n_threads},
            f"{n_items}.{spec.label}",
        )
        for seed in range(n_repetitions)
        for n_items in sorted(set(sizes))
        for spec in models
        if spec.settings.get("inference") != "published" or n_items <= published_up_to
    ]


def summarise(cells: Sequence[Cell], found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One document: a record a cell, a summary a size and model, the findings."""
    records = [record_of(cell, result) for cell, result in zip(cells, found, strict=True)]
    models = list(dict.fromkeys(record["model"] for record in records))
    sizes = sorted({int(record["set"]) for record in records})
    accuracies = {(model, n_items): _accuracies(records, model, n_items) for model in models for n_items in sizes}
    summary = [
        {
            "model": model,
            "n_items": n_items,
            "runs": int(np.sum(~np.isnan(values))),
            "accuracy": float(np.nanmean(values)),
            "spread": float(np.nanstd(values)),
        }
        for (model, n_items), values in accuracies.items()
        if not np.isnan(values).all()
    ]
    return {
        "made": made([result for result in found if result]),
        "repetitions": len({record["seed"] for record in records}),
        "models": models,
        "sizes": sizes,
        "largest_published": max((e["n_items"] for e in summary if e["model"] == PUBLISHED.label), default=0),
        "summary": summary,
        "findings": findings(accuracies, models, sizes),
        "seconds_a_repetition": seconds_of_one(
            [(cell.group, result["wall"]) for cell, result in zip(cells, found, strict=True)]
        ),
        "failures": sorted({f"{r['model']}: {r['reason']}" for r in records if r.get("status") != "ok"}),
        "cells": records,
    }


def seconds_of_one(walls: Sequence[tuple[str, float]]) -> float:
    """Seconds of one process for a repetition of all sizes and models, from those that were measured."""
    groups: dict[str, list[float]] = {}
    for group, wall in walls:
        groups.setdefault(group, []).append(wall)
    return float(sum(np.mean(values) for values in groups.values()))


def findings(
    accuracies: dict[tuple[str, int], NDArray[np.float64]], models: Sequence[str], sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """Each part of the paper's claim, whether it holds here, and the numbers that say so."""
    small, large = min(sizes), max(sizes)
    span = f"from {small:,} to {large:,} items"
    changes = {
        name: _difference(accuracies[name, large], accuracies[name, small])
        for name in models
        if not (np.isnan(accuracies[name, small]).all() or np.isnan(accuracies[name, large]).all())
    }
    found = []
    for name in ("IBCC", "EBCC"):
        if name in changes:
            change, error = changes[name]
            numbers = f"{change:+.2f} ± {error:.2f} points {span}"
            found.append(_finding(f"{name} loses accuracy as data grow", exceeds(-change, error), numbers))
    if CHOSEN in changes and BASELINE in changes:
        (ours, our_error), (theirs, their_error) = changes[CHOSEN], changes[BASELINE]
        numbers = f"{ours:+.2f} ± {our_error:.2f} points {span}, majority vote {theirs:+.2f} ± {their_error:.2f}"
        moves_more = exceeds(abs(ours) - abs(theirs), float(np.hypot(our_error, their_error)))
        stable = None if moves_more is None else not moves_more
        found.append(_finding("FABLE is as stable as majority vote as data grow", stable, numbers))
        found.append(_spread_finding(accuracies, sizes))
    if BASELINE in models:
        found += [_lead_finding(name, accuracies, sizes) for name in (CHOSEN, PUBLISHED.label) if name in models]
    return found


def exceeds(difference: float, error: float) -> bool | None:
    """Whether a difference is above 0; None where there are too few draws to tell.

    Yes from two standard errors on.  No where it is not that large although two standard errors are less than `PRECISE`
    points, or where it is as far below 0.
    """
    if not np.isfinite(error):
        return None
    if difference > ERRORS * error:
        return True
    return False if difference < -ERRORS * error or ERRORS * error < PRECISE else None


def _spread_finding(accuracies: dict[tuple[str, int], NDArray[np.float64]], sizes: Sequence[int]) -> dict[str, Any]:
    """Whether FABLE's answers vary between draws as little as majority vote's."""
    spreads = {n: [float(np.nanstd(accuracies[name, n])) for name in (CHOSEN, BASELINE)] for n in sizes}
    numbers = ", ".join(f"{ours:.2f} and {theirs:.2f} at {n:,}" for n, (ours, theirs) in spreads.items())
    draws = min(int(np.sum(~np.isnan(accuracies[CHOSEN, n]))) for n in sizes)
    holds = all(ours <= theirs for ours, theirs in spreads.values()) if draws > 1 else None
    claim = "FABLE's spread over the draws is no larger than majority vote's at any size"
    return _finding(claim, holds, f"standard deviations {numbers}")


def _lead_finding(
    name: str, accuracies: dict[tuple[str, int], NDArray[np.float64]], sizes: Sequence[int]
) -> dict[str, Any]:
    """Whether a model is above majority vote on the same draws, at every size that it was run at."""
    gaps = {n: accuracies[name, n] - accuracies[BASELINE, n] for n in sizes}
    leads = {n: (float(np.nanmean(gap)), _standard_error(gap)) for n, gap in gaps.items() if not np.isnan(gap).all()}
    verdicts = [exceeds(mean, error) for mean, error in leads.values()]
    holds = False if False in verdicts else None if None in verdicts or not verdicts else True
    numbers = ", ".join(f"{mean:+.2f} ± {error:.2f} at {n:,}" for n, (mean, error) in leads.items())
    some = " that was run" if len(leads) < len(sizes) else ""
    return _finding(f"{name} is above majority vote at every size{some}", holds, f"{numbers} points")


def _finding(claim: str, holds: bool | None, numbers: str) -> dict[str, Any]:  # noqa: FBT001 (a verdict)
    return {"claim": claim, "holds": holds, "numbers": numbers}


def text(document: dict[str, Any]) -> str:
    """Table and findings in Markdown."""
    entries = {(entry["model"], entry["n_items"]): entry for entry in document["summary"]}
    rows = []
    for n_items in document["sizes"]:
        found = (entries.get((model, n_items)) for model in document["models"])
        rows.append(
            [f"{n_items:,}", *("—" if e is None else f"{e['accuracy']:.2f} ± {e['spread']:.2f}" for e in found)]
        )
    drawn = (
        f"{how_made(document['made'])} {document['repetitions']} draws of the data a size, the same for all models;"
        " accuracy over all items in percent, mean ± standard deviation; ties at random, seeded by the draw."
    )
    rule = (
        f"**The paper's claim, part by part.** ± one standard error; a difference counts from {ERRORS:g} on, and is"
        f" denied where {ERRORS:g} are less than {PRECISE:g} points."
    )
    parts = [
        drawn,
        markdown(["items", *document["models"]], rows),
        rule,
        "\n".join(f"- {finding_line(found)}" for found in document["findings"]),
    ]
    minutes = document["seconds_a_repetition"] * REPETITIONS / 60
    parts.append(
        f"A draw of all sizes took {document['seconds_a_repetition']:.0f} seconds of one process; {REPETITIONS} take"
        f" about {minutes:.0f} minutes, divided by the processes at work."
    )
    if 0 < document["largest_published"] < max(document["sizes"]):
        parts.append(
            f"The published rules (`{PUBLISHED.label}`) were run up to {document['largest_published']:,} items: they"
            " invert a matrix of items × items for every component."
        )
    if document["failures"]:
        parts.append("Left out: " + "; ".join(document["failures"]))
    return "\n\n".join(parts)


def finding_line(found: dict[str, Any]) -> str:
    """A claim with its verdict."""
    verdict = {True: "**true** here", False: "**false** here", None: "**cannot be told** from so few draws"}[
        found["holds"]
    ]
    return f"{found['claim']}: {verdict} ({found['numbers']})"


def draw(document: dict[str, Any], folder: Path) -> list[Path]:
    """A line a model, its band one standard deviation."""
    look = plots.looks(document["models"])
    with plots.drawing(size=(6.2, 4.0)) as (figure, axes):
        for model in document["models"]:
            entries = [entry for entry in document["summary"] if entry["model"] == model]
            sizes = np.array([entry["n_items"] for entry in entries])
            mean, spread = (np.array([entry[key] for entry in entries]) for key in ("accuracy", "spread"))
            axes.fill_between(sizes, mean - spread, mean + spread, color=look[model]["color"], alpha=0.15, linewidth=0)
            axes.plot(sizes, mean, label=model, **look[model])
        axes.set_xlabel("items")
        axes.set_ylabel("accuracy over all items, %")
        axes.set_xticks(document["sizes"], [f"{n:,}" for n in document["sizes"]])
        title = f"Four Gaussian classes, eight sources; {document['repetitions']} draws, band: one standard deviation"
        axes.set_title(title, loc="left", fontsize=8, color="#555555")
        figure.legend(loc="outside lower center", ncols=3)
        return plots.save(figure, folder, "dataset_size")


def _accuracies(records: Sequence[dict[str, Any]], model: str, n_items: int) -> NDArray[np.float64]:
    """Percent by repetition, NaN where there is none."""
    mine = [record for record in records if (record["model"], record["set"]) == (model, str(n_items))]
    count = 1 + max(record["seed"] for record in records)
    values = np.full(count, np.nan)
    for record in mine:
        if record.get("status") == "ok":
            values[record["seed"]] = 100 * record["accuracy"]
    return values


def _difference(later: NDArray[np.float64], earlier: NDArray[np.float64]) -> tuple[float, float]:
    """Difference of two means of independent draws, and its standard error."""
    error = float(np.hypot(_standard_error(later), _standard_error(earlier)))
    return float(np.nanmean(later) - np.nanmean(earlier)), error


def _standard_error(values: NDArray[np.float64]) -> float:
    """Of a mean; infinite where one value says nothing of the spread."""
    known = values[~np.isnan(values)]
    return float(np.std(known, ddof=1) / np.sqrt(len(known))) if len(known) > 1 else float("inf")
