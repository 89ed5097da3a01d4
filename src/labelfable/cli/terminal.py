"""What people see: tables and answers on standard output, progress, warnings and errors on standard error."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from labelfable.evaluation import Comparison

PIPE_WIDTH = 200  # columns of a table that goes into a file or to another program
WIDE = 120  # columns that a table of verdicts needs to have a score and its difference on one line
TONES = {"good": "green", "bad": "red", "": "dim"}


def tell(kind: str, message: str, style: str) -> None:
    """One line on standard error."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text.assemble((f"{kind}: ", style), message))


def busy(text: str) -> AbstractContextManager[Any]:
    """A sign of life on standard error; nothing where no person looks."""
    console = Console(stderr=True)
    return console.status(text) if console.is_terminal else nullcontext()


@contextmanager
def bars(*, in_bytes: bool) -> Iterator[Callable[[str, int, int | None], None] | None]:
    """For who is told (name, how many are done, of how many): bars on standard error; None where nobody looks."""
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    counter = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counter, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        tasks: dict[str, Any] = {}

        def report(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = shown.add_task(name, total=total)
            shown.update(tasks[name], completed=done, total=total)

        yield report


@contextmanager
def warnings_told() -> Iterator[None]:
    """What is warned of, a line each, once the work is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            for message in dict.fromkeys(str(warning.message) for warning in caught):
                tell("Warning", message, "yellow")


def compare_with_progress(votes: Any, models: Sequence[Any] | None = None, **inputs: Any) -> Comparison:
    """`compare_models`, showing which model is at work, then its warnings."""
    from labelfable.evaluation import compare_models

    with busy("Comparing models") as status:
        show = None if status is None else lambda name: status.update(f"Fitting {name}")
        comparison = compare_models(votes, models, on_start=show, **inputs)
    for verdict in comparison.verdicts:
        for message in verdict.warnings:
            tell("Warning", message, "yellow")
    return comparison


def print_verdicts(comparison: Comparison) -> None:
    """One row a model; where gold is given, its scores, each with its distance from majority vote's."""
    from labelfable.evaluation.report import METRICS, difference

    records, console = comparison.records(), _console()
    shown = [key for key in METRICS if key in records[0]]
    between = " " if console.width >= WIDE else "\n"
    rows: list[list[str | Text]] = []
    for record in records:
        if record["error"]:
            rows.append([record["model"]])
            continue
        row: list[str | Text] = [record["model"]]
        for key in shown:
            cell = Text(format(record[key], METRICS[key][2]))
            if record["model"] != "MajorityVote":
                words, tone = difference(key, record["against_majority"][key])
                cell.append(between + words, TONES[tone])
            row.append(cell)
        row += [f"{record['changed_share']:.1%}", f"{record['contradicted']:,}", f"{record['seconds']:.2f}"]
        rows.append(row)
    print_table(["Model", *(METRICS[key][0] for key in shown), "Changed", "Against all", "Seconds"], rows)
    legend = (
        "Changed: share of covered items whose label is none of majority vote's winners. Against all: items whose two"
        " or more votes all agree and whose label is another. Ties are drawn at random, seeded."
    )
    if shown:
        legend += " Beside or below each score: its difference from majority vote. Covered: items with a vote."
    console.print(Text(legend, "dim"))
    for record in records:
        if record["error"]:
            tell("Error", f"{record['model']}: {record['error']}", "bold red")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """A table: the first column at the left, all others at the right."""
    console = _console()
    roomy = console.width >= WIDE
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2 if roomy else 1, 0, 0))
    table.add_column(header[0], overflow="fold")
    for name in header[1:]:
        title = Text(name if roomy else name.replace(" ", "\n"))
        table.add_column(title, justify="right", overflow="fold", min_width=max(map(len, title.plain.split())))
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    console.print(table)


def _console() -> Console:
    """Standard output: as wide as the terminal, or as wide as it likes where there is none."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def print_labels(labels: Any, scores: Mapping[str, float]) -> None:
    """How many items got which label, and how good the labels are."""
    counts = label_counts(labels)
    rows: list[list[str | Text]] = [
        ["(none)" if name is None else str(name), f"{number:,}", f"{number / max(counts['items'], 1):.1%}"]
        for name, number in counts["by_label"].items()
    ]
    typer.echo()
    print_table(["Label", "Items", "Share"], rows)
    bare = counts["items"] - counts["covered"]
    if bare:
        typer.echo(f"{bare:,} of {counts['items']:,} items have no vote; column `covered` marks them.")
    if scores:
        from labelfable.evaluation.report import METRICS

        typer.echo()
        print_table(
            ["Against gold", "Score"], [[METRICS[key][0], format(scores[key], METRICS[key][2])] for key in scores]
        )


def label_counts(labels: Any) -> dict[str, Any]:
    """Items by label, in the order of the labels."""
    counts = Counter(labels.column("label").to_pylist())
    names = sorted((name for name in counts if name is not None), key=lambda name: (isinstance(name, str), name))
    by_label = {name: counts[name] for name in [*names, *([None] if None in counts else [])]}
    return {"items": len(labels), "covered": sum(labels.column("covered").to_pylist()), "by_label": by_label}


def say_written(files: Mapping[str, Path | None]) -> None:
    """Where things went."""
    for what, path in files.items():
        if path is not None:
            typer.echo(f"{what} written to {path}")


def print_json(content: Any) -> None:
    """JSON on standard output; what is no number is null."""
    typer.echo(json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False))


def written(value: Any) -> str:
    """A table's entry."""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.3f}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def _plain(value: Any) -> Any:
    """Values that JSON knows."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
