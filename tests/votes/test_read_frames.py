"""read_votes of pandas, polars and pyarrow tables, wide and long."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from labelfable.votes import read_votes
from labelfable.votes.frames import frame_from
from tests.votes.same import NAMED, VOTES, WORDS, assert_same, codes, named

MATRIX = np.array(VOTES)

# -- wide tables -----------------------------------------------------------------------------------------------------

COLUMNS = {"a": [0, 2, None, 1], "b": [1, None, None, 1], "c": [None, 2, None, 0]}
WORD_COLUMNS = {"a": ["ham", "eggs", None, "spam"], "b": ["spam", None, None, "spam"], "c": [None, "eggs", None, "ham"]}
WIDE = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas Int64": lambda: pd.DataFrame(COLUMNS).astype("Int64"),
    "pandas Int8": lambda: pd.DataFrame(COLUMNS).astype("Int8"),
    "pandas UInt8": lambda: pd.DataFrame(COLUMNS).astype("UInt8"),
    "pandas Float32": lambda: pd.DataFrame(COLUMNS).astype("Float32"),
    "pandas object": lambda: pd.DataFrame(COLUMNS, dtype=object),
    "pandas Arrow": lambda: pd.DataFrame(COLUMNS).astype("int64[pyarrow]"),
    "pandas category": lambda: pd.DataFrame(COLUMNS).astype("category"),
    "pandas, kinds mixed": lambda: pd.DataFrame(COLUMNS).astype({"a": "Int16", "b": "category", "c": object}),
    "pandas with -1": lambda: pd.DataFrame(VOTES, columns=list("abc")),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars Int8": lambda: pl.DataFrame(COLUMNS).cast(pl.Int8),
    "polars Int128": lambda: pl.DataFrame(COLUMNS).cast(pl.Int128),
    "polars Float32": lambda: pl.DataFrame(COLUMNS).cast(pl.Float32),
    "polars NaN": lambda: pl.DataFrame(COLUMNS).cast(pl.Float64).fill_null(float("nan")),
    "polars Decimal": lambda: pl.DataFrame(COLUMNS).cast(pl.Decimal(8, 2)),
    "polars Object": lambda: pl.DataFrame({k: pl.Series(v, dtype=pl.Object) for k, v in COLUMNS.items()}),
    "polars lazy": lambda: pl.LazyFrame(COLUMNS),
    "pyarrow": lambda: pa.table(COLUMNS),
    "pyarrow float": lambda: pa.table({k: pa.array(v, pa.float32()) for k, v in COLUMNS.items()}),
    "pyarrow decimal": lambda: pa.table({k: pa.array(v, pa.decimal128(5, 1)) for k, v in COLUMNS.items()}),
    "pyarrow dictionary": lambda: pa.table({k: pa.array(v).dictionary_encode() for k, v in COLUMNS.items()}),
    "pyarrow chunks": lambda: pa.concat_tables([pa.table(COLUMNS)[:1], pa.table(COLUMNS)[1:]]),
    "pyarrow batch": lambda: pa.record_batch(COLUMNS),
    "narwhals": lambda: nw.from_native(pl.DataFrame(COLUMNS)),
}
WIDE_WORDS = {
    "pandas": lambda: pd.DataFrame(WORD_COLUMNS),
    "pandas object": lambda: pd.DataFrame(WORD_COLUMNS, dtype=object),
    "pandas string": lambda: pd.DataFrame(WORD_COLUMNS).astype("string"),
    "pandas category": lambda: pd.DataFrame(WORD_COLUMNS).astype("category"),
    "pandas, kinds mixed": lambda: pd.DataFrame(WORD_COLUMNS).astype({"a": "category", "b": object}),
    "pandas, empty text": lambda: pd.DataFrame(WORD_COLUMNS).fillna(""),
    "polars": lambda: pl.DataFrame(WORD_COLUMNS),
    "polars Categorical": lambda: pl.DataFrame(WORD_COLUMNS).cast(pl.Categorical),
    "polars Enum": lambda: pl.DataFrame(WORD_COLUMNS).cast(pl.Enum(["unused", "spam", "ham", "eggs"])),
    "polars lazy": lambda: pl.LazyFrame(WORD_COLUMNS),
    "pyarrow": lambda: pa.table(WORD_COLUMNS),
    "pyarrow view": lambda: pa.table({k: pa.array(v, pa.string_view()) for k, v in WORD_COLUMNS.items()}),
    "pyarrow dictionary": lambda: pa.table({k: pa.array(v).dictionary_encode() for k, v in WORD_COLUMNS.items()}),
    "pyarrow chunks": lambda: pa.concat_tables(
        [
            pa.table({k: pa.array(v[cut], pa.string()).dictionary_encode() for k, v in WORD_COLUMNS.items()})
            for cut in (slice(1), slice(1, None))
        ]
    ),
}


@pytest.mark.parametrize("form", WIDE)
def test_numbers_in_a_table(form):
    table = read_votes(WIDE[form]())
    assert_same(table, read_votes(MATRIX, sources=["a", "b", "c"]))
    assert table.items is None


@pytest.mark.parametrize("form", WIDE_WORDS)
def test_names_in_a_table(form):
    table = read_votes(WIDE_WORDS[form]())
    assert named(table) == WORDS
    assert table.classes.tolist() == sorted(NAMED)  # and no category that nobody votes for
    assert codes(read_votes(WIDE_WORDS[form](), classes=NAMED)) == VOTES


@pytest.mark.parametrize(
    ("form", "backend"),
    [
        ("pandas", "pandas"),
        ("polars", "polars"),
        ("polars lazy", "polars"),
        ("pyarrow", "pyarrow"),
        ("narwhals", "polars"),
    ],
)
def test_the_kind_of_table_is_remembered(form, backend):
    table = read_votes(WIDE[form]())
    assert table.frame_backend == backend
    native = frame_from({"x": [1, 2]}, backend)
    assert type(native).__module__.split(".", maxsplit=1)[0] == backend
    assert nw.from_native(native)["x"].to_list() == [1, 2]


def test_truth_values_in_a_table():
    for made in (pd.DataFrame, pl.DataFrame, pa.table):
        assert codes(read_votes(made({"a": [True, None], "b": [False, True]}))) == [[1, 0], [-1, 1]]
    assert codes(read_votes(pd.DataFrame({"a": pd.array([True, None], dtype="boolean")}))) == [[1], [-1]]


def test_a_source_that_never_votes_has_a_column_all_the_same():
    for made in (pd.DataFrame, pl.DataFrame, pa.table):
        assert codes(read_votes(made({"a": [1, 0], "b": [None, None]}))) == [[1, -1], [0, -1]]
        assert named(read_votes(made({"a": ["x", "y"], "b": [None, None]}))) == [["x", None], ["y", None]]


def test_big_integers_beside_nulls_stay_exact():
    big = [2**60, None, 2**60 + 1]
    for made in (lambda d: pd.DataFrame(d, dtype="Int64"), pl.DataFrame, pa.table):
        assert codes(read_votes(made({"a": big}), classes=[2**60, 2**60 + 1])) == [[0], [-1], [1]]


def test_sources_pick_and_order_columns():
    expected = read_votes(MATRIX[:, [2, 0]], sources=["c", "a"], classes=3)
    for made in (pd.DataFrame, pl.DataFrame, pa.table):
        assert_same(read_votes(made(COLUMNS), sources=["c", "a"]), expected)
        assert_same(read_votes(made(COLUMNS), sources=np.array(["c", "a"])), expected)


def test_columns_named_by_numbers():
    frame = pd.DataFrame(VOTES, columns=[10, 20, 30])
    assert read_votes(frame).sources == ("10", "20", "30")
    assert_same(read_votes(frame, sources=["30", "10"]), read_votes(MATRIX[:, [2, 0]], sources=["30", "10"]))
    assert_same(read_votes(frame, sources=[30, 10]), read_votes(MATRIX[:, [2, 0]], sources=["30", "10"]))
    two = pd.DataFrame([[0, 1]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))
    assert codes(read_votes(two)) == [[0, 1]]


@pytest.mark.parametrize("name", ["item", "item_id", "id", "Task", "", "Unnamed: 0", "__index_level_0__"])
def test_a_column_of_item_names_is_no_source(name):
    table = read_votes(pd.DataFrame({"a": [0, 1], name: ["p", "q"]}))
    assert table.sources == ("a",)
    assert table.items.tolist() == ["p", "q"]


def test_row_numbers_beside_item_names_are_no_source():
    table = read_votes(pd.DataFrame({"": [0, 1], "item": ["p", "q"], "a": [0, 1]}))
    assert table.sources == ("a",)
    assert table.items.tolist() == ["p", "q"]


def test_a_column_of_item_names_by_any_name():
    frame = pd.DataFrame({"lf": [0, 1], "doc": [30, 20], "id": [1, 1]})
    table = read_votes(frame, item="doc")
    assert table.sources == ("lf", "id")
    assert table.items.tolist() == [30, 20]
    assert read_votes(frame, sources=["id"], item="doc").sources == ("id",)
    assert read_votes(frame, sources=["id", "doc"], classes=[1, 20, 30]).items is None


def test_numbers_and_names_side_by_side_where_classes_are_given():
    frame = pd.DataFrame({"a": ["other", None, "1"], "b": [2, 1, None], "c": [1.0, np.nan, 2.0]})
    table = read_votes(frame, classes=["1", "2", "other"])
    assert named(table) == [["other", "2", "1"], [None, "1", None], ["1", None, "2"]]
    mixed = pd.DataFrame({"a": ["-1", "not 0"], "b": [1, 0]})
    assert codes(read_votes(mixed, classes=2, exclusions={"not 0": 0})) == [[-1, 1], [2, 0]]


# -- long tables -----------------------------------------------------------------------------------------------------

LONG = pd.DataFrame(
    [(f"i{i}", "abc"[j], vote) for i, row in enumerate(VOTES) for j, vote in enumerate(row) if vote >= 0],
    columns=["item", "source", "label"],
)
ITEMS = ["i0", "i1", "i2", "i3"]
LONG_FORMS = {
    "pandas": lambda long: long,
    "pandas category": lambda long: long.astype({"item": "category", "source": "category"}),
    "pandas object": lambda long: long.astype(object),
    "polars": pl.from_pandas,
    "polars Categorical": lambda long: pl.from_pandas(long).cast({"item": pl.Categorical, "source": pl.Categorical}),
    "pyarrow": pa.Table.from_pandas,
    "with an index": lambda long: long.reset_index(names=""),
}


@pytest.mark.parametrize("form", LONG_FORMS)
def test_long_tables(form):
    table = read_votes(LONG_FORMS[form](LONG.sample(frac=1, random_state=1)), items=ITEMS, sources=["a", "b", "c"])
    assert_same(table, read_votes(MATRIX, sources=["a", "b", "c"]))
    assert table.items.tolist() == ITEMS


def test_long_tables_number_in_order_of_appearance():
    table = read_votes(LONG.iloc[::-1])
    assert table.items.tolist() == ["i3", "i1", "i0"]
    assert table.sources == ("c", "b", "a")
    unused = LONG.iloc[::-1].astype(
        {"item": pd.CategoricalDtype([*ITEMS, "i9"]), "source": pd.CategoricalDtype(list("abcz"))}
    )
    assert_same(read_votes(unused), table)


def test_long_tables_by_other_names():
    other = LONG.rename(columns={"item": "doc", "source": "who", "label": "said"})
    expected = read_votes(LONG)
    assert_same(read_votes(other, item="doc", source="who", label="said"), expected)
    usual = LONG.rename(columns={"item": "task", "source": "Worker", "label": "answer"})
    assert_same(read_votes(usual), expected)
    timed = LONG.assign(seconds=1.5)
    assert_same(read_votes(timed, layout="long"), expected)
    assert_same(read_votes(timed, label="label"), expected)


def test_three_columns_may_be_wide_all_the_same():
    frame = pd.DataFrame({"item": ["x", "y"], "source": [0, 1], "label": [1, 0]})
    table = read_votes(frame, layout="wide")
    assert table.sources == ("source", "label")
    assert codes(table) == [[0, 1], [1, 0]]


def test_equal_votes_twice_count_once():
    assert_same(read_votes(pd.concat((LONG, LONG.iloc[:3]))), read_votes(LONG))


def test_a_long_row_without_a_label_is_an_item_without_a_vote():
    long = pd.DataFrame({"item": [5, 6], "source": ["a", "a"], "label": ["x", None]})
    table = read_votes(long)
    assert table.items.tolist() == [5, 6]
    assert named(table) == [["x"], [None]]


def test_sources_and_items_that_a_long_table_does_not_mention():
    table = read_votes(LONG, items=["new", *ITEMS], sources=["z", "c", "b", "a"])
    assert codes(table) == [[-1] * 4, *([-1, *row[::-1]] for row in VOTES)]
    numbered = LONG.assign(source=LONG["source"].map({"a": 1, "b": 2, "c": 3}))
    assert read_votes(numbered, sources=[3, 2, 1]).sources == ("3", "2", "1")


def test_a_number_and_its_digits_are_one_source():
    long = pd.DataFrame({"item": [0, 1], "source": np.array([1, "1"], dtype=object), "label": [0, 1]})
    assert codes(read_votes(long)) == [[0], [1]]
    assert read_votes(long).sources == ("1",)


def test_names_in_a_long_table():
    long = LONG.assign(label=LONG["label"].map(dict(enumerate(NAMED))))
    table = read_votes(long, items=ITEMS, sources=["a", "b", "c"], classes=NAMED)
    assert codes(table) == VOTES


def test_a_long_table_is_kept_sparse_where_few_cells_are_filled():
    few = pd.DataFrame({"item": range(100), "source": range(100), "label": [0, 1] * 50})
    table = read_votes(few)
    assert not table.is_dense
    assert_same(table, read_votes(sp.coo_array((few["label"], (few["item"], few["source"])), shape=(100, 100))))
    assert read_votes(LONG).is_dense


def test_long_text_as_an_item_does_not_swell_the_names():
    table = read_votes(pd.DataFrame({"item": ["x" * 10_000, "y"], "source": ["a", "a"], "label": [0, 1]}))
    assert table.items.dtype == object
    assert table.items[1] == "y"


@pytest.mark.parametrize("items", [[(1, "p"), (1, "q")], [2**70, 1], [0.5, 1.5], [True, None]])
def test_items_may_have_any_names(items):
    frame = pd.DataFrame({"item": pd.Series(items, dtype=object), "x": [0, 1]})
    assert read_votes(frame).items.tolist() == items
    assert read_votes(frame).rows([1]).items.tolist() == items[1:]


def test_items_may_come_one_by_one():
    for items in (iter(ITEMS), np.array(ITEMS), pd.Index(ITEMS)):
        assert read_votes(LONG, items=items).items.tolist() == ITEMS
