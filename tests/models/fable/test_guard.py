"""Where fit and unanimous votes part ways; and votes and features that are meant to mislead."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from labelfable import MajorityVote
from labelfable.errors import LabelfableWarning
from labelfable.models.fable.copies import copied_sources
from labelfable.models.fable.estimator import FABLE
from labelfable.models.fable.guard import held_to_unanimous, lost_classes, unanimous_class
from labelfable.votes import read_votes
from tests.crowds import planted_votes, sparse_of
from tests.tolerances import MEAN_FIELD_SLACK, assert_close

K = 3
VOTES = np.array([[0, 0, -1], [1, 1, 1], [1, 1, -1], [1, -1, -1], [2, 2, 1], [2, 2, 2], [-1, -1, -1]])
TABLE = read_votes(VOTES, classes=K)
FIT = np.array([[0.9, 0.1, 0], [0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0, 1, 0], [0, 1, 0], [0.1, 0.2, 0.7], [0, 1, 0]])

# -- the guard --------------------------------------------------------------------------------------------------------


def test_unanimous_takes_two_votes_and_no_other():
    assert unanimous_class(TABLE).tolist() == [0, 1, 1, -1, -1, 2, -1]


def test_a_class_is_lost_where_most_of_its_unanimous_items_are():
    assert lost_classes(FIT, TABLE).tolist() == [1]
    half = FIT.copy()
    half[1] = [0, 1, 0]
    assert lost_classes(half, TABLE).tolist() == []


def test_unanimous_items_of_lost_classes_get_their_label_and_nothing_else_changes():
    found = held_to_unanimous(FIT, TABLE, np.array([1]))
    assert found[1:3].argmax(axis=1).tolist() == [1, 1]
    assert_close(found[1], np.array([0.3, 0.65, 0.05]))
    assert_close(found.sum(axis=1), FIT.sum(axis=1))
    rest = [0, 3, 4, 5, 6]
    assert np.array_equal(found[rest], FIT[rest])


# -- adversaries ------------------------------------------------------------------------------------------------------


def one_source_class(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rules of one label each; only the last one ever names the last class."""
    truth = rng.integers(K, size=1200)
    votes = np.full((1200, 7), -1)
    for j in range(7):
        label = j % 2 if j < 6 else 2
        fires = rng.random(1200) < np.where(truth == label, 0.4, 0.06)
        votes[fires, j] = label
    return votes, truth


def adversary(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Votes, features, truth."""
    rng = np.random.default_rng(seed)
    if name == "a class that one source alone votes for":
        votes, truth = one_source_class(rng)
    else:
        wrong = name == "a source that is always wrong"
        accuracies = [0.0 if wrong else 0.7, 0.7, 0.7, 0.7, 0.7, 0.7]
        votes, truth = planted_votes(1200, accuracies, K, coverage=0.6, seed=seed)
    if name == "a source copied ten times":
        votes = np.hstack([votes, np.repeat(votes[:, :1], 9, axis=1)])
    features = rng.normal(size=(len(votes), 10))
    features[:, :K] += 1.5 * np.eye(K)[truth]
    return votes, np.eye(K)[truth] if name == "features that are the gold" else features, truth


NAMES = (
    "a source that is always wrong",
    "a source copied ten times",
    "a class that one source alone votes for",
    "features that are the gold",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [0, 1])
def test_adversaries_do_not_bring_the_fit_below_majority_vote(name, seed):
    votes, features, truth = adversary(name, seed)
    covered = (votes >= 0).any(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        model = FABLE(n_jobs=1).fit(votes, features=features)
        majority = MajorityVote().fit(votes)
    right = (model.predict(votes, features=features) == truth)[covered].mean()
    assert right > (majority.predict(votes) == truth)[covered].mean()
    own, theirs = (
        -np.log(np.clip(found[covered, truth[covered]], 1e-12, 1)).mean()
        for found in (model.predict_proba(votes, features=features), majority.predict_proba(votes))
    )
    assert own < theirs


def test_without_features_no_class_dies():
    """Rules of very unequal classes: freed class proportions would let the rare ones go."""
    votes, truth = one_source_class(np.random.default_rng(0))
    keep = (truth == 0) | (np.random.default_rng(1).random(len(truth)) < 0.1)
    votes, truth = votes[keep], truth[keep]
    with warnings.catch_warnings():
        warnings.simplefilter("error", LabelfableWarning)
        model = FABLE(n_jobs=1).fit(votes)
    assert model.report_.collapsed == []
    found = model.predict(votes)
    for k in range(K):
        named = ((votes == k) | (votes < 0)).all(axis=1) & (votes == k).any(axis=1)
        assert (found == k)[named].mean() > 1 / 2


# -- copies -----------------------------------------------------------------------------------------------------------


def test_copies_are_heard_once():
    votes, truth = planted_votes(400, [0.7, 0.6, 0.8], K, coverage=0.6)
    copied = np.hstack([votes, votes[:, [0, 0, 2]]])
    copied[0, 4] = (copied[0, 4] + 2) % K  # one vote apart is a copy still
    features = np.random.default_rng(0).normal(size=(400, 4)) + truth[:, None]
    for table in (copied, sparse_of(copied)):
        model = FABLE(n_jobs=1).fit(table, features=features)
        assert model.copies_.tolist() == [False, False, False, True, True, True]
        assert any("3 sources repeat" in note for note in model.report_.notes)
        alone = FABLE(n_jobs=1).fit(votes, features=features)
        found, expected = (m.predict_proba(v, features=features) for m, v in ((model, table), (alone, votes)))
        assert np.abs(found - expected).max() < MEAN_FIELD_SLACK  # nearly: silent sources still have a prior


def test_sources_of_their_own_are_no_copies():
    votes, _ = planted_votes(400, [0.95] * 4, 2, coverage=0.9)
    assert not copied_sources(read_votes(votes)).any()
    few = np.zeros((10, 4), dtype=int)
    assert not copied_sources(read_votes(few, classes=2)).any()


def test_sources_that_all_agree_may_all_be_right():
    votes, _ = planted_votes(400, [0.7, 0.7], K, coverage=0.9)
    assert not copied_sources(read_votes(np.repeat(votes[:, :1], 5, axis=1))).any()
    assert not copied_sources(read_votes(np.hstack([np.repeat(votes[:, :1], 5, axis=1), votes[:, 1:]]))).any()
