"""What happens to saved models, and the one clear error that each gives."""

import json
import re
import zipfile

import numpy as np
import pytest

from labelfable.errors import FileError
from labelfable.persistence import FORMAT_VERSION, HEAD, _checksum, _digest, read_folder, write_folder
from tests.saved_folders import DOCUMENT, STORED, arrays_of, assert_whole


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "saved"
    write_folder(folder, DOCUMENT, STORED)
    return folder


def rewrite(folder, change):
    """Change model.json, its checksum made to fit."""
    head = json.loads((folder / HEAD).read_text())
    del head["checksum"]
    change(head)
    head["checksum"] = _checksum(head)
    (folder / HEAD).write_text(json.dumps(head))


def swap_arrays(folder):
    """Arrays of the same names and shapes from another save, under the name of ours."""
    other = folder.parent / "other"
    write_folder(other, DOCUMENT, {name: array[::-1] if array.ndim else array for name, array in STORED.items()})
    arrays_of(folder).write_bytes(arrays_of(other).read_bytes())


def hide_a_pickle(folder):
    """A file of arrays with the right digest that would run code if it were unpickled."""
    path = arrays_of(folder)
    with zipfile.ZipFile(path, "w") as archive, archive.open("x.npy", "w") as member:
        np.lib.format.write_array(member, np.array([{}, None]), allow_pickle=True)
    rewrite(folder, lambda head: head["arrays"].update(sha256=_digest(path.read_bytes())))


def not_a_zip(folder):
    path = arrays_of(folder)
    path.write_bytes(b"not a zip")
    rewrite(folder, lambda head: head["arrays"].update(sha256=_digest(path.read_bytes())))


def into_a_file(folder):
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("text")


def edit_by_hand(folder):
    text = (folder / HEAD).read_text()
    assert '"tol": 0.1' in text
    (folder / HEAD).write_text(text.replace('"tol": 0.1', '"tol": 0.2'))


DAMAGE = {
    "no model.json": (lambda f: (f / HEAD).unlink(), "there is no model.json in this folder"),
    "nothing there": (lambda f: f.rename(f.with_name("moved")), "no such folder"),
    "a file": (into_a_file, "this is a file, and a saved model is a folder"),
    "no arrays": (lambda f: arrays_of(f).unlink(), "the file with this model's arrays is missing"),
    "arrays are a folder": (
        lambda f: (arrays_of(f).rename(f / "x"), (f / "x").with_name(arrays_name(f)).mkdir()),
        "is missing",
    ),
    "arrays of another save": (swap_arrays, "not the arrays that were saved"),
    "a pickle": (hide_a_pickle, "cannot read this file as arrays"),
    "no zip": (not_a_zip, "cannot read this file as arrays"),
    "empty model.json": (lambda f: (f / HEAD).write_bytes(b""), "not JSON"),
    "bytes that are no text": (lambda f: (f / HEAD).write_bytes(b"\xff\xfe\x00{"), "not JSON"),
    "endless lists": (lambda f: (f / HEAD).write_text("[" * 100_000), "not JSON"),
    "a list": (lambda f: (f / HEAD).write_text("[]"), "not a model of labelfable"),
    "another format": (lambda f: (f / HEAD).write_text('{"format": "keras"}'), "not a model of labelfable"),
    "only the format": (lambda f: (f / HEAD).write_text('{"format": "labelfable model"}'), "damaged"),
    "edited by hand": (edit_by_hand, "does not match its checksum"),
    "no document": (lambda f: rewrite(f, lambda head: head.pop("document")), "damaged"),
    "no arrays entry": (lambda f: rewrite(f, lambda head: head.pop("arrays")), "damaged"),
    "arrays elsewhere": (lambda f: rewrite(f, lambda head: head["arrays"].update(file="../x.npz")), "damaged"),
    "a newer version": (
        lambda f: rewrite(f, lambda head: head.update(format_version=FORMAT_VERSION + 1, labelfable="9.1")),
        r"a newer labelfable, 9\.1 \(format 2\).*upgrade",
    ),
}


def arrays_name(folder):
    return json.loads((folder / HEAD).read_text())["arrays"]["file"]


@pytest.mark.parametrize("case", DAMAGE, ids=list(DAMAGE))
def test_damage_gets_one_clear_error(saved, case):
    harm, message = DAMAGE[case]
    harm(saved)
    with pytest.raises(FileError, match=message) as caught:
        read_folder(saved)
    assert str(saved) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0, 0.01, 0.25, 0.5, 0.75, 0.99])
@pytest.mark.parametrize("which", ["head", "arrays"])
def test_a_truncated_file_is_an_error(saved, which, share):
    path = saved / HEAD if which == "head" else arrays_of(saved)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileError, match=re.escape(str(path))):
        read_folder(saved)


def test_any_flipped_bit_of_the_arrays_is_an_error(saved):
    path = arrays_of(saved)
    content = path.read_bytes()
    for place in np.random.default_rng(0).integers(8 * len(content), size=100):
        path.write_bytes(flipped(content, int(place)))
        with pytest.raises(FileError, match="not the arrays that were saved"):
            read_folder(saved)


def test_a_flipped_bit_of_the_head_is_an_error_or_changes_nothing(saved):
    path = saved / HEAD
    content = path.read_bytes()
    harmless = 0
    for place in range(0, 8 * len(content), 7):  # every byte, and every bit of it in turn
        path.write_bytes(flipped(content, place))
        try:
            assert_whole(saved)
            harmless += 1
        except FileError:
            pass
    assert harmless < len(content) / 2  # spaces and letters of \uXXXX may change without changing a value


def flipped(content, place):
    changed = bytearray(content)
    changed[place // 8] ^= 1 << (place % 8)
    return bytes(changed)
