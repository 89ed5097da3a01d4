"""Columns of Parquet files, a block at a time: what occurs in them, and labels on their way out."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import FileError, InputError
from labelfable.persistence import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Runs:
    """Rows of one name that follow each other, in one block of a column."""

    starts: NDArray[np.integer]
    """First row of each run that begins in the block."""
    last: Any
    """The name that the block ends with."""
    rising: bool
    """Whether no name is less than the one before it."""
    names: pa.Array
    """The name of each run."""

    def hashes(self) -> NDArray[np.int64]:
        """A number for each name, equal where names are."""
        return np.fromiter(map(hash, self.names.to_pylist()), dtype=np.int64, count=len(self.names))


def column_runs(column: pa.ChunkedArray, last: Any, where: Callable[[int], str]) -> Runs:
    """The runs in a block; `last` is the name that the block before it ended with, None for the first block."""
    import pyarrow as pa
    from pyarrow import compute

    names = column.combine_chunks()
    names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    names = names.dictionary_decode() if pa.types.is_dictionary(names.type) else names
    if names.null_count:
        row = int(np.argmax(names.is_null().to_numpy(zero_copy_only=False)))
        raise InputError("missing item in the votes", where=where(row))
    before, after = names.slice(0, len(names) - 1), names.slice(1)
    fresh = compute.not_equal(before, after).to_numpy(zero_copy_only=False)
    rising = bool(compute.all(compute.less_equal(before, after)).as_py() is not False)
    first = names[0].as_py()
    starts = np.flatnonzero(np.concatenate(([last is None or first != last], fresh)))
    rising = rising and (last is None or last <= first)
    return Runs(starts, names[-1].as_py(), rising, names.take(pa.array(starts)))


def distinct_entries(found: list[Any] | None, columns: Sequence[pa.ChunkedArray]) -> list[pa.Array]:
    """The different entries of each column, those that were found before among them."""
    import pyarrow as pa
    from pyarrow import compute

    fresh = [compute.unique(column.unify_dictionaries()) for column in columns]
    fresh = [part.dictionary_decode() if pa.types.is_dictionary(part.type) else part for part in fresh]
    if found is None:
        return fresh
    both = (pa.chunked_array([old.cast(new.type), new]) for old, new in zip(found, fresh, strict=True))
    return [compute.unique(pair) for pair in both]


def table_of(columns: dict[str, pa.Array]) -> pa.Table:
    """Columns of any lengths side by side, filled up with nulls."""
    import pyarrow as pa

    longest = max(1, *map(len, columns.values()))
    filled = [
        pa.concat_arrays([entries, pa.nulls(longest - len(entries), entries.type)]) for entries in columns.values()
    ]
    return pa.table(dict(zip(columns, filled, strict=True)))


def matrix_of(table: pa.Table) -> NDArray[Any]:
    """Numbers of a table's columns, each a number or a list of fixed length an entry; null becomes NaN.  [rows, d]."""
    parts = [_column_matrix(name, table.column(name)) for name in table.column_names]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _column_matrix(name: str, column: pa.ChunkedArray) -> NDArray[Any]:
    import pyarrow as pa

    merged = column.combine_chunks()
    entries = merged.combine_chunks() if isinstance(merged, pa.ChunkedArray) else merged
    kind = entries.type
    if not (pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        if entries.null_count and not pa.types.is_floating(kind):
            entries = entries.cast(pa.float64())
        return np.asarray(entries.to_numpy(zero_copy_only=False))[:, None]
    known = entries.drop_null() if entries.null_count else entries
    values = known.flatten()
    numbers = np.asarray(values.to_numpy(zero_copy_only=False))
    width = len(numbers) // len(known) if len(known) else getattr(kind, "list_size", 0)
    lengths = None if pa.types.is_fixed_size_list(kind) else known.value_lengths().to_numpy(zero_copy_only=False)
    if lengths is not None and (lengths != width).any():
        raise InputError(
            "the lists of features differ in length", where=f"column {name!r}", hint="Give each item as many numbers"
        )
    numbers = numbers.reshape(len(known), width)
    if not entries.null_count:
        return numbers
    answer = np.full((len(entries), width), np.nan, dtype=np.result_type(numbers.dtype, np.float32))
    answer[~entries.is_null().to_numpy(zero_copy_only=False)] = numbers
    return answer


def value_counts(path: str | Path, column: str) -> dict[Any, int]:
    """How often each value stands in a column of a Parquet file."""
    from pyarrow import compute, parquet

    counts: dict[Any, int] = {}
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=[column]):
            for entry in compute.value_counts(batch.column(0)).to_pylist():
                counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
    return counts


@contextmanager
def parquet_writer(path: str | Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that appends columns to a Parquet file, which stands there once all are written, or not at all."""
    import pyarrow as pa
    from pyarrow import parquet

    with replace_file(path) as temporary:
        writer: Any = None

        def append(columns: dict[str, Any]) -> None:
            nonlocal writer
            table = pa.table(columns) if writer is None else pa.table(columns, schema=writer.schema)
            writer = parquet.ParquetWriter(temporary, table.schema) if writer is None else writer
            writer.write_table(table)

        try:
            yield append
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise FileError("there is nothing to write", where=str(path))
