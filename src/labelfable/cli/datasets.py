"""`labelfable datasets …` and `labelfable features`: data before there is a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labelfable.cli import terminal
from labelfable.cli.commands import AsJson, app

if TYPE_CHECKING:
    from labelfable.datasets import Dataset

SetName = Annotated[str, typer.Argument(help="A name that `labelfable datasets list` shows.", metavar="NAME")]

datasets = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="The data sets of the paper: what is known of them, and how to get them.",
)
app.add_typer(datasets, name="datasets")


@datasets.command("list", epilog="Example: `labelfable datasets list --json`")
def list_(*, as_json: AsJson = False) -> None:
    """All sets of the catalogue, and which of them are here."""
    from labelfable.datasets.catalogue import catalogue, datasets_folder

    records = [entry.as_dict() for entry in catalogue().values()]
    if as_json:
        terminal.print_json(records)
        return
    plain = ("task", "data", "sources", "classes", "metric")
    rows = [
        [
            entry["name"],
            f"{sum(entry['items']):,}",
            *(str(entry[key]) for key in plain),
            "yes" if entry["path"] else "no",
        ]
        for entry in records
    ]
    terminal.print_table(["Name", "Items", "Task", "Beside votes", "Sources", "Classes", "Metric", "Here"], rows)
    typer.echo(f"\nKept in {datasets_folder()}")


@datasets.command(epilog="Example: `labelfable datasets show trec`")
def show(name: SetName, *, as_json: AsJson = False) -> None:
    """All that is known of a set: sizes, home, licence, files with their checksums, remarks."""
    from labelfable.datasets.catalogue import entry_named

    entry = entry_named(name).as_dict()
    if as_json:
        terminal.print_json(entry)
        return
    sizes = " + ".join(f"{size:,}" for size in entry["items"])
    lines = {
        "Task": entry["task"],
        "Items": f"{sum(entry['items']):,} (train + valid + test: {sizes}), {entry['data']}",
        "Sources": entry["sources"],
        "Classes": entry["classes"],
        "Metric": entry["metric"],
        "Home": entry["home"],
        "Licence": entry["licence"],
        "Here": entry["path"] or f"no; get it with: labelfable datasets get {entry['name']}",
    }
    typer.echo(f"{entry['title']}\n")
    for word, value in lines.items():
        typer.echo(f"{word:<9}{value}")
    typer.echo("\nFiles")
    for file, url in entry["files"].items():
        typer.echo(f"  {url}\n    SHA-256: {entry['sha256'][file]}")
    for note in entry["notes"]:
        typer.echo(f"\nRemark: {note}")


@datasets.command(epilog="Example: `labelfable datasets get youtube --from ~/wrench`")
def get(
    names: Annotated[list[str], typer.Argument(help="Names that `labelfable datasets list` shows.", metavar="NAME…")],
    *,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", help="A folder that holds the set, in WRENCH format or as NAME.npz: nothing is downloaded."
        ),
    ] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Get it again where it is here already.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring sets into the cache: downloaded (an interrupted download goes on where it stopped), or from a folder.

    LABELFABLE_CACHE names another cache folder, LABELFABLE_WRENCH_URL another address that holds NAME/train.json and so
    on.
    """
    from labelfable.datasets.catalogue import dataset_path, entry_named, fetch_dataset

    records = []
    for name in [entry_named(name).name for name in names]:
        with terminal.transfers() as progress:
            data = fetch_dataset(name, source=source, anew=anew, progress=progress)
        for difference in entry_named(name).differences(data):
            terminal.tell("Warning", f"{name}: {difference}", "yellow")
        records.append(_record(data) | {"path": str(dataset_path(name))})
    if as_json:
        terminal.print_json(records)
        return
    for record in records:
        typer.echo(
            f"{record['items']:,} items, {record['sources']} sources, {record['classes']} classes: {record['path']}"
        )


def _record(data: Dataset) -> dict[str, object]:
    return {
        "name": data.name,
        "items": data.n_items,
        "sources": len(data.source_names),
        "classes": len(data.class_names),
        "metric": data.metric,
        "covered": float(data.votes.covered.mean()),
        "texts": data.texts is not None,
        "columns": None if data.features is None else data.features.shape[1],
    }
