"""MeTaL: start, class proportions, posterior, known classes, odd votes, published figures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable import MajorityVote, read_votes
from labelfable.errors import LabelfableWarning
from labelfable.models.metal.balance import _third_moment
from labelfable.models.metal.estimator import MeTaL, Task
from labelfable.models.metal.posterior import LEAST_SHARE_OF_RATE
from labelfable.models.metal.start import GUESS_ACCURACY, GUESS_SHARE, Known, Start
from labelfable.models.moments import vote_moments
from tests.crowds import planted_votes, some_gold
from tests.oracles import metal as oracle
from tests.planted_tables import planted_tables, sampled, tables_of
from tests.real_data import real_set
from tests.tolerances import TOLERANCE, assert_close

PUBLISHED = {  # MeTaL in Table 2 of the FABLE paper: whole sets, F1 of class 1 for two classes, else accuracy
    "imdb": 72.10,
    "youtube": 76.63,
    "sms": 32.27,
    "cdr": 43.28,
    "commercial": 78.61,
    "tennis": 83.62,
    "trec": 41.94,
    "semeval": 72.69,
    "chemprot": 49.76,
}


VOTES, TRUTH = planted_votes(30, [0.9, 0.7, 0.5, 0.8], 3, coverage=0.6)


def quiet(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        return model.fit(*args, **kwargs)


def test_the_start_is_that_of_the_loops():
    prior = np.array([0.5, 0.2, 0.3])
    silent = VOTES.copy()
    silent[:3] = -1
    start = Start.of(read_votes(silent, classes=3), np.ones(len(VOTES)), None)
    expected = oracle.start(oracle.one_hot(silent, 3), prior, np.eye(3), GUESS_SHARE, GUESS_ACCURACY)
    assert_close(start.tables(prior), expected)


def test_third_moments_are_those_of_the_loops():
    v = np.random.default_rng(0).normal(size=(4, 3))
    expected = oracle.third_moment(oracle.one_hot(VOTES, 3), v)
    assert_close(_third_moment(read_votes(VOTES, classes=3), np.ones(len(VOTES)), v), expected)


@pytest.mark.parametrize("dependencies", [None, [(0, 1)]])
def test_learned_proportions_of_two_classes_beat_those_of_majority_vote(dependencies):
    tables, prior = planted_tables(8, [0.8, 0.2])
    votes, truth = sampled(tables, prior, 20_000)
    if dependencies:
        votes[:, 1] = votes[:, 0]
    share = np.bincount(truth) / len(truth)
    away = {
        policy: np.abs(MeTaL(dependencies, class_prior=policy).fit(votes).class_prior_ - share).max()
        for policy in ("votes", "learned")
    }
    assert away["learned"] < away["votes"] / 5


def test_learned_proportions_of_three_classes_beat_those_of_majority_vote():
    tables, prior = planted_tables(12, [0.7, 0.2, 0.1])
    votes, truth = sampled(tables, prior, 5_000)
    share = np.bincount(truth) / len(truth)
    models = {policy: MeTaL(class_prior=policy).fit(votes) for policy in ("votes", "learned")}
    away = {policy: np.abs(model.class_prior_ - share).max() for policy, model in models.items()}
    assert away["learned"] < away["votes"] / 2
    assert any("in turn" in note for note in models["learned"].report_.notes)


def test_two_sources_cannot_tell_the_proportions():
    model = MeTaL(class_prior="learned").fit(planted_votes(500, [0.8, 0.7], 2)[0])
    assert any("three independent sources" in note for note in model.report_.notes)
    assert_close(model.class_prior_, MeTaL().fit(planted_votes(500, [0.8, 0.7], 2)[0]).class_prior_)


@pytest.mark.parametrize("abstain", ["missing", "label"])
def test_probabilities_are_those_of_the_loops(abstain):
    model = MeTaL([(0, 1)], abstain=abstain).fit(VOTES)
    assert model.abstain_ == abstain
    found = model.predict_proba(VOTES)
    rates = oracle.one_hot(VOTES, 3).mean(axis=0)
    μ = np.maximum(model.confusion_, LEAST_SHARE_OF_RATE * rates[:, :, None])
    silent = 1 - model.confusion_.sum(axis=1) if abstain == "label" else np.ones((4, 3))
    for vote, probabilities in zip(oracle.one_hot(VOTES, 3), found, strict=True):
        expected = oracle.posterior(vote, μ, silent, model.class_prior_, model.source_weights_.tolist())
        assert_close(probabilities, expected, "sums")


# -- what users bring ------------------------------------------------------------------------------------------------


def _column(values):
    return np.array(values)[:, None]


EDGES = {
    "one source": _column([0, 1, 1, 0, -1, 1]),
    "two sources": planted_votes(200, [0.9, 0.7], 3)[0],
    "all abstain": np.full((5, 3), -1),
    "one item": np.array([[0, 1, 0, -1]]),
    "unanimous": np.repeat(_column([0, 1, 2, 1, 0, 2]), 4, axis=1),
    "one class voted for": np.where(np.arange(24).reshape(6, 4) % 3 == 0, -1, 1),
    "silent source": np.column_stack((planted_votes(50, [0.9, 0.7, 0.8], 3)[0], np.full(50, -1))),
    "uncovered items": np.vstack((planted_votes(50, [0.9, 0.7, 0.8], 3)[0], np.full((20, 3), -1))),
    "sources that never meet": np.where(np.arange(60).reshape(-1, 1) % 3 == np.arange(3), TRUTH.repeat(2)[:, None], -1),
    "sources that always vote": planted_votes(50, [0.9, 0.7, 0.8], 3, coverage=1.0)[0],
}


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("params", [{}, {"completion": "inverse"}, {"class_prior": "learned"}, {"abstain": "label"}])
@pytest.mark.parametrize("name", EDGES)
def test_odd_votes_give_probabilities(name, params, n_classes):
    votes = np.minimum(EDGES[name], n_classes - 1)
    table = read_votes(votes, classes=n_classes)
    model = quiet(MeTaL(**params), table)
    probabilities = model.predict_proba(table)
    assert np.all(np.isfinite(model.confusion_))
    assert model.confusion_.min() >= 0
    assert model.confusion_.sum(axis=1).max() <= 1 + TOLERANCE["float64"].rounding
    assert np.all(np.isfinite(probabilities))
    assert_close(probabilities.sum(axis=1), np.ones(len(votes)))


@pytest.mark.parametrize("completion", ["moments", "inverse"])
def test_one_class_is_certain(completion):
    table = read_votes(np.zeros((4, 3), dtype=int), classes=1)
    assert_close(MeTaL(completion=completion).fit(table).predict_proba(table), np.ones((4, 1)))


@pytest.mark.parametrize(("name", "few"), [("one source", "one independent"), ("two sources", "two independent")])
def test_few_sources_are_believed_and_the_report_says_so(name, few):
    votes = EDGES[name]
    model = MeTaL().fit(votes)
    assert any(few in note for note in model.report_.notes)
    majority = MajorityVote().fit(votes)
    clear = majority.predict(votes, ties="abstain") >= 0
    assert np.array_equal(model.predict(votes)[clear], majority.predict(votes)[clear])


def test_joined_sources_count_as_one_in_that_note():
    model = MeTaL([(0, 1), (1, 2)]).fit(planted_votes(200, [0.9, 0.7, 0.8, 0.8], 2)[0])
    assert any("two independent" in note for note in model.report_.notes)


def test_unanimous_votes_are_not_contradicted():
    votes = EDGES["unanimous"]
    model = MeTaL().fit(votes)
    assert np.array_equal(model.predict(votes), votes[:, 0])
    assert model.report_.contradicted == 0


def test_one_hot_soft_votes_are_hard_votes():
    hard, soft = MeTaL().fit(VOTES), MeTaL().fit(oracle.one_hot(VOTES, 3))
    assert_close(soft.confusion_, hard.confusion_, "minimum")
    assert_close(soft.predict_proba(oracle.one_hot(VOTES, 3)), hard.predict_proba(VOTES), "minimum")


def test_exclusion_votes_count_against_their_class():
    votes, truth = planted_votes(3000, [0.8, 0.7, 0.75, 0.8], 3)
    draws = np.random.default_rng(5)
    ruled_out = (truth + draws.integers(1, 3, len(truth))) % 3
    named = np.column_stack((votes, np.where(draws.random(len(truth)) < 0.8, 10 + ruled_out, -1)))
    table = read_votes(named, classes=3, exclusions={10: 0, 11: 1, 12: 2})
    model = MeTaL().fit(table)
    assert model.confusion_.shape == (5, 6, 3)
    assert np.array_equal(model.confusion_[4, 3:].argmin(axis=1), [0, 1, 2])
    assert (model.predict(table) == truth).mean() > (MeTaL().fit(votes).predict(votes) == truth).mean()


def test_known_classes_settle_what_moments_leave_open():
    tables, prior = planted_tables(6, [0.5, 0.3, 0.2], seed=3)
    votes, truth = sampled(tables, prior, 20_000)
    counted = np.stack([oracle.one_hot(votes, 3)[truth == k].mean(axis=0) for k in range(3)], axis=2)
    errors = [
        np.abs(MeTaL().fit(votes, gold).confusion_ - counted).mean() for gold in (None, some_gold(truth, 10), truth)
    ]
    assert errors[1] < errors[0] / 2
    assert errors[2] < errors[1] / 2


def test_known_items_pull_with_the_share_that_is_known():
    prior, gold = np.array([0.5, 0.2, 0.3]), some_gold(TRUTH, 3)
    found = Known.of(read_votes(VOTES, classes=3), np.ones(len(VOTES)), gold)
    pull = found.pull(prior, len(VOTES))
    for k in range(3):
        known = oracle.one_hot(VOTES, 3)[gold == k]
        assert_close(pull.centre[:, k], known.mean(axis=0).ravel() * np.sqrt(prior[k]))
        assert_close(pull.weights[k], min(1, len(known) / (len(VOTES) * prior[k])))
    model = MeTaL(class_prior=prior).fit(VOTES, gold)
    away = model.confusion_.reshape(12, 3) * np.sqrt(prior) - pull.centre
    assert_close(model.report_.history[-1]["known items"], (away**2).sum(axis=0) @ pull.weights)


def test_known_classes_count_where_no_source_tells_them():
    votes = np.repeat(_column([0, 0, 1, 1]), 3, axis=1).repeat(50, axis=0)
    gold = np.where(np.arange(200) % 4 == 0, 1 - votes[:, 0], -1)  # all sources are always wrong
    model = quiet(MeTaL(), votes, gold)
    assert (model.predict(votes) == 1 - votes[:, 0]).mean() > (
        quiet(MeTaL(), votes).predict(votes) == 1 - votes[:, 0]
    ).mean()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_order_does_not_matter(seed):
    """Permuting items, sources and classes permutes the tables."""
    draws = np.random.default_rng(seed)
    items, sources, classes = draws.permutation(len(VOTES)), draws.permutation(4), draws.permutation(3)
    moved = np.append(classes, -1)[VOTES][items][:, sources]
    before = MeTaL(tol=1e-9).fit(read_votes(VOTES, classes=3))
    after = MeTaL(tol=1e-9).fit(read_votes(moved, classes=3))
    expected = before.confusion_[sources][:, np.argsort(classes)][:, :, np.argsort(classes)]
    assert_close(after.confusion_, expected, "minimum")


def test_auto_holds_to_the_start_where_independence_fails():
    """Sources that share their mistakes leave covariance that no table explains."""
    votes, _ = planted_votes(5000, [0.8] * 6, 2, coverage=1.0)
    independent = MeTaL().fit(votes).anchor_
    shared = np.random.default_rng(3).random(len(votes)) < 0.3
    votes[:, 3:] = np.where(shared[:, None], (votes[:, 3:4] + (np.arange(3) > 2)) % 2, votes[:, 3:])
    assert MeTaL().fit(votes).anchor_ > 10 * independent


def test_a_strong_anchor_leaves_the_start():
    model = MeTaL(anchor=1e9).fit(VOTES)
    weights = np.ones(len(VOTES))
    table = read_votes(VOTES)
    moments = vote_moments(table, weights)
    task = Task(None, Start.of(table, weights, None), None, moments, np.arange(4), 1.0)
    start = tables_of(task.start_point(model.class_prior_), (4, 3, 3), model.class_prior_)
    assert_close(model.confusion_, start, "minimum")


@pytest.mark.parametrize("name", PUBLISHED)
def test_real_votes_score_no_less_than_published(name):
    votes, gold = real_set(name)
    n_classes = int(max(votes.max(), gold.max())) + 1
    table = read_votes(votes, classes=n_classes)
    chosen = quiet(MeTaL(), table).predict(table)
    if n_classes == 2:
        both = np.sum((chosen == 1) & (gold == 1))
        score = 200 * both / (np.sum((chosen == 1) & (gold >= 0)) + np.sum(gold == 1))
    else:
        score = 100 * (chosen == gold)[gold >= 0].mean()
    assert round(score, 2) >= PUBLISHED[name]
