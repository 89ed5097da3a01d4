"""read_votes of files: CSV, TSV, Parquet, .npy and .npz, as other programs write them."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from labelfable.errors import FileError
from labelfable.votes import read_votes
from tests.real_data import FOLDER
from tests.votes.same import NAMED, VOTES, WORDS, assert_same, codes, named

MATRIX = np.array(VOTES)
NULLS = np.where(MATRIX < 0, None, MATRIX)
SOURCES = ["a", "b", "c"]
EXPECTED = read_votes(MATRIX, sources=SOURCES)
WIDE = pd.DataFrame(NULLS, columns=SOURCES).astype("Int64")
TEXT = pd.DataFrame(WORDS, columns=SOURCES)

WRITERS = {
    "pandas.csv": lambda path, frame: frame.to_csv(path, index=False),
    "pandas index.csv": lambda path, frame: frame.to_csv(path),
    "pandas.tsv": lambda path, frame: frame.to_csv(path, index=False, sep="\t"),
    "pandas quoted.csv": lambda path, frame: frame.to_csv(path, index=False, quoting=csv.QUOTE_ALL),
    "pandas bom.csv": lambda path, frame: frame.to_csv(path, index=False, encoding="utf-8-sig"),
    "R.csv": lambda path, frame: frame.to_csv(path, index=False, na_rep="NA"),
    "windows.CSV": lambda path, frame: frame.to_csv(path, index=False, lineterminator="\r\n"),
    "polars.csv": lambda path, frame: pl.from_pandas(frame).write_csv(path),
    "arrow.csv": lambda path, frame: arrow_csv.write_csv(pa.Table.from_pandas(frame), path),
    "pandas.parquet": lambda path, frame: frame.to_parquet(path),
    "pandas index.parquet": lambda path, frame: frame.set_index(pd.Index([5, 1, 7, 3])).to_parquet(path),
    "polars.parquet": lambda path, frame: pl.from_pandas(frame).write_parquet(path),
    "arrow.pq": lambda path, frame: parquet.write_table(pa.Table.from_pandas(frame), path),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_tables_in_files(tmp_path, writer):
    path = tmp_path / writer.replace(" ", "_")
    WRITERS[writer](path, WIDE)
    for given in (path, str(path)):
        table = read_votes(given)
        assert_same(table, EXPECTED)
        assert table.frame_backend == "pyarrow"
    WRITERS[writer](path, TEXT)
    assert named(read_votes(path)) == WORDS
    assert codes(read_votes(path, classes=NAMED)) == VOTES


def test_arrays_in_files(tmp_path):
    np.save(tmp_path / "votes.npy", MATRIX)
    np.savez(tmp_path / "votes.npz", votes=MATRIX, gold=np.zeros(4))
    np.savez_compressed(tmp_path / "small.npz", votes=MATRIX.astype(np.int8))
    for name in ("votes.npy", "votes.npz", "small.npz"):
        assert_same(read_votes(tmp_path / name, sources=SOURCES), EXPECTED)


def test_sparse_matrices_in_files(tmp_path):
    rows, columns = np.nonzero(MATRIX >= 0)
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_array((MATRIX[rows, columns], (rows, columns)), shape=MATRIX.shape))
    assert_same(read_votes(tmp_path / "sparse.npz", sources=SOURCES), EXPECTED)


def test_what_is_missing_is_the_same_in_text_and_in_numbers(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text('a,b\nx,1\nNA,NA\n,\nnull,NaN\n"NA",0\n"",1\nNone,0\n')
    table = read_votes(path, classes=["x", "NA", "None", "0", "1"])
    assert named(table) == [["x", "1"], [None] * 2, [None] * 2, [None] * 2, ["NA", "0"], [None, "1"], ["None", "0"]]


def test_an_empty_line_is_a_missing_vote_of_the_only_source(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("a\n1\n\n0\n")
    assert codes(read_votes(path)) == [[1], [-1], [0]]
    path.write_text("a,b\n1,0\n\n0,1\n")
    assert codes(read_votes(path)) == [[1, 0], [0, 1]]


def test_a_column_that_is_empty_for_long_still_gets_its_type(tmp_path):
    path = tmp_path / "late.csv"
    rows = 400_000  # several of the blocks in which pyarrow guesses types
    path.write_text("a,b,c\n" + "1,,5\n" * rows + "0,1,x\n")
    table = read_votes(path, sources=["a", "b"])
    assert table.n_items == rows + 1
    assert codes(table.rows([0, rows])) == [[1, -1], [0, 1]]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_long_tables_in_files(tmp_path, suffix):
    long = pd.DataFrame(
        [(f"i{i}", SOURCES[j], vote) for i, row in enumerate(VOTES) for j, vote in enumerate(row) if vote >= 0],
        columns=["item", "source", "label"],
    )
    path = tmp_path / f"long.{suffix}"
    long.to_csv(path) if suffix == "csv" else long.to_parquet(path)  # CSV with row numbers
    table = read_votes(path, items=["i0", "i1", "i2", "i3"], sources=SOURCES)
    assert_same(table, EXPECTED)
    assert table.items.tolist() == ["i0", "i1", "i2", "i3"]


def test_a_header_of_numbers_is_fine_where_it_counts(tmp_path):
    path = tmp_path / "votes.csv"
    pd.DataFrame(VOTES).to_csv(path, index=False)
    assert_same(read_votes(path), read_votes(MATRIX))
    pd.DataFrame(VOTES).to_csv(path)
    assert_same(read_votes(path), read_votes(MATRIX))


# -- files that cannot be read: name, content, fragments of what was wrong and of the hint -----------------------------

BAD_FILES = {
    "no header": ("a.csv", b"0,1,-1\n1,1,0\n", "the first line holds numbers", "names of the sources"),
    "no header, repeated": ("a.csv", b"0,1,1\n1,1,0\n", "the first line holds numbers", "names of the sources"),
    "semicolons": ("a.csv", b"a;b\n1;0\n", "separates columns by ';', expected ','", "commas in .csv"),
    "tabs in a csv": ("a.csv", b"a\tb\n1\t0\n", "separates columns by '\\t', expected ','", "tabs in .tsv"),
    "commas in a tsv": ("a.tsv", b"a,b\n1,0\n", "separates columns by ',', expected '\\t'", "commas in .csv"),
    "empty csv": ("a.csv", b"", "cannot read this as csv", "Empty CSV"),
    "rows of other lengths": ("a.csv", b"a,b\n1,0\n1,0,1\n", "cannot read this as csv", "Expected 2 columns, got 3"),
    "no text": ("a.csv", b"a,b\n\xff\xfe,\xfa\n", "this file is no UTF-8 text", "encoding"),
    "no parquet": ("a.parquet", b"nothing of the kind", "cannot read this as parquet", "Parquet"),
    "no npy": ("a.npy", b"nothing of the kind", "cannot read this as npy", "pickle"),
    "npy cut short": ("a.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran", "cannot read this as npy", "reader"),
    "no npz": ("a.npz", b"PK\x03\x04 and then nothing", "cannot read this as npz", "zip"),
    "unknown kind": ("a.xlsx", b"PK", "cannot tell what a .xlsx file is", ".csv, .tsv, .parquet"),
    "no suffix": ("votes", b"0", "cannot tell what a nameless file is", ".csv, .tsv, .parquet"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_cannot_be_read_says_why(tmp_path, case):
    name, content, what, hint = BAD_FILES[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_votes(tmp_path / name)
    assert what in caught.value.what
    assert caught.value.where == str(tmp_path / name)
    assert hint in caught.value.hint


def test_archives_without_votes_say_what_they_hold(tmp_path):
    np.savez(tmp_path / "a.npz", labels=MATRIX, gold=MATRIX)
    np.savez(tmp_path / "b.npz")
    np.save(tmp_path / "c.npy", NULLS, allow_pickle=True)
    for name, what, hint in (
        ("a.npz", "no array named 'votes'", "labels, gold"),
        ("b.npz", "no array named 'votes'", "nothing"),
        ("c.npy", "cannot read this as npy", "allow_pickle"),
    ):
        with pytest.raises(FileError) as caught:
            read_votes(tmp_path / name)
        assert what in caught.value.what
        assert hint in caught.value.hint


def test_an_archive_cut_short_is_an_error_of_ours(tmp_path):
    path = tmp_path / "votes.npz"
    np.savez_compressed(path, votes=np.random.default_rng(0).integers(0, 9, (100, 100)))
    whole = path.read_bytes()
    path.write_bytes(whole[:300] + bytes(100) + whole[400:])
    with pytest.raises(FileError, match="cannot read this as npz"):
        read_votes(path)


def test_what_is_no_file(tmp_path):
    for path, what in (
        (tmp_path / "absent.csv", "no such file"),
        (tmp_path, "this is a folder"),
        ("a,b\n" * 9999, "cannot read this as a file"),
        ("", "this is a folder"),
    ):
        with pytest.raises(FileError) as caught:
            read_votes(path)
        assert what in caught.value.what
        assert len(caught.value.where) < 250


@pytest.mark.skipif(not FOLDER.exists(), reason="needs the folder shared/data beside the repository")
def test_the_real_sets_are_read_as_they_are():
    for path in sorted(FOLDER.glob("*.npz")):
        table = read_votes(path)
        with np.load(path) as stored:
            assert codes(table) == stored["votes"].tolist()
