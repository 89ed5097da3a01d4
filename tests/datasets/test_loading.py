import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labelfable.datasets import Dataset, find_datasets, load_dataset, load_npz, load_table
from labelfable.errors import FileError, InputError
from labelfable.votes import read_votes
from tests import real_data
from tests.datasets import wrench_files

VOTES = np.array([[0, 1, -1], [1, 1, 0], [-1, 0, 0], [-1, -1, -1]], dtype=np.int8)
GOLD = np.array([0, 1, -1, 1], dtype=np.int16)
FEATURES = np.arange(8, dtype=np.float16).reshape(4, 2)
SPLIT = np.array([0, 0, 1, 2], dtype=np.uint8)
TEXTS = ["one", "two\u2028 with an odd line end", "", "four"]
FACTS = {"classes": ["no", "yes"], "lfs": [{"name": f"rule {j}"} for j in range(3)], "licence": "unknown"}


def pack(path, *, facts=FACTS, texts=TEXTS, **arrays):
    np.savez(path, **{"votes": VOTES, "gold": GOLD, "features": FEATURES, "split": SPLIT} | arrays)
    if facts is not None:
        path.with_suffix(".json").write_text(json.dumps(facts))
    if texts is not None:
        lines = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
        path.with_name(f"{path.stem}.texts.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return path


def long_files(folder, name="crowd"):
    (folder / f"{name}.csv").write_text("item,source,label\nb,ann,cat\nb,bob,dog\na,ann,dog\na,cleo,dog\n")
    (folder / f"{name}.gold.csv").write_text("item,gold\na,dog\nb,emu\nz,cat\n")
    (folder / f"{name}.features.csv").write_text("item,x\na,1.5\nb,2.5\n")
    (folder / f"{name}.texts.csv").write_text("item,text\na,of a\nb,of b\n")
    return folder / f"{name}.csv"


def test_an_npz_file_comes_with_what_stands_beside_it(tmp_path):
    data = load_dataset(pack(tmp_path / "small.npz"))
    np.testing.assert_array_equal(data.votes.votes, VOTES)
    np.testing.assert_array_equal(data.gold, GOLD)
    np.testing.assert_array_equal(data.features, FEATURES)
    np.testing.assert_array_equal(data.split, SPLIT)
    assert data.features.dtype == np.float32
    assert data.texts == TEXTS
    assert (data.name, data.metric, data.provenance["licence"]) == ("small", "f1", "unknown")
    assert data.class_names == list(data.votes.labels) == ["no", "yes"]
    assert data.source_names == ("rule 0", "rule 1", "rule 2")


def test_an_npz_file_may_hold_votes_alone(tmp_path):
    np.savez(tmp_path / "bare.npz", votes=VOTES)
    data = load_npz(tmp_path / "bare.npz")
    assert data.gold.tolist() == [-1] * 4
    assert (data.features, data.texts, data.split) == (None, None, None)
    assert data.class_names == [0, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"votes": VOTES + 1}, r"vote 2 is no class.*item 0, source 1.*2 classes"),
        ({"votes": VOTES - 1}, "vote -2 is no class"),
        ({"votes": VOTES.astype(float)}, "the votes are float64"),
        ({"votes": VOTES[0]}, "the votes are int8 of shape"),
        ({"gold": GOLD + 1}, "gold label 2 is no class.*item 1"),
        ({"gold": GOLD[:3]}, "3 gold labels for 4 items"),
        ({"features": FEATURES[:3]}, "3 rows of features and 4 items"),
        ({"features": FEATURES + np.inf}, "feature inf is no number"),
        ({"split": SPLIT + 1}, "a split is none of 0"),
        ({"texts": TEXTS[:2]}, "2 texts for 4 items"),
        ({"facts": FACTS | {"lfs": [{"name": "one"}]}}, "the votes have 3 sources, expected 1"),
    ],
)
def test_an_npz_file_that_contradicts_itself_is_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        load_dataset(pack(tmp_path / "small.npz", **changes))


def test_damaged_files_beside_an_npz_file_are_named(tmp_path):
    path = pack(tmp_path / "small.npz")
    path.with_suffix(".json").write_text('{"classes": ["no"')
    with pytest.raises(FileError, match=r"not JSON.*small\.json"):
        load_dataset(path)
    pack(path, texts=None)
    texts = tmp_path / "small.texts.jsonl.gz"
    texts.write_bytes(texts.read_bytes()[:-10])
    with pytest.raises(FileError, match=r"cannot read this file.*small\.texts"):
        load_dataset(path)
    texts.write_bytes(gzip.compress(b'{"text": "one"}\n{"words": "two"}\n'))
    with pytest.raises(FileError, match=r"holds no text.*line 2"):
        load_dataset(path)
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FileError, match=r"cannot read this file as npz.*small\.npz"):
            load_dataset(path)
    np.savez(path, ballots=VOTES)
    with pytest.raises(FileError, match=r"no array named 'votes'.*It holds ballots"):
        load_dataset(path)


def test_a_long_table_is_joined_to_gold_features_and_texts_by_item(tmp_path):
    data = load_dataset(long_files(tmp_path))
    assert data.votes.items.tolist() == ["b", "a"]
    assert data.source_names == ("ann", "bob", "cleo")
    assert [data.class_names[label] for label in data.gold] == ["emu", "dog"]
    assert data.features.tolist() == [[2.5], [1.5]]
    assert data.texts == ["of b", "of a"]
    assert (data.name, data.metric) == ("crowd", "accuracy")


def test_a_folder_of_parquet_files_is_a_data_set(tmp_path):
    folder = tmp_path / "wide"
    folder.mkdir()
    pq.write_table(pa.table({f"rule {j}": VOTES[:, j] for j in range(3)}), folder / "votes.parquet")
    pq.write_table(pa.table({"gold": GOLD}), folder / "gold.parquet")
    np.save(folder / "features.npy", FEATURES)
    (folder / "texts.txt").write_text("one\ntwo\n\nfour\n")
    data = load_dataset(folder)
    np.testing.assert_array_equal(data.votes.votes, VOTES)
    np.testing.assert_array_equal(data.gold, GOLD)
    np.testing.assert_array_equal(data.features, FEATURES)
    assert (data.name, data.texts) == ("wide", ["one", "two", "", "four"])


def test_gold_may_be_a_column_and_may_be_absent(tmp_path):
    pq.write_table(pa.table({"one": [0, 1], "two": [1, 1], "truth": [1, 0]}), tmp_path / "votes.parquet")
    assert load_table(tmp_path / "votes.parquet", gold="truth").gold.tolist() == [1, 0]
    assert load_table(tmp_path / "votes.parquet", name="mine").gold.tolist() == [-1, -1]


def test_a_folder_may_hold_its_votes_as_npz(tmp_path):
    (tmp_path / "small").mkdir()
    data = load_dataset(pack(tmp_path / "small" / "votes.npz").parent)
    assert (data.name, data.texts, data.class_names) == ("small", TEXTS, ["no", "yes"])
    assert [file.removeprefix(f"{tmp_path}/small/") for file in data.provenance["files"]] == [
        "votes.npz",
        "votes.json",
        "votes.texts.jsonl.gz",
    ]


def test_all_data_sets_of_a_folder_are_found_by_name(tmp_path):
    pack(tmp_path / "packed.npz")
    wrench_files.write(tmp_path / "mail", wrench_files.entries())
    long_files(tmp_path)
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")  # no gold beside it: no data set
    (tmp_path / "empty").mkdir()
    found = find_datasets(tmp_path)
    assert list(found) == ["crowd", "mail", "packed"]
    assert [load_dataset(path).name for path in found.values()] == list(found)
    assert find_datasets(tmp_path / "mail") == {"mail": tmp_path / "mail"}
    pack(tmp_path / "mail.npz")
    with pytest.raises(FileError, match="two data sets are called 'mail'"):
        find_datasets(tmp_path)


def test_folders_without_data_sets_are_told_apart(tmp_path):
    (tmp_path / "file.txt").write_text("")
    for path, message in ((tmp_path / "absent", "no such folder"), (tmp_path / "file.txt", "this is a file"),
                          (tmp_path, "holds no data set")):  # fmt: skip
        with pytest.raises(FileError, match=message):
            find_datasets(path)
    for path, message in ((tmp_path / "absent", "no such file or folder"), (tmp_path, "this is no data set")):
        with pytest.raises(FileError, match=message):
            load_dataset(path)


def test_a_data_set_refuses_an_unknown_metric():
    table = read_votes(VOTES)
    with pytest.raises(InputError, match="no metric 'auc'"):
        Dataset("small", table, GOLD, metric="auc")


def test_the_shared_sets_load_as_they_are_described():
    if not real_data.FOLDER.is_dir():
        pytest.skip("needs the folder shared/data beside the repository; it is not part of the project")
    for name, path in find_datasets(real_data.FOLDER).items():
        data = load_dataset(path)
        facts = json.loads(path.with_suffix(".json").read_text())
        sizes = np.bincount(data.split, minlength=3).tolist()
        assert (name, data.n_items, sizes) == (facts["name"], facts["n"], facts["split_sizes"])
        assert data.class_names == facts["classes"]
        assert data.votes.covered.mean() == pytest.approx(facts["coverage"], abs=5e-5)  # as the file rounds it
        assert np.bincount(data.gold[data.gold >= 0]).tolist() == facts["class_counts"]
        assert data.texts is None or len(data.texts) == facts["n_with_text"]
