import itertools
import json
import tracemalloc

import numpy as np
import pytest

from labelfable.datasets import json_stream, load_dataset, load_wrench
from labelfable.errors import FileError, InputError
from tests.datasets import wrench_files as files

SPLIT = np.repeat(range(3), list(files.SIZES.values()))


@pytest.mark.parametrize("chunk", [1, 7, 1000, 2**20])
@pytest.mark.parametrize("kind", [{"texts": True}, {"texts": False, "features": True}, {"texts": False}])
def test_whatever_the_buffer_all_splits_come_whole_and_in_order(tmp_path, monkeypatch, chunk, kind):
    monkeypatch.setattr(json_stream, "CHUNK", chunk)
    data = load_dataset(files.write(tmp_path / "mail", files.entries(**kind)))
    assert data.name == "mail"
    np.testing.assert_array_equal(data.votes.votes, files.VOTES)
    np.testing.assert_array_equal(data.gold, files.GOLD)
    np.testing.assert_array_equal(data.split, SPLIT)
    assert data.class_names == ["ham", "spam", "other"]
    assert data.metric == "accuracy"
    assert data.texts == (files.TEXTS if kind["texts"] else None)
    if kind.get("features"):
        np.testing.assert_array_equal(data.features, files.FEATURES)
    else:
        assert data.features is None


def test_one_split_is_enough_and_one_may_be_asked_for(tmp_path):
    folder = files.write(tmp_path / "mail", {"valid": files.entries()["valid"]})
    whole = load_wrench(files.write(tmp_path / "whole", files.entries()))
    valid = load_wrench(tmp_path / "whole", splits=["valid"])
    for data in (load_wrench(folder), valid, whole.rows(whole.split == 1)):
        np.testing.assert_array_equal(data.votes.votes, files.VOTES[SPLIT == 1])
        assert data.split.tolist() == [1] * files.SIZES["valid"]
        assert data.texts == files.TEXTS[40:46]


def test_two_classes_are_scored_by_f1_and_classes_without_names_are_counted(tmp_path):
    content = {"train": {"a": {"label": None, "weak_labels": [0, -1], "data": {}}, "b": {"weak_labels": [1, 0]}}}
    data = load_wrench(files.write(tmp_path / "bare", content, labels=None))
    assert (data.class_names, data.metric, data.gold.tolist()) == ([0, 1], "f1", [-1, -1])


def test_exemplars_may_be_left_out(tmp_path):
    folder = files.write(tmp_path / "mail", files.entries())
    (folder / "labeled_ids.json").write_text(json.dumps({"labeled_ids": [], "lf_exemplar_ids": ["38", "39"]}))
    assert load_wrench(folder).n_items == files.N_ITEMS
    data = load_wrench(folder, exemplars=False)
    np.testing.assert_array_equal(data.votes.votes, np.delete(files.VOTES, [38, 39], axis=0))
    assert (np.bincount(data.split).tolist(), data.provenance["exemplars"]) == ([38, 6, 9], False)
    (folder / "labeled_ids.json").write_text(json.dumps({"lf_exemplar_ids": ["40"]}))
    with pytest.raises(FileError, match=r"no item '40', an exemplar.*train\.json"):
        load_wrench(folder, exemplars=False)
    (folder / "labeled_ids.json").write_text("[]")
    with pytest.raises(FileError, match="lists no exemplars"):
        load_wrench(folder, exemplars=False)


def broken(change):
    content = files.entries(features=True)
    change(content["valid"])
    return content


CHANGES = {
    "a label that is no class": (lambda v: v["2"].update(label=3), r"label 3 is no class.*valid\.json, item '2'"),
    "a label below": (lambda v: v["2"].update(label=-2), "label -2 is no class"),
    "a vote that is no class": (lambda v: v["4"]["weak_labels"].__setitem__(1, 7), r"vote 7.*item '4', source 1"),
    "other sources": (lambda v: v["0"]["weak_labels"].pop(), r"3 votes where the items before have 4.*item '0'"),
    "no source": (lambda v: v["0"].update(weak_labels=[]), "0 votes where"),
    "no votes": (lambda v: v["0"].pop("weak_labels"), "'weak_labels' is missing"),
    "other features": (lambda v: v["1"]["data"]["feature"].append(0.0), "4 features where the items before have 3"),
    "no features": (lambda v: v["1"]["data"].pop("feature"), "some items have a feature and some have none"),
    "no text": (lambda v: v["1"]["data"].pop("text"), "some items have a text and some have none"),
    "a text that is a number": (lambda v: v["1"]["data"].update(text=5), "its text is no text"),
    "infinite features": (lambda v: v["1"]["data"]["feature"].__setitem__(0, 1e300), "feature inf is no number"),
    "a fraction for a vote": (lambda v: v["1"]["weak_labels"].__setitem__(0, 0.5), "not in WRENCH format"),
    "a word for a label": (lambda v: v["1"].update(label="spam"), "not in WRENCH format"),
    "a list for an item": (lambda v: v.update({"1": [1, 2]}), "not in WRENCH format.*item '1'"),
    "no item": (dict.clear, "holds no item"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_damaged_item_is_named(tmp_path, name):
    change, message = CHANGES[name]
    with pytest.raises((FileError, InputError), match=message):
        load_wrench(files.write(tmp_path / "mail", broken(change)))


def test_a_file_cut_off_anywhere_is_an_error_that_names_it(tmp_path):
    folder = files.write(tmp_path / "mail", {"train": dict(itertools.islice(files.entries()["train"].items(), 3))})
    path = folder / "train.json"
    whole = path.read_bytes()
    load_wrench(folder)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(FileError, match=r"train\.json"):
            load_wrench(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"0": {"weak_labels": [0]}} and more', "something follows"),
        ('{"0": {"weak_labels": [0]} "1": {}}', "expected a comma or a brace"),
        ('{"0": {"weak_labels": [0]}, 1: {}}', "not JSON.*after 1 entries, the last one '0'"),
        ('{"0": {"weak_labels": [0]}, "0": {"weak_labels": [0]}}', "item '0' is there twice"),
        ("[1, 2]", "no JSON object"),
        ("{}", "holds no item"),
        ('{"0": ' + "[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_such_object_is_refused(tmp_path, text, message):
    (tmp_path / "train.json").write_text(text)
    with pytest.raises(FileError, match=message):
        load_wrench(tmp_path)


def test_damage_in_the_middle_of_a_large_file_is_found_without_reading_it_all(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 64)
    monkeypatch.setattr(json_stream, "LARGEST_ENTRY", 1024)
    (tmp_path / "train.json").write_text('{"0": {"weak_labels": [0' + ", 1" * 100_000 + "]}}")
    with pytest.raises(FileError, match="not JSON"):
        load_wrench(tmp_path)


def test_features_take_the_memory_of_their_numbers_not_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 2**14)
    rows = np.random.default_rng(0).random((400, 200)).tolist()
    entries = {str(n): {"label": 0, "weak_labels": [0, 1], "data": {"feature": row}} for n, row in enumerate(rows)}
    files.write(tmp_path / "frames", {"train": entries})
    tracemalloc.start()
    try:
        load_wrench(tmp_path / "frames")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (tmp_path / "frames" / "train.json").stat().st_size


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "train.json").write_bytes(b'{"0": {"weak_labels": [0], "data": {"text": "\xff"}}}')
    with pytest.raises(FileError, match="no UTF-8"):
        load_wrench(tmp_path)


@pytest.mark.parametrize("labels", [["ham", "spam"], {"1": "a", "2": "b"}, {"ham": 0, "spam": 1}, {}])
def test_class_names_need_their_numbers(tmp_path, labels):
    with pytest.raises(FileError, match="does not name the classes"):
        load_wrench(files.write(tmp_path / "mail", files.entries(), labels))


def test_missing_folders_and_splits_are_told_apart(tmp_path):
    with pytest.raises(FileError, match="no such folder"):
        load_wrench(tmp_path / "absent")
    with pytest.raises(FileError, match=r"holds no WRENCH data set.*Expected train\.json"):
        load_wrench(tmp_path)
    (tmp_path / "file").write_text(json.dumps({}))
    with pytest.raises(FileError, match="this is a file"):
        load_wrench(tmp_path / "file")
    with pytest.raises(InputError, match="no split 'dev'"):
        load_wrench(tmp_path, splits=["dev"])
