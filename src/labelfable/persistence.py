"""Folders of JSON and arrays that are whole or an error.  Nothing here knows a model, and nothing is ever unpickled.

    FOLDER/model.json            says what is stored, and which file holds the arrays
    FOLDER/arrays-<unique>.npz   the arrays

`model.json` is the commit point.  A save first writes its arrays under a name that nobody uses yet, then puts its
model.json in the old one's place in one step, then removes the old arrays.  Whoever is interrupted, and wherever, the
folder holds either the old save or the new one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import time
import zipfile
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from labelfable.errors import FileError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

FORMAT = "labelfable model"
FORMAT_VERSION = 1
HEAD = "model.json"
ARRAYS = re.compile(r"arrays-[0-9a-f]{32}\.npz")
LEFTOVER = re.compile(r"arrays-[0-9a-f]{32}\.npz|\.model\.json\.[0-9a-f]{32}\.tmp")
ABANDONED_SECONDS = 3600.0  # files that no model.json names may belong to a save under way, unless they are this old


def write_folder(path: str | Path, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Store JSON values and arrays in a folder; a save that stands there stays valid until the new one is whole."""
    folder = Path(path)
    previous = check_target(folder)
    plain = _as_json(document)
    make_folder(folder)
    name = f"arrays-{uuid4().hex}.npz"
    with _file_errors("cannot write the arrays", folder / name):
        digest = _write_arrays(folder / name, arrays)
    head = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "labelfable": _version(),
        "arrays": {"file": name, "sha256": digest},
        "document": plain,
    }
    head["checksum"] = _checksum(head)
    with replace_file(folder / HEAD) as temporary:
        temporary.write_text(json.dumps(head, indent=1), encoding="ascii")
    _remove_stale(folder, name, previous)


def read_folder(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What `write_folder` stored: the document and the arrays, every byte of them checked."""
    folder = Path(path)
    with _file_errors("cannot read this folder", folder):
        while True:
            head = _checked_head(folder)
            try:
                return head["document"], _read_arrays(folder, head["arrays"])
            except FileError:
                if _checked_head(folder) == head:
                    raise  # else another process has just saved anew, and removed the arrays that the old head names


def check_target(path: str | Path) -> str | None:
    """Raise where a save would touch what is not ours; else the arrays file of the save that stands there, if any."""
    folder = Path(path)
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise FileError(
            "this is a file, and a model is saved as a folder", where=str(folder), hint="Choose another name"
        )
    with _file_errors("cannot look into this folder", folder):
        names = {entry.name for entry in folder.iterdir()}
    if HEAD in names:
        try:
            entry = _read_head(folder).get("arrays")
            return str(entry.get("file")) if isinstance(entry, dict) else None
        except FileError as error:
            raise FileError(
                f"this folder holds a {HEAD} that is damaged or not ours",
                where=str(folder),
                hint="Nothing was touched: choose another folder, or remove this one yourself",
            ) from error
    if any(not LEFTOVER.fullmatch(name) for name in names):
        raise FileError(
            "this folder holds other files",
            where=str(folder),
            hint="Nothing was touched: a model is saved to a new or empty folder, or over an older model",
        )
    return None


def make_folder(path: str | Path) -> None:
    """A folder, and those above it; no harm where it exists."""
    with _file_errors("cannot make this folder", Path(path)):
        Path(path).mkdir(parents=True, exist_ok=True)


@contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """A temporary name to write to, which becomes `path` in one step once it is written whole; else nothing changes."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileError("there is no such folder to write to", where=str(target.parent), hint="Create it first")
    temporary = target.with_name(f".{target.name[:64]}.{uuid4().hex}.tmp")
    try:
        with _file_errors("cannot write this file", target):
            yield temporary
            _flush(temporary)
            os.replace(temporary, target)  # noqa: PTH105 (one call for tests to intercept, here and nowhere else)
            _flush(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _file_errors(what: str, path: Path) -> Iterator[None]:
    """The operating system's errors as one of ours."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(what, where=str(path), hint=f"The system says: {error.strerror or error}") from error


def _flush(path: Path) -> None:
    """Have a file, or a folder's list of names, on the disk before the next step."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open folders, and keeps their lists in order by itself
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _as_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document as it will be read back."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(document), allow_nan=False))
    except (ValueError, TypeError) as error:
        raise InputError("the document holds a value that JSON cannot say", hint=f"The writer says: {error}") from error
    return plain


def _write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> str:
    """An .npz file, as numpy.savez would write it, but under any names and never with pickles.  Returns its digest."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise InputError(f"array {name!r} holds Python objects", hint="Store them in the document, as a list")
    try:
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        _flush(path)
        return _digest(path.read_bytes())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _read_arrays(folder: Path, entry: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    path = folder / entry["file"]
    if not path.is_file():
        raise FileError("the file with this model's arrays is missing", where=str(path), hint="Save the model again")
    with _file_errors("cannot read this file", path):
        content = path.read_bytes()
    if _digest(content) != entry["sha256"]:
        raise FileError(
            "these are not the arrays that were saved: the file is damaged or another's",
            where=str(path),
            hint="Save the model again",
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise FileError("cannot read this file as arrays", where=str(path), hint=f"The reader says: {error}") from error


def _read_head(folder: Path) -> dict[str, Any]:
    """The content of model.json, if it is one of ours; its checksum is not looked at."""
    if folder.is_file():
        raise FileError("this is a file, and a saved model is a folder", where=str(folder))
    if not folder.exists():
        raise FileError("no such folder", where=str(folder), hint="A model is saved by model.save(FOLDER)")
    path = folder / HEAD
    if not path.is_file():
        raise FileError(
            f"there is no {HEAD} in this folder",
            where=str(folder),
            hint="Either it is no saved model, or the save was interrupted before it was whole",
        )
    try:
        with _file_errors("cannot read this file", path):
            head = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FileError(
            f"this file is damaged: it is not JSON ({error})", where=str(path), hint="Save the model again"
        ) from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise FileError("this is not a model of labelfable", where=str(path))
    return head


def _checked_head(folder: Path) -> dict[str, Any]:
    """The content of model.json, known to be what was written."""
    head = _read_head(folder)
    where, version = str(folder / HEAD), head.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise FileError(
            f"this model was saved by a newer labelfable, {head.get('labelfable')} (format {version})",
            where=where,
            hint=f"This is {_version()}, which reads up to format {FORMAT_VERSION}: upgrade it",
        )
    told = head.pop("checksum", None)
    entry = head.get("arrays")
    named = isinstance(entry, dict) and ARRAYS.fullmatch(str(entry.get("file"))) is not None
    if not named or told != _checksum(head) or not isinstance(head.get("document"), dict):
        raise FileError(
            "this file is damaged: its content does not match its checksum", where=where, hint="Save the model again"
        )
    return head


def _remove_stale(folder: Path, current: str, previous: str | None) -> None:
    """Remove the arrays of the save that was replaced, and what interrupted saves left behind long ago."""
    for entry in folder.iterdir():
        if entry.name == current or not LEFTOVER.fullmatch(entry.name):
            continue
        try:
            if entry.name == previous or time.time() - entry.stat().st_mtime > ABANDONED_SECONDS:
                entry.unlink()
        except OSError:
            continue  # the new save is whole: a file that cannot be removed is no reason to report a failure


def _checksum(head: Mapping[str, Any]) -> str:
    """Digest of the values, whatever the spaces and line ends between them."""
    return _digest(json.dumps(head, sort_keys=True, allow_nan=False).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _version() -> str:
    try:
        return metadata.version("labelfable")
    except metadata.PackageNotFoundError:
        return "unknown"
