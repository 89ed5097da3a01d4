"""What a user hands in as features -> one matrix of numbers, dense or sparse, that can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.errors import InputError
from labelfable.numerics.scaling import Matrix
from labelfable.votes.frames import as_frame, as_series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

BLOCK_ENTRIES = 2**19  # 4 MB of float64: a block of rows and what is computed from it stay in cache
FEWEST_ROWS = 16
LARGEST = 1e100  # squares of larger numbers, added up, come near the largest float64
EXACT_IN_FLOAT32 = {"b1", "i1", "u1", "i2", "u2", "f2"}  # dtypes whose every number is one of float32
TWO_AXES = 2


@dataclass(frozen=True, eq=False)
class Features:
    """Numbers of each item: finite, except in the rows that are marked as missing."""

    numbers: Matrix
    """[n, d], float32 or float64."""
    missing: NDArray[np.bool_]
    """Items without features: any of their numbers is absent.  [n]."""
    names: tuple[str, ...] | None = None
    """Names of the columns, where they came as a table."""

    @property
    def n_items(self) -> int:
        """Number of rows."""
        return int(self.numbers.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.numbers.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether zeros are left out."""
        return bool(sp.issparse(self.numbers))

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        kind: np.dtype[Any] = self.numbers.dtype
        return kind

    def refuse_missing(self) -> None:
        """An error that names the first item without features, if there is one."""
        if self.missing.any():
            count = int(self.missing.sum())
            raise InputError(
                f"{count} of {self.n_items} items have no features or only some of them",
                where=f"the first is item {int(self.missing.argmax())}",
                hint="Fill them in, or set missing='ignore': votes alone then decide such items",
            )

    def named_like(self, names: tuple[str, ...] | None, n_columns: int) -> Features:
        """The same features with their columns in the order of the fit."""
        if names is not None and self.names is not None and self.names != names:
            if set(self.names) != set(names):
                other = next((name for name in names if name not in self.names), None)
                other = other or next(name for name in self.names if name not in names)
                raise InputError(
                    "the features do not have the columns of the fit",
                    where=f"column {other!r} is in one of the two only",
                    hint="Give the columns of the fit, in any order",
                )
            order = [self.names.index(name) for name in names]
            return Features(self.numbers[:, order], self.missing, names)
        if self.n_columns != n_columns:
            raise InputError(
                f"the features have {self.n_columns} columns, the fit saw {n_columns}",
                hint="Compute the features of new items as those of the fit",
            )
        return self

    def blocks(self, n_outputs: int = 1) -> Iterator[tuple[slice | NDArray[np.integer], Matrix]]:
        """The items that have features, a block at a time: where they stand, and their rows.

        A block is so short that it and `n_outputs` numbers made from each of its rows fit a cache.
        """
        for here, block in _slices(self.numbers, n_outputs):
            absent = self.missing[here]
            if absent.any():
                rows = np.flatnonzero(~absent)
                yield here.start + rows, block[rows]
            else:
                yield here, block

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Features:
        """Some of the rows."""
        return Features(self.numbers[rows], self.missing[rows], self.names)


def read_features(features: Any, n_items: int | None = None) -> Features:
    """Features as arrays, scipy.sparse, tables of pandas, polars or pyarrow, or a list with a row (or None) an item.

    One-dimensional features are one column.  float16 and small integers become float32, other integers float64;
    float32 and float64 are used as they are.  A row with a number missing (NaN, null, None) is missing as a whole.
    """
    if isinstance(features, Features):
        found = features
    elif features is None:
        raise InputError("there are no features", hint="Give features=, one row an item")
    else:
        values, names = _numbers_of(features)
        found = Features(values, _missing_rows(values, names), names)
    if n_items is not None and found.n_items != n_items:
        raise InputError(
            f"there are {found.n_items} rows of features for {n_items} items of votes",
            hint="Give one row of features an item, in the order of the votes",
        )
    return found


def _numbers_of(features: Any) -> tuple[Matrix, tuple[str, ...] | None]:
    """A matrix of floating-point numbers, and names of its columns."""
    if sp.issparse(features):
        return _sparse_numbers(features), None
    frame = as_frame(features)
    if frame is not None:
        values, names = _frame_numbers(frame), tuple(str(name) for name in frame.columns)
    else:
        series = as_series(features)
        values, names = _array_numbers(features if series is None else series.to_numpy()), None
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != TWO_AXES:
        raise InputError(
            f"features have {values.ndim} axes, expected 2: items × features",
            hint="Flatten what is more than a vector an item: features.reshape(len(features), -1)",
        )
    return values, names


def _sparse_numbers(features: Any) -> sp.csr_array:
    """CSR without double entries."""
    if features.ndim != TWO_AXES:
        raise InputError(f"sparse features have {features.ndim} axes, expected 2", hint="Give items × features")
    matrix = sp.csr_array(features)
    matrix = matrix.astype(_floating(matrix.dtype), copy=False)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # the user's own stays as it is
        matrix.sum_duplicates()
    return matrix


def _array_numbers(features: Any) -> NDArray[Any]:
    """What NumPy makes of it, with NaN for None and for what a mask hides."""
    if isinstance(features, (list, tuple)):
        features = _with_missing_rows(features)
    try:
        masked = isinstance(features, np.ma.MaskedArray)
        values = np.ma.getdata(features) if masked else np.asarray(features)
        if values.dtype == object:
            values = values.astype(np.float64)  # None becomes NaN
        values = values.astype(_floating(values.dtype), copy=False)
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            "the features are not numbers, or their rows differ in length",
            hint=f"NumPy says: {' '.join(str(error).split())}",
        ) from error
    return np.where(np.ma.getmaskarray(features), np.nan, values) if masked else values


def _with_missing_rows(rows: list[Any] | tuple[Any, ...]) -> Any:
    """A list with None for some items, with a row of NaN there."""
    if not any(row is None for row in rows):
        return rows
    known = next((row for row in rows if row is not None), None)
    if known is None:
        raise InputError("no item has features", hint="Leave features out, or give some")
    if np.ndim(known) == 0:
        return [np.nan if row is None else row for row in rows]
    absent = np.full(np.shape(known), np.nan)
    return [absent if row is None else row for row in rows]


def _frame_numbers(frame: Any) -> NDArray[Any]:
    """A table's columns as numbers, null as NaN."""
    columns = []
    for name in frame.columns:
        series = frame.get_column(name)
        is_boolean = str(series.dtype) == "Boolean"
        if not (is_boolean or series.dtype.is_numeric()):
            raise InputError(
                f"features are numbers, but column {name!r} holds {series.dtype}",
                hint="Leave the column out, or encode it as numbers (one column a category)",
            )
        absent = np.asarray(series.is_null().to_numpy(), dtype=bool)
        known = series.fill_null(False if is_boolean else 0) if absent.any() else series
        values = np.asarray(known.to_numpy())
        values = values.astype(_floating(values.dtype if values.dtype != object else np.dtype(np.float64)))
        values[absent] = np.nan
        columns.append(values)
    return np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))


def _floating(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The floating-point type that holds such numbers."""
    if dtype.kind not in "biuf":
        raise InputError(f"features are real numbers, not {dtype}", hint="Encode them as numbers")
    if dtype.kind == "f" and dtype.itemsize in (4, 8):
        return dtype.newbyteorder("=")
    return np.dtype(np.float32 if f"{dtype.kind}{dtype.itemsize}" in EXACT_IN_FLOAT32 else np.float64)


def _missing_rows(values: Matrix, names: tuple[str, ...] | None) -> NDArray[np.bool_]:
    """Rows with a NaN; an error where a number is infinite or too large to be squared."""
    missing = np.zeros(values.shape[0], dtype=bool)
    limit = values.dtype.type(min(LARGEST, float(np.finfo(values.dtype).max)))
    for here, block in _slices(values):
        entries = block.data if sp.issparse(block) else block
        if not entries.size or np.abs(entries).max() <= limit:  # one NaN makes this False
            continue
        absent = np.isnan(entries)
        rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr)) if sp.issparse(block) else None
        too_large = np.abs(np.where(absent, 0, entries)) > limit
        if too_large.any():
            place = np.argwhere(too_large)[0]
            row = here.start + int(place[0] if rows is None else rows[place[0]])
            column = int(place[1] if rows is None else block.indices[place[0]])
            raise InputError(
                "a feature is infinite or too large to be squared",
                where=f"item {row}, feature {column if names is None else names[column]!r}",
                hint="Clip it, or mark the item as missing with NaN",
            )
        missing[here] = absent.any(axis=1) if rows is None else np.bincount(rows[absent], minlength=len(missing[here]))
    return missing


def _slices(values: Matrix, n_outputs: int = 1) -> Iterator[tuple[slice, Matrix]]:
    n_items, n_columns = values.shape
    stored = values.nnz // max(1, n_items) if sp.issparse(values) else n_columns
    rows = max(FEWEST_ROWS, BLOCK_ENTRIES // max(1, stored, n_outputs))
    for first in range(0, n_items, rows):
        here = slice(first, min(first + rows, n_items))
        yield here, values[here]
