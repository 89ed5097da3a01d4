"""A fit on its way, kept in a folder after each sweep, so that one that was killed goes on where it was."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.errors import FileError
from labelfable.inference.acceleration import Memory
from labelfable.inference.sweep import SweepState
from labelfable.models.state import Reader, Writer
from labelfable.persistence import HEAD, read_folder, write_folder
from labelfable.votes.census import VoteCensus
from labelfable.votes.table import VoteTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from labelfable.models.protocol import BaseLabelModel

WITHOUT_EFFECT = ("n_jobs", "engine", "checkpoint", "device_memory")
"""Settings that do not change what a fit finds."""


@dataclass(frozen=True)
class FolderCheckpoint:
    """The state of the sweeps of one start, in a folder."""

    folder: Path
    fit: str
    """What tells this fit from another: a digest of its settings and data."""
    types: dict[str, type]

    def load(self) -> SweepState[Any] | None:
        """The state that was kept last, or None."""
        if not (self.folder / HEAD).is_file():
            return None
        document, arrays = read_folder(self.folder)
        if document.get("fit") != self.fit:
            raise FileError(
                "this checkpoint is of another fit: its data or settings differ",
                where=str(self.folder),
                hint="Give checkpoint= another folder, or remove this one",
            )
        state: SweepState[Any] = Reader(arrays, self.types).decode(document["state"])
        return state

    def save(self, state: SweepState[Any]) -> None:
        """Keep a state in the place of the last one."""
        writer = Writer(self.types)
        document = {"fit": self.fit, "state": writer.encode(state, "state")}
        write_folder(self.folder, document, writer.arrays)


def checkpoint_of(model: BaseLabelModel, part: str, *data: Any) -> FolderCheckpoint | None:
    """Where one part of a model's fit to these data is kept, or None where the model keeps nothing."""
    return keeper_of(model, *data)(part)


def keeper_of(model: BaseLabelModel, *data: Any) -> Callable[[str], FolderCheckpoint | None]:
    """The same for all parts of a fit: the data are looked at once."""
    folder = getattr(model, "checkpoint", None)
    if folder is None:
        return lambda _part: None
    settings = {key: value for key, value in model.get_params(deep=False).items() if key not in WITHOUT_EFFECT}
    digest = hashlib.sha256(type(model).__name__.encode())
    for value in (*sorted(settings.items()), *data):
        _add(digest, value)
    kinds = (SweepState, Memory, *getattr(model, "_stored_types", ()), *getattr(model, "_sweep_types", ()))
    types = {kind.__name__: kind for kind in kinds}
    return lambda part: FolderCheckpoint(Path(folder) / part, f"{part} {digest.hexdigest()}", types)


def _add(digest: Any, value: Any) -> None:
    """Let a digest see a value: arrays by their bytes, votes by their rows, or by their files where they are stored."""
    if isinstance(value, (tuple, list)):
        for entry in value:
            _add(digest, entry)
    elif isinstance(value, VoteCensus):
        assert value.stored is not None  # noqa: S101 (a census is made with its votes)
        digest.update(json.dumps([value.stored.stamp, value.silence, value.only_told], default=str).encode())
    elif isinstance(value, VoteTable):
        _add(digest, [value.votes, list(value.labels), list(value.sources)])
    elif sp.issparse(value):
        _add(digest, [value.shape, value.data, value.indices, value.indptr])
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest.update(f"{value.dtype} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    else:
        digest.update(repr(value).encode())
