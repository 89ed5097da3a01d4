"""Data in and out: files, and sets to try things on."""

from labelfable.datasets.bundled import VotedData, bundled_data
from labelfable.datasets.dataset import Dataset
from labelfable.datasets.loading import find_datasets, load_dataset, load_npz, load_table
from labelfable.datasets.wrench import load_wrench

__all__ = [
    "Dataset",
    "VotedData",
    "bundled_data",
    "find_datasets",
    "load_dataset",
    "load_npz",
    "load_table",
    "load_wrench",
]
