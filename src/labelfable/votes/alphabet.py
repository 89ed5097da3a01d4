"""What a vote may say: classes, exclusion labels, and the value that means abstain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

ABSTAIN = -1
MOST_CLASSES = 10_000  # what a label means is a table labels × classes: 0.8 GB here, and a slip of the pen past it


def short_list(names: Sequence[Any], most: int = 8) -> str:
    """A list for an error message, cut where it is long."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"


def is_missing(value: Any) -> bool:
    """None, NaN, NaT, pandas.NA or an empty string."""
    if isinstance(value, (float, np.floating, Decimal)):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value) or type(value).__name__ in {"NAType", "NaTType"}


def is_whole(value: Any) -> bool:
    """Whether a value is an integer; True and False are none here."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def smallest_int(n_labels: int) -> type[np.signedinteger[Any]]:
    """int8 where it holds all labels, else int16, else int32."""
    if n_labels <= np.iinfo(np.int8).max:
        return np.int8
    return np.int16 if n_labels <= np.iinfo(np.int16).max else np.int32


def first_repeated(names: Iterable[Any]) -> Any | None:
    """The first name that was there before, or None."""
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def in_order(names: Any) -> list[Any] | None:
    """The entries of anything like a list; None where it is no list, or one whose order means nothing."""
    if isinstance(names, (str, bytes, AbstractSet, Mapping)) or not hasattr(names, "__iter__"):
        return None
    if isinstance(names, np.ndarray):
        return names.tolist() if names.ndim == 1 else None
    return list(names)


def class_names(classes: Any) -> NDArray[Any]:
    """Class names as an array: from a list of names, or from a number of classes."""
    if is_whole(classes):
        classes = range(_refuse_too_many(int(classes)))
    names = in_order(classes)
    if names is None:
        raise InputError(
            f"classes={classes!r} is not a list of names",
            hint="Give a list, whose order counts, or a number of classes",
        )
    _refuse_too_many(len(names))
    if any(is_missing(name) for name in names):
        raise InputError("classes holds a missing value", hint="Missing means abstain, which is not a class")
    for kind, dtype in (((int, np.integer), np.int64), (str, np.str_)):
        if all(isinstance(name, kind) for name in names):
            try:
                array: NDArray[Any] = np.array(names, dtype=dtype)
            except OverflowError as error:
                raise InputError(f"a class is too large a number: {short_list(names)}") from error
            repeated = first_repeated(array.tolist())
            if repeated is not None:
                raise InputError(f"class {repeated!r} is given twice in classes")
            return array
    raise InputError(f"classes mixes kinds of names: {short_list(names)}", hint="Use all integers or all strings")


def _refuse_too_many(number: int) -> int:
    """The number of classes itself, where that many can be."""
    if number < 1:
        raise InputError("classes is empty", hint="Leave it out to take the labels that occur in the votes")
    if number > MOST_CLASSES:
        raise InputError(f"{number} classes are too many", hint=f"At most {MOST_CLASSES} classes can be told apart")
    return number


@dataclass(frozen=True)
class Alphabet:
    """The classes, then the exclusion labels."""

    classes: NDArray[Any]
    labels: tuple[Any, ...]
    meaning: NDArray[np.floating]
    """Which classes a label speaks for, [labels, classes], rows sum to 1."""

    @classmethod
    def of(cls, classes: NDArray[Any], exclusions: Mapping[Any, Any] | None) -> Alphabet:
        """Classes and, for each exclusion label, the class that it rules out."""
        names = classes.tolist()
        labels, meaning = list(names), [np.eye(len(names))]
        for label, ruled_out in (exclusions or {}).items():
            _refuse_exclusion(label, ruled_out, names, labels)
            row = np.full((1, len(names)), 1 / (len(names) - 1))
            row[0, names.index(ruled_out)] = 0
            meaning.append(row)
            labels.append(str(label) if isinstance(label, str) else int(label))
        return cls(classes, tuple(labels), np.concatenate(meaning))

    @property
    def exclusions(self) -> dict[Any, Any]:
        """Each exclusion label and the class that it rules out."""
        extra = range(len(self.classes), len(self.labels))
        return {self.labels[label]: self.classes[int(np.argmin(self.meaning[label]))].item() for label in extra}

    @property
    def counts_from_zero(self) -> bool:
        """Whether label numbers are the labels themselves."""
        return self.labels == tuple(range(len(self.labels)))


def _refuse_exclusion(label: Any, ruled_out: Any, names: list[Any], labels: list[Any]) -> None:
    """An error where an exclusion label is none, or what it rules out is no class."""
    if is_missing(label) or not (isinstance(label, str) or (is_whole(label) and abs(label) < 2**63)):
        raise InputError(f"exclusion label {label!r} cannot be a vote", hint="Use an integer or text")
    if ruled_out not in names:
        raise InputError(
            f"exclusion label {label!r} rules out {ruled_out!r}, which is not a class",
            hint=f"The classes are {short_list(names)}",
        )
    if str(label) in map(str, labels):
        raise InputError(f"exclusion label {label!r} is also the name of a class")
    if len(names) == 1:
        raise InputError(f"exclusion label {label!r} rules out the only class {ruled_out!r}")


@dataclass(frozen=True)
class Expected:
    """What the caller says of the votes before they are read."""

    classes: NDArray[Any] | None = None
    sources: tuple[str, ...] | None = None
    abstain: int | str | None = ABSTAIN
    """The value that means abstain; None where only missing values do."""
    exclusions: Mapping[Any, Any] | None = None
    """Labels that rule a class out, and the class; None where nothing is said of them."""
    copy: bool = True
    """Whether the table must have memory of its own."""

    @classmethod
    def of(cls, classes: Any, sources: Any, abstain: Any, exclusions: Any, *, copy: bool = True) -> Expected:
        """Checked arguments of `read_votes`."""
        if exclusions is not None and not isinstance(exclusions, Mapping):
            raise InputError(
                f"exclusions={exclusions!r} is no mapping", hint="Give {label: class that it rules out, …}"
            )
        return cls(
            None if classes is None else class_names(classes),
            None if sources is None else _source_names(sources),
            _abstain_value(abstain),
            None if exclusions is None else dict(exclusions),
            copy,
        )

    @property
    def abstain_number(self) -> int | None:
        """The value that means abstain among numbers."""
        try:
            return None if self.abstain is None else int(self.abstain)
        except ValueError:
            return None

    def names_of(self, n_sources: int) -> tuple[str, ...]:
        """Names for the columns of an array: the given ones, or their numbers."""
        if n_sources == 0:
            raise InputError("the votes have no source: zero columns")
        if self.sources is None:
            return tuple(str(column) for column in range(n_sources))
        if len(self.sources) != n_sources:
            raise InputError(
                f"the votes have {n_sources} sources, expected {len(self.sources)}",
                hint=f"Expected {short_list(self.sources)}",
            )
        return self.sources

    def refuse_doubtful(self, alphabet: Alphabet) -> None:
        """An error where a label is also the value that means abstain."""
        both = [label for label in alphabet.labels if str(label) == str(self.abstain)]
        if both and self.abstain is not None:
            raise InputError(
                f"{both[0]!r} is a label and also means abstain",
                hint="Pass abstain= with the value that means abstain, or abstain=None where only missing values do",
            )


def _source_names(sources: Any) -> tuple[str, ...]:
    given = in_order(sources)
    if not given:
        raise InputError(f"sources={sources!r} is not a list of names", hint="Give a list of names, in order")
    names = tuple(str(name) for name in given)
    repeated = first_repeated(names)
    if repeated is not None:
        raise InputError(f"two sources have the same name: {repeated!r}")
    return names


def _abstain_value(abstain: Any) -> int | str | None:
    if is_missing(abstain):
        return None
    if isinstance(abstain, str):
        return str(abstain)
    if is_whole(abstain) or (isinstance(abstain, (float, np.floating)) and float(abstain).is_integer()):
        return int(abstain)
    raise InputError(
        f"abstain={abstain!r} cannot be a vote",
        hint="Give an integer or text, or None where only missing values abstain",
    )
