"""Tables of labels, and features, into files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import FileError
from labelfable.persistence import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from labelfable.datasets.inputs import Inputs

OUTPUTS = (".csv", ".tsv", ".parquet", ".pq", ".json", ".jsonl")


def check_output(path: str | Path, ends: Sequence[str] = OUTPUTS) -> None:
    """Raise before any work where a file could not be written under this name."""
    path = Path(path)
    if path.suffix.lower() not in ends:
        raise FileError(
            f"cannot write a {path.suffix or 'nameless'} file", where=str(path), hint=f"Use one of {', '.join(ends)}"
        )
    if path.is_dir():
        raise FileError("this is a folder, not a file to write", where=str(path))
    if not path.absolute().parent.is_dir():
        raise FileError("there is no such folder to write to", where=str(path.parent), hint="Create it first")


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table in the format that the name's end says; what stood there is replaced in one step, or not at all."""
    check_output(path)
    suffix = Path(path).suffix.lower()
    with replace_file(path) as temporary:
        if suffix in {".csv", ".tsv"}:
            from pyarrow import csv

            csv.write_csv(table, temporary, csv.WriteOptions(delimiter="\t" if suffix == ".tsv" else ","))
        elif suffix in {".parquet", ".pq"}:
            from pyarrow import parquet

            parquet.write_table(table, temporary)
        else:
            with temporary.open("w", encoding="utf-8") as handle:
                handle.writelines(_json_lines(table, as_list=suffix == ".json"))


def write_array(values: NDArray[Any], path: str | Path) -> None:
    """Write an array as .npy; what stood there is replaced in one step, or not at all."""
    with replace_file(path) as temporary, temporary.open("wb") as handle:
        np.save(handle, values, allow_pickle=False)


def hold_known(labels: pa.Table, inputs: Inputs) -> pa.Table:
    """A table of labels (`label_table`) in which known labels are what they are known to be, with certainty."""
    import pyarrow as pa

    if inputs.known is None:
        return labels
    names = inputs.table.classes.tolist()
    held = np.flatnonzero(inputs.known >= 0)
    columns = {"label": labels.column("label").to_pylist()}
    columns |= {f"p({name})": labels.column(f"p({name})").to_pylist() for name in names}
    for item in held:
        columns["label"][item] = names[inputs.known[item]]
        for number, name in enumerate(names):
            columns[f"p({name})"][item] = float(number == inputs.known[item])
    for name, values in columns.items():
        labels = labels.set_column(labels.column_names.index(name), name, pa.array(values))
    return labels


def _json_lines(table: pa.Table, *, as_list: bool) -> Iterable[str]:
    """Records as JSON, one a line."""
    if as_list:
        yield "["
    before = "\n" if as_list else ""
    for batch in table.to_batches(max_chunksize=65_536):
        for record in batch.to_pylist():
            yield before + json.dumps(record, ensure_ascii=False) + ("" if as_list else "\n")
            before = ",\n" if as_list else ""
    if as_list:
        yield "\n]\n"
