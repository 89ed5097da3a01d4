"""Rows in one or many files, Parquet or .npy, of which any run can be read without the rest."""

from __future__ import annotations

import glob
import os
import threading
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import FileError, InputError
from labelfable.votes.alphabet import short_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

PARQUET = (".parquet", ".pq")
TAKEN_ROWS = 2**14  # of which some are taken are read together
KEPT_BYTES = 2**28  # decoded row groups that stay in memory; the two newest stay in any case


@dataclass(frozen=True)
class FilePart:
    """One file as it was when it was opened."""

    path: str
    first: int
    """Number of its first row among all rows."""
    rows: int
    size: int
    changed: int
    """Time of its last change, in nanoseconds."""

    def check(self) -> None:
        """An error that names the file where it is gone or is another by now."""
        try:
            now = os.stat(self.path)  # noqa: PTH116 (the parts travel to other machines as plain text)
        except OSError as error:
            raise FileError(
                "this file is gone since it was opened", where=self.path, hint="Put it back; a checkpoint resumes"
            ) from error
        if (now.st_size, now.st_mtime_ns) != (self.size, self.changed):
            was = "cut short" if now.st_size < self.size else "changed"
            raise FileError(
                f"this file was {was} since it was opened: {now.st_size:,} bytes, before {self.size:,}",
                where=self.path,
                hint="Restore it, or open the votes and features anew",
            )


@dataclass(frozen=True)
class RowFiles:
    """Rows that lie in files one after another."""

    parts: tuple[FilePart, ...]
    columns: tuple[str, ...] | None = None
    """Columns that are read, of Parquet files; None means all."""

    @property
    def n_rows(self) -> int:
        """Rows of all files."""
        return self.parts[-1].first + self.parts[-1].rows

    @property
    def name(self) -> str:
        """The files in a few words."""
        more = f" and {len(self.parts) - 1} more" if len(self.parts) > 1 else ""
        return f"{self.parts[0].path}{more}"

    @property
    def is_parquet(self) -> bool:
        """Parquet, or else .npy."""
        return self.parts[0].path.lower().endswith(PARQUET)

    @property
    def stamp(self) -> list[list[Any]]:
        """What tells these files from others, as JSON values."""
        return [[Path(part.path).name, part.rows, part.size, part.changed] for part in self.parts]

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns and types of the Parquet files: those of the first."""
        from pyarrow import parquet

        with reader_errors(self.parts[0].path):
            return parquet.read_schema(self.parts[0].path)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row of .npy files."""
        return tuple(np.load(self.parts[0].path, mmap_mode="r").shape[1:])

    def of_columns(self, columns: Sequence[str]) -> RowFiles:
        """The same files, reading some columns only."""
        return RowFiles(self.parts, tuple(columns))

    def read(self, start: int, stop: int) -> Any:
        """Rows [start, stop): a pyarrow table, or an array."""
        pieces = []
        for part in self.parts:
            first, last = max(start, part.first), min(stop, part.first + part.rows)
            if first < last:
                read = self._read_parquet if self.is_parquet else _read_npy
                pieces.append(read(part, first - part.first, last - part.first))
        if len(pieces) == 1:
            return pieces[0]
        if not self.is_parquet:
            return np.concatenate(pieces) if pieces else np.empty((0, *self.shape))
        import pyarrow as pa

        return pa.concat_tables(pieces, promote_options="permissive") if pieces else self.schema.empty_table()

    def take(self, rows: NDArray[np.integer]) -> Any:
        """Some rows, by their numbers, which rise."""
        pieces, first = [], 0
        while first < len(rows):
            start = int(rows[first])
            last = int(np.searchsorted(rows, start + (TAKEN_ROWS if self.is_parquet else 1)))
            piece = self.read(start, int(rows[last - 1]) + 1)
            chosen = rows[first:last] - start
            pieces.append(piece.take(chosen) if self.is_parquet else piece[chosen])
            first = last
        if not self.is_parquet:
            return np.concatenate(pieces)
        import pyarrow as pa

        return pa.concat_tables(pieces, promote_options="permissive")

    def place(self, row: int) -> str:
        """Where a row is, for an error."""
        part = next(part for part in self.parts if row < part.first + part.rows)
        return f"{part.path}, row {row - part.first}"

    def largest_group(self) -> int:
        """Bytes of the largest row group once decoded: the least that can be read of a Parquet file at once."""
        from pyarrow import parquet

        if not self.is_parquet:
            return 0
        width, largest = self._row_bytes(), 0
        for part in self.parts:
            with reader_errors(part.path):
                metadata = parquet.read_metadata(part.path)
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                stored = sum(
                    group.column(c).total_uncompressed_size
                    for c in range(group.num_columns)
                    if self.columns is None or group.column(c).path_in_schema.partition(".")[0] in self.columns
                )
                largest = max(largest, stored, group.num_rows * width)
        return largest

    def _row_bytes(self) -> int:
        """Bytes of one row in the columns whose entries all have one size."""
        fields = [field for field in self.schema if self.columns is None or field.name in self.columns]
        return sum(_entry_bytes(field.type) for field in fields)

    def _read_parquet(self, part: FilePart, start: int, stop: int) -> pa.Table:
        import pyarrow as pa

        pieces = []
        for number, (first, last) in enumerate(GROUPS.edges(part)):
            if first < stop and last > start:
                group = GROUPS.read(part, number, self.columns)
                here = max(start, first)
                pieces.append(group.slice(here - first, min(stop, last) - here))
        return pa.concat_tables(pieces).select(list(self.columns or self.schema.names))


def open_files(path: Any, what: str) -> RowFiles:
    """The files behind a path, a list of paths, a pattern with * or a folder: all Parquet or all .npy."""
    paths = _paths_of(path, what)
    kinds = {"parquet" if Path(name).suffix.lower() in PARQUET else Path(name).suffix.lower() for name in paths}
    if kinds not in ({"parquet"}, {".npy"}):
        raise FileError(
            f"{what} that stay on disk are Parquet or .npy files, not {', '.join(sorted(kinds))}",
            where=short_list([str(name) for name in paths], 3),
            hint="Convert them, or read them into memory with read_votes",
        )
    parts: list[FilePart] = []
    for name in paths:
        with reader_errors(name):
            status = os.stat(name)  # noqa: PTH116 (as above)
            rows = _row_count(name)
        first = parts[-1].first + parts[-1].rows if parts else 0
        parts.append(FilePart(os.path.abspath(name), first, rows, status.st_size, status.st_mtime_ns))  # noqa: PTH100
    parts = [part for part in parts if part.rows]
    if not parts:
        raise InputError(f"the {what} have no item: zero rows", where=str(path))
    files = RowFiles(tuple(parts))
    _refuse_unlike(files, what)
    return files


@contextmanager
def reader_errors(path: str) -> Iterator[None]:
    """What readers raise, as an error of ours that names the file."""
    import pyarrow as pa

    try:
        yield
    except (FileError, InputError):
        raise
    except (OSError, ValueError, EOFError, KeyError, pa.ArrowException) as error:
        what = "cannot read this file" if Path(path).exists() else "no such file"
        raise FileError(what, where=str(path), hint=f"The reader says: {' '.join(str(error).split())}") from error


def _paths_of(path: Any, what: str) -> list[str]:
    given = path if isinstance(path, (list, tuple)) else [path]
    found: list[str] = []
    for entry in given:
        text = os.fspath(entry)
        if Path(text).is_dir():
            inside = sorted(str(name) for name in Path(text).iterdir() if name.suffix.lower() in (*PARQUET, ".npy"))
        else:
            inside = sorted(glob.glob(text)) if glob.has_magic(text) and not Path(text).exists() else [text]  # noqa: PTH207
        if not inside:
            raise FileError(f"no Parquet or .npy file of {what} here", where=text)
        found += inside
    return found


def _row_count(path: str) -> int:
    if Path(path).suffix.lower() in PARQUET:
        from pyarrow import parquet

        return int(parquet.read_metadata(path).num_rows)
    return int(_header(path)[0][0])


def _header(path: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, dtype and where the numbers begin in an .npy file."""
    with Path(path).open("rb") as handle:
        version = np.lib.format.read_magic(handle)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(handle)
        offset = handle.tell()
    if dtype.hasobject or not shape:
        raise FileError("this file holds no rows of numbers", where=path)
    if fortran and len(shape) > 1:
        raise FileError(
            "the rows of this file do not lie one after another: it is in Fortran order",
            where=path,
            hint="Save it with np.save(path, np.ascontiguousarray(array))",
        )
    whole = offset + dtype.itemsize * int(np.prod(shape))
    if Path(path).stat().st_size < whole:
        raise FileError(f"this file is cut short: {Path(path).stat().st_size:,} bytes of {whole:,}", where=path)
    return shape, dtype, offset


def _read_npy(part: FilePart, start: int, stop: int) -> Any:
    """Rows of an .npy file, read and not mapped: mapped pages would count as memory of this process."""
    part.check()
    with reader_errors(part.path):
        shape, dtype, offset = _header(part.path)
        width = int(np.prod(shape[1:]))
        numbers = np.fromfile(part.path, dtype, (stop - start) * width, offset=offset + start * width * dtype.itemsize)
        return numbers.reshape(stop - start, *shape[1:])


def _refuse_unlike(files: RowFiles, what: str) -> None:
    """An error where one of several files has other columns than the first."""
    first = files.parts[0]
    for part in files.parts[1:]:
        if files.is_parquet:
            mine, other = files.schema.names, RowFiles((part,)).schema.names
        else:
            mine, other = [[*map(int, RowFiles((each,)).shape)] for each in (first, part)]
        if sorted(map(str, mine)) != sorted(map(str, other)):
            raise FileError(
                f"the files of {what} do not have the same columns",
                where=f"{first.path} and {part.path}",
                hint=f"{short_list(mine)} against {short_list(other)}",
            )


def _entry_bytes(kind: pa.DataType) -> int:
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _entry_bytes(kind.value_type)
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:  # text and lists have no one width: what is stored tells their size
        return 0


class RowGroups:
    """The row groups that were decoded last.  A run of items is shorter than a group, and its neighbour comes next."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.kept: OrderedDict[Any, pa.Table] = OrderedDict()
        self.known_edges: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.lock = threading.Lock()

    def edges(self, part: FilePart) -> list[tuple[int, int]]:
        """First and last row of each group of a file."""
        part.check()
        key = part.path, part.changed
        if key not in self.known_edges:
            from pyarrow import parquet

            with reader_errors(part.path):
                metadata = parquet.read_metadata(part.path)
            counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
            ends = np.cumsum(counts).tolist()
            self.known_edges[key] = [(end - count, end) for end, count in zip(ends, counts, strict=True)]
        return self.known_edges[key]

    def read(self, part: FilePart, number: int, columns: tuple[str, ...] | None) -> pa.Table:
        """One group, decoded once for all threads that want it."""
        from pyarrow import parquet

        key = part.path, part.changed, number, columns
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
                return self.kept[key]
            with reader_errors(part.path), parquet.ParquetFile(part.path) as file:
                table = file.read_row_group(number, columns=None if columns is None else list(columns))
            self.kept[key] = table
            while len(self.kept) > 2 and sum(each.nbytes for each in self.kept.values()) > self.most_bytes:  # noqa: PLR2004 (votes and features)
                self.kept.popitem(last=False)
            return table


GROUPS = RowGroups(KEPT_BYTES)
