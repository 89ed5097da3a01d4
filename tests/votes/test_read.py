"""read_votes of arrays, sparse matrices, probabilities and tables of votes: the same votes come out."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from labelfable.votes import VoteTable, read_votes
from tests.crowds import soft_of
from tests.votes.same import NAMED, VOTES, WORDS, assert_same, codes, named

MATRIX = np.array(VOTES)
EXPECTED = read_votes(MATRIX)


def masked(values, dtype=None):
    values = np.array(values)
    return np.ma.array(np.where(values < 0, 77, values).astype(dtype or values.dtype), mask=values < 0)


# -- arrays ----------------------------------------------------------------------------------------------------------

ARRAYS = {
    **{f"{dtype}": lambda dtype=dtype: MATRIX.astype(dtype) for dtype in ("int8", "int16", "int32", "int64")},
    **{
        f"{dtype} with NaN": lambda dtype=dtype: np.where(MATRIX < 0, np.nan, MATRIX).astype(dtype)
        for dtype in ("float16", "float32", "float64", "longdouble")
    },
    "float64 with -1": lambda: MATRIX.astype(float),
    "big-endian": lambda: MATRIX.astype(">i4"),
    "columns first": lambda: np.asfortranarray(MATRIX.astype(np.int8)),
    "every other row and column": lambda: np.repeat(np.repeat(MATRIX, 2, axis=0), 2, axis=1)[::2, ::2],
    "read-only": lambda: np.frombuffer(MATRIX.astype(np.int8).tobytes(), dtype=np.int8).reshape(4, 3),
    "matrix": lambda: MATRIX.view(np.matrix),
    "masked int": lambda: masked(VOTES),
    "masked uint": lambda: masked(VOTES, np.uint8),
    "masked float": lambda: masked(VOTES, float),
    "masked object": lambda: masked(VOTES, object),
    "objects with None": lambda: np.array([[None if v < 0 else v for v in row] for row in VOTES], dtype=object),
    "objects with NaN": lambda: np.array([[np.nan if v < 0 else v for v in row] for row in VOTES], dtype=object),
    "objects with pandas.NA": lambda: np.array([[pd.NA if v < 0 else v for v in row] for row in VOTES], dtype=object),
    "objects with pandas.NaT": lambda: np.array([[pd.NaT if v < 0 else v for v in row] for row in VOTES], dtype=object),
    "objects, floats": lambda: np.where(MATRIX < 0, None, MATRIX.astype(float).astype(object)),
    "objects, decimals": lambda: np.array([[Decimal(v) for v in row] for row in VOTES], dtype=object),
    "list": lambda: VOTES,
    "tuples": lambda: tuple(map(tuple, VOTES)),
    "list with None": lambda: [[None if v < 0 else v for v in row] for row in VOTES],
    "list with NaN": lambda: [[float("nan") if v < 0 else v for v in row] for row in VOTES],
    "list of arrays": lambda: list(MATRIX),
}


@pytest.mark.parametrize("form", ARRAYS)
def test_numbers_in_an_array(form):
    table = read_votes(ARRAYS[form]())
    assert_same(table, EXPECTED)
    assert table.votes.dtype == np.int8
    assert table.votes.flags.c_contiguous


TEXTS = {
    "list": lambda: WORDS,
    "objects": lambda: np.array(WORDS, dtype=object),
    "text with empty": lambda: np.array([[word or "" for word in row] for row in WORDS]),
    "text with -1": lambda: np.array([[word or "-1" for word in row] for row in WORDS]),
    "StringDType": lambda: np.array(WORDS, dtype=np.dtypes.StringDType(na_object=None)),
    "masked": lambda: np.ma.array(
        [[word or "hidden" for word in row] for row in WORDS], mask=[[word is None for word in row] for row in WORDS]
    ),
    "np.str_": lambda: np.array([[word and np.str_(word) for word in row] for row in WORDS], dtype=object),
}


@pytest.mark.parametrize("form", TEXTS)
def test_names_in_an_array(form):
    table = read_votes(TEXTS[form](), classes=NAMED)
    assert codes(table) == VOTES
    assert table.labels == tuple(NAMED)
    assert read_votes(TEXTS[form]()).classes.tolist() == sorted(NAMED)
    assert named(read_votes(TEXTS[form]())) == WORDS


def test_truth_values_are_classes_0_and_1():
    for votes in (np.array([[True, False]]), [[True, False]], np.array([[True, False]], dtype=object)):
        assert codes(read_votes(votes)) == [[1, 0]]
    assert codes(read_votes([[True, None], [False, True]])) == [[1, -1], [0, 1]]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_integers(dtype):
    assert codes(read_votes(np.array([[0, 3], [2, 1]], dtype=dtype))) == [[0, 3], [2, 1]]
    assert codes(read_votes(np.array([[0, 250], [2, 1]], dtype=dtype), abstain=250)) == [[0, -1], [2, 1]]


def test_minus_one_that_became_unsigned_can_be_read_by_saying_so():
    wrapped = MATRIX.astype(np.uint8)
    assert wrapped.max() == 255
    assert_same(read_votes(wrapped, abstain=255), EXPECTED)
    assert read_votes(wrapped, classes=256).votes[2].tolist() == [255] * 3


def test_without_a_copy_the_table_looks_at_an_array_of_its_own_type():
    votes = np.array([[0, 1], [2, -1]], dtype=np.int8)
    assert np.shares_memory(read_votes(votes, copy=False).votes, votes)
    for other in (votes.astype(np.int64), np.asfortranarray(votes), votes[::-1]):
        table = read_votes(other, copy=False)
        assert table.votes.dtype == np.int8
        assert table.votes.flags.c_contiguous
        assert table.votes.tolist() == other.tolist()


def test_the_table_keeps_a_copy():
    votes = np.array([[0, 1]], dtype=np.int8)
    table = read_votes(votes)
    votes[:] = -1
    assert codes(table) == [[0, 1]]


def test_one_item_one_source_one_vote():
    table = read_votes([[0]])
    assert (table.n_items, table.n_sources, table.n_classes) == (1, 1, 2)
    assert codes(table) == [[0]]
    assert table.sources == ("0",)


def test_classes_count_from_0_to_the_largest_vote_and_are_at_least_two():
    assert read_votes([[5]]).classes.tolist() == [0, 1, 2, 3, 4, 5]
    assert read_votes([[0]]).classes.tolist() == [0, 1]
    assert read_votes([[1]], abstain=0).classes.tolist() == [1, 2]
    assert read_votes([[0]], abstain=1).classes.tolist() == [0, 2]
    assert read_votes([[0, 3, 2]], abstain=2).classes.tolist() == [0, 1, 3]


@pytest.mark.parametrize("classes", [[2, 0, 1], np.array([2, 0, 1]), (2, 0, 1), pd.Index([2, 0, 1]), iter([2, 0, 1])])
def test_classes_fix_the_order_of_labels(classes):
    table = read_votes(VOTES, classes=classes)
    assert codes(table) == [[1, 2, -1], [0, -1, 0], [-1, -1, -1], [2, 2, 1]]
    assert table.classes.tolist() == [2, 0, 1]


def test_classes_far_apart_and_negative():
    votes = np.array([[-5, 10**15], [7, -5]])
    assert codes(read_votes(votes, classes=[10**15, 7, -5])) == [[2, 0], [1, 2]]
    big = [[2**60, 2**60 + 1], [None, 2**60]]  # float64 cannot tell them apart
    assert codes(read_votes(big, classes=[2**60, 2**60 + 1])) == [[0, 1], [-1, 0]]


def test_classes_plus_and_minus_one_with_0_for_abstain():
    votes = np.array([[1, 0, -1], [-1, -1, 1]])
    for form in (votes, votes.astype(float), votes.tolist(), pd.DataFrame(votes), pl.DataFrame(votes)):
        assert codes(read_votes(form, classes=[-1, 1], abstain=0)) == [[1, -1, 0], [0, 0, 1]]
    missing = np.where(votes == 0, np.nan, votes)
    assert codes(read_votes(missing, classes=[-1, 1], abstain=None)) == [[1, -1, 0], [0, 0, 1]]


@pytest.mark.parametrize("abstain", [9, 9.0, np.int8(9), "9"])
def test_another_value_for_abstain(abstain):
    nines = np.where(MATRIX < 0, 9, MATRIX)
    for form in (nines, nines.astype(np.uint8), nines.astype(float), nines.tolist(), nines.astype(object)):
        assert_same(read_votes(form, abstain=abstain), EXPECTED)


@pytest.mark.parametrize("abstain", [None, np.nan, pd.NA])
def test_no_value_but_missing_ones_for_abstain(abstain):
    votes = [[None, 0], [1, None]]
    assert codes(read_votes(votes, abstain=abstain)) == [[-1, 0], [1, -1]]
    assert codes(read_votes([["None", "x"], [None, "x"]], abstain=abstain)) == [[0, 1], [-1, 1]]


def test_a_word_for_abstain():
    table = read_votes([["yes", "?"], ["no", "-1"]], abstain="?")
    assert named(table) == [["yes", None], ["no", "-1"]]
    assert codes(read_votes([[0, 1], [None, 0]], abstain="?")) == [[0, 1], [-1, 0]]


def test_an_empty_table_is_possible_where_classes_are_given():
    for votes in (
        np.full((2, 3), -1),
        np.full((2, 3), np.nan),
        [[None] * 3] * 2,
        pd.DataFrame(np.full((2, 3), np.nan)),
    ):
        for classes in (2, ["a", "b"]):
            table = read_votes(votes, classes=classes)
            assert codes(table) == [[-1] * 3] * 2
            assert not table.covered.any()
    assert codes(read_votes(sp.csr_array((2, 3), dtype=int), classes=2)) == [[-1] * 3] * 2


def test_sources_name_the_columns_of_arrays():
    assert EXPECTED.sources == ("0", "1", "2")
    for sources in (["x", "y", "z"], np.array(["x", "y", "z"]), pd.Series(["x", "y", "z"])):
        assert read_votes(VOTES, sources=sources).sources == ("x", "y", "z")
    assert read_votes(VOTES, sources=[7, 8, 9]).sources == ("7", "8", "9")


# -- tables of votes -------------------------------------------------------------------------------------------------


def test_a_table_comes_back_as_it_is():
    assert read_votes(EXPECTED) is EXPECTED
    assert read_votes(EXPECTED, classes=3, sources=["0", "1", "2"]) is EXPECTED
    soft = read_votes(soft_of(MATRIX, 3))
    assert read_votes(soft) is soft
    quiet = EXPECTED.with_abstain_as_label()
    assert read_votes(quiet, classes=[0, 1, 2]) is quiet


def test_a_table_takes_on_classes_sources_and_exclusions():
    asked = {"classes": [2, 0, 1, 7], "sources": ["1", "0"], "exclusions": {9: 0}}
    assert_same(read_votes(EXPECTED, **asked), read_votes(pd.DataFrame(MATRIX), **asked))
    again = read_votes(EXPECTED, **asked)
    assert read_votes(again, **asked) is again
    assert isinstance(again, VoteTable)
