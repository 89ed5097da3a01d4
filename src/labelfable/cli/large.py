"""Fits and labels of votes that stay on disk: what `fit` and `predict` do where --memory is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from labelfable.cli import terminal
from labelfable.errors import FileError, InputError
from labelfable.votes import open_votes
from labelfable.votes.arrow import value_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from labelfable.evaluation.plan import Plan
    from labelfable.models.protocol import BaseLabelModel, Ties
    from labelfable.votes import StoredVotes


def place_of_work(model: BaseLabelModel, engine: str | None, scheduler: str | None, checkpoint: Path | None) -> None:
    """Set where a model is fitted and where it keeps its state."""
    if engine not in {None, "dask"}:
        raise InputError(
            f"--engine {engine} is unknown", hint="It is dask, or left out for the threads of this process"
        )
    given = {"engine": scheduler or engine, "checkpoint": None if checkpoint is None else str(checkpoint)}
    for name, value in given.items():
        if value is not None and name not in model.get_params():
            raise InputError(f"{type(model).__name__} has no {name}", hint="DawidSkene, IBCC, EBCC and FABLE have one")
    model.set_params(**{name: value for name, value in given.items() if value is not None})


def open_large(votes: Path, reading: dict[str, Any], memory: str, out: Path | None, **labels: Any) -> StoredVotes:
    """Stored votes; an error where something was asked that needs them in memory."""
    asked = [name for name, value in labels.items() if value is not None]
    if asked:
        raise InputError(f"--{asked[0]} needs votes in memory", hint="Leave --memory out, or give y= in a program")
    if out is not None and out.suffix.lower() not in {".parquet", ".pq"}:
        raise FileError("labels of votes on disk are written as Parquet", where=str(out), hint="Call it labels.parquet")
    with terminal.busy("Looking through the votes"):
        return open_votes(votes, memory=memory, **reading)


def label_large(
    model: BaseLabelModel, votes: Any, out: Path | None, features: Path | None, ties: Ties
) -> Mapping[str, Any]:
    """Write the labels and count them."""
    if out is None:
        return {}
    with terminal.warnings_told(), terminal.busy(f"Labelling {votes.n_items:,} items"):
        model.label_file(votes, out, features=features, ties=ties)
    return {"items": votes.n_items, "by_label": value_counts(out, "label")}


def tell(
    model: BaseLabelModel,
    counts: Mapping[str, Any],
    out: Path | None,
    save: Path | None = None,
    *,
    as_json: bool,
    fitted: bool = True,
) -> None:
    """The report of a fit, how many items got which label, and where things went."""
    if as_json:
        told = {"report": model.report_.as_dict()} if fitted else {}
        terminal.print_json(told | {"labels": counts})
        return
    if fitted:
        typer.echo(str(model.report_))
    if counts:
        by_label = sorted(counts["by_label"].items(), key=str)
        typer.echo()
        terminal.print_table(
            ["Label", "Items", "Share"],
            [[str(name), f"{number:,}", f"{number / counts['items']:.1%}"] for name, number in by_label],
        )
    terminal.say_written({"model": save, "labels": out})


def print_plan(plan: Plan) -> None:
    """A plan in a few lines."""

    def gigabytes(number: int) -> str:
        return f"{number / 1e9:.2f} GB"

    sizes = f"{plan.n_items:,} items, {plan.n_sources} sources, {plan.n_classes} classes, {plan.n_features} features"
    disk = f"{gigabytes(plan.disk)} of {gigabytes(plan.free_disk)} of disk"
    time = f"{plan.seconds_a_sweep:.3g} s a sweep, about {plan.sweeps} sweeps, {plan.seconds:.3g} s in all"
    lines = {
        "in memory": f"{gigabytes(plan.memory)} of {gigabytes(plan.free_memory)} that are free",
        "from files": f"{gigabytes(plan.budget)} of memory, {disk}",
        "time": f"{time} (measured on a sample, on this machine)",
        "advice": plan.advice,
    }
    typer.echo("\n".join([f"{plan.model}: {sizes}", *(f"  {name:12}{text}" for name, text in lines.items())]))
