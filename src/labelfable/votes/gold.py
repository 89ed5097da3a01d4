"""Known gold labels, in the words of the votes -> class numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from labelfable.errors import InputError
from labelfable.votes import frames
from labelfable.votes.alphabet import ABSTAIN, Expected, class_names, short_list
from labelfable.votes.cells import Cells, cells_of
from labelfable.votes.encode import MOST_INFERRED_CLASSES, encode
from labelfable.votes.from_arrays import plain_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.stored import StoredVotes
    from labelfable.votes.table import VoteTable

Votes = TypeVar("Votes", "VoteTable", "StoredVotes")


def read_gold(y: Any, table: Votes) -> tuple[Votes, NDArray[np.integer] | None]:
    """Known gold labels as class numbers, −1 where unknown; classes that only gold names join the table.

    `y` [items] is an array, list or column of labels in the same words as the votes; −1, None, NaN or null where
    unknown.  Where −1 is a class of the votes it means that class.  The second result is None where nothing is known.
    """
    if y is None:
        return table, None
    cells = _gold_cells(y, table.n_items)
    unknown = None if ABSTAIN in table.classes.tolist() else ABSTAIN
    extra = _extra_classes(cells, table, unknown)
    if extra:
        table = table.with_classes(_joined(table.classes, extra))
    gold, _ = encode(cells, Expected(classes=table.classes, abstain=unknown))
    return table, None if np.all(gold < 0) else gold


def _gold_cells(y: Any, n_items: int) -> Cells:
    """The labels of `y`, one an item."""
    series = frames.as_series(y)
    if series is not None:
        _refuse_shape((len(series),), n_items)
        return frames.column_cells(series, _place)
    raw, missing = plain_array(y, "the gold labels y")
    if raw.ndim > 1 and raw.shape[1:] == (1,):
        raw, missing = raw[:, 0], None if missing is None else missing[:, 0]
    _refuse_shape(raw.shape, n_items)
    return cells_of(raw, _place, missing)


def _place(item: int) -> str:
    return f"item {item} of y"


def _refuse_shape(shape: tuple[int, ...], n_items: int) -> None:
    if shape != (n_items,):
        raise InputError(
            f"y has shape {shape} but there are {n_items} items",
            hint="Give one gold label an item, -1 or null where it is unknown",
        )


def _extra_classes(cells: Cells, table: VoteTable | StoredVotes, unknown: int | None) -> list[Any]:
    """Labels in gold that are no classes of the votes, sorted."""
    present: set[Any]
    if cells.words is None:
        known = cells.values if cells.missing is None else cells.values[~cells.missing]
        present = set(np.unique(known).tolist()) - {unknown}
    else:
        present = set(cells.words) - {str(unknown)}
    names = table.classes.tolist()
    if present and (cells.words is None) != (table.classes.dtype.kind in "iu"):
        raise InputError(
            f"y holds {short_list(sorted(map(str, present)))} but the classes are {short_list(names)}",
            hint="Give gold labels in the same words as the votes",
        )
    extra = sorted(present - set(names))
    if extra and not table.is_plain:
        raise InputError(f"gold label {extra[0]!r} is not a class", hint="Pass all classes to read_votes")
    if extra and cells.words is None and extra[0] < 0:
        raise InputError(f"gold label {extra[0]} is below -1", hint="Unknown gold is -1")
    return extra


def _joined(classes: NDArray[Any], extra: list[Any]) -> NDArray[Any]:
    """All classes: counting on where they count from 0, sorted where they were, else the new ones last."""
    names = classes.tolist()
    if names == list(range(len(names))):
        if extra[-1] >= MOST_INFERRED_CLASSES:
            raise InputError(
                f"gold label {extra[-1]} would mean {extra[-1] + 1} classes",
                hint="Pass classes=[…] with the labels that exist to read_votes",
            )
        return class_names(range(extra[-1] + 1))
    return class_names(sorted([*names, *extra]) if names == sorted(names) else [*names, *extra])
