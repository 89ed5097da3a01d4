"""Votes that stay on disk: a run of items is read when it is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from labelfable.errors import InputError
from labelfable.votes import frames
from labelfable.votes.alphabet import ABSTAIN, Alphabet, Expected, smallest_int
from labelfable.votes.from_arrays import read_array
from labelfable.votes.from_frames import Arrangement, long_columns, read_frame, wide_columns
from labelfable.votes.row_files import RowFiles, open_files
from labelfable.votes.scan import LongItems, distinct_labels, distinct_sources, scan_items
from labelfable.votes.table import VoteTable
from labelfable.votes.triples import DENSE_SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

DEFAULT_MEMORY = "2GB"
LEAST_MEMORY = 2**27  # under 128 MB not even one run of items would fit beside the interpreter
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
SOFT_AXES = 3


@dataclass(frozen=True, eq=False)
class StoredVotes:
    """Votes on disk, in the words of a table; `open_votes` makes them.

    They are cheap to send anywhere: names, places of files and the number of items.
    """

    files: RowFiles
    names: VoteTable
    """A table without an item: classes, labels and sources."""
    n_items: int
    memory: int
    """Bytes that a fit may have resident."""
    arrangement: Arrangement
    abstain: Any = ABSTAIN
    long_items: LongItems | None = None
    """Where the items of a long table begin; None where each row is an item."""

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return self.names.n_sources

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources."""
        return self.names.sources

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.names.n_classes

    @property
    def n_spoken(self) -> int:
        """Labels that are given aloud."""
        return self.names.n_spoken

    @property
    def classes(self) -> NDArray[Any]:
        """Names of the classes, [classes]."""
        return self.names.classes

    @property
    def alphabet(self) -> Alphabet:
        """What a vote may say aloud, and what it means."""
        return self.names.alphabet

    @property
    def is_plain(self) -> bool:
        """Whether every label names a class."""
        return self.names.is_plain

    def read(self, start: int, stop: int) -> VoteTable:
        """The items [start, stop) as a table; every vote is checked here, each time."""
        stop = min(stop, self.n_items)
        rows = (start, stop) if self.long_items is None else self.long_items.rows(start, stop)
        raw = self.files.read(*rows)
        expected = Expected(self.classes, self.names.sources, self.abstain, self.alphabet.exclusions)
        try:
            if not self.files.is_parquet:
                return read_array(raw, expected)
            table = read_frame(frames.as_frame(raw), self.arrangement, expected)
        except InputError as error:
            where = f"{error.where}, counted from {self.files.place(rows[0])}"
            raise InputError(error.what, where=where, hint=error.hint) from error
        if self.long_items is None:
            return table
        skipped = start - self.long_items.first_item(start)
        return table.rows(slice(skipped, skipped + stop - start))

    def with_names(self, names: VoteTable) -> StoredVotes:
        """The same votes under other label numbers or with other sources, which must hold the present ones."""
        return replace(self, names=names)

    def with_classes(self, classes: NDArray[Any]) -> StoredVotes:
        """The same votes where more classes exist than were voted for."""
        return self.with_names(self.names.with_classes(classes))

    @property
    def stamp(self) -> dict[str, Any]:
        """What tells these votes from others, as JSON values."""
        return {"files": self.files.stamp, "sources": list(self.names.sources), "labels": list(self.names.labels)}


def open_votes(
    path: Any,
    *,
    classes: Sequence[Any] | int | None = None,
    sources: Sequence[str] | None = None,
    layout: Literal["auto", "wide", "long"] = "auto",
    item: str | None = None,
    source: str | None = None,
    label: str | None = None,
    abstain: Any = ABSTAIN,
    exclusions: Mapping[Any, Any] | None = None,
    memory: int | str = DEFAULT_MEMORY,
) -> StoredVotes:
    """Votes that are too many for memory; `fit`, `predict_proba`, `predict` and `label_file` take them.

    `path` is a Parquet or .npy file, a list of them, a pattern (`votes-*.parquet`) or a folder; the files' rows follow
    one another.  The other arguments mean what they mean in `read_votes`.  Without `classes` all votes are looked at
    once to find them.  The rows of a long table must lie item by item (sorted, or at least each item's rows together).
    `memory` bounds what a fit keeps in memory, whatever the number of items.
    """
    files = open_files(path, "votes")
    budget = bytes_of(memory)
    arrangement = Arrangement.of(layout, (item, source, label), None)
    expected = Expected.of(classes, sources, abstain, exclusions)
    if not files.is_parquet:
        arrangement.refuse_for_arrays()
        return _open_arrays(files, expected, budget)
    _refuse_large_groups(files, budget)
    frame = frames.as_frame(files.schema.empty_table())
    columns = long_columns(frame, arrangement)
    if columns is not None:
        return _open_long(files.of_columns(columns), columns, arrangement, expected, budget)
    item_column, by_name = wide_columns(frame, item, expected)
    read = files.of_columns([*([] if item_column is None else [item_column]), *by_name.values()])
    arrangement = replace(arrangement, layout="wide", item=item_column)
    alphabet = distinct_labels(read, tuple(by_name.values()), expected)
    return StoredVotes(read, _names(alphabet, tuple(by_name)), files.n_rows, budget, arrangement, expected.abstain)


def bytes_of(memory: int | str) -> int:
    """A number of bytes from 2_000_000_000, "2GB" or "1.5 GiB"."""
    text = str(memory).strip().upper()
    unit = next((unit for unit in sorted(UNITS, key=len, reverse=True) if text.endswith(unit)), "")
    number = text.removesuffix(unit) if unit else text.removesuffix("B")
    try:
        found = int(float(number) * UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        found = -1
    if found < LEAST_MEMORY:
        raise InputError(
            f"memory={memory!r} is no size from {LEAST_MEMORY // 2**20} MiB",
            hint="Write 2GB, 500MB or a number of bytes",
        )
    return found


def _open_arrays(files: RowFiles, expected: Expected, budget: int) -> StoredVotes:
    soft = len(files.shape) + 1 == SOFT_AXES
    if soft:
        names = read_array(files.read(0, 1), expected)
        names = replace(names, votes=names.votes[:0])
    else:
        if len(files.shape) != 1:
            raise InputError(
                f"votes have shape {(files.n_rows, *files.shape)}",
                where=files.name,
                hint="Expected [items, sources], or [items, sources, classes] for soft votes",
            )
        sources = expected.names_of(files.shape[0])
        names = _names(distinct_labels(files, None, expected), sources)
    arrangement = Arrangement("wide", None, None, None, None)
    return StoredVotes(files, names, files.n_rows, budget, arrangement, expected.abstain)


def _open_long(
    files: RowFiles, columns: tuple[Any, Any, Any], arrangement: Arrangement, expected: Expected, budget: int
) -> StoredVotes:
    items = scan_items(files, columns[0], budget)
    names = distinct_sources(files, columns[1], expected)
    alphabet = distinct_labels(files, (columns[2],), expected)
    sparse = files.n_rows < DENSE_SHARE * items.n_items * len(names)
    item, source, label = columns
    arrangement = replace(arrangement, layout="long", item=item, source=source, label=label, sparse=sparse)
    table = _names(alphabet, names, sparse=sparse)
    return StoredVotes(files, table, items.n_items, budget, arrangement, expected.abstain, items)


def _names(alphabet: Alphabet, sources: tuple[str, ...], *, sparse: bool = False) -> VoteTable:
    """A table without an item."""
    n_labels = len(alphabet.labels)
    votes: Any = np.empty((0, len(sources)), dtype=smallest_int(n_labels))
    if sparse:
        votes = sp.csr_array((0, len(sources) * n_labels), dtype=np.float64)
    return VoteTable(votes, alphabet.classes, sources, alphabet.meaning, alphabet.labels, frame_backend="pyarrow")


def _refuse_large_groups(files: RowFiles, budget: int) -> None:
    largest = files.largest_group()
    if largest * 4 > budget:  # one is decoded while another is kept, beside the work itself
        raise InputError(
            f"a row group of {largest / 1e6:,.0f} MB is too large for memory={budget / 1e6:,.0f} MB",
            where=files.name,
            hint="Write the file with smaller row groups (row_group_size=100_000), or allow more memory",
        )
