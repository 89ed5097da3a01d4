"""`labelfable explain`: what the model itself says, and one clear line where it cannot."""

import numpy as np
import pytest

from labelfable import read_votes
from labelfable.models.registry import load
from tests.commands import ITEMS, TRUTH, VOTES, refused, run, told, write_csv, write_files
from tests.tolerances import assert_close

FABLE = ("--model", "fable", "--set", "max_iter=200", "--set", "tol=1e-3")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Votes with features that tell, and a model saved."""
    monkeypatch.chdir(tmp_path)
    write_files()
    columns = np.eye(3)[TRUTH] + np.random.default_rng(0).normal(scale=0.5, size=(len(TRUTH), 3))
    write_csv("features.csv", {"item": ITEMS} | {f"x{k}": columns[:, k].tolist() for k in range(3)})
    run("fit", "votes.csv", "--features", "features.csv", *FABLE, "--save", "model")
    return columns


def test_it_is_what_the_model_explains(files):
    asked = ("explain", "model", "votes.parquet", "--item", "i17", "--item", "i3", "--features", "features.csv")
    expected = load("model").explain([17, 3], read_votes("votes.parquet"), features=files)
    assert run(*asked).stdout == "\n\n".join(map(str, expected)) + "\n"
    for found, one in zip(told(*asked), expected, strict=True):
        assert found["item"] == one.item
        assert found["predicted"] == one.predicted
        assert [part["said"] for part in found["contributions"]] == [part.said for part in one.contributions]
        for part, whole in zip(found["contributions"], one.contributions, strict=True):
            assert_close(np.array(list(part["log_odds"].values())), whole.log_odds)


def test_items_without_names_go_by_their_row(files):
    np.save("votes.npy", VOTES)
    run("fit", "votes.npy", *FABLE, "--save", "numbered")
    (found,) = told("explain", "numbered", "votes.npy", "--item", "5")
    assert found["item"] == 5
    assert {part["source"] for part in found["contributions"]} - {None} == set(map(str, np.flatnonzero(VOTES[5] >= 0)))


def test_what_it_refuses(files):
    run("fit", "votes.csv", "--model", "ds", "--save", "other")
    np.save("votes.npy", VOTES)
    run("fit", "votes.npy", *FABLE, "--save", "numbered")
    for arguments, words in (
        (("other", "votes.csv", "--item", "i1"), "DawidSkene cannot explain its labels. FABLE can"),
        (("model", "votes.csv", "--item", "x9", "--features", "features.csv"), "there is no item 'x9'. The first is"),
        (("numbered", "votes.npy", "--item", "120"), "there is no item '120'. Items have no names here: rows 0 to 119"),
        (("numbered", "votes.npy", "--item", "-1"), "there is no item '-1'"),
        (("model", "votes.csv", "--item", "i1"), "the features"),
        (("no", "votes.csv", "--item", "i1"), "no such folder"),
    ):
        assert words in refused("explain", *arguments)
