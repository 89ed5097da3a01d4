"""Each experiment from end to end: plan its cells, measure what is missing, write tables and figures."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelfable.datasets import find_datasets
from labelfable.errors import InputError
from labelfable.evaluation.benchmark import gain, pages, plots, size
from labelfable.evaluation.benchmark.cells import Cell, CellStore
from labelfable.evaluation.benchmark.pool import Progress, run_cells
from labelfable.evaluation.benchmark.table import ModelSpec, plan_table, summarise
from labelfable.persistence import make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class RunOptions:
    """How an experiment is run; none of it changes a result but the time that it takes."""

    out: Path
    """Folder of cells, tables and figures."""
    n_jobs: int = 0
    """Cells at a time; 0: as many as there are cores."""
    limit: float = float("inf")
    """Seconds after which a cell is given up."""
    retry: bool = False
    """Whether cells that failed are tried again."""
    docs: Path | None = None
    """A page of documentation that is to be renewed."""
    on_done: Callable[[Progress], None] | None = None

    @property
    def workers(self) -> int:
        """Cells at a time."""
        if self.n_jobs < 0:
            raise InputError(f"{self.n_jobs} jobs", hint="Give their number, or 0 for one a core")
        return self.n_jobs or _cores()

    @property
    def threads(self) -> int:
        """Threads of each cell, so that all of them fill the cores once."""
        return max(1, _cores() // self.workers)


@dataclass(frozen=True)
class Outcome:
    """What an experiment gave."""

    document: dict[str, Any]
    text: str
    """The tables and findings in Markdown."""
    files: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run_table(
    folder: Path, models: Sequence[ModelSpec], n_seeds: int, options: RunOptions, sets: Sequence[str] | None = None
) -> Outcome:
    """Table 2: every model on every set of a folder."""
    found = find_datasets(folder)
    unknown = [name for name in sets or () if name not in found]
    if unknown:
        raise InputError(f"no data set {unknown[0]!r}", where=str(folder), hint=f"There are {', '.join(found)}")
    chosen = {name: found[name] for name in sets or found}
    cells = plan_table(chosen, models, range(_positive(n_seeds, "seeds")), n_threads=options.threads)
    document = summarise(cells, _run("benchmark", cells, options))
    drawn = [lambda: plots.draw_dots(document, options.out), lambda: plots.draw_dots(document, options.out, "whole")]
    drawn.append(lambda: plots.draw_reliability(document, options.out))
    return _written("benchmark", document, pages.table_text(document), drawn, options)


def run_size(
    models: Sequence[ModelSpec],
    sizes: Sequence[int],
    n_repetitions: int,
    options: RunOptions,
    published_up_to: int = size.LARGEST_PUBLISHED,
) -> Outcome:
    """Figure "dataset size": accuracy against the number of items."""
    n_repetitions, n_threads = _positive(n_repetitions, "repetitions"), options.threads
    cells = size.plan(models, sizes, n_repetitions, n_threads=n_threads, published_up_to=published_up_to)
    document = size.summarise(cells, _run("dataset_size", cells, options))
    drawn = [lambda: size.draw(document, options.out)]
    return _written("dataset_size", document, size.text(document), drawn, options)


def run_gain(n_sets: int, n_items: int, options: RunOptions, model: ModelSpec = gain.CHOSEN) -> Outcome:
    """Figure "when features help": gain of FABLE over EBCC against the correlation of features and votes."""
    cells = gain.plan(_positive(n_sets, "sets"), _positive(n_items, "items"), model, n_threads=options.threads)
    document = gain.summarise(cells, _run("feature_gain", cells, options))
    drawn = [lambda: gain.draw(document, options.out)]
    return _written("feature_gain", document, gain.text(document), drawn, options)


def _run(name: str, cells: Sequence[Cell], options: RunOptions) -> list[dict[str, Any]]:
    """Measure what is missing, once it is known that the results can be written."""
    make_folder(options.out)
    if options.docs is not None:
        pages.around(options.docs, name)
    return run_cells(
        cells,
        CellStore(options.out / "cells"),
        n_jobs=options.workers,
        limit=options.limit,
        retry=options.retry,
        on_done=options.on_done,
    )


def _written(
    name: str,
    document: dict[str, Any],
    text: str,
    drawn: Sequence[Callable[[], list[Path]]],
    options: RunOptions,
) -> Outcome:
    """Write the document in every form."""
    files = [options.out / f"{name}.{end}" for end in ("json", "md", "parquet")]
    pages.write_json(document, files[0])
    pages.write_text(text, files[1])
    pages.write_parquet(document["cells"], files[2])
    figures, notes = [], []
    if plots.can_draw():
        figures = [path for draw in drawn for path in draw()]
    else:
        notes.append("no figures were drawn: matplotlib is not installed (pip install 'labelfable[plots]')")
    if options.docs is not None:
        pictures = [path for path in figures if path.suffix == ".svg"]
        pages.renew(options.docs, name, pages.with_figures(options.docs, text, pictures))
        files.append(options.docs)
    return Outcome(document, text, [*files, *figures], notes)


def _positive(number: int, what: str) -> int:
    if number < 1:
        raise InputError(f"{number} {what}", hint="Give at least one")
    return number


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
