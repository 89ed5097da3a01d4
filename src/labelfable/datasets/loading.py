"""One Dataset, from whatever form its files have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.datasets.dataset import SPLITS, Dataset, table_of
from labelfable.datasets.inputs import checked_features, opened_npz, read_inputs
from labelfable.datasets.json_stream import read_json
from labelfable.datasets.texts import read_texts
from labelfable.datasets.wrench import load_wrench
from labelfable.errors import FileError, InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

TABLES = (".parquet", ".pq", ".csv", ".tsv")
SOLE = "votes"  # what the file with the votes is called where a data set has a folder of its own
ENDS = {
    "gold": (*TABLES, ".npy"),
    "features": (*TABLES, ".npy"),
    "texts": (".jsonl.gz", ".jsonl", ".txt", *TABLES),
}
FORMS = "a WRENCH folder, an .npz file, or a table of votes (NAME.csv with NAME.gold.csv beside it)"


def load_dataset(path: str | Path) -> Dataset:
    """Read a data set of any form.

    - A folder in WRENCH format: see `load_wrench`.
    - NAME.npz with the array votes, and gold, features and split where known: see `load_npz`.
    - A table of votes, wide or long: NAME.parquet, .csv or .tsv, beside it NAME.gold.*, NAME.features.* and
      NAME.texts.* where known: see `load_table`.
    - A folder NAME with votes.npz, or with votes.parquet, gold.parquet and so on, in it.
    """
    path = Path(path)
    if not path.exists():
        raise FileError("no such file or folder", where=str(path))
    if _is_wrench(path):
        return load_wrench(path)
    votes = _votes_of(path)
    if votes is None:
        raise FileError("this is no data set", where=str(path), hint=f"Expected {FORMS}")
    name = path.resolve().name if path.is_dir() else path.stem
    if votes.suffix == ".npz":
        return load_npz(votes, name=name)
    others: dict[str, Any] = {word: _beside(votes, word) for word in ENDS}
    return load_table(votes, name=name, **others)


def find_datasets(folder: str | Path) -> dict[str, Path]:
    """Names and paths of the data sets in a folder, for `load_dataset`; the folder itself may be one.

    A table of votes counts where its gold labels stand beside it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileError("this is a file" if folder.exists() else "no such folder", where=str(folder))
    if _is_wrench(folder) or _votes_of(folder):
        return {folder.resolve().name: folder}
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        votes = _votes_of(path)
        lacks_gold = votes == path and path.suffix in TABLES and _beside(path, "gold") is None
        if path.name.startswith(".") or lacks_gold or not (votes or _is_wrench(path)):
            continue
        name = path.name if path.is_dir() else path.stem
        if name in found:
            raise FileError(
                f"two data sets are called {name!r}", where=f"{found[name]} and {path}", hint="Rename one of them"
            )
        found[name] = path
    if not found:
        raise FileError("this folder holds no data set", where=str(folder), hint=f"A data set is {FORMS}")
    return found


def load_npz(path: str | Path, *, name: str | None = None) -> Dataset:
    """Arrays votes [items, sources] (−1 = abstain), and gold, features, split where known, out of an .npz file.

    NAME.json beside it may hold "classes" and "lfs" (names of classes and sources), "licence", "sources" and "notes";
    NAME.texts.jsonl.gz the texts.
    """
    path = Path(path)
    with opened_npz(path) as stored:
        arrays = {name: stored[name] for name in ("votes", "gold", "features", "split") if name in stored.files}
        if "votes" not in arrays:
            held = ", ".join(stored.files) or "nothing"
            raise FileError("no array named 'votes' in this file", where=str(path), hint=f"It holds {held}")
    votes = _whole_numbers(arrays["votes"], 2, "votes", path)
    gold = _whole_numbers(arrays.get("gold", np.full(len(votes), -1)), 1, "gold labels", path)
    beside = path.with_suffix(".json")
    facts = read_json(beside) if beside.exists() else {}
    classes = facts.get("classes") or list(range(1 + int(max(votes.max(initial=0), gold.max(initial=0)))))
    outside = (votes < -1) | (votes >= len(classes))
    if outside.any():
        item, source = (int(place) for place in np.argwhere(outside)[0])
        raise InputError(
            f"vote {votes[item, source]} is no class",
            where=f"{path}, item {item}, source {source}",
            hint=f"There are {len(classes)} classes; -1 is an abstention",
        )
    features, texts = arrays.get("features"), _beside(path, "texts")
    return Dataset(
        name=name or path.stem,
        votes=table_of(votes, classes, [source["name"] for source in facts.get("lfs", ())] or None),
        gold=gold,
        features=None if features is None else checked_features(features, len(votes), str(path)),
        texts=None if texts is None else read_texts(texts),
        split=_split(arrays.get("split"), path),
        provenance={"format": "npz", "files": [str(file) for file in (path, beside, texts) if file and file.exists()]}
        | {key: facts[key] for key in ("licence", "sources", "notes") if key in facts},
    )


def load_table(
    votes: str | Path,
    *,
    gold: str | Path | None = None,
    features: str | Path | None = None,
    texts: str | Path | None = None,
    name: str | None = None,
    **reading: Any,
) -> Dataset:
    """Votes of a CSV, TSV or Parquet file: a column a source, or long (item, source, label) as crowds leave them.

    `gold`, `features` and `texts` are files joined by the names of the items, or row by row where they name none;
    `gold` may be a column of a wide table.  `reading` goes to `read_votes`.
    """
    inputs = read_inputs(votes, gold=gold, features=features, **reading)
    known = inputs.gold
    return Dataset(
        name=name or Path(votes).stem,
        votes=inputs.table,
        gold=np.full(inputs.table.n_items, -1) if known is None else known.astype(np.int64),
        features=inputs.features,
        texts=None if texts is None else read_texts(texts, inputs.table, reading.get("item")),
        provenance={"format": "table", "files": [str(file) for file in (votes, gold, features, texts) if file]},
    )


def _is_wrench(path: Path) -> bool:
    return any((path / f"{split}.json").is_file() for split in SPLITS)


def _votes_of(path: Path) -> Path | None:
    """The file with the votes of a data set: the path itself, or one in the folder; None where there is none."""
    ends = (*TABLES, ".npz")
    if path.is_dir():
        return next((path / f"{SOLE}{end}" for end in ends if (path / f"{SOLE}{end}").is_file()), None)
    belongs_to_other = path.stem.rpartition(".")[2] in ENDS
    return path if path.suffix in ends and path.is_file() and not belongs_to_other else None


def _beside(votes: Path, word: str) -> Path | None:
    """The file with gold, features or texts that belongs to a file of votes."""
    starts = (f"{votes.stem}.{word}", *([word] if votes.stem == SOLE else []))
    found = (votes.with_name(start + end) for start in starts for end in ENDS[word])
    return next((path for path in found if path.is_file()), None)


def _whole_numbers(values: NDArray[Any], n_axes: int, what: str, path: Path) -> NDArray[np.integer]:
    if values.dtype.kind not in "iu" or values.ndim != n_axes:
        raise InputError(
            f"the {what} are {values.dtype} of shape {values.shape}",
            where=str(path),
            hint=f"Expected class numbers [items{', sources' if n_axes > 1 else ''}], -1 where there is none",
        )
    return values.astype(np.int64) if n_axes == 1 else values


def _split(values: NDArray[Any] | None, path: Path) -> NDArray[np.integer] | None:
    if values is None:
        return None
    numbers = _whole_numbers(values, 1, "splits", path)
    if ((numbers < 0) | (numbers >= len(SPLITS))).any():
        raise InputError("a split is none of 0 (train), 1 (valid), 2 (test)", where=str(path))
    return numbers.astype(np.int8)
