"""Class-prior policies, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable import read_votes
from labelfable.errors import ModelError
from labelfable.models.class_prior import LEAST_SHARE, fixed_prior, numbers_each, vote_shares, vote_totals
from tests.tolerances import assert_close

VOTES = read_votes(np.array([[0, 0, 1], [1, -1, -1], [-1, -1, -1], [2, 1, -1]]))
ONCE = np.ones(4)


def test_totals_and_shares_of_the_votes():
    assert_close(vote_totals(VOTES), np.array([[2, 1, 0], [0, 1, 0], [0, 0, 0], [0, 1, 1]]))
    assert_close(
        vote_totals(VOTES, np.array([1.0, 2.0, 0.5])), np.array([[3, 0.5, 0], [0, 1, 0], [0, 0, 0], [0, 2, 1]])
    )
    assert_close(vote_shares(VOTES), np.array([[2 / 3, 1 / 3, 0], [0, 1, 0], [1 / 3] * 3, [0, 0.5, 0.5]]))


@pytest.mark.parametrize(
    ("policy", "weights", "gold", "expected"),
    [
        ("uniform", ONCE, None, [1 / 3, 1 / 3, 1 / 3]),
        ("votes", ONCE, None, [2 / 9, 11 / 18, 1 / 6]),  # items without votes do not count
        ("votes", [3, 1, 9, 2], None, [2 / 6, 3 / 6, 1 / 6]),
        ("votes", ONCE, [1, -1, 2, -1], [0, 2.5 / 4, 1.5 / 4]),  # a known class counts, votes or none
        ([2, 1, 1], ONCE, None, [0.5, 0.25, 0.25]),
        (np.array([0.0, 0.0, 5.0]), ONCE, None, [0, 0, 1]),
    ],
)
def test_policies_fix_the_proportions(policy, weights, gold, expected):
    found = fixed_prior(policy, VOTES, np.array(weights), None if gold is None else np.array(gold))
    floored = np.maximum(expected, LEAST_SHARE)
    assert_close(found, floored / floored.sum())
    assert np.all(found > 0)  # no class is ruled out before a vote is seen


def test_learned_fixes_nothing():
    assert fixed_prior("learned", VOTES, ONCE, None) is None


def test_without_any_vote_all_classes_are_equal():
    empty = read_votes(np.full((3, 2), -1), classes=4)
    assert_close(fixed_prior("votes", empty, np.ones(3), None), np.full(4, 0.25))


@pytest.mark.parametrize(
    "policy", [[1, 1], [1, -1, 1], [0, 0, 0], [np.inf, 1, 1], ["a", "b", "c"], [[1, 1, 1]], [None] * 3]
)
def test_what_is_no_distribution_is_refused(policy):
    with pytest.raises(ModelError, match=r"class_prior=.* is not a distribution over the 3 classes"):
        fixed_prior(policy, VOTES, ONCE, None)


@pytest.mark.parametrize(
    ("given", "is_taken"), [([1, 2], True), ([1, -2], False), ([1], False), (3, False), ("ab", False)]
)
def test_numbers_are_one_each(given, is_taken):
    assert (numbers_each(given, 2) is not None) == is_taken
