"""Labels as they were written: numbers or words, some of them missing, each with a place to name in an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError
from labelfable.votes.alphabet import ABSTAIN, is_missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

Where = Callable[[int], str]
"""The place of a cell, for an error, from its number in C order."""

LARGEST_EXACT = 2**53  # past it float64 skips integers, so that two labels may have become one
INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class Cells:
    """Labels of any shape, not yet matched with classes."""

    values: NDArray[np.integer]
    """The labels, −1 where missing; where labels are text, their numbers in `words`."""
    where: Where
    missing: NDArray[np.bool_] | None = None
    """Which cells are empty; None where none is."""
    words: tuple[str, ...] | None = None
    """The distinct labels where they are text, in order of appearance."""

    @property
    def are_empty(self) -> bool:
        """Whether no cell holds anything."""
        return self.missing is not None and bool(self.missing.all())

    def as_words(self) -> Cells:
        """The same labels as text."""
        if self.words is not None:
            return self
        given = np.ones(self.values.shape, dtype=bool) if self.missing is None else ~self.missing
        numbers, first, index = np.unique(self.values[given], return_index=True, return_inverse=True)
        order = np.argsort(first)
        values = np.full(self.values.shape, ABSTAIN, dtype=np.int32)
        values[given] = np.argsort(order)[index]
        return Cells(values, self.where, self.missing, tuple(str(number) for number in numbers[order].tolist()))


def grid(sources: Sequence[str]) -> Where:
    """Places in a matrix [items, sources]."""
    return lambda cell: f"item {cell // len(sources)}, source {sources[cell % len(sources)]!r}"


def first_true(bad: NDArray[np.bool_]) -> int:
    """Number of the first true cell, in C order."""
    return int(np.argmax(bad))


def cells_of(raw: NDArray[Any], where: Where, missing: NDArray[np.bool_] | None = None) -> Cells:
    """The labels in an array of any type that can hold some.  `missing` marks cells that do not count."""
    kind = raw.dtype.kind
    if kind in "OUT":
        entries = raw.astype(object)
        if missing is not None:
            entries[missing] = None
        index, distinct = dictionary_of(entries.ravel().tolist(), where)
        return cells_of_dictionary(index.reshape(raw.shape), distinct, where)
    if kind not in "biuf":
        trouble = "Complex data not supported: labels" if kind == "c" else "labels"
        raise InputError(
            f"{trouble} are of type {raw.dtype}", hint="Use integers with -1, or text with None, to abstain"
        )
    if kind == "f":
        unknown = np.isnan(raw)
        missing = unknown if missing is None else missing | unknown
        raw = _whole_numbers(raw, missing, where)
    elif kind == "b":
        raw = raw.view(np.int8)
    elif raw.dtype == np.uint64:
        _refuse_huge(raw, raw > INT64.max, where)
        raw = raw.astype(np.int64)
    if missing is None or not missing.any():
        return Cells(raw, where)
    signed = raw.astype(np.int64) if raw.dtype.kind == "u" else raw
    return Cells(np.where(missing, ABSTAIN, signed), where, missing)


def _whole_numbers(raw: NDArray[np.floating], missing: NDArray[np.bool_], where: Where) -> NDArray[np.integer]:
    """Floats that hold integers, as integers; −1 where missing."""
    numbers = np.where(missing, ABSTAIN, raw)
    bad = np.trunc(numbers) != numbers
    low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)
    if np.isinf(low + high):
        bad |= np.isinf(numbers)
    if bad.any():
        cell = first_true(bad)
        raise InputError(
            f"vote {raw.flat[cell]} is not a label",
            where=where(cell),
            hint="Votes are whole numbers, NaN where a source abstains; "
            "give probabilities as an array [items, sources, classes]",
        )
    if max(-low, high) > LARGEST_EXACT:
        _refuse_huge(raw, np.abs(numbers) > LARGEST_EXACT, where)
    small = max(-low, high) <= np.iinfo(np.int16).max
    return numbers.astype(np.int16 if small else np.int64)


def _refuse_huge(raw: NDArray[Any], bad: NDArray[np.bool_], where: Where) -> None:
    if bad.any():
        cell = first_true(bad)
        raise InputError(
            f"vote {raw.flat[cell]} is too large for a label", where=where(cell), hint="Number the labels from 0"
        )


def dictionary_of(entries: Sequence[Any], where: Where) -> tuple[NDArray[np.int32], list[Any]]:
    """Entries -> number of each in the list of distinct ones, in order of appearance."""
    numbers: dict[Any, int] = {}
    index = np.empty(len(entries), dtype=np.int32)
    cell = 0
    try:
        for cell, entry in enumerate(entries):
            index[cell] = numbers.setdefault(entry, len(numbers))
    except TypeError as error:
        entry = entries[cell]
        raise InputError(
            f"vote {_cut(repr(entry))} is of type {type(entry).__name__}, which cannot be a label",
            where=where(cell),
            hint="Use integers or text, None where a source abstains",
        ) from error
    return index, list(numbers)


def cells_of_dictionary(index: NDArray[np.int32], distinct: Sequence[Any], where: Where) -> Cells:
    """Cells from the number of each entry in a list of values (−1 where missing), which need not all occur."""
    index, words = compact(index, distinct)
    missing = index < 0
    for number, word in enumerate(words):
        trouble = _trouble(word, words[0])
        if trouble:
            raise InputError(
                f"vote {_cut(repr(word))} {trouble}",
                where=where(first_true(index == number)),
                hint="Use all integers or all text, None where a source abstains",
            )
    empty = missing if missing.any() else None
    if not words or isinstance(words[0], str):
        return Cells(index, where, empty, tuple(words))
    values = np.array([*map(int, words), ABSTAIN], dtype=np.int64)  # −1 picks the last entry
    return Cells(values[index], where, empty)


def _trouble(word: Any, first: Any) -> str:
    """What keeps a value from being a label beside another one; nothing where it can be."""
    if not isinstance(word, (str, int, float, np.integer, np.floating, np.bool_, Decimal)):
        return f"is of type {type(word).__name__}, which cannot be a label"
    if isinstance(word, str) != isinstance(first, str):
        return "is text, others are numbers" if isinstance(word, str) else "is a number, others are text"
    if isinstance(word, (float, np.floating, Decimal)) and (math.isinf(word) or word != int(word)):
        return "is no whole number"
    if not isinstance(word, str) and not INT64.min <= word <= INT64.max:
        return "is too large for a label"
    return ""


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def compact(index: NDArray[np.int32], distinct: Sequence[Any]) -> tuple[NDArray[np.int32], list[Any]]:
    """The same entries over the values that occur, each once, in order of appearance; −1 where missing.

    A categorical column may list values that no row has, in an order of its own, and even the same value twice.
    """
    size = index.size
    first = np.full(len(distinct) + 1, size, dtype=np.int64)  # the last entry is that of −1
    first[index.ravel()[::-1]] = np.arange(size - 1, -1, -1)  # the last write is the first cell
    present = [place for place in np.argsort(first).tolist() if first[place] < size and place < len(distinct)]
    numbers: dict[Any, int] = {}
    moved = np.full(len(distinct) + 1, ABSTAIN, dtype=np.int32)
    for place in present:
        if not is_missing(distinct[place]):
            moved[place] = numbers.setdefault(distinct[place], len(numbers))
    return moved[index], list(numbers)


def side_by_side(columns: Sequence[Cells], names: Sequence[str], *, as_words: bool) -> Cells:
    """Columns of a table as one matrix, [rows, columns].

    `as_words`: numbers beside text are names that look like numbers.  Otherwise they are an error: such a column is
    more often something else than votes.
    """
    kinds = {column.words is not None for column in columns if not column.are_empty}
    if len(kinds) > 1:
        if not as_words:
            odd = {column.words is not None: name for column, name in zip(columns, names, strict=True)}
            raise InputError(
                f"column {odd[False]!r} holds numbers and column {odd[True]!r} text",
                hint="Pass sources=[…] with the columns of votes, or classes=[…] if both hold names of classes",
            )
        columns = [column.as_words() for column in columns]
    shape = (len(columns[0].values), len(columns))
    missing = np.zeros(shape, dtype=bool)
    for place, column in enumerate(columns):
        if column.missing is not None:
            missing[:, place] = column.missing
    empty = missing if missing.any() else None
    if True not in kinds:
        values = np.empty(shape, dtype=np.result_type(*(column.values.dtype for column in columns)))
        for place, column in enumerate(columns):
            values[:, place] = column.values
        return Cells(values, grid(names), empty)
    words: dict[str, int] = {}
    index = np.full(shape, ABSTAIN, dtype=np.int32)
    for place, column in enumerate(columns):
        if column.words:
            moved = [words.setdefault(word, len(words)) for word in column.words]
            index[:, place] = np.array([*moved, ABSTAIN], dtype=np.int32)[column.values]
    return Cells(index, grid(names), empty, tuple(words))
