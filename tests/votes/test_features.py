"""Features as users have them: arrays, lists, tables, sparse matrices; and what is wrong with them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from labelfable.errors import InputError
from labelfable.votes import features as module
from labelfable.votes.features import read_features

NAN = np.nan
NUMBERS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("float16", "float32"), ("int8", "float32"), ("uint16", "float32"), ("bool", "float32"),
        ("int32", "float64"), ("int64", "float64"), ("float32", "float32"), ("float64", "float64"), (">f4", "float32"),
    ],
)  # fmt: skip
def test_numbers_keep_their_values_in_the_smallest_type_that_holds_them(given, kept):
    numbers = np.array([[1, 0], [0, 1]]).astype(given)
    native = numbers.astype(numbers.dtype.newbyteorder("="))
    for features in (numbers, native if given == "float16" else sp.csr_array(native)):  # SciPy has no float16
        found = read_features(features)
        assert found.dtype == kept
        assert found.dtype.isnative
        np.testing.assert_array_equal(found.numbers.toarray() if found.is_sparse else found.numbers, np.eye(2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_of_floating_point_numbers_are_not_copied(dtype):
    numbers = NUMBERS.astype(dtype)
    assert np.shares_memory(read_features(numbers).numbers, numbers)
    matrix = sp.csr_array(numbers)
    assert np.shares_memory(read_features(matrix).numbers.data, matrix.data)


@pytest.mark.parametrize(
    "features",
    [
        NUMBERS.tolist(), tuple(map(tuple, NUMBERS.tolist())), list(NUMBERS), NUMBERS.astype(object),
        np.asfortranarray(NUMBERS), np.ma.MaskedArray(NUMBERS), pd.DataFrame(NUMBERS), pl.DataFrame(NUMBERS),
        pa.table({"a": [1, 3, 5], "b": [2.0, 4.0, 6.0]}), pd.DataFrame({"a": [1, 3, 5], "b": [2, 4, 6]}, dtype="Int64"),
        pl.LazyFrame({"a": [1, 3, 5], "b": [2.0, 4.0, 6.0]}),
        sp.csr_array(NUMBERS), sp.csc_matrix(NUMBERS), sp.coo_array(NUMBERS), sp.lil_array(NUMBERS),
    ],
    ids=lambda given: f"{type(given).__module__.partition('.')[0]}-{type(given).__name__}",
)  # fmt: skip
def test_the_same_numbers_in_any_container_are_the_same_features(features):
    found = read_features(features, 3)
    np.testing.assert_array_equal(found.numbers.toarray() if found.is_sparse else found.numbers, NUMBERS)
    assert not found.missing.any()
    found.refuse_missing()


@pytest.mark.parametrize(
    "features",
    [
        [[1, 2], None, [5, 6]], [[1, 2], [NAN, 4], [5, 6]], [[1, 2], [None, None], [5, 6]],
        [np.array([1, 2]), None, np.array([5, 6])],
        np.array([[1, 2], [3, NAN], [5, 6]], dtype=np.float16), np.array([[1, 2], [None, 4], [5, 6]], dtype=object),
        np.ma.masked_equal(np.array([[1, 2], [3, 4], [5, 6]]), 4),
        pd.DataFrame({"a": [1, None, 5], "b": [2, 4, 6]}), pd.DataFrame({"a": [1, pd.NA, 5]}, dtype="Int8"),
        pl.DataFrame({"a": [1, None, 5], "b": [True, False, True]}), pl.DataFrame({"a": [1.0, NAN, 5.0]}),
        pa.table({"a": [1, 3, 5], "b": [True, None, False]}),
        sp.csr_array(np.array([[1, 2], [0, NAN], [0, 6]])),
        [1.0, None, 2.0], pd.Series([1.0, None, 2.0]), pl.Series([1, None, 2]), pa.chunked_array([[1, None, 2]]),
    ],
)  # fmt: skip
def test_an_item_with_any_number_absent_is_missing(features):
    found = read_features(features)
    assert found.missing.tolist() == [False, True, False]
    with pytest.raises(InputError, match=r"1 of 3 items .* .the first is item 1.*missing='ignore'"):
        found.refuse_missing()


def test_one_number_an_item_is_one_column():
    for features in (np.arange(3), [0, 1, 2], pd.Series([0, 1, 2]), pl.Series([0, 1, 2])):
        assert read_features(features).numbers.tolist() == [[0], [1], [2]]


def test_doubled_sparse_entries_are_added_and_the_users_matrix_stays():
    doubled = sp.csr_array((np.ones(3), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert read_features(doubled).numbers.toarray().tolist() == [[0, 2], [1, 0]]
    assert doubled.nnz == 3


def test_blocks_leave_out_missing_items_and_cover_all_others(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 1)
    monkeypatch.setattr(module, "FEWEST_ROWS", 4)
    numbers = np.arange(22.0).reshape(11, 2)
    numbers[[0, 5, 6, 10], 1] = NAN
    for features in (numbers, sp.csr_array(numbers)):
        seen = np.full((11, 2), -1.0)
        found = read_features(features)
        for here, block in found.blocks():
            seen[here] = block.toarray() if found.is_sparse else block
        present = ~np.isnan(numbers).any(axis=1)
        np.testing.assert_array_equal(seen[present], numbers[present])
        assert np.all(seen[~present] == -1)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_new_items_may_come_in_another_order(frame):
    fitted = read_features(frame({"a": [1, 2], "b": [3, 4], "c": [5, 6]}))
    new = read_features(frame({"c": [7], "a": [8], "b": [9]})).named_like(fitted.names, 3)
    assert new.numbers.tolist() == [[8, 9, 7]]
    with pytest.raises(InputError, match="column 'c' is in one of the two only"):
        read_features(frame({"a": [1], "b": [2]})).named_like(fitted.names, 3)
    with pytest.raises(InputError, match="column 'd' is in one of the two only"):
        read_features(frame({"a": [1], "b": [2], "c": [3], "d": [4]})).named_like(fitted.names, 3)
    unnamed = read_features(np.ones((1, 3))).named_like(fitted.names, 3)
    assert unnamed.numbers.tolist() == [[1, 1, 1]]


@pytest.mark.parametrize(
    ("features", "says"),
    [
        (None, "no features"),
        ([None, None], "no item has features"),
        (np.zeros((2, 2, 2)), "3 axes, expected 2.*reshape"),
        (np.zeros(()), "0 axes, expected 2"),
        (np.ones((2, 2), dtype=complex), "not complex128"),
        (sp.csr_array(np.ones((2, 2), dtype=complex)), "not complex128"),
        (sp.coo_array(np.ones(3)), "1 axes"),
        (np.array([["a", "b"]]), "not <U1"),
        ([["a", "b"]], "not <U1"),
        ([["a", 1.0]], "numbers"),
        (np.array([["a", 1]], dtype=object), "not numbers"),
        ([[1, 2], [3]], "differ in length"),
        ([[1, 2], None, [3]], "differ in length"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "not datetime64"),
        ("features.csv", "not <U12"),
        (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), "column 'b' holds String"),
        (pl.DataFrame({"a": [1, 2], "when": ["x", "y"]}), "column 'when' holds String"),
        (pa.table({"a": [[1.0], [2.0]]}), "column 'a' holds List"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns"),
        (np.array([[0, 1], [2, np.inf]]), "infinite or too large to be squared .item 1, feature 1."),
        (np.array([[NAN, 1], [2, -np.inf]], dtype=np.float32), "item 1, feature 1"),
        (np.array([[NAN, 1], [1e200, 1]]), "item 1, feature 0"),
        (sp.csr_array(np.array([[0, 1], [0, np.inf]])), "item 1, feature 1"),
        (sp.csr_array(np.array([[0, NAN], [0, 0], [-np.inf, 0]])), "item 2, feature 0"),
        (pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, np.inf]}), "item 1, feature 'b'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(features, says):
    with pytest.raises(InputError, match=says):
        read_features(features)


def test_rows_must_be_as_many_as_the_items():
    with pytest.raises(InputError, match="3 rows of features for 4 items"):
        read_features(NUMBERS, 4)


def test_a_wrong_number_of_columns_is_said():
    with pytest.raises(InputError, match="have 2 columns, the fit saw 3"):
        read_features(NUMBERS).named_like(None, 3)


def test_features_that_were_read_are_not_read_again():
    found = read_features(NUMBERS)
    assert read_features(found) is found


def test_no_items_and_no_columns_are_features_too():
    assert read_features(np.zeros((0, 3))).n_columns == 3
    assert read_features(np.zeros((3, 0))).n_items == 3
