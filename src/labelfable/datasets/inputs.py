"""Votes, gold labels and features of one task, from files, in the same order of items."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import FileError, InputError, LabelfableError
from labelfable.votes import frames
from labelfable.votes.alphabet import is_missing
from labelfable.votes.from_frames import INDEX_NAMES, KNOWN_NAMES
from labelfable.votes.read import read_gold, read_votes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

GOLD_NAMES = ("gold", "label", "y", "truth", "target", "class")


@dataclass(frozen=True)
class Inputs:
    """What a model is given, item by item in the same order."""

    table: VoteTable
    gold: NDArray[np.integer] | None = None
    """Class numbers to score against, −1 where unknown, [items]."""
    known: NDArray[np.integer] | None = None
    """Class numbers that a fit may use, −1 where unknown, [items]."""
    features: NDArray[np.floating] | None = None
    """[items, columns]."""

    @property
    def unseen_gold(self) -> NDArray[np.integer] | None:
        """Gold of the items whose label the fit did not know."""
        if self.gold is None or self.known is None:
            return self.gold
        return np.where(self.known < 0, self.gold, -1)

    def names(self, labels: NDArray[np.integer] | None) -> list[Any] | None:
        """Class names of class numbers, None where unknown: the form that a model's `y` takes."""
        if labels is None:
            return None
        return [None if number < 0 else self.table.classes[number].item() for number in labels]


def read_inputs(
    votes: str | Path,
    *,
    gold: str | Path | None = None,
    known: str | Path | None = None,
    features: str | Path | None = None,
    **reading: Any,
) -> Inputs:
    """Read the files of one task and bring them into the votes' order of items.

    `gold` and `known` are files, or names of columns of the votes' own (wide) table, which are then no sources.  In an
    .npz file the arrays are called votes, gold and features.  Tables that name their items are joined by name, others
    are taken row by row.  `reading` goes to `read_votes`.
    """
    raw: Any = votes
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(str(label) for label in (gold, known) if label is not None and not Path(label).exists()):
        raw = frames.read_file(votes) if raw is votes else raw
        raw, columns[name] = _take_column(raw, name, votes)
    table = read_votes(raw, **reading)
    labels = []
    for chosen in (gold, known):
        values = None
        if chosen is not None:
            values = columns[str(chosen)] if str(chosen) in columns else read_labels(chosen, table, reading.get("item"))
        table, _ = read_gold(values, table)  # classes that only these labels name join the table
        labels.append(values)
    gold_numbers, known_numbers = (read_gold(values, table)[1] for values in labels)
    if gold is not None and gold_numbers is None:
        raise InputError("no gold label is known", where=str(gold), hint="Gold is -1 or empty only where it is unknown")
    return Inputs(
        table,
        gold_numbers,
        known_numbers,
        None if features is None else read_features(features, table, reading.get("item")),
    )


def read_labels(path: str | Path, table: VoteTable, item: str | None = None) -> Any:
    """One label for each item of the table, missing where the file has none."""
    content = _read(path, ("gold", "known", "y", "labels"))
    if isinstance(content, np.ndarray):
        return content
    item, rest = item_column(content, item)
    named = next((name for wanted in GOLD_NAMES for name in rest if name.lower() == wanted), None)
    if named is None and len(rest) != 1:
        raise InputError(
            "cannot tell which column holds the labels",
            where=str(path),
            hint=f"Call it gold; the columns are {', '.join(content.column_names)}",
        )
    values = content.column(named or rest[0])
    if item is None:
        return values
    return joined_by_item(content, item, values, table, path)


def joined_by_item(content: pa.Table, item: str, values: Any, table: VoteTable, path: str | Path) -> list[Any]:
    """A column's entry for each item of the table, None where no row of the file speaks of it."""
    spots = _spots(content.column(item).to_pylist(), table, path)
    listed = values.to_pylist()
    return [None if spot is None else listed[spot] for spot in spots]


def read_features(path: str | Path, table: VoteTable, item: str | None = None) -> NDArray[np.floating]:
    """Numbers for each item of the table, [items, columns]; half precision becomes single, other floats stay."""
    content = _read(path, ("features", "X"))
    matrix = content if isinstance(content, np.ndarray) else _matrix(content, table, path, item)
    return checked_features(matrix, table.n_items, str(path))


def checked_features(matrix: NDArray[Any], n_items: int, where: str) -> NDArray[np.floating]:
    """Finite numbers [items, columns]; half precision becomes single, other floats stay."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "iufb":  # noqa: PLR2004 (items, columns)
        raise InputError(
            f"the features are {matrix.dtype} of shape {matrix.shape}",
            where=where,
            hint="Expected numbers [items, columns]",
        )
    if len(matrix) != n_items:
        raise InputError(f"there are {len(matrix)} rows of features and {n_items} items", where=where)
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = (int(part) for part in np.argwhere(bad)[0])
        raise InputError(f"feature {matrix[row, column]} is no number", where=f"{where}, item {row}, column {column}")
    return np.asarray(matrix, dtype=np.result_type(matrix.dtype, np.float32))


def _matrix(content: pa.Table, table: VoteTable, path: str | Path, asked: str | None) -> NDArray[Any]:
    """The columns of numbers, in the votes' order of items."""
    item, rest = item_column(content, asked)
    columns = [content.column(name) for name in rest]
    wordy = [name for name, column in zip(rest, columns, strict=True) if not _is_numeric(column)]
    if wordy or not rest:
        what = (
            f"column {wordy[0]!r} of the features does not hold numbers" if wordy else "there is no column of features"
        )
        raise InputError(what, where=str(path))
    matrix = np.column_stack([column.to_numpy() for column in columns])
    if item is None:
        return matrix
    spots = _spots(content.column(item).to_pylist(), table, path)
    if None in spots:
        raise InputError(f"the features lack item {_item_names(table)[spots.index(None)]!r}", where=str(path))
    return matrix[np.array(spots, dtype=np.int64)]


def _is_numeric(column: Any) -> bool:
    import pyarrow as pa

    kind = column.type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _take_column(raw: Any, name: str, votes: str | Path) -> tuple[Any, Any]:
    """A table without one of its columns, and the column."""
    columns = getattr(raw, "column_names", [])
    if name not in columns:
        raise FileError(f"no such file, and no column {name!r} in {votes}", where=name)
    return raw.drop_columns([name]), raw.column(name)


def _read(path: str | Path, names: Sequence[str]) -> Any:
    """An array, or a pyarrow table; of an .npz file the first array of these names, or its only one."""
    if Path(path).suffix.lower() != ".npz" or not Path(path).is_file():
        return frames.read_file(path)
    with opened_npz(path) as stored:
        chosen = next((name for name in names if name in stored.files), None)
        if chosen is None and len(stored.files) == 1:
            chosen = stored.files[0]
        if chosen is not None:
            return stored[chosen]
        held = ", ".join(stored.files) or "nothing"
        raise InputError(f"no array named {names[0]!r} in this file", where=str(path), hint=f"It holds {held}")


@contextmanager
def opened_npz(path: str | Path) -> Iterator[Any]:
    """The arrays of an .npz file, never unpickled; an error of ours where one of them cannot be read."""
    try:
        with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as stored:
            if not hasattr(stored, "files"):
                raise ValueError("it holds a single array")
            yield stored
    except LabelfableError:
        raise
    except FileNotFoundError:
        raise FileError("no such file", where=str(path)) from None
    except frames.READER_ERRORS as error:
        raise FileError("cannot read this file as npz", where=str(path), hint=f"The reader says: {error}") from error


def item_column(content: pa.Table, asked: str | None) -> tuple[str | None, list[str]]:
    """The column that names the items, if there is one, and the others but for a data frame's row numbers."""
    known = KNOWN_NAMES["item"]
    item = next((name for name in content.column_names if name == asked or name.lower() in known), None)
    return item, [name for name in content.column_names if name != item and name.lower() not in INDEX_NAMES]


def _item_names(table: VoteTable) -> list[str]:
    names = np.arange(table.n_items) if table.items is None else table.items
    return [str(name) for name in names.tolist()]


def _spots(items: list[Any], table: VoteTable, path: str | Path) -> list[int | None]:
    """The row of the file that speaks of each item of the table, None where no row does."""
    rows = {str(name): row for row, name in enumerate(items) if not is_missing(name)}
    if len(rows) != len(items):
        raise InputError("an item has no name, or two rows have the same one", where=str(path))
    spots = [rows.get(name) for name in _item_names(table)]
    if all(spot is None for spot in spots):
        raise InputError(
            "none of the items in this file has votes",
            where=str(path),
            hint=f"It starts with {items[0]!r}, the votes start with {_item_names(table)[0]!r}" if items else "",
        )
    return spots
