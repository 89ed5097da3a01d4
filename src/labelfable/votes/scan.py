"""One look through files of votes: which labels and sources occur, and where the items of a long table begin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError
from labelfable.numerics.random import BLOCK_ITEMS
from labelfable.votes import arrow, frames
from labelfable.votes.alphabet import Alphabet, Expected
from labelfable.votes.from_arrays import read_array
from labelfable.votes.from_frames import Arrangement, read_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from labelfable.votes.row_files import RowFiles

SCANNED_ROWS = 2**17  # looked at together
MOST_DISTINCT = 20_000  # different labels; more cannot all be classes
BYTES_A_NAME = 48  # of an item's hash while it is sorted and compared


@dataclass(frozen=True, eq=False)
class LongItems:
    """Where the items of a long table begin: the first row of every 4,096th item, and the end."""

    firsts: NDArray[np.int64]
    n_items: int

    def first_item(self, item: int) -> int:
        """The first item of the block that an item is in."""
        return item - item % BLOCK_ITEMS

    def rows(self, start: int, stop: int) -> tuple[int, int]:
        """The rows of the blocks that hold the items [start, stop)."""
        return int(self.firsts[start // BLOCK_ITEMS]), int(self.firsts[-(-stop // BLOCK_ITEMS)])


def distinct_labels(files: RowFiles, columns: tuple[Any, ...] | None, expected: Expected) -> Alphabet:
    """The alphabet of the votes: from the classes that are expected, else from all labels that occur.

    The labels that occur are read like a small table of votes, so that what is an error there is one here.
    """
    if expected.classes is not None:
        return Alphabet.of(expected.classes, expected.exclusions)
    found: Any = None
    for _, block in _blocks(files):
        found = _with_labels(found, block, columns)
        if max(map(len, found)) > MOST_DISTINCT:
            break
    try:
        return _read_labels(found, columns, expected)
    except InputError as error:
        for first, block in _blocks(files):  # which file and row it was
            try:
                _read_labels(
                    [block] if columns is None else [block.column(name) for name in columns], columns, expected
                )
            except InputError as here:
                if here.what == error.what:
                    where = f"{here.where}, counted from {files.place(first)}"
                    raise InputError(here.what, where=where, hint=here.hint) from error
        raise InputError(error.what, where=files.name, hint=error.hint) from error


def distinct_sources(files: RowFiles, column: Any, expected: Expected) -> tuple[str, ...]:
    """The sources of a long table, in order of appearance, or those that are expected."""
    if expected.sources is not None:
        return expected.sources
    found: dict[str, None] = {}
    for first, block in _blocks(files.of_columns([column])):
        series = frames.as_series(block)
        index, words = frames.column_words(series, lambda row: f"row {row}")
        if (index < 0).any():
            raise InputError("missing source in the votes", where=files.place(first + int(np.argmax(index < 0))))
        found |= dict.fromkeys(map(str, words))
    return tuple(found)


def scan_items(files: RowFiles, column: Any, budget: int, *, sorted_only: bool = True) -> LongItems:
    """Where the items begin.  Every item's rows must lie together; sorted items need no memory to be sure of it."""
    firsts: list[NDArray[np.int64]] = []
    hashes: list[NDArray[np.int64]] = []
    last, n_items = None, 0
    for first, block in _blocks(files.of_columns([column])):
        runs = arrow.column_runs(block.column(column), last, partial(_place, files, first))
        if sorted_only and not runs.rising:
            return scan_items(files, column, budget, sorted_only=False)
        block_edges = np.arange(n_items, n_items + len(runs.starts)) % BLOCK_ITEMS == 0
        firsts.append(first + runs.starts[block_edges])
        n_items, last = n_items + len(runs.starts), runs.last
        if not sorted_only:
            hashes.append(runs.hashes())
            _refuse_many(n_items, budget, files)
    if hashes and len(np.unique(np.concatenate(hashes))) < n_items:
        raise InputError(
            "the rows of some item do not lie together",
            where=files.name,
            hint="Sort the long table by item: what stays on disk is read a run of items at a time",
        )
    return LongItems(np.concatenate([*firsts, [files.n_rows]]), n_items)


def _place(files: RowFiles, first: int, row: int) -> str:
    return files.place(first + row)


def _refuse_many(n_items: int, budget: int, files: RowFiles) -> None:
    if n_items * BYTES_A_NAME > budget:
        raise InputError(
            "the items of this long table are not sorted, and too many to check that their rows lie together",
            where=files.name,
            hint="Sort the table by item, or allow more memory",
        )


def _blocks(files: RowFiles) -> Iterator[tuple[int, Any]]:
    for first in range(0, files.n_rows, SCANNED_ROWS):
        yield first, files.read(first, min(first + SCANNED_ROWS, files.n_rows))


def _with_labels(found: Any, block: Any, columns: tuple[Any, ...] | None) -> Any:
    """The labels that occurred so far, one list a column; arrays are one column."""
    if columns is None:
        fresh = np.unique(block)
        return [fresh if found is None else np.unique(np.concatenate((found[0], fresh)))]
    return arrow.distinct_entries(found, [block.column(name) for name in columns])


def _read_labels(found: Any, columns: tuple[Any, ...] | None, expected: Expected) -> Alphabet:
    """What `read_votes` would say to votes that have these labels."""
    if columns is None:
        array = np.asarray(found[0])
        one = Expected(None, None, expected.abstain, expected.exclusions)
        return read_array(array.reshape(len(array), -1), one).alphabet
    table = arrow.table_of({str(name): entries for name, entries in zip(columns, found, strict=True)})
    arrangement = Arrangement("wide", None, None, None, None)
    one = Expected(None, tuple(str(name) for name in columns), expected.abstain, expected.exclusions)
    return read_frame(frames.as_frame(table), arrangement, one).alphabet
