"""The benchmark: models on many data sets, resumable, with its tables and figures."""

from labelfable.evaluation.benchmark.cells import Cell, CellStore
from labelfable.evaluation.benchmark.experiments import Outcome, RunOptions, run_gain, run_size, run_table
from labelfable.evaluation.benchmark.pool import Progress, run_cells
from labelfable.evaluation.benchmark.table import ModelSpec

__all__ = [
    "Cell",
    "CellStore",
    "ModelSpec",
    "Outcome",
    "Progress",
    "RunOptions",
    "run_cells",
    "run_gain",
    "run_size",
    "run_table",
]
