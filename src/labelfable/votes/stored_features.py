"""Features that stay on disk, row by row beside stored votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError
from labelfable.votes import arrow
from labelfable.votes.from_frames import INDEX_NAMES, KNOWN_NAMES
from labelfable.votes.row_files import RowFiles, open_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.stored import StoredVotes
    from labelfable.votes.table import VoteTable


@dataclass(frozen=True, eq=False)
class StoredFeatures:
    """Numbers of each item: in files, or in an array that is cut where it is needed."""

    files: RowFiles | None
    array: NDArray[Any] | None
    n_items: int
    n_columns: int
    item: str | None = None
    """Column that names the items, of Parquet files."""
    names: tuple[str, ...] | None = None
    """Names of the columns, where each holds one number an item."""

    def read(self, start: int, stop: int, votes: VoteTable | None = None) -> NDArray[Any]:
        """Rows [start, stop) as they are; an error where they name other items than the votes.  [rows, d]."""
        if self.files is None:
            assert self.array is not None  # noqa: S101 (one of the two is there)
            return np.ascontiguousarray(self.array[start:stop])
        raw = self.files.read(start, stop)
        if self.item is not None and votes is not None and votes.items is not None:
            self._refuse_other_items(raw.column(self.item).to_pylist(), votes.items.tolist(), start)
        return self._numbers(raw)

    def take(self, rows: NDArray[np.integer]) -> NDArray[Any]:
        """Some rows, by their numbers, which rise."""
        if self.files is None:
            assert self.array is not None  # noqa: S101 (as above)
            return np.asarray(self.array[rows])
        return self._numbers(self.files.take(rows))

    def _numbers(self, raw: Any) -> NDArray[Any]:
        if isinstance(raw, np.ndarray):
            return raw.reshape(len(raw), -1)
        return arrow.matrix_of(raw if self.item is None else raw.drop_columns([self.item]))

    def _refuse_other_items(self, mine: list[Any], theirs: list[Any], start: int) -> None:
        if list(map(str, mine)) == list(map(str, theirs)):
            return
        row = next(row for row, (one, other) in enumerate(zip(mine, theirs, strict=True)) if str(one) != str(other))
        raise InputError(
            f"the features name item {mine[row]!r} where the votes name {theirs[row]!r}",
            where=self.files.place(start + row) if self.files else "",
            hint="Files that stay on disk must list the items in one order: sort both by item",
        )

    @property
    def stamp(self) -> Any:
        """What tells these features from others, as JSON values."""
        return ["array", self.n_items, self.n_columns] if self.files is None else self.files.stamp


def open_features(features: Any, votes: StoredVotes) -> StoredFeatures | None:
    """Features for stored votes: a path (or several) of Parquet or .npy files, a memory-mapped array, or an array.

    Parquet files hold a column of lists of one length, or a column a feature; they may be the votes' own files.
    """
    if features is None:
        return None
    if isinstance(features, StoredFeatures):
        return features
    if isinstance(features, np.memmap) and features.filename is not None and _is_whole_file(features):
        features = str(features.filename)
    if isinstance(features, np.ndarray):
        found = StoredFeatures(
            None, features.reshape(len(features), -1), len(features), int(np.prod(features.shape[1:]))
        )
    else:
        files = open_files(features, "features")
        found = _of_parquet(files, votes) if files.is_parquet else _of_arrays(files)
    if found.n_items != votes.n_items:
        raise InputError(
            f"there are {found.n_items:,} rows of features for {votes.n_items:,} items of votes",
            where=found.files.name if found.files else "",
            hint="Give one row of features an item, in the order of the votes",
        )
    return found


def _is_whole_file(mapped: np.memmap[Any, Any]) -> bool:
    whole = np.load(str(mapped.filename), mmap_mode="r") if str(mapped.filename).endswith(".npy") else None
    return whole is not None and whole.shape == mapped.shape and whole.dtype == mapped.dtype


def _of_arrays(files: RowFiles) -> StoredFeatures:
    return StoredFeatures(files, None, files.n_rows, int(np.prod(files.shape)))


def _of_parquet(files: RowFiles, votes: StoredVotes) -> StoredFeatures:
    import pyarrow.types as kinds

    schema = files.schema
    same = {part.path for part in files.parts} & {part.path for part in votes.files.parts}
    taken = set(votes.files.columns or ()) if same else set()
    item = next((name for name in schema.names if name == votes.arrangement.item), None)
    item = item or next((name for name in schema.names if name.lower() in KNOWN_NAMES["item"]), None)
    rest = [name for name in schema.names if name not in taken | {item} and name.lower() not in INDEX_NAMES]
    lists = [name for name in rest if kinds.is_nested(schema.field(name).type)]
    chosen = lists or rest
    wordy = [name for name in chosen if not _holds_numbers(schema.field(name).type)]
    if wordy or not chosen:
        what = (
            f"column {wordy[0]!r} of the features does not hold numbers" if wordy else "there is no column of features"
        )
        raise InputError(what, where=files.name, hint="Give columns of numbers, or one of lists of one length")
    read = files.of_columns([*([] if item is None else [item]), *chosen])
    found = StoredFeatures(read, None, files.n_rows, 0, item, None if lists else tuple(chosen))
    return StoredFeatures(read, None, files.n_rows, found.read(0, 1).shape[1], item, found.names)


def _holds_numbers(kind: Any) -> bool:
    import pyarrow.types as kinds

    if kinds.is_fixed_size_list(kind) or kinds.is_list(kind) or kinds.is_large_list(kind):
        kind = kind.value_type
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind))
