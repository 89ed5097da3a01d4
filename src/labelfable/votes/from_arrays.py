"""Arrays and lists, sparse matrices, and arrays of probabilities -> VoteTable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.errors import InputError
from labelfable.votes.alphabet import Alphabet, Expected, class_names, short_list
from labelfable.votes.cells import cells_of, first_true, grid
from labelfable.votes.encode import encode
from labelfable.votes.table import VoteTable
from labelfable.votes.triples import Triples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.cells import Cells

ITEM_SOURCE = 2
ITEM_SOURCE_CLASS = 3
SUM_TOLERANCE = 1e-3  # probabilities in float16 of some hundred classes still sum to one within this
FORMATS_WITH_PADDING = ("bsr", "dia")


def read_array(votes: Any, expected: Expected) -> VoteTable:
    """Labels [items, sources], or probabilities [items, sources, classes]."""
    raw, missing = plain_array(votes, "the votes")
    if raw.ndim == ITEM_SOURCE_CLASS:
        return _read_soft(raw, missing, expected)
    if raw.ndim == 0:
        raise InputError(
            f"cannot read votes from a {type(votes).__name__}",
            hint="Give an array, a sparse matrix, a pandas, polars or pyarrow table, or the path of a file",
        )
    if raw.ndim != ITEM_SOURCE:
        raise InputError(
            f"votes have {raw.ndim} dimension{'' if raw.ndim == 1 else 's'}, expected 2: [items, sources]",
            hint="Reshape your data: votes.reshape(-1, 1) where there is a single source, "
            "votes.reshape(1, -1) for a single item",
        )
    names = _names(raw.shape, expected)
    codes, alphabet = encode(cells_of(raw, grid(names), missing), expected)
    return VoteTable(codes, alphabet.classes, names, alphabet.meaning, alphabet.labels)


def plain_array(values: Any, what: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Anything that NumPy takes as an array, and which entries a mask hides.  `what` names it in errors."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(values.data), np.ma.getmaskarray(values)
    try:
        raw = np.asarray(values, dtype=_list_dtype(values))
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{what} are not a rectangular array", hint=f"NumPy says: {error}") from error
    if raw.dtype == object and raw.ndim == 1 and any(isinstance(entry, (list, tuple, np.ndarray)) for entry in raw):
        raise InputError(
            f"{what} are not a rectangular array",
            hint="Each item needs the same number of entries, -1 or None to abstain",
        )
    return raw, None


def _list_dtype(values: Any) -> type | None:
    """Lists that hold text or None stay objects: NumPy would turn every entry into text."""
    if not isinstance(values, (list, tuple)):
        return None
    entries = (entry for row in values for entry in (row if isinstance(row, (list, tuple)) else [row]))
    return object if any(isinstance(entry, str) or entry is None for entry in entries) else None


def _names(shape: tuple[int, ...], expected: Expected) -> tuple[str, ...]:
    """Names of the sources of an array that has some item."""
    names = expected.names_of(shape[1])
    if shape[0] == 0:
        raise InputError("the votes have no item: zero rows")
    return names


def _read_soft(raw: NDArray[Any], missing: NDArray[np.bool_] | None, expected: Expected) -> VoteTable:
    """Probabilities [items, sources, labels] -> weighted Ψ."""
    n_items, n_sources, n_labels = raw.shape
    names = _names(raw.shape, expected)
    if raw.dtype.kind not in "biuf":
        raise InputError(f"soft votes are of type {raw.dtype}", hint="Give probabilities as floats")
    alphabet = Alphabet.of(class_names(n_labels) if expected.classes is None else expected.classes, expected.exclusions)
    if len(alphabet.labels) != n_labels:
        raise InputError(
            f"soft votes are over {n_labels} labels, expected {len(alphabet.labels)}",
            hint=f"The labels are {short_list(alphabet.labels)}",
        )
    silent = np.isnan(raw) if missing is None else missing | np.isnan(raw)
    weights = np.where(silent.all(axis=2, keepdims=True), 0, raw).astype(np.float64)
    if missing is not None:
        weights[missing & ~silent.all(axis=2, keepdims=True)] = np.nan  # hidden in part: no distribution
    with np.errstate(over="ignore"):
        total = weights.sum(axis=2)
    bad = ~np.isfinite(total) | (weights < 0).any(axis=2) | ((total != 0) & (np.abs(total - 1) > SUM_TOLERANCE))
    if bad.any():
        cell = first_true(bad)
        odd = np.array2string(weights.reshape(-1, n_labels)[cell], precision=3, threshold=6)
        raise InputError(
            f"soft vote {odd} is not a distribution",
            where=grid(names)(cell),
            hint="A soft vote is non-negative and sums to 1, or is all zero (or NaN) to abstain",
        )
    weights /= np.where(total == 0, 1, total)[:, :, None]
    incidence = sp.csr_array(weights.reshape(n_items, n_sources * n_labels))
    return VoteTable(incidence, alphabet.classes, names, alphabet.meaning, alphabet.labels)


def read_sparse(votes: Any, expected: Expected) -> VoteTable:
    """Integer labels [items, sources]; what is not stored is an abstention, a stored 0 is class 0."""
    if votes.ndim != ITEM_SOURCE:
        raise InputError(f"the sparse votes have shape {votes.shape}, expected 2 dimensions: [items, sources]")
    if votes.format in FORMATS_WITH_PADDING:
        raise InputError(
            f"sparse votes in {votes.format.upper()} format hold zeros that nobody voted for",
            hint="Build them as COO, CSR or CSC, where a stored 0 is a vote for class 0",
        )
    names = _names(votes.shape, expected)
    entries = votes.tocoo()
    if entries.data.dtype.kind not in "biuf":
        raise InputError(f"sparse votes are of type {entries.data.dtype}", hint="Store integer labels")
    rows, columns = entries.row.astype(np.int64), entries.col.astype(np.int64)
    place = grid(names)
    cells = cells_of(entries.data, lambda entry: place(int(rows[entry] * len(names) + columns[entry])))
    _refuse_lost_zeros(cells, expected)
    codes, alphabet = encode(cells, expected)
    return Triples(rows, columns, codes, votes.shape[0], names, alphabet).table(sparse=True)


def _refuse_lost_zeros(cells: Cells, expected: Expected) -> None:
    """An error where votes for class 0 seem to have been dropped, as SciPy does when it reads a dense matrix."""
    abstain, classes = expected.abstain_number, expected.classes
    if abstain == 0 or np.any(cells.values == 0) or (classes is not None and 0 not in classes.tolist()):
        return
    if classes is None and cells.values.size and not np.all(cells.values == abstain):
        raise InputError(
            "the sparse votes store no 0, so class 0 cannot be told from abstain",
            hint="Store class 0 as an explicit zero, or pass classes=[…] if no source votes for it",
        )
    if np.any(cells.values == abstain):
        raise InputError(
            f"the sparse votes store {abstain} for abstain but no 0, so class 0 seems to be lost",
            hint="Give the dense matrix itself: SciPy drops its zeros",
        )
