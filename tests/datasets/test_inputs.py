import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labelfable import read_votes
from labelfable.datasets.inputs import read_features, read_inputs, read_labels
from labelfable.errors import FileError, InputError

VOTES = np.array([[0, 1], [1, 1], [-1, 0], [0, 0]])


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("votes.npy", VOTES)
    return read_votes(VOTES)


def write(name, **columns):
    pq.write_table(pa.table({key.replace("__", " "): values for key, values in columns.items()}), name)
    return name


def test_items_are_joined_by_name_whatever_their_order_and_type(table):
    gold = write("gold.parquet", task=["3", "0", "9"], gold=[1, 0, 1])
    assert read_labels(gold, table) == [0, None, None, 1]
    features = write("features.parquet", id=[3, 2, 1, 0], x=[3.0, 2.0, 1.0, 0.0])
    assert read_features(features, table).tolist() == [[0], [1], [2], [3]]


def test_an_item_column_of_any_name_may_be_named(table):
    votes = write("wide.parquet", phrase=["a", "b"], one=[0, 1], two=[1, 1])
    gold = write("gold.parquet", phrase=["b", "a"], gold=[1, 0])
    assert read_inputs(votes, gold=gold, item="phrase").gold.tolist() == [0, 1]


def test_row_numbers_of_a_data_frame_are_no_feature(table):
    features = write("features.parquet", Unnamed=[9, 9, 9, 9], x=[3, 2, 1, 0], **{"Unnamed:__0": [0, 1, 2, 3]})
    assert read_features(features, table).shape == (4, 2)


@pytest.mark.parametrize(
    ("stored", "kept"), [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i8", "f8"), ("i2", "f4"), ("?", "f4")]
)
def test_features_keep_their_precision(table, stored, kept):
    np.save("x.npy", np.ones((4, 3), dtype=stored))
    assert read_features("x.npy", table).dtype == np.dtype(kept)


def test_known_and_gold_may_both_be_columns_and_neither_is_a_source(table):
    votes = write("wide.parquet", one=[0, 1, 0], two=[1, 1, 0], gold=[0, 1, 2], hint=[None, None, 0])
    inputs = read_inputs(votes, gold="gold", known="hint")
    assert inputs.table.sources == ("one", "two")
    assert inputs.table.n_classes == 3
    assert inputs.gold.tolist() == [0, 1, 2]
    assert inputs.known.tolist() == [-1, -1, 0]
    assert inputs.unseen_gold.tolist() == [0, 1, -1]
    assert inputs.names(inputs.known) == [None, None, 0]


def test_an_npz_gives_each_array_to_its_purpose(table):
    np.savez("task.npz", votes=VOTES, gold=[0, 1, -1, 0], features=np.ones((4, 2)), split=[0, 0, 1, 2])
    inputs = read_inputs("task.npz", gold="task.npz", features="task.npz")
    assert inputs.gold.tolist() == [0, 1, -1, 0]
    assert inputs.features.shape == (4, 2)
    np.savez("alone.npz", whatever=np.zeros(4))
    assert read_inputs("task.npz", gold="alone.npz").gold.tolist() == [0, 0, 0, 0]


BAD_LABELS = {
    "which column": (
        {"a": [1], "b": [2]},
        "cannot tell which column.*Call it gold; the columns are a, b",
    ),
    "an item twice": ({"item": [0, 0], "gold": [1, 1]}, "two rows have the same one"),
    "an item without a name": ({"item": [0, None], "gold": [1, 1]}, "an item has no name"),
    "other items": ({"item": ["x"], "gold": [1]}, "none of the items.*starts with 'x', the votes start with '0'"),
}


@pytest.mark.parametrize("case", BAD_LABELS, ids=list(BAD_LABELS))
def test_bad_files_of_labels(table, case):
    columns, message = BAD_LABELS[case]
    with pytest.raises(InputError, match=message):
        read_labels(write("gold.parquet", **columns), table)


BAD_FEATURES = {
    "words": ({"x": ["a"] * 4}, "column 'x' of the features does not hold numbers"),
    "items alone": ({"item": [0, 1, 2, 3]}, "there is no column of features"),
    "an item lacks": ({"item": [0, 1, 2], "x": [1, 1, 1]}, "the features lack item '3'"),
    "too few rows": ({"x": [1, 1, 1]}, "3 rows of features and 4 items"),
    "a gap": ({"x": [1, 1, None, 1], "y": [1, 1, 1, 1]}, "feature nan is no number.*item 2, column 0"),
    "infinity": ({"x": [1.0, np.inf, 1, 1]}, "feature inf is no number.*item 1, column 0"),
}


@pytest.mark.parametrize("case", BAD_FEATURES, ids=list(BAD_FEATURES))
def test_bad_files_of_features(table, case):
    columns, message = BAD_FEATURES[case]
    with pytest.raises(InputError, match=message):
        read_features(write("features.parquet", **columns), table)


def test_bad_arrays(table):
    np.save("words.npy", np.array([["a"]] * 4))
    np.savez("none.npz", a=np.ones(1), b=np.ones(1))
    with pytest.raises(InputError, match=r"features are <U1 of shape \(4, 1\)"):
        read_features("words.npy", table)
    with pytest.raises(InputError, match=r"no array named 'features'.*It holds a, b"):
        read_features("none.npz", table)
    with pytest.raises(FileError, match="no such file"):
        read_features("gone.npz", table)
    np.savez("pickle.npz", features=np.array([{}, {}], dtype=object))
    with pytest.raises(FileError, match="cannot read this file as npz"):
        read_features("pickle.npz", table)
