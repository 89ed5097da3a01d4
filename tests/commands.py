"""The command line as tests call it, and files to call it on."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from labelfable.cli import app
from tests.crowds import planted_votes

VOTES, TRUTH = planted_votes(120, [0.9, 0.8, 0.75, 0.7], 3, coverage=0.6)
WORDS = np.array(["ant", "bee", "cat", None], dtype=object)
NAMES = [f"rule {j}" for j in range(VOTES.shape[1])]
ITEMS = [f"i{number}" for number in range(len(VOTES))]


def run(*arguments):
    """A command that ends well."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def told(*arguments):
    """What a command prints as JSON."""
    return json.loads(run(*arguments, "--json").stdout)


def refused(*arguments):
    """The error of a command that does not end well."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr
    return result.stderr


def write_files():
    """Votes, gold and features by name in the working folder, the latter two in another order than the votes."""
    wide = {"item": ITEMS} | {name: WORDS[column].tolist() for name, column in zip(NAMES, VOTES.T, strict=True)}
    pq.write_table(pa.table(wide), "votes.parquet")
    write_csv("votes.csv", wide)
    backwards = ITEMS[::-1]
    write_csv("gold.csv", {"item": [*backwards[:100], "stranger"], "gold": [*WORDS[TRUTH[::-1]][:100].tolist(), "ant"]})
    write_csv("features.csv", {"item": backwards, "x": np.arange(120)[::-1].tolist(), "y": [0.5] * 120})
    spoken = [(item, name, WORDS[vote]) for item, row in zip(ITEMS, VOTES, strict=True)
              for name, vote in zip(NAMES, row, strict=True) if vote >= 0]  # fmt: skip
    write_csv("long.csv", dict(zip(("item", "source", "label"), map(list, zip(*spoken, strict=True)), strict=True)))
    np.savez("task.npz", votes=VOTES, gold=TRUTH, features=np.ones((120, 2), dtype=np.float16))


def write_csv(name, columns):
    with Path(name).open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
