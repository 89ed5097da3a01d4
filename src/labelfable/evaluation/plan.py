"""What a long fit will need, from what a sample of the items needs."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import LabelfableWarning
from labelfable.numerics.random import BLOCK_ITEMS
from labelfable.votes.stored_features import open_features
from labelfable.votes.table import VoteTable

if TYPE_CHECKING:
    from labelfable.models.protocol import BaseLabelModel
    from labelfable.votes.stored import StoredVotes

SAMPLE_ITEMS = 16 * BLOCK_ITEMS
FEW_SWEEPS = 3
MORE_SWEEPS = 13
TIMES = 2  # each is measured; the first also pays for what is loaded on the way
DEVICE_ITEMS = 100_000  # measured: docs/gpu.md; at 10,000 a card and 16 cores take as long
LONG_SECONDS = 4 * 3600  # past it, more machines are worth their trouble
BYTES_A_VOTE = 9  # of votes in memory: their code and their place in Ψ, with room for the copy that is read
BYTES_A_NUMBER = 3  # times a feature's own size: the features, φ, and a copy while one becomes the other
CLASS_ARRAYS = 6  # of numbers, one a class, that are made of each item while it is swept or labelled


@dataclass(frozen=True)
class Plan:
    """Figures for one fit; seconds are measured on a sample on this machine, and scaled by the items."""

    model: str
    n_items: int
    n_sources: int
    n_classes: int
    n_features: int
    distinct_share: float
    """Rows that differ, as a share of the sample; votes alone are swept over these."""
    memory: int
    """Bytes that the fit would take in memory."""
    free_memory: int
    budget: int
    """Bytes that a fit from files keeps in memory."""
    disk: int
    """Bytes that a fit from files writes beside, while it runs."""
    free_disk: int
    seconds_a_sweep: float
    sweeps: int
    seconds: float
    """The whole fit: reading, projecting and sweeping."""
    advice: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def plan_fit(model: BaseLabelModel, votes: StoredVotes, features: Any = None) -> Plan:
    """Fit a sample of the items, and say what all of them would take."""
    numbers = open_features(features, votes)
    n_sample = min(SAMPLE_ITEMS, votes.n_items)
    table = votes.read(0, n_sample)
    sample = None if numbers is None else numbers.read(0, n_sample, table)
    swept, sweeps, whole = _measured(model, table, sample)
    distinct = table.distinct()[0].n_items / n_sample
    width = 0 if sample is None else sample.shape[1] * max(sample.dtype.itemsize, 4)
    alone = sample is None or type(model).__name__ != "FABLE"
    rows = votes.n_items * (distinct if alone else 1.0)
    times = rows / (n_sample * (distinct if alone else 1.0))
    stays = votes.n_items * (votes.n_sources * BYTES_A_VOTE + (0 if alone else width * BYTES_A_NUMBER))
    memory = int(stays + rows * votes.n_classes * 8 * CLASS_ARRAYS)
    disk = 0 if alone else votes.n_items * (width + 4 * votes.n_sources + 8 * votes.n_classes)
    disk = disk if disk > 0.4 * votes.memory else 0
    seconds = whole * votes.n_items / n_sample if not alone else whole * times
    free = (_free_memory(), shutil.disk_usage(tempfile.gettempdir()).free)
    return Plan(
        type(model).__name__,
        votes.n_items,
        votes.n_sources,
        votes.n_classes,
        0 if sample is None else sample.shape[1],
        distinct,
        memory,
        free[0],
        votes.memory,
        int(disk),
        free[1],
        swept * times,
        sweeps,
        seconds,
        _advice(memory, free, disk, seconds) + ("" if alone else _device_advice(votes.n_items)),
    )


def _measured(model: BaseLabelModel, table: VoteTable, features: Any) -> tuple[float, int, float]:
    """Seconds of one sweep, sweeps until it stops, and seconds of the whole fit, on the sample."""
    from sklearn.base import clone

    def fitted(**limits: Any) -> tuple[float, int]:
        fit = clone(model)
        given = {"engine": None, "checkpoint": None} | limits
        fit.set_params(**{name: value for name, value in given.items() if name in fit.get_params()})
        began = time.perf_counter()
        fit.fit(table, features=features)
        return time.perf_counter() - began, fit.report_.iterations

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        alone = {"tol": 0.0, "calibration": "none"}
        (few, first), (many, last) = (
            min(fitted(max_iter=most, **alone) for _ in range(TIMES)) for most in (FEW_SWEEPS, MORE_SWEEPS)
        )
        whole, sweeps = fitted()
    return max(many - few, 0.0) / max(last - first, 1), sweeps, whole


def _advice(memory: int, free: tuple[int, int], disk: float, seconds: float) -> str:
    if seconds > LONG_SECONDS:
        machines = int(np.ceil(seconds / LONG_SECONDS))
        return f"a cluster: {machines} machines like this one would take about {LONG_SECONDS // 3600} hours"
    if memory < free[0] / 2:
        return "this machine, in memory"
    if disk < free[1] / 2:
        return "this machine, from files: --memory"
    return "a cluster: neither memory nor disk of this machine have room"


def _device_advice(n_items: int) -> str:
    if n_items < DEVICE_ITEMS:
        return f"; below {DEVICE_ITEMS:,} items a GPU gains little"
    return "; a GPU, where there is one, is faster: device='cuda'"


def _free_memory() -> int:
    """Bytes that are free now, as far as the system says."""
    try:
        with open("/proc/meminfo", encoding="ascii") as handle:  # noqa: PTH123 (a kernel's file)
            for line in handle:
                if line.startswith("MemAvailable"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
