"""Texts of items, from files."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelfable.datasets.inputs import item_column, joined_by_item
from labelfable.errors import FileError, InputError
from labelfable.votes import frames

if TYPE_CHECKING:
    from labelfable.votes.table import VoteTable

TEXT_NAMES = ("text", "texts", "sentence", "document")


def read_texts(path: str | Path, table: VoteTable | None = None, item: str | None = None) -> list[str]:
    """One text a line (.txt), one {"text": …} or string a line (.jsonl, .jsonl.gz), or a column of a table.

    Texts of a table of files that names its items are brought into the order of `table`.
    """
    path = Path(path)
    name = path.name.lower()
    if name.endswith((".jsonl", ".jsonl.gz", ".txt", ".txt.gz")):
        return _lines(path, is_json=".jsonl" in name)
    content = frames.read_file(path)
    if not hasattr(content, "column_names"):
        raise FileError("cannot read texts from this file", where=str(path), hint="Use .txt, .jsonl, .csv or .parquet")
    named, rest = item_column(content, item)
    chosen = next((column for column in rest if column.lower() in TEXT_NAMES), rest[0] if len(rest) == 1 else None)
    if chosen is None:
        raise InputError(
            "cannot tell which column holds the texts",
            where=str(path),
            hint=f"Call it text; the columns are {', '.join(content.column_names)}",
        )
    texts = content.column(chosen)
    texts = texts.to_pylist() if table is None or named is None else joined_by_item(content, named, texts, table, path)
    return ["" if text is None else str(text) for text in texts]


def _lines(path: Path, *, is_json: bool) -> list[str]:
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    texts: list[str] = []
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="\n") as handle:
            if not is_json:
                return [line.rstrip("\r\n") for line in handle]
            for line in handle:
                entry = json.loads(line)
                texts.append(entry if isinstance(entry, str) else str(entry["text"]))
            return texts
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FileError(
            "this line holds no text",
            where=f"{path}, line {len(texts) + 1}",
            hint=f'Expected {{"text": …}} in UTF-8. The reader says: {error}',
        ) from error
    except FileNotFoundError:
        raise FileError("no such file", where=str(path)) from None
    except (OSError, EOFError, zlib.error) as error:
        raise FileError("cannot read this file", where=str(path), hint=f"The reader says: {error}") from error
