import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable.errors import FileError, InputError
from labelfable.persistence import ABANDONED_SECONDS, FORMAT_VERSION, HEAD, read_folder, replace_file, write_folder
from tests.saved_folders import DOCUMENT, STORED, arrays_of, assert_whole, contents


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "saved"
    write_folder(folder, DOCUMENT, STORED)
    return folder


def test_what_is_written_is_read(saved):
    assert_whole(saved)
    assert sorted(path.name for path in saved.iterdir()) == sorted([HEAD, arrays_of(saved).name])
    assert json.loads((saved / HEAD).read_text("ascii"))["format_version"] == FORMAT_VERSION


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=40, deadline=None)
@given(document=st.dictionaries(st.text(), json_values, max_size=4))
def test_any_document_of_json_values_survives(tmp_path_factory, document):
    folder = tmp_path_factory.mktemp("any") / "saved"
    write_folder(folder, document, {})
    assert read_folder(folder) == (document, {})


def test_parents_are_made_and_an_empty_folder_will_do(tmp_path):
    write_folder(tmp_path / "a" / "b" / "c", DOCUMENT, STORED)
    assert_whole(tmp_path / "a" / "b" / "c")
    (tmp_path / "empty").mkdir()
    write_folder(str(tmp_path / "empty"), DOCUMENT, STORED)
    assert_whole(tmp_path / "empty")


# Overwriting


def test_a_new_save_replaces_the_old_and_leaves_other_files_alone(saved):
    (saved / "NOTES.txt").write_text("mine")
    old = arrays_of(saved)
    write_folder(saved, {"new": True}, {"x": np.ones(2)})
    assert_whole(saved, {"new": True}, {"x": np.ones(2)})
    assert not old.exists()
    assert (saved / "NOTES.txt").read_text() == "mine"
    assert len(list(saved.iterdir())) == 3


def test_a_save_that_fails_before_its_commit_leaves_the_old_one(saved, monkeypatch):
    def refuse(*names):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(FileError, match=r"cannot write this file \(.*model\.json\)\. .*No space left on device"):
        write_folder(saved, {"new": True}, {"x": np.ones(2)})
    monkeypatch.undo()
    assert_whole_amid_leftovers(saved)


def assert_whole_amid_leftovers(saved):
    """The old save is valid; a later one cleans up behind the failed one, once that cannot be at work any more."""
    assert_whole(saved)
    write_folder(saved, {"new": 1}, {})
    old = (saved / HEAD).stat().st_mtime - 2 * ABANDONED_SECONDS
    leftovers = [path for path in saved.iterdir() if path.name != HEAD and path.name not in (saved / HEAD).read_text()]
    assert leftovers
    for path in leftovers:
        os.utime(path, (old, old))
    write_folder(saved, {"new": 2}, {})
    assert sorted(path.name for path in saved.iterdir()) == sorted([HEAD, arrays_of(saved).name])
    assert read_folder(saved) == ({"new": 2}, {})


KILLED = """
import os, sys
import numpy as np
from labelfable.persistence import write_folder
os.replace = lambda source, target: os._exit(9)
write_folder(sys.argv[1], {"new": True}, {"x": np.ones(2)})
"""


def test_a_process_that_dies_between_the_two_writes_leaves_the_old_save(saved, tmp_path):
    assert subprocess.run([sys.executable, "-c", KILLED, str(saved)], check=False).returncode == 9
    assert any(path.suffix == ".tmp" for path in saved.iterdir())
    assert_whole_amid_leftovers(saved)


def test_a_first_save_that_dies_leaves_no_model_and_can_be_repeated(tmp_path, monkeypatch):
    def interrupt(*names):
        raise KeyboardInterrupt

    folder = tmp_path / "new"
    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_folder(folder, DOCUMENT, STORED)
    monkeypatch.undo()
    with pytest.raises(FileError, match=r"there is no model\.json in this folder .*interrupted"):
        read_folder(folder)
    write_folder(folder, DOCUMENT, STORED)
    assert_whole(folder)


def test_a_save_that_cannot_write_its_arrays_leaves_nothing(saved, monkeypatch):
    before = contents(saved)
    with pytest.raises(InputError, match="array 'bad' holds Python objects"):
        write_folder(saved, DOCUMENT, {"good": np.ones(2), "bad": np.array([{}, None])})
    with pytest.raises(InputError, match="JSON cannot say"):
        write_folder(saved, {"value": float("nan")}, {})
    with pytest.raises(InputError, match="JSON cannot say"):
        write_folder(saved, {"value": object()}, {})

    def refuse(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", refuse)
    with pytest.raises(FileError, match="cannot write the arrays"):
        write_folder(saved, DOCUMENT, STORED)
    assert contents(saved) == before


def test_readers_and_writers_at_the_same_time_see_whole_saves(tmp_path):
    folder = tmp_path / "busy"
    write_folder(folder, {"number": -1}, {"number": np.full(1000, -1)})
    done, failed = threading.Event(), []

    def save(first):
        try:
            for number in range(first, first + 15):
                write_folder(folder, {"number": number}, {"number": np.full(1000, number)})
        except Exception as error:  # noqa: BLE001 (told to the main thread)
            failed.append(error)

    writers = [threading.Thread(target=save, args=(first,)) for first in (0, 100)]
    threading.Thread(target=lambda: ([w.start() for w in writers], [w.join() for w in writers], done.set())).start()
    reads = 0
    while not done.is_set() or not reads:
        document, arrays = read_folder(folder)
        assert (arrays["number"] == document["number"]).all()
        reads += 1
    assert not failed


# What is not ours is not touched


def test_what_is_not_ours_is_neither_overwritten_nor_cleaned(tmp_path):
    folder, file = tmp_path / "photos", tmp_path / "file"
    folder.mkdir()
    (folder / "one.jpg").write_bytes(b"1")
    file.write_text("text")
    foreign = {"json of others": '{"format": "layers-model"}', "no json": "{", "a list": "[1]", "a number": "3"}
    with pytest.raises(FileError, match=r"holds other files .*Nothing was touched"):
        write_folder(folder, DOCUMENT, STORED)
    with pytest.raises(FileError, match="this is a file"):
        write_folder(file, DOCUMENT, STORED)
    with pytest.raises(FileError, match="cannot make this folder"):
        write_folder(file / "below", DOCUMENT, STORED)
    for text in foreign.values():
        (folder / HEAD).write_text(text)
        before = contents(tmp_path)
        with pytest.raises(FileError, match=r"a model\.json that is damaged or not ours .*Nothing was touched"):
            write_folder(folder, DOCUMENT, STORED)
        assert contents(tmp_path) == before


# One file at a time


def write_half(path):
    with replace_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("stop")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "labels.csv"
    with replace_file(path) as temporary:
        temporary.write_text("old")
    assert path.read_text() == "old"
    with pytest.raises(RuntimeError, match="stop"):
        write_half(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_behind_a_link_is_replaced_where_it_is(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    with replace_file(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_no_folder_to_write_to(tmp_path):
    with pytest.raises(FileError, match="no such folder to write to"), replace_file(tmp_path / "no" / "file"):
        pass


def test_nothing_of_a_model_is_known_here():
    import labelfable.persistence as module

    text = Path(module.__file__).read_text("utf-8")
    imported = re.findall(r"from (labelfable\S*) import|import (labelfable\S*)", text)
    assert imported == [("labelfable.errors", "")]
