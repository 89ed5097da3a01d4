"""Bad votes: each is one error of ours that says what was wrong, where, and what to try.

Bad files are in test_files.py, bad gold labels in test_gold.py.
"""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from labelfable.errors import InputError
from labelfable.votes import read_votes

LABELS = np.array([["a", "b"], ["b", "a"]])
WIDE = pd.DataFrame({"x": [0, 1], "y": [1, 1]})
LONG = pd.DataFrame({"item": ["p", "q", "q"], "source": ["s", "s", "t"], "label": [0, 1, 1]})
EXCLUDING = read_votes([["a", "-a"]], classes=["a", "b"], exclusions={"-a": "a"})


class Bad(NamedTuple):
    """What is given to read_votes, and fragments of the three parts of its error."""

    votes: Any
    what: str
    where: str = ""
    hint: str = ""
    options: dict[str, Any] = {}  # noqa: RUF012 (never written to)


ARRAYS = {
    "nothing": Bad(None, "cannot read votes from a NoneType", hint="Give an array"),
    "a number": Bad(3, "cannot read votes from a int", hint="Give an array"),
    "a dict": Bad({"x": [0, 1]}, "cannot read votes from a dict", hint="pandas, polars or pyarrow table"),
    "bytes": Bad(b"votes.csv", "cannot read votes from a bytes", hint="the path of a file"),
    "an object": Bad(object(), "cannot read votes from a object", hint="Give an array"),
    "one dimension": Bad([0, 1, 1], "votes have 1 dimension, expected 2", hint="Reshape your data"),
    "a series": Bad(pd.Series([0, 1]), "votes have 1 dimension, expected 2", hint="Reshape your data"),
    "four dimensions": Bad(np.zeros((1, 1, 1, 1)), "votes have 4 dimensions, expected 2", hint="Reshape your data"),
    "no item": Bad(np.zeros((0, 3), int), "the votes have no item: zero rows"),
    "no source": Bad(np.zeros((3, 0), int), "the votes have no source: zero columns"),
    "an empty list": Bad([], "votes have 1 dimension, expected 2", hint="Reshape your data"),
    "no vote at all": Bad([[-1, -1]], "there is no vote at all", hint="Pass classes="),
    "no vote, by NaN": Bad([[np.nan, np.nan]], "there is no vote at all", hint="Pass classes="),
    "no vote, by None": Bad([[None, None]], "there is no vote at all", hint="Pass classes="),
    "no word at all": Bad([["", None]], "there is no vote at all", hint="Pass classes="),
    "rows of other lengths": Bad([[0, 1], [1]], "the votes are not a rectangular array", hint="NumPy says"),
    "words of other lengths": Bad([["a"], ["b", "a"]], "the votes are not a rectangular array", hint="-1 or None"),
    "a list among labels": Bad(
        np.array([[[0, 1], None]], dtype=object),
        "vote [0, 1] is of type list",
        "item 0, source '0'",
        "integers or text",
    ),
    "below -1": Bad([[0, 1], [1, -2]], "vote -2 is below -1", "item 1, source '1'", "abstain= or classes="),
    "below 0": Bad([[0, 9], [1, -2]], "vote -2 is below 0", "item 1, source '1'", "classes=", {"abstain": 9}),
    "-1 although another value abstains": Bad(
        [[0, 9], [-1, 1]], "vote -1 is below 0", "item 1, source '0'", "abstain=", {"abstain": 9}
    ),
    "-1 although a word abstains": Bad([[0, -1]], "vote -1 is below 0", "source '1'", "abstain=", {"abstain": "?"}),
    "half a label": Bad([[0, 1.5]], "vote 1.5 is not a label", "item 0, source '1'", "[items, sources, classes]"),
    "infinite": Bad([[0, 1], [np.inf, 1]], "vote inf is not a label", "item 1, source '0'", "whole numbers"),
    "infinite, as an object": Bad([[None, np.inf]], "vote inf is no whole number", "item 0, source '1'", "integers"),
    "half, as an object": Bad([[None, 0.5]], "vote 0.5 is no whole number", "item 0, source '1'", "integers"),
    "too large for a float": Bad([[0.0, 1e300]], "vote 1e+300 is too large for a label", "item 0, source '1'"),
    "past what a float can count": Bad(
        [[0.0, 2.0**53 + 2]], "is too large for a label", "item 0, source '1'", options={"classes": [0, 2**53 + 2]}
    ),
    "too large for 64 bits": Bad([[0, 2**70]], "is too large for a label", "item 0, source '1'", "integers"),
    "too large unsigned": Bad(np.array([[0, 2**63]], np.uint64), "vote 9223372036854775808 is too large", "source '1'"),
    "a thousand classes": Bad([[0, 1000]], "vote 1000 would mean 1001 classes", "item 0, source '1'", "Pass classes="),
    "-1 in bytes": Bad(np.array([[0, 255]], np.uint8), "vote 255 would mean 256", "item 0, source '1'", "abstain=255"),
    "a thousand words": Bad(
        np.arange(2000).astype(str).reshape(-1, 2), "2000 different labels", hint="with the columns of votes"
    ),
    "numbers and words": Bad([[0, "a"]], "vote 'a' is text, others are numbers", "item 0, source '1'", "all integers"),
    "words and numbers": Bad([["a", 0]], "vote 0 is a number, others are text", "item 0, source '1'", "all integers"),
    "complex": Bad(np.array([[1j]]), "Complex data not supported: labels are of type complex128", hint="integers"),
    "dates": Bad(np.array([["2020-01-01"]], "M8[D]"), "labels are of type datetime64[D]", hint="integers with -1"),
    "bytes in an array": Bad(np.array([[b"a"]]), "labels are of type |S1", hint="text with None"),
    "a date as an object": Bad(
        np.array([[pd.Timestamp(0)]], dtype=object), "is of type Timestamp, which cannot be a label", "source '0'"
    ),
}
OPTIONS = {
    "label that is no class": Bad(
        [[0, 7]], "vote 7 is not a known label", "item 0, source '1'", "are 0, 1", {"classes": 2}
    ),
    "label that is no class, in another order": Bad(
        [[0, 2], [-1, 1]], "vote 1 is not a known label", "item 1, source '1'", "are 2, 0", {"classes": [2, 0]}
    ),
    "word that is no class": Bad(
        LABELS, "vote 'b' is not a known label", "item 0, source '1'", "are 'a', 'c'", {"classes": ["a", "c"]}
    ),
    "numbers for named classes": Bad(
        [[0, 1]],
        "votes are numbers but the classes are names: 'a', 'b'",
        hint="by name",
        options={"classes": ["a", "b"]},
    ),
    "words for numbered classes": Bad(
        LABELS, "vote 'a' is not a known label", "item 0, source '0'", "are 0, 1", {"classes": 2}
    ),
    "no classes": Bad([[0]], "classes is empty", hint="Leave it out", options={"classes": []}),
    "minus two classes": Bad([[0]], "classes is empty", hint="Leave it out", options={"classes": -2}),
    "a million classes": Bad([[0]], "1000000 classes are too many", hint="At most 10000", options={"classes": 10**6}),
    "a class twice": Bad([[0]], "class 1 is given twice in classes", options={"classes": [0, 1, 1]}),
    "a missing class": Bad([[0]], "classes holds a missing value", hint="Missing", options={"classes": ["a", None]}),
    "classes of two kinds": Bad(
        [[0]], "classes mixes kinds of names: 0, 'a'", hint="all", options={"classes": [0, "a"]}
    ),
    "classes that are lists": Bad([[0]], "classes mixes kinds of names: [0], [1]", options={"classes": [[0], [1]]}),
    "classes as one word": Bad([[0]], "classes='ab' is not a list of names", hint="list", options={"classes": "ab"}),
    "classes without an order": Bad([[0]], "is not a list of names", hint="order counts", options={"classes": {0, 1}}),
    "half a class": Bad([[0]], "classes=1.5 is not a list of names", hint="list", options={"classes": 1.5}),
    "too large a class": Bad([[0]], "a class is too large a number", options={"classes": [0, 2**70]}),
    "abstain is a class": Bad(
        [[-1, 1]], "-1 is a label and also means abstain", hint="abstain=None", options={"classes": [-1, 1]}
    ),
    "abstain is a named class": Bad(
        LABELS,
        "'a' is a label and also means abstain",
        hint="Pass abstain=",
        options={"classes": ["a", "b"], "abstain": "a"},
    ),
    "abstain is half": Bad([[0]], "abstain=0.5 cannot be a vote", hint="integer or text", options={"abstain": 0.5}),
    "abstain is a list": Bad([[0]], "abstain=[9] cannot be a vote", hint="integer or text", options={"abstain": [9]}),
    "too few sources": Bad([[0, 1]], "the votes have 2 sources, expected 1", hint="'x'", options={"sources": ["x"]}),
    "a source twice": Bad([[0, 1]], "two sources have the same name: 'x'", options={"sources": ["x", "x"]}),
    "sources as one word": Bad([[0, 1]], "sources='xy' is not a list", hint="in order", options={"sources": "xy"}),
    "no sources": Bad(WIDE, "sources=[] is not a list of names", hint="in order", options={"sources": []}),
    "layout that is a list": Bad([[0]], "layout=['long'] is unknown", hint="'auto'", options={"layout": ["long"]}),
    "a number of sources": Bad([[0, 1]], "sources=2 is not a list of names", hint="in order", options={"sources": 2}),
    "layout unknown": Bad(
        [[0]], "layout='tall' is unknown", hint="'auto', 'wide' or 'long'", options={"layout": "tall"}
    ),
    "long array": Bad([[0, 0, 1]], "layout= is for tables", hint="leave it out", options={"layout": "long"}),
    "items of an array": Bad([[0]], "items= is for tables", hint="leave it out", options={"items": ["p"]}),
    "column of an array": Bad([[0]], "label= is for tables", hint="leave it out", options={"label": "vote"}),
    "exclusions without classes": Bad(
        [[0]], "exclusions need classes", hint="Pass classes", options={"exclusions": {2: 0}}
    ),
    "exclusion of no class": Bad(
        [[0]],
        "exclusion label 2 rules out 5, which is not a class",
        hint="are 0, 1",
        options={"classes": 2, "exclusions": {2: 5}},
    ),
    "exclusion that is a class": Bad(
        [[0]], "exclusion label 1 is also the name of a class", options={"classes": 2, "exclusions": {1: 0}}
    ),
    "exclusion of all": Bad([[0]], "rules out the only class 0", options={"classes": 1, "exclusions": {1: 0}}),
    "half an exclusion": Bad(
        [[0]],
        "exclusion label 2.5 cannot be a vote",
        hint="integer or text",
        options={"classes": 2, "exclusions": {2.5: 0}},
    ),
    "exclusion that is missing": Bad(
        [[0]], "exclusion label None cannot be a vote", options={"classes": 2, "exclusions": {None: 0}}
    ),
    "exclusion too large": Bad([[0]], "cannot be a vote", options={"classes": 2, "exclusions": {2**70: 0}}),
    "exclusions where none are expected": Bad(
        EXCLUDING, "an exclusion label '-a' against 'a'", hint="asked for are {}", options={"exclusions": {}}
    ),
    "exclusions as a list": Bad([[0]], "exclusions=[2] is no mapping", hint="{label", options={"exclusions": [2]}),
    "exclusion of a list": Bad([[0]], "which is not a class", options={"classes": 2, "exclusions": {2: [0, 1]}}),
    "class missing from those asked for": Bad(
        read_votes(LABELS), "the votes have class 'b'", hint="are 'a', 'c'", options={"classes": ["a", "c"]}
    ),
    "source missing from the table": Bad(
        read_votes(LABELS), "the votes have no source 'x'", hint="Expected '0', 'x'", options={"sources": ["0", "x"]}
    ),
    "exclusion label missing from those asked for": Bad(
        EXCLUDING, "an exclusion label '-a' against 'a'", hint="{'-a': 'b'}", options={"exclusions": {"-a": "b"}}
    ),
}
SPARSE = {
    "class 0 lost": Bad(sp.csr_array(np.array([[0, 1]])), "store no 0, so class 0 cannot", hint="explicit zero"),
    "class 0 lost beside -1": Bad(
        sp.csr_array(np.array([[0, -1, 1]])), "class 0 seems to be lost", hint="dense matrix", options={"classes": 2}
    ),
    "nothing but -1": Bad(sp.csr_array(np.array([[0, -1]])), "class 0 seems to be lost", hint="dense matrix"),
    "nothing stored": Bad(sp.csr_array((2, 3), dtype=int), "there is no vote at all", hint="Pass classes="),
    "blocks": Bad(sp.bsr_array(np.eye(4, dtype=int)), "sparse votes in BSR format", hint="COO, CSR or CSC"),
    "diagonals": Bad(sp.dia_array(np.eye(4, dtype=int)), "sparse votes in DIA format", hint="COO, CSR or CSC"),
    "one dimension, sparse": Bad(sp.coo_array(np.array([0, 1])), "the sparse votes have shape (2,), expected 2"),
    "no item, sparse": Bad(sp.csr_array((0, 3)), "the votes have no item: zero rows"),
    "complex, sparse": Bad(
        sp.csr_array(np.array([[1j]])), "sparse votes are of type complex128", hint="integer labels"
    ),
    "half, sparse": Bad(
        sp.csc_array(np.array([[0, 0.5], [1, 1]])), "vote 0.5 is not a label", "item 0, source '1'", "whole numbers"
    ),
    "unknown, sparse": Bad(
        sp.csr_array(np.array([[0, 1], [5, 0]])),
        "vote 5 is not a known label",
        "item 1, source '0'",
        options={"classes": 3},
    ),
    "two labels in a cell": Bad(
        sp.coo_array((np.array([0, 1]), ([1, 1], [0, 0])), shape=(2, 2)),
        "source '0' votes both 0 and 1",
        "item 1",
        "Keep one vote",
    ),
}
SOFT = {
    "sum above one": Bad(
        [[[0.5, 0.6]]], "soft vote [0.5 0.6] is not a distribution", "item 0, source '0'", "sums to 1"
    ),
    "negative": Bad([[[1, 0], [-0.5, 1.5]]], "soft vote [-0.5  1.5] is not", "item 0, source '1'", "non-negative"),
    "partly NaN": Bad([[[np.nan, 1.0]]], "is not a distribution", "item 0, source '0'", "all zero (or NaN)"),
    "partly hidden": Bad(
        np.ma.array([[[0.0, 1.0]]], mask=[[[True, False]]]), "soft vote [nan  1.] is not", "item 0, source '0'"
    ),
    "infinite": Bad([[[np.inf, 0.0]]], "soft vote [inf  0.] is not a distribution", "item 0, source '0'"),
    "sum beyond float": Bad(np.full((1, 1, 2), 1e308), "is not a distribution", "item 0, source '0'", "sums to 1"),
    "one-hot labels times two": Bad([[[0, 2]]], "soft vote [0. 2.] is not a distribution", "item 0, source '0'"),
    "classes that do not fit": Bad(
        [[[0.5, 0.5]]], "soft votes are over 2 labels, expected 3", hint="are 0, 1, 2", options={"classes": 3}
    ),
    "no class": Bad(np.zeros((1, 1, 0)), "classes is empty"),
    "no item, soft": Bad(np.zeros((0, 2, 2)), "the votes have no item: zero rows"),
    "no source, soft": Bad(np.zeros((2, 0, 2)), "the votes have no source: zero columns"),
    "words, soft": Bad(np.full((1, 1, 2), "a"), "soft votes are of type <U1", hint="probabilities as floats"),
}
FRAMES = {
    "no row": Bad(WIDE[:0], "the votes have no item: zero rows"),
    "no column": Bad(pl.DataFrame({"item": [1, 2]}), "the table has no column of votes", hint="are 'item'"),
    "two columns of one name": Bad(
        pd.DataFrame([[0, 1]], columns=["x", "x"]), "two columns of the votes have the same name", hint="'x' 2 times"
    ),
    "two columns of one name, pyarrow": Bad(
        pa.table([[0], [1]], names=["x", "x"]), "two columns of the votes have the same name", hint="'x' 2 times"
    ),
    "a number and its digits as names": Bad(
        pd.DataFrame([[0, 1]], columns=[1, "1"]), "two columns have the same name: '1'"
    ),
    "source without a column": Bad(
        WIDE, "no column for source 'z'", hint="are 'x', 'y'", options={"sources": ["x", "z"]}
    ),
    "item without a column": Bad(WIDE, "no column 'doc' in the votes", hint="are 'x', 'y'", options={"item": "doc"}),
    "items of a wide table": Bad(WIDE, "items goes with long tables", hint="one row", options={"items": [0, 1]}),
    "a column of text beside votes": Bad(
        WIDE.assign(text=["so", "what"]), "column 'y' holds numbers and column 'text' text", hint="Pass sources="
    ),
    "a column of features": Bad(
        WIDE.assign(size=[0.25, 1]), "vote 0.25 is not a label", "item 0, source 'size'", "whole numbers"
    ),
    "a column of dates": Bad(
        WIDE.assign(day=[pd.Timestamp(0)] * 2), "which cannot be a label", "item 0, source 'day'", "integers or"
    ),
    "a column of lists": Bad(
        pl.DataFrame({"x": [[0, 1]]}), "vote [0, 1] is of type list, which cannot be a label", "item 0, source 'x'"
    ),
    "a column of records": Bad(
        pa.table({"x": [{"label": 1}]}), "is of type dict, which cannot be a label", "item 0, source 'x'"
    ),
    "a column of bytes": Bad(
        pa.table({"x": [None, b"a"]}), "vote b'a' is of type bytes, which cannot be a label", "item 1, source 'x'"
    ),
    "a column of both kinds": Bad(
        pd.DataFrame({"x": ["a", None, 1]}), "vote 1 is a number, others are text", "item 2, source 'x'"
    ),
    "a column of both kinds, polars": Bad(
        pl.DataFrame({"x": pl.Series(["a", 1], dtype=pl.Object)}), "vote 1 is a number, others", "item 1, source 'x'"
    ),
    "huge integers in polars": Bad(
        pl.DataFrame({"x": pl.Series([1, 2**100], dtype=pl.Int128)}), "too large for a label", "item 1, source 'x'"
    ),
}
LONGS = {
    "long or wide": Bad(
        LONG.assign(time=1), "may be long (columns item, source, label) or wide", "also has 'time'", "layout='wide'"
    ),
    "no such column": Bad(LONG, "no column 'who' in the votes", hint="'item', 'source'", options={"source": "who"}),
    "column not to be told": Bad(
        LONG.rename(columns={"source": "who"}),
        "cannot tell which column holds the source",
        hint="Pass source=NAME",
        options={"layout": "long"},
    ),
    "contradiction": Bad(
        pd.concat((LONG, LONG[:1].assign(label=1))),
        "source 's' votes both 0 and 1",
        "item 'p'",
        "name the second round",
    ),
    "contradiction, stored sparsely": Bad(
        pd.DataFrame({"item": [*range(99), 7], "source": [*range(99), 7], "label": [*[0, 1] * 49, 0, 0]}),
        "source '7' votes both 1 and 0",
        "item 7",
        "Keep one vote",
    ),
    "item missing": Bad(LONG.assign(item=["p", None, "q"]), "missing item in the votes", "row 1"),
    "source missing": Bad(LONG.assign(source=["s", "t", None]), "missing source in the votes", "row 2"),
    "item not expected": Bad(LONG, "unknown item 'q' in the votes", "row 1", "Expected 'p'", {"items": ["p"]}),
    "source not expected": Bad(LONG, "unknown source 't' in the votes", "row 2", "Expected 's'", {"sources": ["s"]}),
    "item expected twice": Bad(LONG, "item 'p' is given twice", options={"items": ["p", "q", "p"]}),
    "items as one word": Bad(
        LONG, "items='pq' is not a list of names", hint="one name an item", options={"items": "pq"}
    ),
    "items that are lists": Bad(LONG, "is not a list of names", hint="one name an item", options={"items": [["p"]]}),
    "label of no class": Bad(
        LONG.assign(label=[0, 5, 1]), "vote 5 is not a known label", "row 1, column 'label'", "are 0, 1", {"classes": 2}
    ),
    "half a label, long": Bad(LONG.assign(label=[0, 1, 0.5]), "vote 0.5 is not a label", "row 2, column 'label'"),
    "label of both kinds": Bad(LONG.assign(label=[0, "a", 1]), "vote 'a' is text", "row 1, column 'label'"),
}
CASES = ARRAYS | OPTIONS | SPARSE | {f"soft: {name}": bad for name, bad in SOFT.items()} | FRAMES | LONGS


@pytest.mark.parametrize("name", CASES)
def test_bad_votes_say_what_where_and_what_to_try(name):
    bad = CASES[name]
    with pytest.raises(InputError) as caught:
        read_votes(bad.votes, **bad.options)
    error = caught.value
    assert type(error) is InputError
    assert bad.what in error.what
    assert bad.where in error.where
    assert bool(bad.where) == bool(error.where)
    assert bad.hint in error.hint
    assert str(error).startswith(error.what)
    assert all(part in str(error) for part in (error.where, error.hint))
    assert "\n" not in error.what + error.where
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own bytes): errors cross processes
    assert str(again) == str(error)


def test_no_case_is_lost():
    assert len(CASES) == sum(map(len, (ARRAYS, OPTIONS, SPARSE, SOFT, FRAMES, LONGS)))
