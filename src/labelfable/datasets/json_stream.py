"""A large JSON object, entry by entry: what is parsed is thrown away before the next entry is read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelfable.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

CHUNK = 2**20
LARGEST_ENTRY = 2**27  # characters; past that a file is damaged: a vector of a million numbers has a sixth of them
BLANKS = re.compile(r"[ \t\n\r]*")

_decode = json.JSONDecoder().raw_decode


def read_json(path: Path) -> Any:
    """A small JSON file as a whole."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FileError("no such file", where=str(path)) from None
    except OSError as error:
        raise FileError("cannot read this file", where=str(path), hint=f"The system says: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FileError("this file is damaged: it is not JSON", where=str(path), hint=f"{error}") from error


def json_entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Name and value of each entry of the object in a file, in order; an error where it is cut off or damaged."""
    try:
        with path.open(encoding="utf-8-sig") as handle:
            yield from _entries(handle, path)
    except FileError:
        raise
    except OSError as error:
        raise FileError("cannot read this file", where=str(path), hint=f"The system says: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileError("this file is damaged: it is no UTF-8 text", where=str(path), hint=f"{error}") from error


def _entries(handle: TextIO, path: Path) -> Iterator[tuple[str, Any]]:
    """The object's entries, from a buffer that always begins with the next one."""
    text, found, name = handle.read(CHUNK), 0, ""
    at = _blank(text, 0)
    if text[at : at + 1] != "{":
        raise FileError("this file is damaged or another's: it holds no JSON object", where=str(path))
    at = _blank(text, at + 1)
    closed = text[at : at + 1] == "}"
    at += closed
    while not closed:
        try:
            name, value, end = _entry(text, at)
        except (ValueError, IndexError, RecursionError) as error:
            more = handle.read(max(CHUNK, len(text) - at)) if len(text) - at < LARGEST_ENTRY else ""
            if not more:
                place = f"{path}, after {found} entries" + (f", the last one {name!r}" if found else "")
                raise FileError(
                    "this file is damaged or cut off: it is not JSON",
                    where=place,
                    hint=f"Get it again. The reader says: {error}",
                ) from error
            text, at = text[at:] + more, 0
            continue
        yield name, value
        found += 1
        closed = text[end] == "}"
        at = end + 1
    if text[at:].strip() or handle.read(CHUNK).strip():
        raise FileError("this file is damaged: something follows the JSON object", where=str(path))


def _entry(text: str, at: int) -> tuple[str, Any, int]:
    """Name and value of the entry that starts here, and the place of the comma or brace that ends it."""
    name, at = _decode(text, _blank(text, at))
    at = _blank(text, at)
    if not isinstance(name, str) or text[at] != ":":
        raise ValueError(f"expected a name and a colon, found {text[at : at + 20]!r}")
    value, at = _decode(text, _blank(text, at + 1))
    at = _blank(text, at)
    if text[at] not in ",}":
        raise ValueError(f"expected a comma or a brace, found {text[at : at + 20]!r}")
    return name, value, at


def _blank(text: str, at: int) -> int:
    """The place of the next character that is not blank."""
    found = BLANKS.match(text, at)
    return at if found is None else found.end()
