"""Folders in the format of the WRENCH benchmark (Zhang et al. 2021).

FOLDER/label.json                 {"0": "name of class 0", "1": …}
FOLDER/{train,valid,test}.json    {"id": {"label": 1, "weak_labels": [0, -1, …], "data": {"text": …}}, …}
                                  or "data": {"feature": [0.5, …]}; −1 is an abstention, an unknown label
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.datasets.dataset import SPLITS, Dataset, table_of
from labelfable.datasets.inputs import checked_features
from labelfable.datasets.json_stream import json_entries, read_json
from labelfable.errors import FileError, InputError, LabelfableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LABELS = "label.json"
LABELED = "labeled_ids.json"


def load_wrench(folder: str | Path, *, splits: Sequence[str] = SPLITS, exemplars: bool = True) -> Dataset:
    """The splits of a folder in WRENCH format that exist among `splits`, one after the other.

    Features are read as float32.  Without a label.json the classes are 0 … the largest label or vote.  Some sets tell
    in labeled_ids.json which items of train are exemplars, there to show what a source is about; `exemplars=False`
    leaves them out (in TREC they repeat other items).
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "this is a file, and a WRENCH data set is a folder" if folder.exists() else "no such folder"
        raise FileError(what, where=str(folder))
    unknown = [name for name in splits if name not in SPLITS]
    if unknown:
        raise InputError(f"there is no split {unknown[0]!r}", hint=f"There are {', '.join(SPLITS)}")
    files = [folder / f"{name}.json" for name in splits]
    found = [path for path in files if path.is_file()]
    if not found:
        raise FileError(
            "this folder holds no WRENCH data set",
            where=str(folder),
            hint=f"Expected {', '.join(path.name for path in files)} in it",
        )
    rows = _Rows()
    for path in found:
        rows.read(path, set() if exemplars or path.stem != SPLITS[0] else _exemplars(folder / LABELED))
    names: list[Any] = _class_names(folder / LABELS) or list(range(rows.n_labels))
    rows.refuse_labels_outside(names)
    return Dataset(
        name=folder.resolve().name,
        votes=table_of(rows.votes, names, None),
        gold=np.asarray(rows.labels, dtype=np.int64),
        features=rows.features(),
        texts=rows.texts or None,
        split=np.repeat([SPLITS.index(path.stem) for path in found], rows.sizes).astype(np.int8),
        provenance={
            "format": "WRENCH",
            "files": [str(path) for path in (*found, folder / LABELS, folder / LABELED) if path.exists()],
            "exemplars": exemplars,
        },
    )


@dataclass
class _Rows:
    """What the files read so far hold, item after item, as flat arrays that grow."""

    items: list[tuple[Path, str]] = field(default_factory=list)
    """File and id of each item."""
    labels: array[int] = field(default_factory=lambda: array("q"))
    weak_labels: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[float] = field(default_factory=lambda: array("f"))
    texts: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Items of each file."""
    n_sources: int = 0
    n_columns: int = 0

    def read(self, path: Path, left_out: set[str]) -> None:
        """Append the items of a file but for some."""
        before, seen = len(self.items), set()
        for name, entry in json_entries(path):
            if name in seen:
                raise FileError(f"item {name!r} is there twice", where=str(path))
            seen.add(name)
            if name in left_out:
                continue
            self.items.append((path, name))
            try:
                self._append(entry)
            except LabelfableError:
                raise
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
                said = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
                raise FileError(
                    "this item is not in WRENCH format",
                    where=f"{path}, item {name!r}",
                    hint=f'Expected {{"label": …, "weak_labels": […], "data": …}}: {said}',
                ) from error
        if left_out - seen:
            raise FileError(f"there is no item {min(left_out - seen)!r}, an exemplar in {LABELED}", where=str(path))
        if len(self.items) == before:
            raise FileError("this file holds no item", where=str(path))
        self.sizes.append(len(self.items) - before)

    def _append(self, entry: dict[str, Any]) -> None:
        """One item; an error of Python's where it is not what it should be."""
        label, data = entry.get("label"), entry.get("data") or {}
        self.labels.append(-1 if label is None else label)
        self.n_sources = self._extended(self.weak_labels, entry["weak_labels"], self.n_sources, "votes")
        if "text" in data:
            if not isinstance(data["text"], str):
                raise TypeError("its text is no text")
            self.texts.append(data["text"])
        if "feature" in data:
            self.n_columns = self._extended(self.numbers, data["feature"], self.n_columns, "features")
        for held, what in ((len(self.texts), "text"), (len(self.numbers) // max(1, self.n_columns), "feature")):
            if held not in (0, len(self.items)):
                raise ValueError(f"some items have a {what} and some have none")

    def _extended(self, numbers: Any, more: list[Any], width: int, what: str) -> int:
        """Append a row, which must be as wide as those before; returns the width."""
        if not more or (width and len(more) != width):
            path, name = self.items[-1]
            raise InputError(
                f"{len(more)} {what} where the items before have {width}" if width else f"there are no {what}",
                where=f"{path}, item {name!r}",
                hint="All items of all splits need the same sources and the same features",
            )
        numbers.extend(more)
        return len(more)

    @property
    def votes(self) -> NDArray[np.integer]:
        """[items, sources]."""
        return np.frombuffer(self.weak_labels, dtype=np.int64).reshape(-1, self.n_sources)

    @property
    def n_labels(self) -> int:
        """One more than the largest label or vote."""
        return 1 + max(0, int(self.votes.max()), int(np.max(self.labels)))

    def features(self) -> NDArray[np.floating] | None:
        """[items, columns]."""
        if not self.n_columns:
            return None
        matrix = np.frombuffer(self.numbers, dtype=np.float32).reshape(-1, self.n_columns)
        return checked_features(matrix, len(self.items), str(self.items[0][0].parent))

    def refuse_labels_outside(self, names: list[Any]) -> None:
        """An error where a label or vote is not the number of a class."""
        for what, numbers in (("label", np.asarray(self.labels)[:, None]), ("vote", self.votes)):
            outside = (numbers < -1) | (numbers >= len(names))
            if outside.any():
                row, column = (int(place[0]) for place in np.nonzero(outside))
                path, item = self.items[row]
                raise InputError(
                    f"{what} {numbers[row, column]} is no class",
                    where=f"{path}, item {item!r}" + (f", source {column}" if what == "vote" else ""),
                    hint=f"The classes are 0 … {len(names) - 1}, see {LABELS}; -1 is an abstention or unknown",
                )


def _class_names(path: Path) -> list[str] | None:
    """Names of the classes by number, None where there is no such file."""
    if not path.exists():
        return None
    content = read_json(path)
    numbers = list(content) if isinstance(content, dict) else []
    if not numbers or sorted(numbers, key=lambda number: (len(number), number)) != list(map(str, range(len(numbers)))):
        raise FileError(
            "this file does not name the classes", where=str(path), hint='Expected {"0": "name", "1": "name", …}'
        )
    return [str(content[str(number)]) for number in range(len(numbers))]


def _exemplars(path: Path) -> set[str]:
    """Ids of the items of train that are exemplars of sources."""
    content = read_json(path)
    listed = content.get("lf_exemplar_ids") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise FileError(
            "this file lists no exemplars", where=str(path), hint='Expected {"lf_exemplar_ids": ["id", …], …}'
        )
    return {str(name) for name in listed}
