"""How far views are trusted, told by votes that they did not see: each formula against loops and its meaning."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable.models.fable.calibration import held_out_votes, view_weights, vote_accuracy, vote_meanings
from labelfable.votes import read_votes
from tests.crowds import planted_votes, sparse_of
from tests.oracles.fable_calibration import agreement_at, meanings, pair_agreement, stacked_score
from tests.tolerances import STANDARD_ERRORS, TOLERANCE, assert_close

K = 3
VOTES, TRUTH = planted_votes(300, [0.8, 0.7, 0.6, 0.7], K, coverage=0.6)
TABLE = read_votes(VOTES, classes=K)


# -- accuracy of a vote -----------------------------------------------------------------------------------------------


def test_the_accuracy_is_the_one_at_which_votes_would_agree_as_often():
    assert_close(agreement_at(vote_accuracy(TABLE), K), pair_agreement(VOTES))


def test_the_accuracy_of_planted_votes_is_found():
    n_items, accuracy = 20_000, 0.7
    votes, _ = planted_votes(n_items, [accuracy] * 5, 4)
    error = STANDARD_ERRORS / np.sqrt(n_items)  # the derivative da/dr is below 1 at 0.7
    assert abs(vote_accuracy(read_votes(votes, classes=4)) - accuracy) < error


def test_sparse_votes_tell_the_same():
    assert_close(vote_accuracy(read_votes(sparse_of(VOTES), classes=K)), vote_accuracy(TABLE))


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([[0, -1], [-1, 1]], (1 + 1 / 2) / 2),  # nothing is known
        ([[0, 1], [1, 0]], 1 / 2),  # votes that never agree tell nothing
        ([[0, 0], [1, 1]], 0.995),  # and no vote is certain
    ],
)
def test_the_accuracy_stays_between_chance_and_certainty(votes, expected):
    assert_close(vote_accuracy(read_votes(np.array(votes), classes=2)), expected)


# -- what a vote means ------------------------------------------------------------------------------------------------


def test_meanings_are_those_of_the_loops():
    found = vote_meanings(TABLE, 0.7)
    counts = [float(np.sum(label == VOTES)) for label in range(K)]
    exact = meanings([count + 0.01 for count in counts], np.eye(K), 0.7)  # a label that nobody gives stays possible
    assert_close(found, exact)
    assert_close(found.sum(axis=1), np.ones(K))


def test_a_label_that_excludes_a_class_fits_all_others():
    votes = np.array([["a", "not a"], ["b", "c"], ["c", "not a"]])
    table = read_votes(votes, exclusions={"not a": "a"})
    fits = table.meaning > 0
    counts = (table.label_counts().sum(axis=0) + 0.01).tolist()
    assert_close(vote_meanings(table, 0.8), meanings(counts, fits, 0.8))


# -- votes held out ---------------------------------------------------------------------------------------------------


def test_held_out_votes_are_those_of_the_others_where_the_seen_ones_speak():
    seen = np.array([True, False, True, False])
    item, label, weight = held_out_votes(TABLE, seen, 50.0)
    expected = [
        (i, int(VOTES[i, j]), j)
        for i in range(len(VOTES))
        for j in (1, 3)
        if VOTES[i, j] >= 0 and max(VOTES[i, [0, 2]]) >= 0
    ]
    number = {j: sum(vote[2] == j for vote in expected) for j in (1, 3)}
    assert list(zip(item.tolist(), label.tolist(), strict=True)) == [vote[:2] for vote in expected]
    assert_close(weight, np.array([1 / (1 + number[vote[2]] / 50) for vote in expected]))
    assert weight.sum() < 100  # two sources, each of at most fifty


# -- weights of the views ---------------------------------------------------------------------------------------------


def some_likelihoods(n_votes: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.beta(2, 3, (n_votes, 3)), rng.gamma(2.0, size=n_votes), np.array([8.0, 1.0, 1.0])


def test_the_weights_are_the_most_probable_ones():
    """At the top no weight can be moved to another view with gain; any slip in prior or votes breaks that."""
    likelihoods, counts, prior = some_likelihoods()
    weights = view_weights(likelihoods, counts, prior)
    assert_close(weights.sum(), 1.0)
    slopes = prior / weights + (likelihoods * (counts / (likelihoods @ weights))[:, None]).sum(axis=0)
    whole = prior.sum() + counts.sum()
    np.testing.assert_allclose(slopes / whole, 1.0, rtol=0, atol=TOLERANCE["float32"].slope)
    best = stacked_score(likelihoods, counts, prior, weights)
    for other in np.random.default_rng(1).dirichlet(np.ones(3), 50):
        assert stacked_score(likelihoods, counts, prior, other) <= best


def test_each_step_of_the_weights_climbs(monkeypatch):
    likelihoods, counts, prior = some_likelihoods()
    scores = []
    for steps in range(1, 12):
        monkeypatch.setattr("labelfable.models.fable.calibration.STEPS", steps)
        scores.append(stacked_score(likelihoods, counts, prior, view_weights(likelihoods, counts, prior)))
    assert np.all(np.diff(scores) >= -TOLERANCE["float64"].climb * np.abs(scores[0]))
    assert scores[-1] > scores[0]


def test_without_judges_the_prior_decides():
    prior = np.array([8.0, 1.0, 1.0])
    assert_close(view_weights(np.ones((0, 3)), np.zeros(0), prior), prior / 10)
