"""Labels as they were written -> label numbers, with the place of the first bad one in every error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError
from labelfable.votes.alphabet import ABSTAIN, Alphabet, Expected, is_missing, short_list, smallest_int
from labelfable.votes.cells import first_true

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.cells import Cells

__all__ = ["ABSTAIN", "encode", "is_missing", "short_list", "smallest_int"]

MOST_INFERRED_CLASSES = 1000
BLOCK = 2**20  # cells that are looked up at a time: the temporary arrays stay small


def encode(cells: Cells, expected: Expected) -> tuple[NDArray[np.integer], Alphabet]:
    """Label numbers of the cells' shape, −1 where a source abstains, and the alphabet that they count in."""
    return _encode_numbers(cells, expected) if cells.words is None else _encode_words(cells, cells.words, expected)


def _encode_numbers(cells: Cells, expected: Expected) -> tuple[NDArray[np.integer], Alphabet]:
    values, abstain = cells.values, expected.abstain_number
    silent = None  # the abstentions are the −1s, nothing more and nothing less
    if abstain != ABSTAIN:
        silent = np.zeros(values.shape, dtype=bool) if cells.missing is None else cells.missing
        silent = silent if abstain is None else silent | (values == abstain)
    classes = _classes_of_numbers(cells, silent, expected)
    alphabet = Alphabet.of(classes, expected.exclusions)
    expected.refuse_doubtful(alphabet)
    dtype = smallest_int(len(alphabet.labels))
    if silent is None and alphabet.counts_from_zero:
        if values.size and (values.min() < ABSTAIN or values.max() >= len(alphabet.labels)):
            raise _unknown(cells, (values < ABSTAIN) | (values >= len(alphabet.labels)), alphabet)
        return np.array(values, dtype, order="C", copy=True if expected.copy else None), alphabet
    silent = values == ABSTAIN if silent is None else silent
    codes = _numbers_of(values, alphabet).astype(dtype)
    unknown = (codes < 0) & ~silent
    if unknown.any():
        raise _unknown(cells, unknown, alphabet)
    codes[silent] = ABSTAIN
    return codes, alphabet


def _numbers_of(values: NDArray[np.integer], alphabet: Alphabet) -> NDArray[np.integer]:
    """Label number of each value, −1 where it is no label."""
    known = {label: number for number, label in enumerate(alphabet.labels) if not isinstance(label, str)}
    if not known:
        return np.full(values.shape, ABSTAIN)
    labels = np.array(sorted(known), dtype=np.int64)
    numbers = np.array([known[label] for label in labels.tolist()], dtype=np.int32)
    flat = values.reshape(-1)
    codes = np.empty(len(flat), dtype=np.int32)
    for start in range(0, len(flat), BLOCK):
        block = flat[start : start + BLOCK]
        spot = np.minimum(np.searchsorted(labels, block), len(labels) - 1)
        codes[start : start + BLOCK] = np.where(labels[spot] == block, numbers[spot], ABSTAIN)
    return codes.reshape(values.shape)


def _classes_of_numbers(cells: Cells, silent: NDArray[np.bool_] | None, expected: Expected) -> NDArray[Any]:
    """The expected classes, else those from 0 to the largest vote."""
    spoken = cells.values if silent is None else cells.values[~silent]
    low, high = (int(spoken.min()), int(spoken.max())) if spoken.size else (ABSTAIN, ABSTAIN)
    nothing = not spoken.size or (silent is None and low == high == ABSTAIN)
    if expected.classes is not None:
        if expected.classes.dtype.kind == "U" and not nothing:
            raise InputError(
                f"votes are numbers but the classes are names: {short_list(expected.classes.tolist())}",
                hint="Give the votes by name, or the classes as numbers",
            )
        return expected.classes
    if expected.exclusions:
        raise InputError(
            "exclusions need classes", hint="Pass classes=[…], so that exclusion labels can be told from classes"
        )
    if nothing:
        raise _no_vote()
    least = ABSTAIN if silent is None else 0
    if low < least:
        raise InputError(
            f"vote {low} is below {least}",
            where=_place(cells, _spoken(cells.values == low, silent)),
            hint="Votes are class numbers from 0, and -1 where a source abstains; "
            "pass abstain= or classes= if yours differ",
        )
    if high >= MOST_INFERRED_CLASSES or _may_be_wrapped(cells, high):
        raise InputError(
            f"vote {high} would mean {high + 1} classes",
            where=_place(cells, _spoken(cells.values == high, silent)),
            hint="Pass classes=[…] with the labels that exist"
            + (f"; if it was -1 before it became unsigned, abstain={high}" if _may_be_wrapped(cells, high) else ""),
        )
    return _counting_from_zero(high, expected.abstain_number)


def _spoken(cells: NDArray[np.bool_], silent: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    return cells if silent is None else cells & ~silent


def _may_be_wrapped(cells: Cells, high: int) -> bool:
    """Whether the largest vote is what −1 becomes in an unsigned type."""
    return cells.values.dtype.kind == "u" and high == np.iinfo(cells.values.dtype).max


def _counting_from_zero(high: int, abstain: int | None) -> NDArray[Any]:
    """0 … the largest vote, so that column k of an answer is always class k.

    Never fewer than two classes, and the value that means abstain is none of them.
    """
    fewest = 3 if abstain in {0, 1} else 2
    return np.array([number for number in range(max(high + 1, fewest)) if number != abstain])


def _encode_words(cells: Cells, words: tuple[str, ...], expected: Expected) -> tuple[NDArray[np.integer], Alphabet]:
    silent = set() if expected.abstain is None else {str(expected.abstain)}
    classes = expected.classes
    if classes is None:
        names = sorted(set(words) - silent - set(expected.exclusions or ()))
        if not names:
            raise _no_vote()
        if len(names) > MOST_INFERRED_CLASSES:
            raise InputError(
                f"{len(names)} different labels, too many to be classes: {short_list(names, 3)}",
                hint="Pass sources=[…] with the columns of votes, or classes=[…] with the labels that exist",
            )
        classes = np.array(names)
    alphabet = Alphabet.of(classes, expected.exclusions)
    expected.refuse_doubtful(alphabet)
    # classes that are numbers may be written as text, as where a file has an exclusion label by name
    written = {str(label): number for number, label in enumerate(alphabet.labels)}
    codes = np.full(len(words) + 1, ABSTAIN, dtype=smallest_int(len(alphabet.labels)))
    for number, word in enumerate(words):
        if word not in silent:
            if word not in written:
                raise _unknown(cells, cells.values == number, alphabet)
            codes[number] = written[word]
    return codes[cells.values], alphabet  # index −1 picks the last entry, abstain


def _place(cells: Cells, chosen: NDArray[np.bool_]) -> str:
    """Where the first chosen cell is."""
    return cells.where(first_true(chosen))


def _unknown(cells: Cells, bad: NDArray[np.bool_], alphabet: Alphabet) -> InputError:
    value = cells.values.flat[first_true(bad)]
    return InputError(
        f"vote {value if cells.words is None else repr(cells.words[value])} is not a known label",
        where=_place(cells, bad),
        hint=f"The labels are {short_list(alphabet.labels)}",
    )


def _no_vote() -> InputError:
    return InputError("there is no vote at all", hint="Pass classes= if an empty table is meant")
