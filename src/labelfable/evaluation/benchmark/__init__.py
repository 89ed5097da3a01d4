"""The benchmark: models on many data sets, resumable, with its tables and figures."""

from labelfable.evaluation.benchmark.cells import Cell, CellStore
from labelfable.evaluation.benchmark.pool import run_cells
from labelfable.evaluation.benchmark.table import ModelSpec, plan_table

__all__ = ["Cell", "CellStore", "ModelSpec", "plan_table", "run_cells"]
