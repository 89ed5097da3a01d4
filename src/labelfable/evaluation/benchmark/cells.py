"""Cells: one measurement each, in one file each, so that an interrupted benchmark loses only what was under way.

A cell's file is named after what it measures and a digest of all that the result depends on: settings, seed, data,
versions, and the code of this package.  So a second run does what is missing, and nothing stale is ever taken for new.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cache
from glob import escape
from importlib import metadata
from pathlib import Path
from typing import Any

import labelfable
from labelfable.errors import FileError
from labelfable.persistence import make_folder, replace_file

PACKAGE = Path(labelfable.__file__).parent
PRESENTATION = ("cli/", "evaluation/benchmark/", "evaluation/page.py", "evaluation/report.py")  # changes no measurement
MEASURING = "evaluation/benchmark/measure.py"
LIBRARIES = ("numpy", "scipy", "scikit-learn")
DIGITS = 16  # of the digest, in a file's name
LONGEST_NAME = 120  # of a cell's readable part: file systems allow 255 bytes


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    kind: str
    """The experiment that it belongs to: a folder's name."""
    name: str
    """What a person calls it."""
    job: dict[str, Any]
    """What is measured, in JSON values; part of the key."""
    depends: dict[str, Any] = field(default_factory=dict)
    """What else the result hangs on: versions, digest of the data; part of the key."""
    where: dict[str, Any] = field(default_factory=dict)
    """How to run it here: paths and threads.  No part of the key."""
    group: str = ""
    """Cells of one group take about as long as each other."""

    @property
    def key(self) -> str:
        """Digest of the job and of what it depends on."""
        content = {"kind": self.kind, "job": self.job, "depends": self.depends}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:DIGITS]

    @property
    def file_name(self) -> str:
        """A name that any file system takes."""
        return f"{re.sub(r'[^A-Za-z0-9_=.-]+', '-', self.name)[:LONGEST_NAME]}.{self.key}.json"


class CellStore:
    """Finished cells in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """What was found, or None where that is yet to be measured; a file that is not whole counts as none."""
        try:
            content = json.loads((self.folder / cell.kind / cell.file_name).read_bytes())
        except (OSError, ValueError):
            return None
        found = content.get("found") if isinstance(content, dict) and content.get("key") == cell.key else None
        return found if isinstance(found, dict) else None

    def write(self, cell: Cell, found: dict[str, Any]) -> None:
        """Keep what was found, whole or not at all."""
        make_folder(self.folder / cell.kind)
        content = {"key": cell.key, "name": cell.name, "job": cell.job, "depends": cell.depends, "found": found}
        with replace_file(self.folder / cell.kind / cell.file_name) as temporary:
            temporary.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


@cache
def code_digest() -> str:
    """Digest of the code that results depend on: the package without what only presents them.

    The commit would do where the tree is clean; the digest holds for changed and for installed files too.
    """
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name == MEASURING or not name.startswith(PRESENTATION):
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:DIGITS]


def versions() -> dict[str, str]:
    """What every cell depends on."""
    return {"code": code_digest(), "python": platform.python_version()} | {
        name: metadata.version(name) for name in LIBRARIES
    }


@cache
def commit() -> str:
    """The repository's commit, with a mark where files were changed; "unknown" outside of one."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = [git, "-C", str(PACKAGE), "describe", "--always", "--dirty", "--abbrev=9"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (fixed words)
    return found.stdout.strip() or "unknown"


def file_digest(path: Path) -> str:
    """Digest of a data set: of a folder's files, or of a file and those of the same name beside it."""
    files = path.rglob("*") if path.is_dir() else path.parent.glob(f"{escape(path.stem)}.*")
    digest = hashlib.sha256()
    for file in sorted(each for each in files if each.is_file()):
        digest.update(file.name.encode() + b"\0")
        try:
            with file.open("rb") as handle:
                digest.update(hashlib.file_digest(handle, "sha256").digest())
        except OSError as error:
            raise FileError("cannot read this file", where=str(file), hint=f"The system says: {error}") from error
    return digest.hexdigest()[:DIGITS]
