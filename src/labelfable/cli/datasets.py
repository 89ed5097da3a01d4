"""`labelfable datasets …` and `labelfable features`: data before there is a model."""

from __future__ import annotations

from enum import StrEnum
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
        with terminal.bars(in_bytes=True) as progress:
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


class Encoder(StrEnum):
    """What turns texts into numbers."""

    MINILM = "minilm"
    TFIDF = "tfidf"


@app.command(epilog="Example: `labelfable features texts.csv --encoder tfidf --out features.npy`")
def features(
    texts: Annotated[
        Path,
        typer.Argument(help="One text a line (.txt, .jsonl, .jsonl.gz), or a table with a column text."),
    ],
    *,
    out: Annotated[Path, typer.Option(help="Write the numbers here: .npy, one row a text.")],
    encoder: Annotated[
        Encoder, typer.Option(help="minilm: sentence embeddings, needs the extra `text`. tfidf: words, needs nothing.")
    ] = Encoder.MINILM,
    columns: Annotated[int, typer.Option(help="How many, of tfidf.", min=1)] = 128,
    seed: Annotated[int, typer.Option(help="Of tfidf.")] = 0,
    cache: Annotated[bool, typer.Option(help="Keep what is encoded, and use what was.")] = True,
    as_json: AsJson = False,
) -> None:
    """Turn texts into features. What an interrupted run has encoded is kept."""
    from labelfable.datasets import read_texts, text_features
    from labelfable.datasets.outputs import check_output, write_array

    check_output(out, [".npy"])
    given = read_texts(texts)
    with terminal.bars(in_bytes=False) as report:
        matrix = text_features(
            given,
            encoder.value,
            n_columns=columns,
            seed=seed,
            cache=cache,
            progress=None if report is None else lambda done, total: report("Encoding", done, total),
        )
    write_array(matrix, out)
    if as_json:
        terminal.print_json({"texts": len(given), "distinct": len(set(given)), "columns": matrix.shape[1]})
        return
    typer.echo(f"{len(given):,} texts ({len(set(given)):,} distinct), {matrix.shape[1]} columns: {out}")


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
