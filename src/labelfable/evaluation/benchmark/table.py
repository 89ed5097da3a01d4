"""Table 2: models × data sets × seeds, as cells to measure and as one document of what was found."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

import labelfable
from labelfable.errors import ModelError
from labelfable.evaluation.benchmark.cells import Cell, commit, file_digest, versions
from labelfable.evaluation.benchmark.published import published_figure
from labelfable.evaluation.peers import package_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LARGER_IS_BETTER = {"covered": True, "whole": True, "log_loss": False, "calibration_error": False}
SCORES = (*LARGER_IS_BETTER, "seconds", "cpu_seconds", "peak_mb")
PERCENT = ("covered", "whole")


@dataclass(frozen=True)
class ModelSpec:
    """A column of the table."""

    name: str
    """A model's or comparator's public name."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What differs from its defaults, in JSON values."""

    @property
    def label(self) -> str:
        """The column's title."""
        return ":".join([self.name, *(f"{key}={value}" for key, value in self.settings.items())])


def plan_table(
    sets: Mapping[str, Path], models: Sequence[ModelSpec], seeds: Iterable[int], *, n_threads: int
) -> list[Cell]:
    """All cells, seed by seed, so that an early look sees every set and model."""
    labels = [spec.label for spec in models]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise ModelError(f"{twice} is asked for twice", hint="Name each model once, or give it other settings")
    known, digests = versions(), {name: file_digest(path) for name, path in sets.items()}
    return [
        Cell(
            "table",
            f"{name}.{spec.label}.{seed}",
            {"set": name, "model": spec.name, "settings": spec.settings, "seed": seed},
            known | {"data": digests[name], "package": package_version(spec.name)},
            {"path": str(path), "threads": n_threads},
            f"{name}.{spec.label}",
        )
        for seed in seeds
        for name, path in sets.items()
        for spec in models
    ]


def summarise(cells: Sequence[Cell], found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One document of everything: how it was made, a record a cell, a summary a set and model, means and ranks."""
    records = [record_of(cell, result) for cell, result in zip(cells, found, strict=True)]
    sets = list(dict.fromkeys(record["set"] for record in records))
    models = list(dict.fromkeys(record["model"] for record in records))
    grid = [_summary(name, model, records) for name in sets for model in models]
    common = [name for name in sets if all(_is_whole(entry) for entry in grid if entry["set"] == name)]
    return {
        "made": made([result for result in found if result]),
        "seeds": sorted({record["seed"] for record in records}),
        "ties": "random, drawn by the seed",
        "sets": sets,
        "models": models,
        "common_sets": common,
        "summary": grid,
        "overall": [_overall(model, sets, common, models, grid) for model in models],
        "cells": records,
    }


def record_of(cell: Cell, found: dict[str, Any]) -> dict[str, Any]:
    """A cell in plain values."""
    label = ModelSpec(cell.job["model"], cell.job["settings"]).label
    return {"set": cell.job["set"], "model": label, "seed": cell.job["seed"], **found}


def made(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Where, when and with what the results were made."""
    known = versions()
    return {
        "labelfable": labelfable.__version__,
        "commit": sorted({result["commit"] for result in found}) or [commit()],
        **{name: known[name] for name in ("python", "numpy", "scipy", "scikit-learn")},
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "threads": sorted({result["threads"] for result in found if "threads" in result}),
    }


def _summary(name: str, model: str, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means and spreads over the seeds of one model on one set."""
    mine = [record for record in records if (record["set"], record["model"]) == (name, model)]
    good = [record for record in mine if record.get("status") == "ok"]
    entry: dict[str, Any] = {"set": name, "model": model, "runs": len(good), "asked": len(mine)}
    entry["status"] = "ok" if len(good) == len(mine) else next(r["status"] for r in mine if r.get("status") != "ok")
    entry["reason"] = next((record["reason"] for record in mine if record.get("reason")), "")
    for score in SCORES:
        scale = 100 if score in PERCENT else 1
        values = [scale * record[score] for record in good]
        entry[score] = float(np.mean(values)) if values else None
        entry[f"{score}_spread"] = float(np.std(values)) if values else None
        if score in PERCENT:
            entry[f"{score}_published"] = published_figure(score, name, model)
    return entry


def _is_whole(entry: dict[str, Any]) -> bool:
    return bool(entry["status"] == "ok")


def _overall(
    model: str, sets: Sequence[str], common: Sequence[str], models: Sequence[str], grid: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """A model's means over the sets, and its mean ranks over the sets that all models answer."""
    entries = {(entry["set"], entry["model"]): entry for entry in grid}
    answered = [name for name in sets if _is_whole(entries[name, model])]
    row: dict[str, Any] = {"model": model, "sets": len(answered)}
    for score in SCORES:
        row[score] = _mean([entries[name, model][score] for name in answered]) if len(answered) == len(sets) else None
        row[f"{score}_common"] = _mean([entries[name, model][score] for name in common])
    for score, larger in LARGER_IS_BETTER.items():
        places = []
        for name in common:
            values = np.array([entries[name, other][score] for other in models])
            places.append(rankdata(-values if larger else values)[list(models).index(model)])
        row[f"{score}_rank"] = _mean(places)
    return row


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None
