"""Documents as Markdown, JSON and Parquet files, and as parts of a documentation page."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelfable.errors import FileError
from labelfable.evaluation.benchmark.published import PUBLICATIONS
from labelfable.persistence import make_folder, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

END = "<!-- end -->"
TITLES = {
    "covered": "Accuracy on covered items, in percent",
    "whole": "F1 (two classes, unless the set says accuracy) or accuracy over all items, in percent",
    "log_loss": "Log loss on covered items, in nats",
    "calibration_error": "Expected calibration error on covered items, 15 bins",
    "seconds": "Seconds of fit and predict_proba",
    "peak_mb": "Peak memory of the process, in MB: Python, libraries and data included",
}
DIGITS = {"covered": 1, "whole": 1, "log_loss": 2, "calibration_error": 3, "seconds": 2, "peak_mb": 0}


def renew(page: Path, program: str, text: str) -> None:
    """Put what a program measured between a page's marks for it: figures in pages are never typed."""
    before, after = around(page, program)
    with replace_file(page) as temporary:
        temporary.write_text(f"{before}\n\n{text}\n\n{after}", encoding="utf-8")


def around(page: Path, program: str) -> tuple[str, str]:
    """A page up to the mark where a program's part begins, and from the mark where it ends."""
    begin = f"<!-- begin: {program} -->"
    try:
        before, mark, rest = page.read_text(encoding="utf-8").partition(begin)
    except OSError as error:
        raise FileError("cannot read this page", where=str(page), hint=f"The system says: {error.strerror}") from error
    _, end, after = rest.partition(END)
    if not mark or not end:
        hint = f"Add the lines {begin} and {END}"
        raise FileError(f"this page has no part for {program}", where=str(page), hint=hint)
    return before + mark, end + after


def write_json(document: dict[str, Any], path: Path) -> None:
    """A document for programs."""
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def write_text(text: str, path: Path) -> None:
    """A document for people."""
    with replace_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def write_parquet(records: Sequence[dict[str, Any]], path: Path) -> None:
    """One row a cell, with the values that are single numbers or words."""
    from labelfable.datasets.outputs import write_table
    from labelfable.votes.frames import frame_from

    plain = [name for name in dict.fromkeys(key for record in records for key in record) if name != "traceback"]
    single = [name for name in plain if not any(isinstance(record.get(name), (dict, list)) for record in records)]
    write_table(frame_from({name: [record.get(name) for record in records] for name in single}, "pyarrow"), path)


def with_figures(page: Path, text: str, figures: Sequence[Path]) -> str:
    """The text with pictures below it, which are copied to a folder beside the page."""
    folder = page.parent / "figures"
    make_folder(folder)
    lines = [text]
    for figure in figures:
        with replace_file(folder / figure.name) as temporary:
            shutil.copyfile(figure, temporary)
        lines.append(f"![{figure.stem.replace('_', ' ')}](figures/{figure.name})")
    return "\n\n".join(lines)


def table_text(document: dict[str, Any]) -> str:
    """The table of models and sets in Markdown."""
    parts = [_preamble(document)]
    parts += [_score_table(document, score) for score in TITLES]
    parts += _remarks(document)
    return "\n\n".join(parts)


def how_made(made: dict[str, Any]) -> str:
    """Versions and machine in a line."""
    commits = " and ".join(made["commit"])
    libraries = ", ".join(f"{name} {made[name]}" for name in ("python", "numpy", "scipy", "scikit-learn"))
    threads = f", {' or '.join(map(str, made['threads']))} thread(s) a fit" if made["threads"] else ""
    return f"labelfable {made['labelfable']}, commit {commits}; {libraries}; {made['cores']} cores{threads}."


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column names its rows."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _preamble(document: dict[str, Any]) -> str:
    seeds = len(document["seeds"])
    beside = "; ".join(f"for {score} {publication.source}" for score, publication in PUBLICATIONS.items())
    return (
        f"{how_made(document['made'])} Ties: {document['ties']}; {seeds} seed{'s' if seeds > 1 else ''}, means, ±"
        f" spread where it is 0.1 or more. Ours / published: {beside}. A dash: no answer, see below."
    )


def _score_table(document: dict[str, Any], score: str) -> str:
    entries = {(entry["set"], entry["model"]): entry for entry in document["summary"]}
    models, overall = document["models"], document["overall"]
    rows = [[name, *(_cell(entries[name, model], score) for model in models)] for name in document["sets"]]
    n_sets, n_common = len(document["sets"]), len(document["common_sets"])
    write = _writer(score)
    rows.append([f"mean of {n_sets}", *(write(row[score]) for row in overall)])
    if 0 < n_common < n_sets:
        rows.append([f"mean of the {n_common} that all answer", *(write(row[f"{score}_common"]) for row in overall)])
    if n_common and f"{score}_rank" in overall[0]:
        rows.append([f"mean rank on {n_common}", *(_written(row[f"{score}_rank"], 1) for row in overall)])
    return f"**{TITLES[score]}**\n\n" + markdown(["set", *models], rows)


def _cell(entry: dict[str, Any], score: str) -> str:
    text = _writer(score)(entry[score] if entry["status"] == "ok" else None)
    spread, published = entry[f"{score}_spread"], entry.get(f"{score}_published")
    if entry["status"] == "ok" and score in {"covered", "whole"} and round(spread, 1) > 0:
        text += f" ± {spread:.1f}"
    return text if published is None else f"{text} / {published:.1f}"


def _writer(score: str) -> Callable[[float | None], str]:
    return lambda value: _written(value, DIGITS[score])


def _written(value: float | None, digits: int) -> str:
    return "—" if value is None or math.isnan(value) else f"{value:,.{digits}f}"


def _remarks(document: dict[str, Any]) -> list[str]:
    """Why an answer is missing."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for entry in document["summary"]:
        if entry["status"] != "ok":
            reasons.setdefault((entry["model"], entry["status"], entry["reason"]), []).append(entry["set"])
    if not reasons:
        return []
    lines = [f"- {model} {status} on {', '.join(sets)}: {reason}" for (model, status, reason), sets in reasons.items()]
    return ["**No answer**", "\n".join(lines)]
