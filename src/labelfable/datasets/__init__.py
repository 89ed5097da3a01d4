"""Data in and out: files, and sets to try things on."""

from labelfable.datasets.bundled import VotedData, bundled_data
from labelfable.datasets.catalogue import dataset_path, fetch_dataset
from labelfable.datasets.dataset import Dataset
from labelfable.datasets.loading import find_datasets, load_dataset, load_npz, load_table
from labelfable.datasets.numeric_features import numeric_features
from labelfable.datasets.synthetic import fable_story, gaussian_classes
from labelfable.datasets.text_features import text_features
from labelfable.datasets.texts import read_texts
from labelfable.datasets.wrench import load_wrench

__all__ = [
    "Dataset",
    "VotedData",
    "bundled_data",
    "dataset_path",
    "fable_story",
    "fetch_dataset",
    "find_datasets",
    "gaussian_classes",
    "load_dataset",
    "load_npz",
    "load_table",
    "load_wrench",
    "numeric_features",
    "read_texts",
    "text_features",
]
