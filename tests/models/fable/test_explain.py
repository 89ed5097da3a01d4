"""Explanations: parts that add up to the probabilities, each of them what its vote or its features do."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import labelfable
from labelfable import FABLE, read_votes
from labelfable.errors import InputError, LabelfableWarning, ModelError
from labelfable.models.fable import estimator
from labelfable.models.fable.starts import subtype_starts
from tests.crowds import planted_votes, soft_of, sparse_of
from tests.oracles import fable as oracle
from tests.tolerances import assert_close

N, K = 60, 3
VOTES, TRUTH = planted_votes(N, [0.9, 0.7, 0.6, 0.75, 0.8, 0.65, 0.7], K, coverage=0.5)
VOTES[4] = -1
FEATURES = np.eye(K)[TRUTH] + np.random.default_rng(0).normal(scale=0.8, size=(N, K))
EVERY = list(range(N))

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "posteriors": {"tilt": "posterior", "tables": "posterior", "kernel": "rbf", "n_inducing": 10},
    "fired": {"emission": "fired", "evidence_weight": 1.0},
    "silence": {"emission": "silence"},
    "half silent": {"emission": "silence", "silence_weight": 0.5, "tables": "posterior"},
    "rates": {"emission": "rates", "tables": "posterior", "sharing": "hierarchical"},
    "base": {"reading": "base", "class_prior": "learned", "normaliser": "factored"},
    "conditional": {"reading": "conditional", "n_subtypes": 2, "n_init": 1, "normaliser": "factored"},
    "subtypes": {"n_subtypes": 3, "n_init": 1, "tables": "posterior", "emission": "silence"},
}
each_setting = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())


def several_starts(*inputs: Any) -> list[Any]:
    """Those of several subtypes alone: with these few items one subtype would have the higher bound."""
    return [start for start in subtype_starts(*inputs) if start[0] == inputs[-1][0]]


def fitted(votes: Any = VOTES, features: Any = FEATURES, **settings: Any) -> FABLE:
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimator, "subtype_starts", several_starts)
        warnings.simplefilter("ignore", LabelfableWarning)
        return FABLE(**{"max_iter": 15, "n_jobs": 1, "calibration": "none", **settings}).fit(votes, features=features)


def parts_of(found: Any) -> dict[Any, Any]:
    """Log-odds by kind and source."""
    told = {(part.kind, part.source): part.log_odds for part in found.contributions}
    assert len(told) == len(found.contributions)
    return told


def assert_explained(model: FABLE, votes: Any, features: Any) -> None:
    expected = model.predict_proba(votes, features=features)
    for i, found in enumerate(model.explain(EVERY, votes, features=features)):
        assert found.item == i
        assert_close(found.probabilities, expected[i])
        assert_close(found.subtypes.sum(axis=1), expected[i])
        assert found.predicted == model.classes_[expected[i].argmax()]
        assert_close(found.log_odds, np.log(expected[i].max() / expected[i]), "sums")


@each_setting
def test_parts_add_up_to_the_log_odds(settings):
    assert_explained(fitted(**settings), VOTES, FEATURES)


@pytest.mark.parametrize("emission", ["pattern", "fired", "silence", "rates"])
def test_so_they_do_for_other_kinds_of_votes_and_without_features(emission):
    words = np.array(["0", "1", "2", None], dtype=object)[VOTES]
    words[::3, 1] = "not 2"
    excluding = read_votes(words, classes=["0", "1", "2"], exclusions={"not 2": "2"})
    for votes in (soft_of(VOTES, K), sparse_of(VOTES), excluding):
        assert_explained(fitted(votes, emission=emission), votes, FEATURES)
    assert_explained(fitted(features=None, emission=emission), VOTES, None)


@pytest.mark.parametrize("emission", ["pattern", "fired", "silence", "rates"])
def test_without_a_vote_the_log_odds_lose_what_it_contributed(emission):
    """Where silence is heard, they get what silence contributes instead."""
    model = fitted(emission=emission)
    for i in range(8):
        before = parts_of(model.explain(i, VOTES, features=FEATURES))
        for j in np.flatnonzero(VOTES[i] >= 0):
            fewer = VOTES.copy()
            fewer[i, j] = -1
            instead = parts_of(model.explain(i, fewer, features=FEATURES)).get(("silence", str(j)), np.zeros(K))
            p = model.predict_proba(fewer, features=FEATURES)[i]
            best = model.predict_proba(VOTES, features=FEATURES)[i].argmax()
            gone = sum(before.values()) - np.log(p[best] / p)
            assert_close(before["vote", str(j)] - gone, instead - instead[best], "sums")


@pytest.mark.parametrize("tables", ["point", "posterior"])
def test_each_part_is_what_the_equations_say(tables):
    """M = 1: w E log v of each vote; log σ of the process, less that of its constant, which is the class prior."""
    model = fitted(emission="fired", tables=tables, evidence_weight=0.7)
    weights, votes, mean = model.globals_.weights.mean, model.globals_.votes, model.sweeps_.process_mean
    nothing = np.zeros(0)
    known = oracle.Model(
        "joint", K, 1, "fired", [], nothing, nothing, nothing, votes.concentration, point_tables=tables == "point"
    )
    logs, _ = oracle.vote_logs(known, votes.concentration, None)
    phi = model.projection_.project(FEATURES).phi

    def log_sigmoid(f):
        return -np.log1p(np.exp(-f))

    for i in (0, 3, 4):
        found = model.explain(i, VOTES, features=FEATURES)
        told, best = parts_of(found), found.classes.index(found.predicted)
        bare = log_sigmoid(mean + np.sqrt(model.constant) * weights[-1])
        process = log_sigmoid(mean + phi[i] @ weights)
        assert_close(told.pop(("class prior", None)), bare[best] - bare)
        assert_close(told.pop(("features", None)), (process - bare)[best] - (process - bare))
        for j in np.flatnonzero(VOTES[i] >= 0):
            said = 0.7 * logs[j, VOTES[i, j]]
            assert_close(told.pop(("vote", str(j))), said[best] - said)
        assert told == {}


def test_what_is_not_there_contributes_nothing():
    features = np.where(np.arange(N)[:, None] == 7, np.nan, FEATURES)
    model = fitted(features=features, missing="ignore")
    assert_close(parts_of(model.explain(7, VOTES, features=features))["features", None], np.zeros(K))
    assert set(parts_of(model.explain(4, VOTES, features=features))) == {("class prior", None), ("features", None)}
    assert_close(parts_of(fitted(features=None).explain(0, VOTES))["features", None], np.zeros(K))


@pytest.mark.parametrize("emission", ["silence", "rates"])
def test_silence_is_told_where_it_is_heard(emission):
    told = parts_of(fitted(emission=emission).explain(0, VOTES, features=FEATURES))
    silent = {source for kind, source in told if kind == "silence"}
    assert silent == ({None} if emission == "rates" else {str(j) for j in np.flatnonzero(VOTES[0] < 0)})


def test_subtypes_are_those_of_the_responsibilities():
    model = fitted(**SETTINGS["conditional"])
    found = model.explain(0, VOTES, features=FEATURES)
    assert found.subtypes.shape == (K, 2)
    rest = parts_of(found)["other subtypes", None]
    own = -np.log(found.subtypes.max(axis=1) / found.probabilities)
    assert_close(rest, own[found.probabilities.argmax()] - own)


def test_items_are_asked_for_by_number_by_several_or_by_a_mask():
    model = fitted()
    alone = model.explain(9, VOTES, features=FEATURES)
    for several in ([9], np.array([9]), np.arange(N) == 9):
        (found,) = model.explain(several, VOTES, features=FEATURES)
        assert str(found) == str(alone)
    assert model.explain([], VOTES, features=FEATURES) == []
    for wrong in (N, -1, [0, 99]):
        with pytest.raises(InputError, match=r"there is no item .* 0 to 59"):
            model.explain(wrong, VOTES, features=FEATURES)
    for wrong in ("first", 1.5, [[1]], np.ones(3, dtype=bool)):
        with pytest.raises(InputError, match="names no rows"):
            model.explain(wrong, VOTES, features=FEATURES)


def test_who_cannot_explain_says_so():
    with pytest.raises(NotFittedError):
        FABLE().explain(0, VOTES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        published = FABLE(inference="published").fit(VOTES, features=FEATURES)
    with pytest.raises(ModelError, match="inference='variational'"):
        published.explain(0, VOTES, features=FEATURES)


def test_it_prints_as_a_table_and_says_the_same_as_json():
    names = np.array(["ant", "bee", "cat", None], dtype=object)
    votes = {"item": [f"i{i}" for i in range(N)]} | {f"rule {j}": names[VOTES[:, j]] for j in range(7)}
    table = read_votes(pd.DataFrame(votes))
    found = fitted(table, emission="silence").explain(6, table, features=FEATURES)
    lines = str(found).splitlines()
    assert lines[0].startswith(f"Item i6: {found.predicted} {found.probabilities.max():.1%}, ")
    assert lines[1] == f"Log-odds of {found.predicted} against"
    spoken = np.flatnonzero(VOTES[6] >= 0)
    for j in spoken:
        assert sum(f"rule {j} says {names[VOTES[6, j]]}" in line for line in lines) == 1
    rival = found.classes.index(lines[2].split()[0])
    votes_first = [abs(float(line.split()[-2])) for line in lines if " says " in line]
    assert votes_first == sorted(votes_first, reverse=True)
    assert lines[-1].split()[:2] == ["together", f"{found.log_odds[rival]:+.3f}"]
    told = json.loads(json.dumps(found.as_dict()))
    assert told["item"] == "i6"
    assert told["probabilities"] == dict(zip(found.classes, found.probabilities.tolist(), strict=True))
    total = {name: sum(part["log_odds"][name] for part in told["contributions"]) for name in found.classes}
    assert_close(np.array(list(total.values())), np.array(list(told["log_odds"].values())))


def test_many_silent_sources_share_a_row_and_many_classes_leave_the_unlikely_out():
    votes, truth = planted_votes(300, [0.8] * 20, 7, coverage=0.3)
    found = fitted(votes, np.eye(7)[truth], emission="silence").explain(0, votes, features=np.eye(7)[truth])
    lines = str(found).splitlines()
    n_silent = int((votes[0] < 0).sum())
    assert sum("is silent" in line for line in lines) == 5
    (rest,) = [line for line in lines if "more are silent" in line]
    assert rest.split()[0] == str(n_silent - 5)
    assert len(lines[2].split()) == 4
    columns = np.array([[float(x) for x in line.split()[-4:]] for line in lines[3:]])
    assert np.abs(columns[:-1].sum(axis=0) - columns[-1]).max() < len(columns) * 0.0005 + 1e-9  # three digits a row


def test_one_class_leaves_nothing_to_explain():
    votes = read_votes(np.where(VOTES >= 0, 0, -1), classes=[0])
    found = fitted(votes).explain(0, votes, features=FEATURES)
    assert str(found) == "Item 0: 0 100.0%"
    assert_close(found.log_odds, np.zeros(1))


def test_it_is_public():
    found = fitted().explain(0, VOTES, features=FEATURES)
    assert isinstance(found, labelfable.Explanation)
    assert isinstance(found.contributions[0], labelfable.Contribution)
