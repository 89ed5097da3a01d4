"""Tables, wide (a column a source) or long (a row a vote) -> VoteTable."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError
from labelfable.votes import frames
from labelfable.votes.alphabet import Expected, first_repeated, in_order, is_whole, short_list
from labelfable.votes.cells import compact, grid, side_by_side
from labelfable.votes.encode import encode
from labelfable.votes.table import VoteTable
from labelfable.votes.triples import Triples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from labelfable.votes.cells import Where

LAYOUTS = ("auto", "wide", "long")
KNOWN_NAMES = {
    "item": ("item", "item_id", "task", "id"),
    "source": ("source", "source_id", "worker", "annotator", "lf"),
    "label": ("label", "vote", "answer"),
}
INDEX_NAMES = ("", "unnamed: 0", "__index_level_0__")  # what row numbers are called once pandas has written them


@dataclass(frozen=True)
class Arrangement:
    """What the caller says of how a table holds its votes."""

    layout: str
    item: Any
    source: Any
    label: Any
    items: list[Any] | None
    """Names of the items of a long table, in order."""
    sparse: bool | None = None
    """The form of a long table's votes; None is whichever is smaller."""

    @classmethod
    def of(cls, layout: Any, columns: tuple[Any, Any, Any], items: Any) -> Arrangement:
        """Checked arguments of `read_votes`; `columns` are those of item, source and label."""
        if layout not in LAYOUTS:
            raise InputError(f"layout={layout!r} is unknown", hint="It is 'auto', 'wide' or 'long'")
        names = None if items is None else in_order(items)
        if items is not None and (names is None or not all(isinstance(name, Hashable) for name in names)):
            raise InputError(f"items={items!r} is not a list of names", hint="Give one name an item, in order")
        return cls(layout, *columns, names)

    def names_items(self, column: Any) -> bool:
        """Whether a column looks as if it named the items."""
        asked = _is_known(column, "item") if self.item is None else str(column) == str(self.item)
        return asked or _is_index(column)

    def refuse_for_arrays(self) -> None:
        """An error where votes are no table but were said to be one."""
        given = [name for name in ("item", "source", "label", "items") if getattr(self, name) is not None]
        given += ["layout"] if self.layout == "long" else []
        if given:
            raise InputError(
                f"{given[0]}= is for tables, and these votes are an array",
                hint="Give a pandas, polars or pyarrow table, or leave it out",
            )


def read_frame(frame: Any, arrangement: Arrangement, expected: Expected) -> VoteTable:
    """A narwhals data frame as a table of votes."""
    if len(frame) == 0:
        raise InputError("the votes have no item: zero rows")
    columns = long_columns(frame, arrangement)
    if columns is not None:
        return _read_long(frame, columns, arrangement, expected)
    if arrangement.items is not None:
        raise InputError("items goes with long tables", hint="A wide table has one row an item already")
    return _read_wide(frame, arrangement.item, expected)


def long_columns(frame: Any, arrangement: Arrangement) -> tuple[Any, Any, Any] | None:
    """The columns of item, source and label of a long table, or None where the table is wide."""
    chosen = {word: _column(frame, getattr(arrangement, word), word) for word in KNOWN_NAMES}
    missing = [word for word, name in chosen.items() if name is None]
    asked = arrangement.layout == "long" or arrangement.source is not None or arrangement.label is not None
    if arrangement.layout == "wide" or (missing and not asked):
        return None
    if missing:
        raise InputError(
            f"cannot tell which column holds the {missing[0]}",
            hint=f"Pass {missing[0]}=NAME; the columns are {_listed(frame)}",
        )
    others = [name for name in frame.columns if name not in chosen.values() and not _is_index(name)]
    if others and not asked:
        raise InputError(
            f"this table may be long (columns {', '.join(map(str, chosen.values()))}) or wide",
            where=f"it also has {short_list([str(name) for name in others])}",
            hint="Pass layout='long' or layout='wide'",
        )
    return chosen["item"], chosen["source"], chosen["label"]


def _column(frame: Any, asked: Any, word: str) -> Any | None:
    """The column that was asked for, else the first whose name tells what it holds, else None."""
    if asked is None:
        return next((name for name in frame.columns if _is_known(name, word)), None)
    found = next((name for name in frame.columns if str(name) == str(asked)), None)
    if found is None:
        raise InputError(f"no column {asked!r} in the votes", hint=f"The columns are {_listed(frame)}")
    return found


def _is_known(name: Any, word: str) -> bool:
    return str(name).lower() in KNOWN_NAMES[word]


def _is_index(name: Any) -> bool:
    return str(name).lower() in INDEX_NAMES


def _listed(frame: Any) -> str:
    return short_list([str(name) for name in frame.columns])


def _read_wide(frame: Any, item: Any, expected: Expected) -> VoteTable:
    item_column, columns = wide_columns(frame, item, expected)
    names = tuple(columns)
    parts = [frames.column_cells(frame.get_column(columns[name]), grid([name])) for name in names]
    codes, alphabet = encode(side_by_side(parts, names, as_words=expected.classes is not None), expected)
    items = None if item_column is None else names_array(frame.get_column(item_column).to_list())
    return VoteTable(codes, alphabet.classes, names, alphabet.meaning, alphabet.labels, items, frames.backend_of(frame))


def wide_columns(frame: Any, item: Any, expected: Expected) -> tuple[Any | None, dict[str, Any]]:
    """Which column names the items, and the columns of votes by the names of their sources."""
    wanted = expected.sources or ()
    if item is not None:
        named = _column(frame, item, "item")
    else:
        spare = [name for name in frame.columns if str(name) not in wanted]
        named = next((name for name in spare if _is_known(name, "item")), None)
        named = named if named is not None else next((name for name in spare if _is_index(name)), None)
    kept = [name for name in frame.columns if name != named and (str(name) in wanted or not _is_index(name))]
    repeated = first_repeated(map(str, kept))
    if repeated is not None:
        raise InputError(f"two columns have the same name: {repeated!r}")
    columns = {str(name): name for name in kept}
    absent = [name for name in wanted if name not in columns]
    if absent:
        raise InputError(f"no column for source {absent[0]!r}", hint=f"The columns are {_listed(frame)}")
    if not columns:
        raise InputError("the table has no column of votes", hint=f"The columns are {_listed(frame)}")
    return named, {name: columns[name] for name in wanted} if wanted else columns


def _read_long(frame: Any, columns: tuple[Any, Any, Any], arrangement: Arrangement, expected: Expected) -> VoteTable:
    item, source, label = (frame.get_column(name) for name in columns)
    rows, item_names = _numbered(*frames.column_words(item, _row(columns[0])), arrangement.items, "item")
    index, words = frames.column_words(source, _row(columns[1]))
    index, words = compact(index, [str(word) for word in words])
    places, source_names = _numbered(index, words, expected.sources, "source")
    codes, alphabet = encode(frames.column_cells(label, _row(columns[2])), expected)
    triples = Triples(rows, places, codes, len(item_names), tuple(source_names), alphabet, names_array(item_names))
    return triples.table(sparse=arrangement.sparse, frame_backend=frames.backend_of(frame))


def _row(column: Any) -> Where:
    """Places in a column of a long table."""
    return lambda row: f"row {row}, column {str(column)!r}"


def _numbered(
    index: NDArray[np.int32], words: list[Any], known: Sequence[Any] | None, word: str
) -> tuple[NDArray[np.int64], list[Any]]:
    """Each entry's number in the order of `known`, or of first appearance."""
    if np.any(index < 0):
        raise InputError(f"missing {word} in the votes", where=f"row {int(np.argmax(index < 0))}")
    if known is None:
        return index.astype(np.int64), words
    order = list(known)
    repeated = first_repeated(order)
    if repeated is not None:
        raise InputError(f"{word} {repeated!r} is given twice")
    numbers = {value: number for number, value in enumerate(order)}
    unknown = next((number for number, value in enumerate(words) if value not in numbers), None)
    if unknown is not None:
        raise InputError(
            f"unknown {word} {words[unknown]!r} in the votes",
            where=f"row {int(np.argmax(index == unknown))}",
            hint=f"Expected {short_list(order)}",
        )
    return np.array([numbers[value] for value in words], dtype=np.int64)[index], order


def names_array(names: Sequence[Any]) -> NDArray[Any]:
    """Names of items: integers as such, all else as objects, since one long text would make every name as long."""
    whole = all(is_whole(name) and abs(name) < 2**63 for name in names)
    return np.fromiter(names, dtype=np.int64 if whole else object, count=len(names))
