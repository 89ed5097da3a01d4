"""read_votes on generated votes: every form of the same votes gives the same table."""

from __future__ import annotations

import tempfile
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from labelfable.errors import LabelfableError
from labelfable.votes import VoteTable, read_gold, read_votes
from tests.votes.same import assert_same, codes, cube

WORDS = [
    "ham",
    "spam",
    "",
    "NA",
    "null",
    "-1",
    "0",
    "a,b",
    'say "no"',
    "naïve",
    "汉",
    " pad ",
    "-0",
    "1e5",
    "True",
    "x" * 200,
]
WORDS.remove("")  # an empty word is a missing one
WORDS.remove("-1")  # and this one means abstain


class Case(NamedTuple):
    """Label numbers [items, sources], −1 = abstain, and the names of all that is numbered."""

    votes: np.ndarray
    n_classes: int
    words: list[str]
    """One name a class."""
    sources: list[str]
    order: np.random.Generator
    """For what has no order of its own."""

    @property
    def expected(self) -> VoteTable:
        return read_votes(self.votes, classes=self.n_classes, sources=self.sources)

    def nullable(self, names: list[Any]) -> list[list[Any]]:
        """Rows of names, None = abstain."""
        return [[None if vote < 0 else names[vote] for vote in row] for row in self.votes.tolist()]

    def columns(self, names: list[Any]) -> dict[str, list[Any]]:
        """A column of names for each source."""
        rows = self.nullable(names)
        return {source: [row[j] for row in rows] for j, source in enumerate(self.sources)}

    def long(self, names: list[Any]) -> dict[str, list[Any]]:
        """A row a vote, in any order."""
        rows, places = np.nonzero(self.votes >= 0)
        mixed = self.order.permutation(len(rows))
        return {
            "item": rows[mixed].tolist(),
            "source": [self.sources[j] for j in places[mixed]],
            "label": [names[vote] for vote in self.votes[rows, places][mixed].tolist()],
        }


@st.composite
def cases(draw, *, least_votes: int = 0) -> Case:
    n_items, n_sources = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    n_classes = draw(st.integers(1, 5) | st.just(200))
    votes = draw(st_np.arrays(np.int64, (n_items, n_sources), elements=st.integers(-1, n_classes - 1)))
    if least_votes and (votes < 0).all():
        votes[0, 0] = 0
    plain = draw(st.permutations(WORDS))
    words = plain[:n_classes] if n_classes <= len(WORDS) else [f"class {k}" for k in range(n_classes)]
    sources = draw(st.permutations([f"s{j}" for j in range(n_sources)]))
    return Case(votes, n_classes, words, sources, np.random.default_rng(draw(st.integers(0, 2**32 - 1))))


def coo(case: Case) -> sp.coo_array:
    rows, columns = np.nonzero(case.votes >= 0)
    mixed = case.order.permutation(len(rows))
    entries = (case.votes[rows, columns][mixed], (rows[mixed], columns[mixed]))
    return sp.coo_array(entries, shape=case.votes.shape)


def typed(columns: dict[str, list[Any]]) -> pa.Table:
    """An Arrow table in which a column without votes has a type all the same."""
    kind = pa.string() if any(isinstance(v, str) for column in columns.values() for v in column) else pa.int16()
    return pa.table({name: pa.array(column, kind) for name, column in columns.items()})


NUMBERS = {
    "int8 or int16": lambda case: case.votes.astype(np.int8 if case.n_classes < 127 else np.int16),
    "float32": lambda case: np.where(case.votes < 0, np.nan, case.votes).astype(np.float32),
    "masked": lambda case: np.ma.array(np.abs(case.votes).astype(np.uint8), mask=case.votes < 0),
    "columns first": lambda case: np.asfortranarray(case.votes),
    "strided": lambda case: np.repeat(case.votes, 3, axis=1)[:, ::3],
    "list": lambda case: case.votes.tolist(),
    "list with None": lambda case: case.nullable(list(range(case.n_classes))),
    "coo": coo,
    "csr": lambda case: coo(case).tocsr(),
    "csc": lambda case: coo(case).tocsc(),
    "pandas": lambda case: pd.DataFrame(case.votes, columns=case.sources),
    "pandas Int16": lambda case: pd.DataFrame(case.columns(list(range(case.n_classes))), dtype="Int16"),
    "pandas float": lambda case: pd.DataFrame(np.where(case.votes < 0, np.nan, case.votes), columns=case.sources),
    "polars": lambda case: pl.DataFrame(case.columns(list(range(case.n_classes)))),
    "pyarrow": lambda case: typed(case.columns(list(range(case.n_classes)))),
    "table": lambda case: case.expected,
}
TEXTS = {
    "list": lambda case: case.nullable(case.words),
    "objects": lambda case: np.array(case.nullable(case.words), dtype=object),
    "text": lambda case: np.array([[word or "" for word in row] for row in case.nullable(case.words)]),
    "pandas": lambda case: pd.DataFrame(case.columns(case.words), dtype="str"),
    "pandas category": lambda case: pd.DataFrame(case.columns(case.words)).astype("category"),
    "polars": lambda case: pl.DataFrame(case.columns(case.words)),
    "polars Categorical": lambda case: pl.DataFrame(
        case.columns(case.words), schema_overrides=dict.fromkeys(case.sources, pl.Categorical)
    ),
    "pyarrow": lambda case: typed(case.columns(case.words)),
    "pyarrow dictionary": lambda case: pa.table(
        {name: pa.array(column, pa.string()).dictionary_encode() for name, column in case.columns(case.words).items()}
    ),
}
LONGS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "pandas category": lambda long: pd.DataFrame(long).astype("category"),
}
FILES = {
    "votes.csv": lambda frame, path: arrow_csv.write_csv(
        frame, path, arrow_csv.WriteOptions(quoting_style="all_valid")
    ),
    "votes.parquet": parquet.write_table,
}


@pytest.mark.parametrize("form", NUMBERS)
@given(case=cases())
@settings(max_examples=25, deadline=None)
def test_numbers_are_the_same_votes_in_any_form(form, case):
    assert_same(read_votes(NUMBERS[form](case), classes=case.n_classes, sources=case.sources), case.expected)


@pytest.mark.parametrize("form", TEXTS)
@given(case=cases())
@settings(max_examples=25, deadline=None)
def test_names_are_the_same_votes_in_any_form(form, case):
    table = read_votes(TEXTS[form](case), classes=case.words, sources=case.sources)
    assert codes(table) == case.votes.tolist()
    assert table.labels == tuple(case.words)
    assert table.sources == tuple(case.sources)


@pytest.mark.parametrize("form", LONGS)
@given(case=cases(least_votes=1), text=st.booleans())
@settings(max_examples=25, deadline=None)
def test_long_tables_in_any_order_are_the_same_votes(form, case, text):
    names = case.words if text else list(range(case.n_classes))
    table = read_votes(LONGS[form](case.long(names)), items=range(len(case.votes)), sources=case.sources, classes=names)
    assert codes(table) == case.votes.tolist()
    assert table.labels == tuple(names)
    assert table.items.tolist() == list(range(len(case.votes)))


@pytest.mark.parametrize("name", FILES)
@given(case=cases(), text=st.booleans(), wide=st.booleans())
@settings(max_examples=40, deadline=None)
def test_files_are_the_same_votes(name, case, text, wide):
    names = case.words if text else list(range(case.n_classes))
    if not wide and (case.votes < 0).all():
        wide = True  # a long table without a row is no table
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        FILES[name](typed(case.columns(names)) if wide else pa.table(case.long(names)), path)
        table = read_votes(path, classes=names, sources=case.sources, items=None if wide else range(len(case.votes)))
    assert codes(table) == case.votes.tolist()
    assert table.labels == tuple(names)


@given(cases(least_votes=1))
@settings(deadline=None)
def test_classes_that_are_not_given_are_found(case):
    numbers = read_votes(case.votes)
    assert numbers.classes.tolist() == list(range(max(case.votes.max() + 1, 2)))
    assert codes(numbers) == case.votes.tolist()
    rows = case.nullable(case.words)
    words = read_votes(rows)
    assert words.classes.tolist() == sorted({word for row in rows for word in row if word is not None})
    assert [[None if code < 0 else words.labels[code] for code in row] for row in codes(words)] == rows


@given(cases(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_permuting_items_sources_and_classes_permutes_the_table(case, random):
    items, places, classes = (random.sample(range(size), size) for size in (*case.votes.shape, case.n_classes))
    frame = pd.DataFrame(case.votes, columns=case.sources).iloc[items]
    sources = [case.sources[j] for j in places]
    found = read_votes(frame, sources=sources, classes=classes)
    np.testing.assert_array_equal(cube(found), cube(case.expected)[np.ix_(items, places, classes)])
    assert_same(read_votes(case.expected.rows(items), sources=sources, classes=classes), found)
    shuffled = read_votes(coo(case), sources=case.sources, classes=case.n_classes)
    assert_same(read_votes(shuffled.rows(items), sources=sources, classes=classes), found)


@given(cases(), st.sampled_from(sorted(NUMBERS)))
@settings(deadline=None)
def test_reading_what_was_read_changes_nothing(case, form):
    asked = {"classes": case.n_classes, "sources": case.sources}
    once = read_votes(NUMBERS[form](case), **asked)
    assert read_votes(once) is once
    assert read_votes(once, **asked) is once
    if once.is_dense:
        assert_same(read_votes(once.votes, **asked), once)


@given(cases(least_votes=1), st.sampled_from(["int8", "float64", "object", "pandas", "polars"]), st.booleans())
@settings(deadline=None)
def test_gold_is_the_same_in_any_form(case, form, text):
    gold = case.votes[:, 0]
    names = case.words if text else list(range(case.n_classes))
    table = read_votes(case.nullable(names), classes=names)
    column = case.nullable(names)
    values = [row[0] for row in column]
    if form in {"int8", "float64"} and not text:
        values = gold.astype(np.int16 if form == "int8" else np.float64)
    elif form == "object":
        values = np.array(values, dtype=object)
    elif form in {"pandas", "polars"}:
        values = (pd.Series if form == "pandas" else pl.Series)(values)
    same, found = read_gold(values, table)
    assert same is table
    assert (gold.tolist() if (gold >= 0).any() else None) == (None if found is None else found.tolist())


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.decimals(),
    st.dates(),
    st.sampled_from([pd.NA, pd.NaT, np.float32(1), np.int8(1), np.str_("a")]),
    st.sampled_from([Decimal("sNaN"), date(2020, 1, 1), object(), {}, set(), [0], ()]),
)
ROWS = st.lists(st.lists(SCALARS, max_size=4), max_size=4)


@given(
    st.one_of(
        SCALARS,
        ROWS,
        st.lists(ROWS, max_size=3),
        st.integers(0, 4).flatmap(
            lambda width: st.lists(st.lists(SCALARS, min_size=width, max_size=width), max_size=4)
        ),
        st_np.arrays(st_np.scalar_dtypes(), st_np.array_shapes(min_dims=0, max_dims=3, max_side=3)),
    )
)
@settings(max_examples=400, deadline=None)
def test_whatever_is_given_comes_out_as_a_table_or_as_an_error_of_ours(votes):
    for options in ({}, {"classes": 3}, {"classes": ["a", "b"]}, {"classes": [-1, 1], "abstain": 0}, {"abstain": None}):
        try:
            table = read_votes(votes, **options)
        except LabelfableError as error:
            assert error.what  # noqa: PT017 (either way is right: the error is only asked whether it speaks)
            continue
        weights = cube(table)
        assert weights.shape == (table.n_items, table.n_sources, table.n_labels)
        assert np.isfinite(weights).all()


@given(st.dictionaries(st.text(max_size=3), st.lists(SCALARS, min_size=2, max_size=2), max_size=4))
@settings(max_examples=200, deadline=None)
def test_whatever_a_table_holds_comes_out_as_a_table_or_as_an_error_of_ours(columns):
    objects = {name: pl.Series(entries, dtype=pl.Object) for name, entries in columns.items()}
    for frame in (pd.DataFrame(columns, dtype=object), pl.DataFrame(objects)):
        try:
            assert read_votes(frame).n_items == 2
        except LabelfableError as error:
            assert error.what  # noqa: PT017 (as above)
