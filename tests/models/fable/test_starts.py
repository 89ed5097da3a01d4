"""Where the responsibilities start: majority vote, and its shares split over subtypes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from labelfable.models.fable.starts import subtype_starts
from labelfable.votes import read_votes
from tests.crowds import planted_votes, some_gold
from tests.oracles.confusion import majority_shares, spoken_of
from tests.tolerances import assert_close

VOTES, TRUTH = planted_votes(60, [0.9, 0.7, 0.6], 3)
GOLD = some_gold(TRUTH, 4)
PHI = np.random.default_rng(0).normal(size=(60, 3))


def starts(n_subtypes, n_init=3, seed=0, *, votes=VOTES, gold=GOLD, phi=PHI, n_classes=3):
    rows = read_votes(votes, classes=list(range(n_classes)))
    return list(subtype_starts(rows, gold, phi, (n_subtypes, n_init, seed)))


def test_the_first_start_is_majority_vote_with_known_labels():
    (n_subtypes, shares), *others = starts(1)
    assert n_subtypes == 1
    assert others == []
    assert_close(shares, majority_shares(spoken_of(VOTES), np.eye(3), GOLD))


@pytest.mark.parametrize("n_subtypes", [2, 3])
def test_further_starts_split_each_classs_share_over_its_subtypes(n_subtypes):
    found = starts(n_subtypes)
    assert [size for size, _ in found] == [1, n_subtypes, n_subtypes, n_subtypes]
    shares = found[0][1]
    for _, split in found[1:]:
        by_class = split.reshape(60, 3, n_subtypes)
        assert_close(by_class.sum(axis=2), shares)
        told = shares > 0
        within = by_class[told] / shares[told][:, None]
        assert_close(np.sort(within, axis=1)[:, -1], np.full(told.sum(), 0.9 + 0.1 / n_subtypes))
        assert len(np.unique(within.argmax(axis=1))) == n_subtypes
    assert not np.array_equal(found[1][1], found[2][1])


def test_starts_repeat_with_their_seed_and_differ_without():
    first, again, other = starts(2), starts(2), starts(2, seed=5)
    assert all(np.array_equal(x[1], y[1]) for x, y in zip(first, again, strict=True))
    assert any(not np.array_equal(x[1], y[1]) for x, y in zip(first, other, strict=True))


@pytest.mark.parametrize(
    "problem",
    {
        "no column that differs": {"phi": np.full((60, 1), 2.0)},
        "two different items": {"phi": np.repeat([[0.0], [1.0]], 30, axis=0)},
        "fewer items than subtypes": {"votes": VOTES[:2], "gold": None, "phi": PHI[:2]},
        "one item": {"votes": VOTES[:1], "gold": None, "phi": PHI[:1]},
        "one class, one source": {"votes": np.zeros((60, 1), dtype=int), "gold": None, "n_classes": 1},
        "equal votes": {"votes": np.zeros((60, 3), dtype=int), "gold": None},
        "no votes": {"votes": np.full((60, 3), -1), "gold": None},
    }.items(),
    ids=lambda item: item[0],
)
def test_there_is_a_start_whatever_the_items_are_like(problem):
    """Distributions, and not a word from the clustering."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _, split in starts(3, **problem[1]):
            assert np.all(split >= 0)
            assert_close(split.sum(axis=1), np.ones(len(split)))
