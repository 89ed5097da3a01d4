"""Shards that were read once and are needed each sweep: in memory while they fit, else as plain arrays on disk."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from labelfable.errors import FileError
from labelfable.inference.shards import LazyShard, StoredShard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

MEMORY_SHARE = 0.4  # of the memory that is allowed, for shards that stay; the rest is for those at work
NAME = "labelfable-spill"


class Keeper(Protocol):
    """A source that says how large its shards are, and how they are taken apart."""

    memory: int

    def bytes_of(self, n_items: int) -> int:
        """Bytes of a shard of so many items, once it is read."""
        ...

    def pack(self, shard: Any) -> Mapping[str, NDArray[Any]]:
        """A shard as arrays."""
        ...

    def unpack(self, arrays: Mapping[str, NDArray[Any]], start: int) -> Any:
        """The shard again."""
        ...


@dataclass(frozen=True)
class SpilledShard(LazyShard):
    """A shard that was taken apart into a file."""

    source: Any
    path: str
    start: int

    def load(self) -> Any:
        """The shard itself."""
        return self.source.unpack(read_arrays(self.path), self.start)


class Held(list[Any]):
    """Shards that are ready for many sweeps; their folder on disk goes when they do."""

    folder: tempfile.TemporaryDirectory[str] | None = None


def hold(shards: Sequence[Any], run: Callable[..., Iterator[Any]]) -> Sequence[Any]:
    """Read stored shards once, by `run` (the `map` of an engine), and keep them where they fit."""
    if not shards or not isinstance(shards[0], StoredShard) or not hasattr(shards[0].source, "pack"):
        return shards
    source: Any = shards[0].source
    held = Held()
    if sum(source.bytes_of(shard.stop - shard.start) for shard in shards) <= MEMORY_SHARE * source.memory:
        held.extend(run(_itself, shards))
        return held
    _remove_abandoned()
    held.folder = tempfile.TemporaryDirectory(prefix=f"{NAME}-{os.getpid()}-")
    paths = [str(Path(held.folder.name) / f"shard-{number:06d}") for number in range(len(shards))]
    work = [_ToSpill(shard, path) for shard, path in zip(shards, paths, strict=True)]
    held.extend(run(partial(_spill, source), work))
    return held


def _itself(shard: Any) -> Any:
    return shard


@dataclass(frozen=True)
class _ToSpill(LazyShard):
    shard: StoredShard
    path: str

    def load(self) -> tuple[Any, str, int]:
        """The shard, where it is to go, and its first item."""
        return self.shard.load(), self.path, self.shard.start


def _spill(source: Any, loaded: tuple[Any, str, int]) -> SpilledShard:
    shard, path, start = loaded
    write_arrays(path, source.pack(shard))
    return SpilledShard(source, path, start)


def write_arrays(path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Arrays one after another in a file: read back fast, and never mapped, which would count as memory."""
    try:
        with Path(path).open("wb") as handle:
            np.lib.format.write_array(handle, np.array(list(arrays)), allow_pickle=False)
            for values in arrays.values():
                np.lib.format.write_array(handle, values, allow_pickle=False)
    except OSError as error:
        raise FileError(
            "cannot write a shard beside the sweeps",
            where=path,
            hint=f"The system says: {error.strerror or error}. TMPDIR=FOLDER chooses a place with more room",
        ) from error


def read_arrays(path: str) -> dict[str, NDArray[Any]]:
    """What `write_arrays` wrote."""
    try:
        with Path(path).open("rb") as handle:
            names = np.lib.format.read_array(handle, allow_pickle=False).tolist()
            return {name: np.lib.format.read_array(handle, allow_pickle=False) for name in names}
    except (OSError, ValueError, EOFError) as error:
        what = "this shard is damaged" if Path(path).exists() else "this shard is gone"
        raise FileError(
            f"{what}: it was written beside the sweeps and must stay until they end",
            where=path,
            hint="Fit again; with checkpoint=FOLDER the fit goes on from its last sweep",
        ) from error


def _remove_abandoned() -> None:
    """Folders of fits that were killed: their processes are gone."""
    import shutil

    for folder in Path(tempfile.gettempdir()).glob(f"{NAME}-*-*"):
        process = folder.name.split("-")[2]
        if process.isdigit() and not _is_alive(int(process)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True
