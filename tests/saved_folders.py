"""Saved folders to look at and to harm."""

import numpy as np

from labelfable.persistence import ARRAYS, read_folder

DOCUMENT = {
    "settings": {"tol": 0.1, "name": "Ünïted ☂", "none": None},
    "history": [1, 2.5, -0.0, 1e-300, True],
    "odd": "\ud800",
}
STORED = {
    "table": np.arange(12.0).reshape(3, 4),
    "small": np.array([1, -1], dtype=np.int8),
    "names": np.array(["a", "☂"]),
    "file": np.array(3.5),
    "none/left": np.zeros((0, 3), dtype=np.float32),
}


def arrays_of(folder):
    """The one file of arrays in a folder."""
    (path,) = [entry for entry in folder.iterdir() if ARRAYS.fullmatch(entry.name)]
    return path


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_whole(folder, document=DOCUMENT, arrays=STORED):
    found, loaded = read_folder(folder)
    assert found == document
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        assert loaded[name].shape == array.shape
        assert loaded[name].tobytes() == array.tobytes()
