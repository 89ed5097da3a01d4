"""One HTML file about one task: models against majority vote, the chosen model's fit, the sources."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.evaluation import page
from labelfable.evaluation.metrics import calibration_bins
from labelfable.evaluation.page import Cell
from labelfable.votes.summary import source_summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from labelfable.evaluation.compare import Comparison

# metric -> its heading, whether larger is better, and how it is written
METRICS: dict[str, tuple[str, bool, str]] = {
    "covered_accuracy": ("Accuracy covered", True, ".1%"),
    "accuracy": ("Accuracy all", True, ".1%"),
    "f1": ("F1", True, ".3f"),
    "macro_f1": ("Macro F1", True, ".3f"),
    "log_loss": ("Log loss", False, ".3f"),
    "calibration_error": ("Calibr. error", False, ".3f"),
}
SMALL = 5e-4  # a difference that would be written as zero


def html_report(
    comparison: Comparison,
    chosen: str,
    *,
    title: str,
    about: str,
    rules: Mapping[str, str] | None = None,
    footer: str = "",
) -> str:
    """The page.  `chosen` names the model that is shown in detail; `rules` says in words what each source does."""
    votes = comparison.table
    lede = page.facts(
        [
            ("items", f"{votes.n_items:,}"),
            ("sources", f"{votes.n_sources:,}"),
            ("classes", f"{votes.n_classes:,}"),
            ("items with a vote", f"{votes.covered.mean():.1%}"),
            ("votes an item", f"{votes.votes_per_item.mean():.1f}"),
        ]
    )
    parts = [lede, _verdicts(comparison, chosen)]
    if chosen in comparison.models:
        parts.append(_chosen(comparison, chosen))
    parts.append(_sources(comparison, chosen, rules or {}))
    return page.page(title, about, parts, footer)


def difference(key: str, value: float) -> tuple[str, str]:
    """A metric's distance from majority vote's, in words, and whether that is good, bad or nothing."""
    written = f"{100 * value:+.1f}" if METRICS[key][2].endswith("%") else f"{value:+.3f}"
    if abs(value) < SMALL:
        return written, ""
    return written, "good" if (value > 0) == METRICS[key][1] else "bad"


def _verdicts(comparison: Comparison, chosen: str) -> str:
    records = comparison.records()
    shown = [key for key in METRICS if key in records[0]]
    header = ["Model", *(METRICS[key][0] for key in shown), "Labels changed", "Against all", "Seconds"]
    rows = [(record["model"], _verdict_cells(record, shown)) for record in records]
    text = (
        "Each model on the same votes, against majority vote: the small figure is the difference. Changed: share of"
        " covered items whose label is none of majority vote's winners. Against all: items whose two or more votes all"
        " agree and whose label is another. "
    )
    if shown:
        text += (
            "No model saw the gold labels. Covered: items with a vote. Log loss is in nats; smaller log loss and"
            " calibration error are better. Ties are drawn at random, seeded."
        )
    if "f1" in shown:
        text += f" F1 is that of class {comparison.table.classes[1]}."
    return page.section("Verdict", text, page.table(header, rows, chosen), _remarks(comparison))


def _verdict_cells(record: Mapping[str, Any], shown: list[str]) -> list[Cell]:
    if record["error"]:
        return [Cell("")] * (len(shown) + 3)
    cells = []
    for key in shown:
        under, tone = (
            ("", "") if record["model"] == "MajorityVote" else difference(key, record["against_majority"][key])
        )
        cells.append(Cell(format(record[key], METRICS[key][2]), under, tone))
    changed = f"{record['changed_share']:.1%}"
    return [*cells, Cell(changed), Cell(f"{record['contradicted']:,}"), Cell(f"{record['seconds']:.2f}")]


def _remarks(comparison: Comparison) -> str:
    told = [text for verdict in comparison.verdicts for text in verdict.warnings]
    told += [f"{verdict.model} has no answer: {verdict.error}" for verdict in comparison.verdicts if verdict.error]
    return "".join(page.paragraph(text) for text in told)


def _chosen(comparison: Comparison, name: str) -> str:
    model, probabilities = comparison.models[name], comparison.probabilities[name]
    report, covered = model.report_, comparison.table.covered
    confidence = probabilities.max(axis=1)
    sure = float((confidence[covered] > 0.9).mean()) if covered.any() else float("nan")  # noqa: PLR2004 (what "sure" means)
    ended = "converged" if report.converged else "did not converge"
    text = f"{ended.capitalize()}" + (f" after {report.iterations} iterations. " if report.history else ". ")
    text += f"It is more than 90 % sure of {sure:.1%} of the covered items. "
    text += " ".join(f"{note}." for note in report.notes)
    figures = []
    if report.iterations > 1:
        figures.append(page.figure("Objective", "by iteration", page.curve(report.objective)))
    if comparison.gold is not None:
        bins = calibration_bins(probabilities, comparison.gold)
        points = list(zip(bins["confidence"], bins["accuracy"], bins["items"], strict=True))
        words = "share of right labels, by confidence; on the line is honest"
        figures.append(page.figure("Calibration", words, page.scatter(points)))
    shares = _class_shares(comparison, name)
    return page.section(f"The labels: {name}", text, page.charts(*figures), shares)


def _class_shares(comparison: Comparison, name: str) -> str:
    """Expected share of each class under majority vote, the model, and in gold."""
    classes = [str(entry) for entry in comparison.table.classes.tolist()]
    columns = {key: comparison.probabilities[key].mean(axis=0) for key in dict.fromkeys(("MajorityVote", name))}
    if comparison.gold is not None:
        known = comparison.gold[comparison.gold >= 0]
        columns["Gold"] = np.bincount(known, minlength=len(classes)) / len(known)
    rows = [
        (entry, [Cell(f"{column[k]:.1%}", share=float(column[k])) for column in columns.values()])
        for k, entry in enumerate(classes)
    ]
    return page.table(["Class, share of items", *columns], rows)


def _sources(comparison: Comparison, chosen: str, rules: Mapping[str, str]) -> str:
    summary = source_summary(comparison.table, comparison.gold, comparison.probabilities.get(chosen))
    shown = {key: key for key in ("Coverage", "Overlaps", "Conflicts", "Emp. Acc.", "Est. Acc.") if key in summary}
    rows = []
    for number, name in enumerate(summary["source"]):
        cells = [Cell(rules[name], is_text=True)] if name in rules else []
        says = ", ".join(str(label) for label in summary["Polarity"][number])
        cells.append(Cell(says or "nothing"))
        cells += [_share_cell(summary[key][number]) for key in shown]
        rows.append((name, cells))
    header = ["Source", *(["Rule"] if rules else []), "Votes for", *shown]
    text = (
        "Coverage: share of the items that a source votes on. Overlaps: on which another votes too. Conflicts: on which"
        " another says something else. Emp. Acc.: how often it agrees with gold."
        f" Est. Acc.: how often {chosen} thinks that it is right."
    )
    return page.section("Sources", text, page.table(header, rows))


def _share_cell(value: float) -> Cell:
    return Cell("") if isnan(value) else Cell(f"{value:.1%}", share=value)
