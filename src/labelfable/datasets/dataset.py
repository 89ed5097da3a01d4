"""Dataset: votes of one task with all that a benchmark wants to know beside them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError
from labelfable.votes.alphabet import class_names
from labelfable.votes.read import read_votes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

SPLITS = ("train", "valid", "test")
METRICS = ("f1", "accuracy")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Items with votes, and what is known beside the votes, item by item in the same order."""

    name: str
    votes: VoteTable
    gold: NDArray[np.integer]
    """Class numbers, −1 where unknown, [items].  For scoring."""
    features: NDArray[np.floating] | None = None
    """[items, columns]."""
    texts: list[str] | None = None
    """[items]."""
    split: NDArray[np.integer] | None = None
    """Numbers of SPLITS, [items]."""
    metric: str = ""
    """One of METRICS; "f1" is that of class 1.  Left out: f1 of two classes, accuracy of more, as in the paper."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """Where it comes from, as far as the files tell: plain JSON values."""

    def __post_init__(self) -> None:
        """One row an item everywhere, and gold that names classes."""
        lengths = {
            "gold labels": self.gold,
            "rows of features": self.features,
            "texts": self.texts,
            "splits": self.split,
        }
        for what, values in lengths.items():
            if values is not None and len(values) != self.n_items:
                raise InputError(f"there are {len(values)} {what} for {self.n_items} items of votes", where=self.name)
        outside = (self.gold < -1) | (self.gold >= len(self.class_names))
        if outside.any():
            item = int(outside.argmax())
            raise InputError(
                f"gold label {self.gold[item]} is no class",
                where=f"{self.name}, item {item}",
                hint=f"There are {len(self.class_names)} classes; unknown gold is -1",
            )
        if not self.metric:
            object.__setattr__(self, "metric", METRICS[0] if len(self.class_names) == 2 else METRICS[1])  # noqa: PLR2004 (two classes)
        if self.metric not in METRICS:
            raise InputError(f"there is no metric {self.metric!r}", hint=f"There are {', '.join(METRICS)}")

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.votes.n_items

    @property
    def class_names(self) -> list[Any]:
        """Names of the classes, in the order of their numbers."""
        names: list[Any] = self.votes.classes.tolist()
        return names

    @property
    def source_names(self) -> tuple[str, ...]:
        """Names of the sources, in the order of the votes' columns."""
        return self.votes.sources

    def rows(self, chosen: Any) -> Dataset:
        """Some of the items: a slice, a mask or row numbers."""
        numbers = np.arange(self.n_items)[chosen]
        return replace(
            self,
            votes=self.votes.rows(numbers),
            gold=self.gold[numbers],
            features=None if self.features is None else self.features[numbers],
            texts=None if self.texts is None else [self.texts[number] for number in numbers],
            split=None if self.split is None else self.split[numbers],
        )


def table_of(votes: NDArray[Any], classes: Sequence[Any], sources: Sequence[str] | None) -> VoteTable:
    """Class numbers [items, sources], −1 = abstain, as a table whose classes have names."""
    table = read_votes(votes, classes=len(classes), sources=sources)
    return replace(table, classes=class_names(list(classes)), labels=())
