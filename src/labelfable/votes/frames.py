"""Data frames and files at the door: the only file of votes/ that knows pandas, polars and pyarrow."""

from __future__ import annotations

import re
import zlib
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp

from labelfable.errors import FileError, InputError, LabelfableError
from labelfable.votes.alphabet import ABSTAIN, short_list
from labelfable.votes.cells import Cells, cells_of, cells_of_dictionary, compact, dictionary_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from labelfable.votes.cells import Where

MOST_SHOWN = 200  # characters of a path; somebody may have given the text of a file
READER_ERRORS = (ValueError, KeyError, OSError, EOFError, MemoryError, NotImplementedError, BadZipFile, zlib.error)
SEPARATORS = {".csv": ",", ".tsv": "\t"}
OTHER_SEPARATORS = {",": ";\t|", "\t": ",;|"}


def as_frame(votes: Any) -> Any | None:
    """A narwhals data frame over what pandas, polars or pyarrow made, or None where it is not a table."""
    if isinstance(votes, (np.ndarray, list, tuple)):
        return None
    import narwhals as nw

    if type(votes).__name__ == "RecordBatch" and hasattr(votes, "to_struct_array"):
        import pyarrow as pa

        votes = pa.Table.from_batches([votes])
    try:
        frame = nw.from_native(votes, pass_through=True, allow_series=False)
        frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    except nw.exceptions.DuplicateError as error:
        raise InputError("two columns of the votes have the same name", hint=" ".join(str(error).split())) from error
    return frame if isinstance(frame, nw.DataFrame) else None


def as_series(values: Any) -> Any | None:
    """A narwhals series over a column of pandas, polars or pyarrow (or a table of one column), else None."""
    frame = as_frame(values)
    if frame is not None:
        return frame.get_column(frame.columns[0]) if len(frame.columns) == 1 else None
    if isinstance(values, (np.ndarray, list, tuple)):
        return None
    import narwhals as nw

    series = nw.from_native(values, pass_through=True, allow_series=True)
    return series if isinstance(series, nw.Series) else None


def backend_of(frame: Any) -> str:
    """The library that a frame came from."""
    return str(frame.implementation.name.lower())


def frame_from(columns: dict[str, Any], backend: Any) -> Any:
    """A native table of the asked library, by its name, from named columns."""
    import narwhals as nw

    return nw.from_dict(columns, backend=backend).to_native()


def column_cells(series: Any, where: Where) -> Cells:
    """The labels in a column."""
    import narwhals as nw

    kind = series.dtype
    if kind == nw.Object:
        return cells_of_dictionary(*_dictionary(series, where), where)
    missing = np.asarray(series.is_null().to_numpy(), dtype=bool)
    if missing.all():
        return Cells(np.full(len(missing), ABSTAIN, dtype=np.int8), where, missing)
    if kind.is_float():
        return cells_of(np.asarray(series.to_numpy()), where, missing)
    if kind == nw.Boolean or (kind.is_integer() and kind not in {nw.Int128, nw.UInt128}):
        known = series.fill_null(False if kind == nw.Boolean else 0) if missing.any() else series
        return cells_of(np.asarray(known.to_numpy()), where, missing)
    return cells_of_dictionary(*_dictionary(series, where), where)


def column_words(series: Any, where: Where) -> tuple[NDArray[np.int32], list[Any]]:
    """A column of names as number of each entry in its distinct values, in order of appearance; −1 where missing."""
    return compact(*_dictionary(series, where))


def _dictionary(series: Any, where: Where) -> tuple[NDArray[np.int32], list[Any]]:
    """A column as number of each entry in a list of values, −1 where it is null; by Arrow where it knows the type."""
    import narwhals as nw
    import pyarrow as pa

    if series.dtype == nw.Object:  # Arrow wants all of its entries to be of one type
        return dictionary_of(series.to_list(), where)
    try:
        entries = series.to_arrow()
        entries = entries.combine_chunks() if isinstance(entries, pa.ChunkedArray) else entries
        entries = entries if pa.types.is_dictionary(entries.type) else entries.dictionary_encode()
        index = entries.indices.cast(pa.int64()).fill_null(ABSTAIN)  # the indices of polars are unsigned
        return index.to_numpy(zero_copy_only=False).astype(np.int32), entries.dictionary.to_pylist()
    except (pa.ArrowException, TypeError, ValueError):
        return dictionary_of(series.to_list(), where)


def read_file(path: str | PathLike[str], is_text: Callable[[str], bool] = lambda _: False) -> Any:
    """A table, array or sparse matrix from a CSV, TSV, Parquet, .npy or .npz file.

    A CSV file does not say whether 1 is a number or a name: `is_text` says it of its columns.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    known = suffix in {*SEPARATORS, *READERS}
    name = str(path).partition("\n")[0]
    place = name if len(name) < MOST_SHOWN else f"{name[:MOST_SHOWN]}…"
    import pyarrow as pa

    try:
        if path.is_dir():
            raise FileError("this is a folder, not a file of votes", where=place)
        if not path.exists():
            raise FileError("no such file", where=place)
        if not known:
            raise FileError(
                f"cannot tell what a {suffix or 'nameless'} file is",
                where=place,
                hint="Votes are read from .csv, .tsv, .parquet, .npy and .npz",
            )
        return READERS[suffix](path) if suffix in READERS else _read_csv(path, SEPARATORS[suffix], is_text)
    except LabelfableError:
        raise
    except (*READER_ERRORS, pa.ArrowException) as error:
        what = f"cannot read this as {suffix[1:] if known else 'a file'}"
        raise FileError(what, where=place, hint=f"The reader says: {error}") from error


def _read_csv(path: Path, separator: str, is_text: Callable[[str], bool]) -> Any:
    """A table from text, with the types that fit whole columns."""
    import pyarrow as pa
    from pyarrow import csv

    with csv.open_csv(path, parse_options=csv.ParseOptions(delimiter=separator)) as start:
        names = start.schema.names
    _refuse_no_header(names, separator, path)
    lines = csv.ParseOptions(delimiter=separator, ignore_empty_lines=len(names) > 1)  # else they are missing votes
    types = csv.ConvertOptions(
        # what means missing is the same in a column of names as in one of numbers, unless it is in quotes
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        column_types={name: pa.string() for name in names if is_text(name)},
    )
    table = csv.read_csv(path, parse_options=lines, convert_options=types)
    if any(pa.types.is_binary(kind) for kind in table.schema.types):
        raise FileError("this file is no UTF-8 text", where=str(path), hint="Save it with the encoding UTF-8")
    columns = [column if is_text(name) else _typed(column) for name, column in zip(names, table.columns, strict=True)]
    return pa.Table.from_arrays(columns, names=names)


def _refuse_no_header(names: list[str], separator: str, path: Path) -> None:
    """An error where the first line is not what it should be: names of columns, separated as expected."""
    given = [name for name in names if name]
    numbers = all(re.fullmatch(r"-?\d+(\.\d*)?", name) for name in given)
    if numbers and (len(set(given)) < len(given) or any(name.startswith("-") for name in given)):
        raise FileError(
            f"the first line holds numbers, not names of columns: {short_list(names)}",
            where=str(path),
            hint="Put the names of the sources into the first line",
        )
    other = next((mark for mark in OTHER_SEPARATORS[separator] if mark in names[0]), None)
    if other is not None and len(names) == 1:
        raise FileError(
            f"this file separates columns by {other!r}, expected {separator!r}",
            where=str(path),
            hint="Use commas in .csv and tabs in .tsv",
        )


def _typed(column: Any) -> Any:
    """A column of text as numbers where it holds nothing else: as text it was read because of quoted empty entries."""
    import pyarrow as pa
    from pyarrow import compute

    if not pa.types.is_string(column.type):
        return column
    known = compute.if_else(compute.equal(column, ""), None, column)
    for kind in (pa.int64(), pa.float64()):
        try:
            return known.cast(kind)
        except pa.ArrowInvalid:
            continue
    return known


def _read_parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_table(path)


def _read_npy(path: Path) -> Any:
    return np.load(path, allow_pickle=False)


def _read_npz(path: Path) -> Any:
    """The array named votes, or a matrix that `scipy.sparse.save_npz` wrote."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        if "votes" in stored:
            return stored["votes"]
        names = stored.files
    if {"format", "shape", "data"} <= set(names):
        return sp.load_npz(path)
    raise FileError(
        "no array named 'votes' in this file", where=str(path), hint=f"It holds {', '.join(names) or 'nothing'}"
    )


READERS = {".parquet": _read_parquet, ".pq": _read_parquet, ".npy": _read_npy, ".npz": _read_npz}
