"""The fits that are averaged: who sees what, how they are weighed, and what stays as it was."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import labelfable
from labelfable.errors import LabelfableWarning
from labelfable.inference.execution import Serial
from labelfable.models.fable.committee import WHOLE_SHARE, member_shares, trust
from labelfable.models.fable.estimator import FABLE
from labelfable.models.fable.halves import two_halves
from labelfable.votes import read_votes
from tests.crowds import planted_votes, some_gold, sparse_of
from tests.oracles.fable_calibration import pooled
from tests.tolerances import assert_close

N, K = 120, 3
VOTES, TRUTH = planted_votes(N, [0.8, 0.65, 0.6, 0.7, 0.75], K, coverage=0.6)
VOTES[[5, 50]] = -1
FEATURES = np.eye(K)[TRUTH] + np.random.default_rng(0).normal(scale=0.8, size=(N, K))


def fitted(votes: Any = VOTES, y: Any = None, features: Any = FEATURES, **settings: Any) -> FABLE:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        return FABLE(**{"max_iter": 30, "n_jobs": 1, **settings}).fit(votes, y, features=features)


@pytest.fixture(scope="module")
def model() -> FABLE:
    return fitted()


def views_of(model: FABLE, member: Any) -> np.ndarray:
    """[views, n, K]."""
    table = read_votes(VOTES, classes=K)
    parts = member.over(table, model.projection_.project(FEATURES), Serial(), lambda _here, views: views)
    return np.concatenate(parts, axis=1)


# -- members ----------------------------------------------------------------------------------------------------------


def test_two_fits_see_all_sources_and_two_pairs_see_complementary_halves(model):
    members = model.committee_.members
    names = tuple(str(j) for j in range(VOTES.shape[1]))
    assert [member.sources for member in members if member.whole] == [names, names]
    halves = [member for member in members if not member.whole]
    for first, second in (halves[:2], halves[2:]):
        assert sorted(first.sources + second.sources) == list(names)
        assert first.sweeps.emission == second.sweeps.emission
    assert {member.sweeps.emission.name for member in members} == {"pattern", "silence"}
    assert halves[0].sources not in {halves[2].sources, halves[3].sources}


def test_the_reported_fit_is_the_first_member(model):
    plain = fitted(calibration="none")
    assert plain.committee_ is None
    first = model.committee_.members[0]
    assert np.array_equal(first.factors.weights.mean, plain.globals_.weights.mean)
    assert model.report_.objective == plain.report_.objective
    assert_close(views_of(model, first)[0], plain.predict_proba(VOTES, features=FEATURES))


def test_a_half_counts_each_vote_twice(model):
    half = model.committee_.members[2]
    assert half.sweeps.evidence_weight == 2 * model.evidence_weight
    chosen = [int(name) for name in half.sources]
    alone = fitted(
        VOTES[:, chosen], calibration="none", evidence_weight=2 * model.evidence_weight, strength=2.0, tol=1e-4
    )
    assert_close(views_of(model, half)[0], alone.predict_proba(VOTES[:, chosen], features=FEATURES))


# -- halves -----------------------------------------------------------------------------------------------------------


def test_halves_are_alike():
    """Sources of one label each: every half hears of every class, and as much of it."""
    rng = np.random.default_rng(0)
    votes = np.full((4000, 24), -1)
    for j in range(24):
        votes[rng.random(4000) < 0.1, j] = j % K
    table = read_votes(votes, classes=K)
    for split in (0, 1):
        sides = [votes[:, [int(name) for name in half]] for half in two_halves(table, split)]
        counts = np.array([[np.sum(side == k) for k in range(K)] for side in sides])
        assert [side.shape[1] for side in sides] == [12, 12]
        assert np.all(np.abs(counts[0] - counts[1]) < 0.1 * counts.sum(axis=0))


def test_halves_do_not_depend_on_the_order_of_sources_or_items():
    order = np.random.default_rng(1).permutation(VOTES.shape[1])
    names = [f"source {j}" for j in range(VOTES.shape[1])]
    table, other = read_votes(VOTES, sources=names), read_votes(VOTES[::-1, order], sources=[names[j] for j in order])
    for split in (0, 1):
        assert {frozenset(half) for half in two_halves(table, split)} == {
            frozenset(half) for half in two_halves(other, split)
        }


@pytest.mark.parametrize("n_sources", [1, 2, 3])
def test_few_sources_are_cut_as_far_as_they_can_be(n_sources):
    model = fitted(VOTES[:, :n_sources])
    halves = [member.sources for member in model.committee_.members if not member.whole]
    assert len(halves) == {1: 0, 2: 2, 3: 4}[n_sources]
    assert all(halves)
    found = model.predict_proba(VOTES[:, :n_sources], features=FEATURES)
    assert_close(found.sum(axis=1), np.ones(N))


# -- the answer -------------------------------------------------------------------------------------------------------


def test_the_answer_is_the_mean_over_members_and_views(model):
    committee = model.committee_
    views = [views_of(model, member) for member in committee.members]
    expected = pooled(views, member_shares(committee.members), committee.view_weights)
    assert_close(model.predict_proba(VOTES, features=FEATURES), expected)
    assert_close(sum(member_shares(committee.members)), 1.0)
    assert_close(sum(member_shares(committee.members)[:2]), WHOLE_SHARE)


def test_the_views_are_what_they_say(model):
    """Of features alone: the same whatever the votes are.  Of votes alone: whatever the features are."""
    table, silent = read_votes(VOTES, classes=K), read_votes(np.full_like(VOTES, -1), classes=K)
    columns = model.projection_.project(FEATURES)
    other = model.projection_.project(FEATURES[::-1].copy())
    for member in model.committee_.members:
        heard, deaf, moved = (
            np.concatenate(member.over(votes, phi, Serial(), lambda _here, views: views), axis=1)
            for votes, phi in ((table, columns), (silent, columns), (table, other))
        )
        assert_close(deaf[1], heard[1])
        assert_close(moved[2], heard[2])
        assert not np.allclose(moved[1], heard[1])


def test_features_that_know_the_truth_are_trusted_and_noise_is_not():
    table = read_votes(VOTES, classes=K)
    rng = np.random.default_rng(3)
    weights = {}
    for name, features in (("truth", np.eye(K)[TRUTH]), ("noise", rng.normal(size=(N, K)))):
        model = fitted(features=features)
        halves = [member for member in model.committee_.members if not member.whole]
        projected = model.projection_.project(features)
        weights[name] = trust(table, projected, halves, model.committee_.vote_accuracy, Serial())
        assert_close(weights[name], model.committee_.view_weights)
    assert weights["truth"][1] > 2 * weights["noise"][1]


@pytest.mark.parametrize("settings", [{}, {"emission": "silence"}, {"reading": "base"}, {"n_subtypes": 2, "n_init": 1}])
def test_dense_sparse_threads_and_storage_give_one_answer(settings, tmp_path):
    model = fitted(y=some_gold(TRUTH, 7), **settings)
    expected = model.predict_proba(VOTES, features=FEATURES)
    assert_close(model.predict_proba(sparse_of(VOTES), features=FEATURES), expected)
    model.save(tmp_path / "model")
    assert np.array_equal(labelfable.load(tmp_path / "model").predict_proba(VOTES, features=FEATURES), expected)
    threads = fitted(y=some_gold(TRUTH, 7), n_jobs=2, **settings)
    assert np.array_equal(threads.predict_proba(VOTES, features=FEATURES), expected)


def test_the_answer_is_less_sure_than_one_fit():
    """Copies of a source agree with each other and nothing else: one fit takes them for many."""
    votes = np.hstack([VOTES, np.repeat(VOTES[:, :1], 6, axis=1)])
    one, several = (fitted(votes, calibration=how).predict_proba(votes, features=FEATURES) for how in ("none", "votes"))
    assert several.max(axis=1).mean() < one.max(axis=1).mean()
    log_loss = [-np.log(found[np.arange(N), TRUTH]).mean() for found in (one, several)]
    assert log_loss[1] < log_loss[0]
