import errno
import gzip
import json
import shutil

import numpy as np
import pytest

from labelfable.datasets import cache, catalogue, dataset_path, fetch_dataset, find_datasets, load_dataset
from labelfable.datasets import download as downloads
from labelfable.datasets.catalogue import datasets_folder, entry_named
from labelfable.errors import FileError, InputError
from tests import real_data
from tests.commands import refused, run, told
from tests.datasets import wrench_files
from tests.datasets.file_server import serving

PAPER = "imdb youtube sms cdr yelp commercial tennis trec semeval chemprot agnews"


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELFABLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "datasets"


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "PAUSE", 0.0)
    folder = wrench_files.write(tmp_path / "served", wrench_files.entries())
    with serving() as files:
        files.files = {f"/yelp/{path.name}": path.read_bytes() for path in folder.iterdir()}
        monkeypatch.setenv("LABELFABLE_WRENCH_URL", files.url)
        yield files


def same_as_written(data):
    np.testing.assert_array_equal(data.votes.votes, wrench_files.VOTES)
    assert data.texts == wrench_files.TEXTS
    assert (data.name, data.provenance["home"]) == ("yelp", entry_named("yelp").home)
    assert all(file.startswith(str(dataset_path("yelp"))) for file in data.provenance["files"])


def test_the_catalogue_has_the_papers_eleven_sets_with_all_that_is_asked_of_them():
    entries = catalogue.catalogue()
    assert list(entries) == PAPER.split()
    for entry in entries.values():
        assert len(entry.items) == 3
        assert min(entry.items) > 0
        assert entry.metric == ("f1" if entry.classes == 2 else "accuracy")
        assert {"train.json", "valid.json", "test.json", "label.json"} <= set(entry.files)
        assert set(entry.sha256) <= set(entry.files)
        assert all(
            url.startswith("https://") and url.endswith(f"/{entry.name}/{file}") for file, url in entry.files.items()
        )


def test_the_catalogue_agrees_with_the_sets_at_hand():
    if not real_data.FOLDER.is_dir():
        pytest.skip("needs the folder shared/data beside the repository; it is not part of the project")
    found = find_datasets(real_data.FOLDER)
    agreed = {}
    for name in set(found) & set(catalogue.catalogue()):
        data = load_dataset(found[name])
        agreed[name] = entry_named(name).differences(data)
        assert data.metric == entry_named(name).metric
    assert len(agreed) == 9
    assert agreed.pop("cdr") == ["12,562 items, the catalogue says 14,023"]  # the copy has covered items only
    assert not any(agreed.values())


def test_names_are_found_in_any_spelling_and_slips_are_guessed():
    assert entry_named("AG News").name == "agnews"
    assert entry_named("Chem-Prot").name == "chemprot"
    with pytest.raises(InputError, match=r"no data set 'yutube'.*Did you mean youtube"):
        entry_named("yutube")


def test_a_set_is_downloaded_once_and_read_from_the_cache_then(server, kept):
    same_as_written(fetch_dataset("yelp"))
    assert [path.name for path in kept.iterdir()] == ["yelp"]
    asked = len(server.asked)
    assert asked == 4
    np.testing.assert_array_equal(fetch_dataset("yelp").votes.votes, wrench_files.VOTES)
    assert len(server.asked) == asked
    assert find_datasets(kept) == {"yelp": dataset_path("yelp")}
    server.files["/yelp/valid.json"] = server.files["/yelp/test.json"]
    changed = fetch_dataset("yelp", anew=True)
    assert (changed.split == 1).sum() == wrench_files.SIZES["test"]
    assert [path.name for path in kept.iterdir()] == ["yelp"]


def test_an_interrupted_set_is_nowhere_until_it_is_whole(server, kept):
    server.cut = [10**9, 50, 50, 50, 50]
    with pytest.raises(FileError, match=r"broke off.*valid\.json"):
        fetch_dataset("yelp")
    assert dataset_path("yelp") is None
    with pytest.raises(FileError, match="holds no data set"):
        find_datasets(kept)
    before = len(server.asked)
    same_as_written(fetch_dataset("yelp"))
    assert server.asked[before] == ("/yelp/valid.json", "bytes=200-")
    assert [path.name for path in kept.iterdir()] == ["yelp"]


def test_what_was_downloaded_but_cannot_be_read_is_thrown_away(server, kept):
    server.files["/yelp/test.json"] = server.files["/yelp/test.json"][:-20]
    with pytest.raises(FileError, match=r"damaged or cut off.*test\.json"):
        fetch_dataset("yelp")
    assert list(kept.iterdir()) == []


def test_a_set_that_the_server_lacks_leaves_nothing_behind(server, kept):
    with pytest.raises(FileError, match="the server refused: 404"):
        fetch_dataset("imdb")
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize("inside", [False, True])
def test_a_set_may_come_from_a_folder(tmp_path, kept, inside):
    (tmp_path / "mine").mkdir()
    folder = wrench_files.write(tmp_path / "mine" / "yelp", wrench_files.entries())
    (folder / "notes.txt").write_text("not a file of the format")
    same_as_written(fetch_dataset("yelp", source=folder if inside else tmp_path / "mine"))
    assert not (kept / "yelp" / "notes.txt").exists()
    shutil.rmtree(tmp_path / "mine")
    same_as_written(fetch_dataset("yelp", source=tmp_path / "mine"))  # it is here already


def test_an_npz_file_comes_with_what_stands_beside_it(tmp_path):
    (tmp_path / "mine").mkdir()
    np.savez(tmp_path / "mine" / "sms.npz", votes=[[0, 1], [1, -1]], gold=[0, 1])
    (tmp_path / "mine" / "sms.json").write_text(json.dumps({"classes": ["ham", "spam"]}))
    (tmp_path / "mine" / "sms.texts.jsonl.gz").write_bytes(gzip.compress(b'"one"\n"two"\n'))
    data = fetch_dataset("sms", source=tmp_path / "mine")
    assert (data.name, data.class_names, data.texts) == ("sms", ["ham", "spam"], ["one", "two"])
    assert load_dataset(dataset_path("sms")).texts == ["one", "two"]


def test_a_folder_without_the_set_or_with_a_bare_table_of_it_is_refused(tmp_path, kept):
    wrench_files.write(tmp_path / "imdb", wrench_files.entries())
    with pytest.raises(FileError, match=r"no data set 'yelp' in this folder.*It holds .*imdb"):
        fetch_dataset("yelp", source=tmp_path)
    with pytest.raises(FileError, match="no such folder"):
        fetch_dataset("yelp", source=tmp_path / "absent")
    (tmp_path / "yelp.csv").write_text("a,b\n0,1\n")
    (tmp_path / "yelp.gold.csv").write_text("gold\n0\n")
    with pytest.raises(FileError, match=r"Make a folder yelp with votes\.csv"):
        fetch_dataset("yelp", source=tmp_path)
    assert not kept.exists()


def test_a_disk_that_fills_up_while_copying_leaves_nothing_behind(tmp_path, kept, monkeypatch):
    folder = wrench_files.write(tmp_path / "yelp", wrench_files.entries())
    copies = []

    def copyfile(source, target):
        copies.append(source)
        target.write_bytes(source.read_bytes()[:100])
        if len(copies) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(catalogue.shutil, "copyfile", copyfile)
    with pytest.raises(FileError, match="No space left on device"):
        fetch_dataset("yelp", source=folder)
    assert list(kept.iterdir()) == []


def test_the_cache_is_where_the_platform_or_the_user_wants_it(tmp_path, monkeypatch):
    assert datasets_folder() == tmp_path / "cache" / "datasets"
    monkeypatch.delenv("LABELFABLE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setenv("HOME", str(tmp_path))
    places = {"linux": tmp_path / "xdg", "win32": tmp_path / "local", "darwin": tmp_path / "Library" / "Caches"}
    for platform, place in places.items():
        monkeypatch.setattr(cache.sys, "platform", platform)
        assert cache.cache_folder() == place / "labelfable"


def test_the_commands_list_show_and_get_sets(server, kept):
    assert [entry["name"] for entry in told("datasets", "list")] == PAPER.split()
    assert "yelp" in run("datasets", "list").stdout
    shown = told("datasets", "show", "Yelp")
    assert shown["path"] is None
    assert shown["sha256"] == dict.fromkeys(shown["files"], "unknown")
    assert "get it with: labelfable datasets get yelp" in run("datasets", "show", "yelp").stdout
    result = run("datasets", "get", "yelp")
    assert result.stdout == f"55 items, 4 sources, 3 classes: {kept / 'yelp'}\n"
    assert "Warning: yelp: 55 items, the catalogue says 38,000" in result.stderr
    assert told("datasets", "get", "yelp", "--anew")[0]["items"] == 55
    assert told("datasets", "show", "yelp")["path"] == str(kept / "yelp")
    assert run("datasets", "list").stdout.count(" yes") == 1
    assert "no data set 'yelq'" in refused("datasets", "get", "yelq")
    assert "404" in refused("datasets", "get", "imdb")
    assert "no such folder" in refused("datasets", "get", "imdb", "--from", "absent")
