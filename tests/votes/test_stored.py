"""Votes on disk are the votes in memory, a run at a time; what is wrong with a file is told with its name."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from labelfable import open_votes, read_votes
from labelfable.errors import FileError, InputError
from labelfable.numerics.random import BLOCK_ITEMS
from labelfable.votes.row_files import GROUPS, RowGroups
from labelfable.votes.stored import bytes_of
from labelfable.votes.stored_features import open_features
from tests.crowds import planted_votes, soft_of

N_ITEMS = 3 * BLOCK_ITEMS + 77
VOTES, TRUTH = planted_votes(N_ITEMS, [0.8, 0.7, 0.6], 3, coverage=0.6)
WORDS = np.array(["ham", "spam", "eggs"])
RUNS = [(0, 10), (BLOCK_ITEMS - 3, BLOCK_ITEMS + 5), (5000, N_ITEMS), (0, N_ITEMS)]


def wide(votes=VOTES):
    columns = {f"s{j}": [None if label < 0 else WORDS[label] for label in votes[:, j]] for j in range(votes.shape[1])}
    return pa.table({"item_id": [f"i{number}" for number in range(len(votes))]} | columns)


def long(votes=VOTES):
    items, sources = np.nonzero(votes >= 0)
    names = [f"i{number:06d}" for number in items]
    return pa.table({"item": names, "source": [f"s{j}" for j in sources], "label": WORDS[votes[items, sources]]})


def assert_same_rows(stored, whole, runs=RUNS):
    assert stored.n_items == whole.n_items
    assert stored.classes.tolist() == whole.classes.tolist()
    assert stored.sources == whole.sources
    for start, stop in runs:
        found, expected = stored.read(start, stop), whole.rows(slice(start, stop))
        assert np.array_equal(found.plain_incidence.toarray(), expected.plain_incidence.toarray())
        assert (found.items is None) == (expected.items is None)
        if found.items is not None:
            assert found.items.tolist() == expected.items.tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32])
def test_an_array_in_a_file_is_the_array(tmp_path, dtype):
    np.save(tmp_path / "v.npy", VOTES.astype(dtype))
    assert_same_rows(open_votes(tmp_path / "v.npy"), read_votes(VOTES))


def test_soft_votes_too(tmp_path):
    soft = soft_of(VOTES, 3)
    np.save(tmp_path / "v.npy", soft)
    assert_same_rows(open_votes(tmp_path / "v.npy"), read_votes(soft))


@pytest.mark.parametrize("group", [500, 5000, 10**6])
def test_wide_parquet_in_several_files_keeps_order_and_names(tmp_path, group):
    table = wide()
    parquet.write_table(table.slice(0, 7001), tmp_path / "votes-1.parquet", row_group_size=group)
    parquet.write_table(table.slice(7001), tmp_path / "votes-2.parquet", row_group_size=group)
    whole = read_votes(table)
    for path in (tmp_path / "votes-*.parquet", tmp_path, [tmp_path / "votes-1.parquet", tmp_path / "votes-2.parquet"]):
        assert_same_rows(open_votes(path), whole)
    chosen = open_votes(tmp_path, sources=["s2", "s0"], classes=["eggs", "ham", "spam", "bread"])
    assert_same_rows(chosen, read_votes(table, sources=["s2", "s0"], classes=["eggs", "ham", "spam", "bread"]))


@pytest.mark.parametrize("sparse", [False, True])
def test_long_parquet_is_read_item_by_item(tmp_path, sparse):
    votes = VOTES if not sparse else np.where(np.arange(40) == np.arange(N_ITEMS)[:, None] % 40, VOTES[:, :1], -1)
    table = long(votes)
    parquet.write_table(table, tmp_path / "v.parquet", row_group_size=3000)
    whole = read_votes(table)
    assert whole.is_dense != sparse
    stored = open_votes(tmp_path / "v.parquet")
    assert_same_rows(stored, whole)
    assert stored.read(0, 9).is_dense == whole.is_dense


def test_items_of_a_long_table_need_not_be_sorted_but_must_lie_together(tmp_path):
    table = long(VOTES[:200])
    names = np.array(table.column("item").to_pylist())
    turned = table.take(np.argsort(names, kind="stable")[::-1].copy())
    parquet.write_table(turned, tmp_path / "together.parquet")
    assert_same_rows(open_votes(tmp_path / "together.parquet"), read_votes(turned), [(0, 30), (0, 200)])
    parquet.write_table(pa.concat_tables([turned, table.slice(50, 1)]), tmp_path / "apart.parquet")
    with pytest.raises(InputError, match=r"do not lie together.*apart\.parquet.*Sort the long table"):
        open_votes(tmp_path / "apart.parquet")


def test_a_bad_vote_is_told_with_file_and_row(tmp_path):
    votes = VOTES.copy()
    votes[9000, 1] = -7
    np.save(tmp_path / "v.npy", votes)
    with pytest.raises(InputError, match=r"vote -7 is below -1.*item 9000, source '1'.*v\.npy, row 0"):
        open_votes(tmp_path / "v.npy")
    with pytest.raises(InputError, match=r"-7 is not a known label.*item 808, source '1'.*v\.npy, row 8192"):
        open_votes(tmp_path / "v.npy", classes=3).read(2 * BLOCK_ITEMS, 3 * BLOCK_ITEMS)


def test_votes_on_disk_are_no_table(tmp_path):
    np.save(tmp_path / "v.npy", VOTES)
    with pytest.raises(InputError, match="stay on disk"):
        read_votes(open_votes(tmp_path / "v.npy"))


@pytest.mark.parametrize("name", ["v.npy", "v.parquet"])
def test_files_that_go_or_change_are_named(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(FileError, match=rf"no such file.*{name}"):
        open_votes(path)
    np.save(path, VOTES) if name.endswith("npy") else parquet.write_table(wide(), path)
    whole = path.read_bytes()
    stored = open_votes(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match=rf"cut short.*{name}"):
        stored.read(0, 10)
    with pytest.raises(FileError, match=rf"{name}"):
        open_votes(path)
    path.unlink()
    with pytest.raises(FileError, match=rf"gone since it was opened.*{name}"):
        stored.read(0, 10)


def test_files_that_do_not_fit_together_are_refused(tmp_path):
    parquet.write_table(wide(), tmp_path / "1.parquet")
    parquet.write_table(wide().drop_columns(["s1"]), tmp_path / "2.parquet")
    with pytest.raises(FileError, match="same columns"):
        open_votes(tmp_path)
    (tmp_path / "3.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match=r"Parquet or \.npy"):
        open_votes(tmp_path / "3.csv")
    np.save(tmp_path / "f.npy", np.asfortranarray(VOTES))
    with pytest.raises(FileError, match="Fortran"):
        open_votes(tmp_path / "f.npy")
    with pytest.raises(FileError, match="no Parquet"):
        open_votes(tmp_path / "*.npz")


def test_memory_is_a_size():
    assert bytes_of("2GB") == bytes_of(2_000_000_000) == 2 * 10**9
    assert bytes_of("1.5 GiB") == 3 * 2**29
    for bad in ("two", "1MB", 0, "GB", "nan GB"):
        with pytest.raises(InputError, match="is no size"):
            bytes_of(bad)


def test_a_row_group_that_is_too_large_for_the_memory_is_refused(tmp_path):
    rows = 10**6
    parquet.write_table(pa.table({f"s{j}": pa.array(np.zeros(rows)) for j in range(5)}), tmp_path / "v.parquet")
    with pytest.raises(InputError, match=r"row group of .* MB is too large.*row_group_size"):
        open_votes(tmp_path / "v.parquet", memory="130MiB")


def test_decoded_groups_that_are_kept_stay_few(tmp_path):
    parquet.write_table(wide(), tmp_path / "v.parquet", row_group_size=1000)
    stored = open_votes(tmp_path / "v.parquet")
    kept = RowGroups(most_bytes=0)
    for number in range(6):
        kept.read(stored.files.parts[0], number, stored.files.columns)
    assert len(kept.kept) == 2
    assert GROUPS.most_bytes < 2**30


@pytest.mark.parametrize("form", ["npy", "list", "columns", "memmap", "array", "beside the votes"])
def test_features_are_read_row_by_row(tmp_path, form):
    numbers = np.random.default_rng(0).normal(size=(N_ITEMS, 4)).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 4)
    parquet.write_table(wide().append_column("embedding", lists), tmp_path / "v.parquet", row_group_size=5000)
    np.save(tmp_path / "x.npy", numbers)
    names = wide().column("item_id")
    parquet.write_table(pa.table({"item": names, "e": lists}), tmp_path / "list.parquet", row_group_size=5000)
    parquet.write_table(
        pa.table({"item": names} | {f"x{k}": numbers[:, k] for k in range(4)}), tmp_path / "columns.parquet"
    )
    votes = open_votes(tmp_path / "v.parquet", sources=["s0", "s1", "s2"])
    given = {
        "npy": tmp_path / "x.npy",
        "list": tmp_path / "list.parquet",
        "columns": tmp_path / "columns.parquet",
        "memmap": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "array": numbers,
        "beside the votes": tmp_path / "v.parquet",
    }[form]
    stored = open_features(given, votes)
    assert (stored.n_items, stored.n_columns) == numbers.shape
    assert (stored.files is None) == (form == "array")
    for start, stop in RUNS:
        found = stored.read(start, stop, votes.read(start, stop))
        assert found.dtype == np.float32
        assert np.array_equal(found, numbers[start:stop])
    rows = np.array([0, 1, 5000, 5001, N_ITEMS - 1])
    assert np.array_equal(stored.take(rows), numbers[rows])


def test_features_of_other_items_are_refused(tmp_path):
    parquet.write_table(wide(), tmp_path / "v.parquet")
    votes = open_votes(tmp_path / "v.parquet")
    names = wide().column("item_id").to_pylist()
    names[70], names[71] = names[71], names[70]
    parquet.write_table(pa.table({"item_id": names, "x": np.arange(N_ITEMS)}), tmp_path / "x.parquet")
    stored = open_features(tmp_path / "x.parquet", votes)
    with pytest.raises(InputError, match=r"'i71' where the votes name 'i70'.*x\.parquet, row 70.*sort both"):
        stored.read(50, 90, votes.read(50, 90))
    np.save(tmp_path / "x.npy", np.zeros((N_ITEMS - 1, 2)))
    with pytest.raises(InputError, match=r"rows of features for"):
        open_features(tmp_path / "x.npy", votes)
    parquet.write_table(pa.table({"words": ["a"] * N_ITEMS}), tmp_path / "w.parquet")
    with pytest.raises(InputError, match="'words' of the features does not hold numbers"):
        open_features(tmp_path / "w.parquet", votes)


def test_lists_that_differ_in_length_are_refused_and_missing_ones_are_nan(tmp_path):
    parquet.write_table(wide(VOTES[:3]), tmp_path / "v.parquet")
    votes = open_votes(tmp_path / "v.parquet")
    parquet.write_table(pa.table({"e": [[1.0, 2.0], [3.0, 4.0], None]}), tmp_path / "ok.parquet")
    found = open_features(tmp_path / "ok.parquet", votes).read(0, 3)
    assert np.array_equal(found, [[1, 2], [3, 4], [np.nan, np.nan]], equal_nan=True)
    parquet.write_table(pa.table({"e": [[1.0, 2.0], [3.0], [5.0, 6.0]]}), tmp_path / "bad.parquet")
    with pytest.raises(InputError, match="differ in length"):
        open_features(tmp_path / "bad.parquet", votes).read(0, 3)


def test_the_stamp_tells_files_apart(tmp_path):
    np.save(tmp_path / "v.npy", VOTES)
    before = open_votes(tmp_path / "v.npy").stamp
    assert open_votes(tmp_path / "v.npy").stamp == before
    os.utime(tmp_path / "v.npy", ns=(1, 1))
    assert open_votes(tmp_path / "v.npy").stamp != before
