"""`labelfable explain`: why a fitted model gave some items their labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labelfable.cli import terminal
from labelfable.cli.commands import AsJson, Features, Reading, VotesFile
from labelfable.cli.settings import reading_options
from labelfable.errors import InputError, ModelError

if TYPE_CHECKING:
    from labelfable.votes.table import VoteTable

EXAMPLE = "Example: `labelfable explain model votes.csv --item 17 --features features.npy`"


def explain(
    model: Annotated[Path, typer.Argument(help="A folder that `fit --save` or `model.save` wrote; of FABLE.")],
    votes: VotesFile,
    *,
    item: Annotated[
        list[str], typer.Option(help="Name of an item, or its row number where items have no names. May be repeated.")
    ],
    features: Features = None,
    reading: Reading = None,
    as_json: AsJson = False,
) -> None:
    """Show what each vote, the features and the class prior contribute to the labels of some items."""
    from labelfable.datasets.inputs import read_inputs
    from labelfable.models.registry import load

    chosen = load(model)
    if not hasattr(chosen, "explain"):
        raise ModelError(f"{type(chosen).__name__} cannot explain its labels", hint="FABLE can")
    with terminal.busy("Reading votes"):
        inputs = read_inputs(votes, features=features, **reading_options(reading, like=chosen))
    rows = [row_of(text, inputs.table) for text in item]
    found = chosen.explain(rows, inputs.table, features=inputs.features)
    if as_json:
        terminal.print_json([explanation.as_dict() for explanation in found])
        return
    typer.echo("\n\n".join(map(str, found)))


def row_of(text: str, table: VoteTable) -> int:
    """The row of an item, by its name or its number."""
    if table.items is not None:
        names = [str(name) for name in table.items.tolist()]
        if text not in names:
            raise InputError(f"there is no item {text!r}", hint=f"The first is {names[0]!r}" if names else "")
        return names.index(text)
    if not text.isdecimal() or int(text) >= table.n_items:
        raise InputError(
            f"there is no item {text!r}", hint=f"Items have no names here: rows 0 to {table.n_items - 1} stand for them"
        )
    return int(text)
