"""Dawid-Skene agrees with itself in every form of the same votes, with an oracle, and with another program."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable import DawidSkene, read_votes
from labelfable.inference import shards as shards_module
from labelfable.models import dawid_skene as dawid_skene_module
from labelfable.votes.table import VoteTable
from tests import problems
from tests.crowds import planted_votes, sparse_of
from tests.oracles import confusion as oracle
from tests.problems import GOLD, N_CLASSES, REPEATED, REPEATED_GOLD, VOTES
from tests.real_data import real_set
from tests.tolerances import assert_close
from tests.walk import setting_of

true_update_confusion = dawid_skene_module.update_confusion


def fitted(votes, y=None, **params):
    return problems.fitted(DawidSkene(), votes, y, **params)


# -- 5: what should coincide does -------------------------------------------------------------------------------------


@pytest.mark.parametrize("abstain", ["missing", "label"])
def test_sparse_votes_are_dense_votes(abstain):
    sparse = sparse_of(VOTES)
    one, other = fitted(VOTES, GOLD, abstain=abstain), fitted(sparse, GOLD, abstain=abstain)
    assert_close(one.predict_proba(VOTES), other.predict_proba(sparse), "sums")
    assert_close(one.report_.objective, other.report_.objective, "sums")


@pytest.mark.parametrize("gold", [None, REPEATED_GOLD], ids=["no gold", "gold"])
def test_distinct_rows_are_all_rows(gold, monkeypatch):
    one = fitted(REPEATED, gold)
    assert one.report_.n_distinct < len(REPEATED)
    every = lambda table, _extra=None: (table, np.arange(table.n_items), np.ones(table.n_items))  # noqa: E731 (a stand-in)
    monkeypatch.setattr(VoteTable, "distinct", every)
    other = fitted(REPEATED, gold)
    assert other.report_.n_distinct == len(REPEATED)
    assert_close(one.predict_proba(REPEATED), other.predict_proba(REPEATED), "sums")
    assert_close(one.report_.objective, other.report_.objective, "sums")


@pytest.fixture
def many_rows():
    return planted_votes(600, [0.8, 0.6, 0.7, 0.9, 0.6, 0.7, 0.5, 0.8], N_CLASSES)[0]


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(shards_module, "FEWEST_ITEMS", 64)
    monkeypatch.setattr(shards_module, "MOST_ITEMS", 64)


def test_shards_are_the_whole(many_rows, monkeypatch):
    whole = fitted(many_rows)
    monkeypatch.setattr(shards_module, "FEWEST_ITEMS", 64)
    monkeypatch.setattr(shards_module, "MOST_ITEMS", 64)
    assert len(setting_of(DawidSkene(), dawid_skene_module, many_rows).shards) > 4
    cut = fitted(many_rows)
    assert_close(whole.predict_proba(many_rows), cut.predict_proba(many_rows), "sweeps")
    assert_close(whole.report_.objective, cut.report_.objective, "sums")


@pytest.mark.usefixtures("small_shards")
def test_threads_are_serial_bit_for_bit(many_rows):
    serial, threads = fitted(many_rows, n_jobs=1), fitted(many_rows, n_jobs=2)
    assert serial.report_.history == threads.report_.history
    assert np.array_equal(serial.confusion_, threads.confusion_)
    assert np.array_equal(serial.predict_proba(many_rows), threads.predict_proba(many_rows))


def test_silence_is_a_label_that_somebody_wrote_down():
    written = np.where(VOTES >= 0, VOTES, N_CLASSES)
    table = read_votes(written, classes=N_CLASSES + 1)
    meaning = np.vstack((np.eye(N_CLASSES), np.zeros((1, N_CLASSES))))
    model = fitted(VOTES, GOLD, abstain="label", class_prior="learned", smoothing=0.1)
    spoken = oracle.spoken_of(np.asarray(table.votes))
    ρ = oracle.majority_shares(spoken, meaning, GOLD)
    for _ in range(model.report_.iterations):
        tables = oracle.dawid_skene_tables(spoken, ρ, (VOTES.shape[1], N_CLASSES + 1), 0.1)
        shares = oracle.dawid_skene_proportions(ρ, 0.1)
        ρ = oracle.responsibilities(spoken, np.log(tables), np.log(shares), GOLD)
    assert_close(model.confusion_, tables, "sweeps")
    assert_close(model.class_prior_, shares, "sweeps")


def test_auto_hears_silence_where_sources_have_one_label_each():
    rules, _ = planted_votes(200, [0.9, 0.8, 0.7, 0.6], 2, coverage=0.8)
    rules = np.where(rules == np.array([0, 1, 0, 1]), rules, -1)
    assert fitted(rules).abstain_ == "label"
    assert fitted(VOTES).abstain_ == "missing"


def test_known_classes_are_held_while_fitting():
    setting = setting_of(DawidSkene(abstain="missing"), dawid_skene_module, VOTES, GOLD)
    known = GOLD >= 0
    for state in setting.walk(3):
        assert np.array_equal(state.responsibilities[known], np.eye(N_CLASSES)[GOLD[known]])
        assert np.all((state.responsibilities[~known] > 0).sum(axis=1) == N_CLASSES)


# -- 6: invariance ----------------------------------------------------------------------------------------------------

votes_of_three_classes = st.integers(4, 12).flatmap(
    lambda n: st.lists(st.lists(st.integers(-1, N_CLASSES - 1), min_size=3, max_size=3), min_size=n, max_size=n).filter(
        lambda rows: any(vote >= 0 for row in rows for vote in row)
    )
)


@settings(max_examples=25, deadline=None)
@given(rows=votes_of_three_classes, seed=st.integers(0, 1000), abstain=st.sampled_from(["missing", "label"]))
def test_permuting_items_sources_or_classes_permutes_the_result(rows, seed, abstain):
    votes, draws = np.array(rows), np.random.default_rng(seed)
    fit = partial(fitted, abstain=abstain, max_iter=4, smoothing=0.1)
    table = read_votes(votes, classes=N_CLASSES)
    expected = fit(table)
    probabilities = expected.predict_proba(table)

    items = draws.permutation(len(votes))
    moved = read_votes(votes[items], classes=N_CLASSES)
    assert_close(fit(moved).predict_proba(moved), probabilities[items], "sweeps", message="items")

    sources = draws.permutation(votes.shape[1])
    moved = read_votes(votes[:, sources], classes=N_CLASSES)
    found = fit(moved)
    assert_close(found.predict_proba(moved), probabilities, "sweeps", message="sources")
    assert_close(found.confusion_, expected.confusion_[sources], "sweeps", message="sources")

    classes = draws.permutation(N_CLASSES)  # class k is now called classes[k]
    moved = read_votes(np.append(classes, -1)[votes], classes=N_CLASSES)
    found = fit(moved)
    assert_close(found.predict_proba(moved)[:, classes], probabilities, "sweeps", message="classes")
    assert_close(
        found.confusion_[:, classes][:, :, classes], expected.confusion_[:, :N_CLASSES], "sweeps", message="classes"
    )


# -- another program --------------------------------------------------------------------------------------------------


def crowd_kit(votes, n_iter):
    """crowd-kit's answer after as many E steps, [items, classes], for items that have votes."""
    import pandas as pd
    from crowdkit.aggregation import DawidSkene as CrowdKit

    i, j = np.nonzero(votes >= 0)
    long = pd.DataFrame({"task": i, "worker": j, "label": votes[i, j]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas' remarks on crowd-kit's code
        found = CrowdKit(n_iter=n_iter, tol=-np.inf).fit(long)
    return found.probas_.sort_index(axis=0).sort_index(axis=1).to_numpy()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_iter", [1, 12])
def test_agrees_with_crowd_kit_on_random_votes(seed, n_iter):
    """No count is zero here, so crowd-kit's floor of 1e-10 under counts plays no part: rounding alone is left."""
    votes, _ = planted_votes(300, [0.8, 0.7, 0.6, 0.7, 0.5], N_CLASSES, seed=seed)
    votes = votes[(votes >= 0).any(axis=1)]
    ours = fitted(votes, abstain="missing", class_prior="learned", smoothing=0, max_iter=n_iter)
    assert_close(ours.predict_proba(votes), crowd_kit(votes, n_iter), "sweeps")


@pytest.mark.parametrize("n_iter", [1, 5, 20])
def test_agrees_with_crowd_kit_on_real_votes(n_iter, monkeypatch):
    """crowd-kit differs in one rule: no count is below 1e-10, over the labels that a source has used.

    So where a source has no vote for a class it takes even odds of those labels, we of all.  With its rule in place of
    ours everything agrees.
    """
    votes = real_set("music_genres").votes
    theirs = crowd_kit(votes, n_iter)
    published = {"abstain": "missing", "class_prior": "learned", "smoothing": 0, "max_iter": n_iter}
    ours = fitted(votes, **published).predict_proba(votes)
    same = ours.argmax(axis=1) == theirs.argmax(axis=1)
    assert same.mean() > 0.98

    def with_their_floor(counts, _smoothing):
        used = counts.sum(axis=2, keepdims=True) > 0
        return true_update_confusion(np.where(used, np.maximum(counts, 1e-10), 0), 0)

    monkeypatch.setattr(dawid_skene_module, "update_confusion", with_their_floor)
    assert_close(fitted(votes, **published).predict_proba(votes), theirs, "sweeps")
