"""read_gold: known labels in the words of the votes, in whatever holds them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from labelfable.errors import InputError
from labelfable.votes import read_gold, read_votes
from tests.votes.same import NAMED, VOTES, WORDS, codes

NUMBERS = read_votes(VOTES)
NAMES = read_votes(WORDS, classes=NAMED)
GOLD = [2, -1, 0, 1]

FORMS = {
    "list": lambda: GOLD,
    "list with None": lambda: [2, None, 0, 1],
    "list with NaN": lambda: [2.0, np.nan, 0, 1],
    "int8": lambda: np.array(GOLD, dtype=np.int8),
    "float32": lambda: np.array([2, np.nan, 0, 1], dtype=np.float32),
    "object": lambda: np.array([2, None, 0, 1], dtype=object),
    "column": lambda: np.array(GOLD)[:, None],
    "masked": lambda: np.ma.array([2, 77, 0, 1], mask=[0, 1, 0, 0]),
    "masked column": lambda: np.ma.array([[2], [77], [0], [1]], mask=[[0], [1], [0], [0]]),
    "every other": lambda: np.repeat(GOLD, 2)[::2],
    "pandas": lambda: pd.Series([2, None, 0, 1]),
    "pandas Int64": lambda: pd.Series([2, None, 0, 1], dtype="Int64"),
    "pandas category": lambda: pd.Series([2, None, 0, 1], dtype="category"),
    "pandas, own index": lambda: pd.Series(GOLD, index=[9, 8, 7, 6]),
    "pandas table": lambda: pd.DataFrame({"gold": GOLD}),
    "polars": lambda: pl.Series([2, None, 0, 1]),
    "polars table": lambda: pl.DataFrame({"gold": [2, None, 0, 1]}),
    "pyarrow": lambda: pa.chunked_array([[2, None], [0, 1]]),
    "pyarrow array": lambda: pa.array([2, -1, 0, 1]),
}
WORD_FORMS = {
    "list": lambda: ["eggs", None, "ham", "spam"],
    "text": lambda: np.array(["eggs", "", "ham", "spam"]),
    "text with -1": lambda: np.array(["eggs", "-1", "ham", "spam"]),
    "object": lambda: np.array(["eggs", np.nan, "ham", "spam"], dtype=object),
    "pandas": lambda: pd.Series(["eggs", None, "ham", "spam"]),
    "pandas category": lambda: pd.Series(["eggs", None, "ham", "spam"], dtype="category"),
    "polars": lambda: pl.Series(["eggs", None, "ham", "spam"]),
    "polars Categorical": lambda: pl.Series(["eggs", None, "ham", "spam"], dtype=pl.Categorical),
    "pyarrow": lambda: pa.chunked_array([["eggs", None, "ham", "spam"]]),
}


@pytest.mark.parametrize("form", FORMS)
def test_gold_numbers(form):
    table, gold = read_gold(FORMS[form](), NUMBERS)
    assert table is NUMBERS
    assert gold.tolist() == GOLD


@pytest.mark.parametrize("form", WORD_FORMS)
def test_gold_names(form):
    table, gold = read_gold(WORD_FORMS[form](), NAMES)
    assert table is NAMES
    assert gold.tolist() == GOLD


@pytest.mark.parametrize("y", [None, [-1] * 4, [None] * 4, np.full(4, np.nan), ["", None, "", ""]])
def test_no_gold_at_all(y):
    for table in (NUMBERS, NAMES):
        assert read_gold(y, table) == (table, None)


def test_truth_values_are_gold_of_classes_0_and_1():
    assert read_gold([True, False, True, True], NUMBERS)[1].tolist() == [1, 0, 1, 1]


def test_minus_one_is_a_class_where_the_votes_have_it():
    table = read_votes([[-1, 1], [1, 0]], classes=[-1, 1], abstain=0)
    assert read_gold([-1, 1], table)[1].tolist() == [0, 1]
    assert read_gold([None, -1], table)[1].tolist() == [-1, 0]


def test_classes_that_only_gold_names_join_the_table():
    table, gold = read_gold([4, -1, 0, 1], NUMBERS)
    assert (table.classes.tolist(), gold.tolist()) == ([0, 1, 2, 3, 4], [4, -1, 0, 1])
    assert codes(table) == VOTES
    named, gold = read_gold(["toast", None, "ham", "spam"], NAMES)
    assert (named.classes.tolist(), gold.tolist()) == ([*NAMED, "toast"], [3, -1, 0, 1])
    assert codes(named) == VOTES
    in_order, gold = read_gold(["c", None], read_votes([["d", "a"], ["a", "d"]]))
    assert (in_order.classes.tolist(), gold.tolist(), codes(in_order)) == (["a", "c", "d"], [1, -1], [[2, 0], [0, 2]])
    apart, gold = read_gold([10**9, 5], read_votes([[5, 7], [7, 5]], classes=[7, 5]))
    assert (apart.classes.tolist(), gold.tolist()) == ([7, 5, 10**9], [2, 1])
    quiet, gold = read_gold([4, -1, 0, 1], NUMBERS.with_abstain_as_label())
    assert (quiet.silence, quiet.n_labels, gold.tolist()) == (True, 6, [4, -1, 0, 1])


EXCLUDING = read_votes([["a", "-a"]], classes=["a", "b"], exclusions={"-a": "a"})

# gold, votes, fragments of what, where and hint
BAD = {
    "too short": ([1, 0], NUMBERS, "y has shape (2,) but there are 4 items", "", "one gold label an item"),
    "too wide": (np.zeros((4, 2)), NUMBERS, "y has shape (4, 2) but there are 4 items", "", "one gold label an item"),
    "a number": (1, NUMBERS, "y has shape () but there are 4 items", "", "one gold label an item"),
    "two columns": (pd.DataFrame({"a": GOLD, "b": GOLD}), NUMBERS, "y has shape (4, 2)", "", "one gold label an item"),
    "column too short": (pl.Series([1]), NUMBERS, "y has shape (1,) but there are 4 items", "", "one gold label"),
    "words for numbers": (
        ["x", "y", "x", "x"],
        NUMBERS,
        "y holds 'x', 'y' but the classes are 0, 1",
        "",
        "same words",
    ),
    "numbers for words": (GOLD, NAMES, "y holds '0', '1', '2' but the classes are 'ham'", "", "same words"),
    "half a class": ([0.5, 1, 1, 1], NUMBERS, "vote 0.5 is not a label", "item 0 of y", "whole numbers"),
    "infinite": ([1, np.inf, 1, 1], NUMBERS, "vote inf is not a label", "item 1 of y", "whole numbers"),
    "negative": ([0, 1, -4, 1], NUMBERS, "gold label -4 is below -1", "", "Unknown gold is -1"),
    "far too large": ([0, 1, 10**9, 1], NUMBERS, "gold label 1000000000 would mean", "", "Pass classes="),
    "two kinds": ([0, "x", 1, 1], NUMBERS, "vote 'x' is text, others are numbers", "item 1 of y", "all integers"),
    "lists": ([[0], [1, 2], [1], [1]], NUMBERS, "the gold labels y are not a rectangular array", "", "NumPy says"),
    "complex": (np.full(4, 1j), NUMBERS, "labels are of type complex128", "", "integers with -1"),
    "class unknown to exclusions": (["c"], EXCLUDING, "gold label 'c' is not a class", "", "Pass all classes"),
    "dates": (
        pd.Series([pd.Timestamp(0)] * 4),
        NUMBERS,
        "which cannot be a label",
        "item 0 of y",
        "integers",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_gold_says_what_and_where(case):
    y, table, what, where, hint = BAD[case]
    with pytest.raises(InputError) as caught:
        read_gold(y, table)
    assert what in caught.value.what
    assert caught.value.where == where
    assert hint in caught.value.hint
