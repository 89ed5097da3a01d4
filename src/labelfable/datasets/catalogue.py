"""The data sets of the paper: what is known of them, and how to get them.  The facts are in catalogue.json."""

from __future__ import annotations

import difflib
import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelfable.datasets.cache import cache_folder
from labelfable.datasets.dataset import SPLITS
from labelfable.datasets.download import download
from labelfable.datasets.loading import SOLE, find_datasets, load_dataset
from labelfable.errors import FileError, InputError
from labelfable.persistence import make_folder, replace_file

if TYPE_CHECKING:
    from labelfable.datasets.dataset import Dataset
    from labelfable.datasets.download import Progress

MIRROR = "LABELFABLE_WRENCH_URL"


@dataclass(frozen=True)
class Entry:
    """What is known of a data set before it is here."""

    name: str
    title: str
    task: str
    data: str
    """What the items are beside their votes: text, text and entities, or features."""
    items: tuple[int, ...]
    """Items of each split."""
    sources: int
    classes: int
    metric: str
    home: str
    """Where people find it."""
    licence: str
    files: dict[str, str]
    """Web address of each file."""
    sha256: dict[str, str]
    """Checksums of files, where they could be verified; the server's own are checked in any case."""
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, with what is here of it."""
        here = dataset_path(self.name)
        unknown = dict.fromkeys(self.files, "unknown")
        return asdict(self) | {"sha256": unknown | self.sha256, "path": None if here is None else str(here)}

    def differences(self, data: Dataset) -> list[str]:
        """What a data set of this name has otherwise, in words."""
        found = {"items": data.n_items, "sources": len(data.source_names), "classes": len(data.class_names)}
        known = {"items": sum(self.items), "sources": self.sources, "classes": self.classes}
        return [f"{found[key]:,} {key}, the catalogue says {known[key]:,}" for key in found if found[key] != known[key]]


def catalogue() -> dict[str, Entry]:
    """All entries by name."""
    stored = json.loads(resources.files("labelfable.datasets").joinpath("catalogue.json").read_text(encoding="utf-8"))
    return {name: _entry(name, facts, stored) for name, facts in stored["datasets"].items()}


def _entry(name: str, facts: dict[str, Any], stored: dict[str, Any]) -> Entry:
    base = os.environ.get(MIRROR) or f"{stored['home']}/resolve/{stored['revision']}/classification"
    files = [*(f"{split}.json" for split in SPLITS), "label.json", *facts.get("extra_files", ())]
    plain = ("title", "task", "data", "sources", "classes", "metric")
    return Entry(
        name=name,
        **{key: facts[key] for key in plain},
        items=tuple(facts["items"]),
        home=f"{stored['home']}/tree/main/classification/{name}",
        licence=stored["licence"],
        files={file: f"{base.rstrip('/')}/{name}/{file}" for file in files},
        sha256=facts.get("sha256", {}),
        notes=tuple(facts.get("notes", ())),
    )


def entry_named(name: str) -> Entry:
    """The entry of a name in any spelling."""
    plain = {_plain(word): key for key, entry in catalogue().items() for word in (key, entry.title)}
    found = plain.get(_plain(name))
    if found is None:
        near = difflib.get_close_matches(_plain(name), plain, n=1)
        guess = f"Did you mean {plain[near[0]]}? " if near else ""
        raise InputError(
            f"there is no data set {name!r} in the catalogue", hint=f"{guess}It has {', '.join(catalogue())}"
        )
    return catalogue()[found]


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def datasets_folder() -> Path:
    """Where data sets of the catalogue are kept; a folder for `find_datasets` and `labelfable bench`."""
    return cache_folder() / "datasets"


def dataset_path(name: str) -> Path | None:
    """Where a data set of the catalogue is, if it is here; for `load_dataset`."""
    path = datasets_folder() / entry_named(name).name
    return path if path.is_dir() else None


def fetch_dataset(
    name: str, *, source: str | Path | None = None, anew: bool = False, progress: Progress | None = None
) -> Dataset:
    """A data set of the catalogue, brought into the cache if it is not there.

    It comes from its public home, or from `source`: a folder that holds it under its name in the catalogue, as a folder
    that `load_dataset` reads or as an .npz file; or that folder itself.  It appears in the cache once all of its files
    are there and could be read.  `anew` gets it again.
    """
    entry = entry_named(name)
    target = datasets_folder() / entry.name
    if target.is_dir() and not anew:
        data = load_dataset(target)
        return replace(data, provenance=data.provenance | {"home": entry.home})
    stage = target.with_name(f".{entry.name}.partial")  # always this name: what an interrupted try left is gone on with
    if source is None:
        _download(entry, stage, progress)
    else:
        found = _found_in(Path(source), entry.name)
        _copy(load_dataset(found), found, stage)
    try:
        data = load_dataset(stage)
    except (FileError, InputError):
        shutil.rmtree(stage)
        raise
    _move_in(stage, target)
    files = [str(target / Path(file).name) for file in data.provenance["files"]]
    return replace(data, name=entry.name, provenance=data.provenance | {"files": files, "home": entry.home})


def _download(entry: Entry, stage: Path, progress: Progress | None) -> None:
    """Files that are not there yet; what is there when one fails stays for the next try."""
    make_folder(stage)
    try:
        for file, url in entry.files.items():
            if not (stage / file).exists():
                download(url, stage / file, sha256=entry.sha256.get(file), progress=progress)
    finally:
        if not any(stage.iterdir()):
            stage.rmdir()


def _found_in(folder: Path, name: str) -> Path:
    """The data set of this name in a folder, which may be the data set itself."""
    sets = find_datasets(folder)
    path = folder if list(sets.values()) == [folder] else sets.get(name)
    if path is None:
        raise FileError(f"no data set {name!r} in this folder", where=str(folder), hint=f"It holds {', '.join(sets)}")
    if path.is_file() and path.suffix != ".npz":
        raise FileError(
            "a table outside a folder of its own cannot be taken over",
            where=str(path),
            hint=f"Make a folder {name} with votes{path.suffix} and gold{path.suffix} in it",
        )
    return path


def _copy(data: Dataset, path: Path, stage: Path) -> None:
    """Copies of a data set's files in a new folder, whole or not at all."""
    shutil.rmtree(stage, ignore_errors=True)
    make_folder(stage)
    try:
        for file in map(Path, data.provenance["files"]):
            name = file.name.replace(path.stem, SOLE, 1) if path.is_file() else file.name
            with replace_file(stage / name) as temporary:
                shutil.copyfile(file, temporary)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise


def _move_in(stage: Path, target: Path) -> None:
    """Put a whole folder in the place of an old one."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    try:
        if target.exists():
            target.replace(old)
        stage.replace(target)
    except OSError as error:
        raise FileError(
            "cannot move this into its place", where=str(stage), hint=f"The system says: {error.strerror}"
        ) from error
    shutil.rmtree(old, ignore_errors=True)
