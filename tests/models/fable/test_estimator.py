"""FABLE as users meet it: what a fit leaves behind, prediction, save and load, and what does not change the answer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import labelfable
from labelfable import MajorityVote
from labelfable.errors import InputError, LabelfableWarning
from labelfable.inference.execution import add_in_order
from labelfable.models.fable.estimator import FABLE
from labelfable.models.fable.items import cut_items
from labelfable.models.registry import MODELS, Entry
from labelfable.votes import read_votes
from tests.conform import assert_distributions
from tests.crowds import planted_votes, some_gold, sparse_of
from tests.fable_planted import planted
from tests.tolerances import MEAN_FIELD_SLACK, TOLERANCE, assert_close

N, K = 80, 3
VOTES, TRUTH = planted_votes(N, [0.8, 0.65, 0.6, 0.7], K, coverage=0.7)
VOTES[[5, 50]] = -1
FEATURES = np.eye(K)[TRUTH] + np.random.default_rng(0).normal(scale=0.8, size=(N, K))
GOLD = some_gold(TRUTH, 6)

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "calibrated": {"calibration": "votes"},
    "posteriors": {"tilt": "posterior", "tables": "posterior"},
    "fired": {"emission": "fired", "tilt": "posterior", "uncovered": "in"},
    "silence": {"emission": "silence", "evidence_weight": 1.0},
    "rates": {"emission": "rates", "tables": "posterior"},
    "half silent": {"emission": "silence", "silence_weight": 0.5, "tables": "posterior"},
    "hierarchical": {"sharing": "hierarchical", "tables": "posterior"},
    "hierarchical strength": {"sharing": "hierarchical_strength", "tables": "posterior", "firmness": 1.0},
    "hierarchical points": {"sharing": "hierarchical", "emission": "rates"},
    "base, learned": {"reading": "base", "class_prior": "learned"},
    "factored": {"normaliser": "factored"},
    "conditional": {"reading": "conditional", "n_subtypes": 2, "n_init": 1},
    "subtypes": {"n_subtypes": 3, "n_init": 1},
    "rbf": {"kernel": "rbf", "n_inducing": 10},
    "exact": {"kernel": "matern32", "method": "exact", "max_iter": 5},
    "lanczos": {"kernel": "rbf", "method": "lanczos", "n_inducing": 15},
}
each_setting = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())


def fitted(votes: Any = VOTES, y: Any = None, features: Any = FEATURES, **settings: Any) -> FABLE:
    """A few sweeps, its remarks left aside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        return FABLE(**{"max_iter": 15, "n_jobs": 1, "calibration": "none", **settings}).fit(
            votes, y, features=features
        )


# -- what a fit leaves behind -----------------------------------------------------------------------------------------


@each_setting
def test_the_bound_rises_and_the_report_has_every_term(settings):
    model = fitted(y=GOLD, **settings)
    totals = np.array(model.report_.objective)
    assert np.all(np.diff(totals) >= -TOLERANCE["float64"].climb * np.abs(totals[1:]))
    assert totals[-1] > totals[0]
    assert model.n_iter_ == len(totals)
    expected = {"sigmoid", "normaliser", "classes", "votes", "entropy", "vote tables", "processes"}
    learned = {"class proportions"} if settings.get("class_prior") == "learned" else set()
    assert set(model.report_.history[-1]) == expected | learned


@each_setting
def test_the_globals_are_those_of_the_last_bound(settings):
    """So prediction repeats the last responsibilities."""
    model = fitted(**settings | {"calibration": "none"})
    covered = np.flatnonzero((VOTES >= 0).any(axis=1) | (settings.get("uncovered") == "in"))
    table = read_votes(VOTES[covered], classes=[0, 1, 2])
    table = table.with_abstain_as_label() if settings.get("emission") == "silence" else table
    shards = cut_items(table, None, model.projection_.project(FEATURES[covered]), None)
    sweeps, global_ = model.sweeps_, model.globals_
    statistics = add_in_order(sweeps.local_step(shard, None, global_)[1] for shard in shards)
    assert_close(sum(sweeps.bound(statistics, global_).values()), model.report_.objective[-1])
    ρ = np.concatenate([sweeps.item_factors(shard, global_)[0].responsibilities for shard in shards])
    assert_close(model.predict_proba(VOTES, features=FEATURES)[covered], sweeps.reading.class_sum(ρ))


@pytest.mark.parametrize("tilt", ["mean", "posterior"])
def test_more_subtypes_never_end_below_one(tilt):
    settings = {"tilt": tilt, "tables": "posterior", "max_iter": 40, "n_init": 2}
    one, several = (fitted(n_subtypes=n_subtypes, **settings) for n_subtypes in (1, 3))
    assert several.report_.objective[-1] >= one.report_.objective[-1]
    assert several.sweeps_.reading.n_subtypes in {1, 3}


def test_features_are_used():
    """Planted votes and features: better than majority vote, better than without features, and nearly the best."""
    data = planted(3000, seed=1)
    model = fitted(data.votes, None, data.features, max_iter=100)
    alone = fitted(data.votes, None, None, max_iter=100)
    right = (model.predict(data.votes, features=data.features) == data.truth).mean()
    assert right > (data.by_both.argmax(axis=1) == data.truth).mean() - MEAN_FIELD_SLACK
    assert right > (alone.predict(data.votes) == data.truth).mean()
    assert right > (MajorityVote().fit(data.votes).predict(data.votes) == data.truth).mean()


@pytest.mark.parametrize("tables", ["point", "posterior"])
def test_without_weight_on_silence_what_is_said_decides_alone(tables):
    """Votes given that a source fires, to the last of its sweeps; with weight it is another model."""
    fired, none, some = (
        fitted(tables=tables, emission=emission, silence_weight=weight)
        for emission, weight in (("fired", 1.0), ("silence", 0.0), ("silence", 0.2))
    )
    assert_close(np.array(none.report_.objective), np.array(fired.report_.objective), "sweeps")
    expected = fired.predict_proba(VOTES, features=FEATURES)
    assert_close(none.predict_proba(VOTES, features=FEATURES), expected, "sweeps")
    assert np.abs(some.predict_proba(VOTES, features=FEATURES) - expected).max() > TOLERANCE["float64"].minimum


@pytest.mark.parametrize(
    ("sharing", "tables"),
    [("hierarchical", "point"), ("hierarchical", "posterior"), ("hierarchical_strength", "posterior")],
)
def test_the_prior_learns_how_good_sources_are(sharing, tables):
    """Of good sources a higher accuracy than of bad ones, from the same settings; the strength only where asked."""
    found = []
    for right in (0.95, 0.55):
        votes, _ = planted_votes(400, [right] * 6, K, coverage=0.8)
        model = fitted(votes, None, None, tables=tables, sharing=sharing, max_iter=100)
        x, y = model.globals_.votes.strengths
        found.append(x / (x + y))
        assert (abs(x + y - model.strength) < TOLERANCE["float64"].sums) == (sharing == "hierarchical")
    assert found[0] > 0.85 > found[1]


# -- prediction -------------------------------------------------------------------------------------------------------


@each_setting
def test_new_items_need_no_company(settings):
    """Their answer is their own: alone, in another order, and among the items of the fit."""
    model = fitted(**settings)
    whole = model.predict_proba(VOTES, features=FEATURES)
    assert_distributions(whole, N, K)
    order = np.random.default_rng(1).permutation(N)
    assert_close(model.predict_proba(VOTES[order], features=FEATURES[order]), whole[order])
    for i in (0, 5):
        assert_close(model.predict_proba(VOTES[[i]], features=FEATURES[[i]]), whole[[i]])


def test_items_without_votes_are_told_by_their_features():
    model = fitted(max_iter=100)
    silent = np.full((N, VOTES.shape[1]), -1)
    assert (model.predict(silent, features=FEATURES) == TRUTH).mean() > 0.6
    assert np.ptp(fitted(features=None).predict_proba(silent), axis=0).max() == 0


def test_features_are_missing_where_the_fit_had_none_or_the_other_way_round():
    with pytest.raises(InputError, match="features"):
        fitted().predict_proba(VOTES)
    with pytest.raises(InputError, match="features"):
        fitted(features=None).predict_proba(VOTES, features=FEATURES)
    with pytest.raises(InputError, match=r"2 columns, the fit saw 3"):
        fitted().predict_proba(VOTES, features=FEATURES[:, :2])


@pytest.mark.parametrize("rows", [N - 1, N + 1, 2 * N])
def test_rows_of_features_must_be_items_of_votes(rows):
    features = np.resize(FEATURES, (rows, K))
    with pytest.raises(InputError, match=f"{rows} rows of features for {N} items"):
        fitted(features=features)
    with pytest.raises(InputError, match=f"{rows} rows of features for {N} items"):
        fitted().predict_proba(VOTES, features=features)


def test_known_labels_are_held_in_the_fit():
    """They teach: with all labels known the features alone predict better than without any."""
    silent = np.full((N, VOTES.shape[1]), -1)
    told = fitted(y=TRUTH, max_iter=100).predict(silent, features=FEATURES)
    untold = fitted(max_iter=100).predict(silent, features=FEATURES)
    assert (told == TRUTH).mean() > (untold == TRUTH).mean()


# -- what does not change the answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SETTINGS.keys() - {"exact"}))  # which takes too few items for a second shard
def test_the_number_of_threads_does_not(name):
    many, features = np.tile(VOTES, (250, 1)), np.tile(FEATURES, (250, 1))  # two shards
    one, two = (fitted(many, None, features, **SETTINGS[name], max_iter=3, n_jobs=n) for n in (1, 2))
    assert one.report_.objective == two.report_.objective
    assert np.array_equal(one.predict_proba(VOTES, features=FEATURES), two.predict_proba(VOTES, features=FEATURES))


@each_setting
def test_the_form_of_the_votes_does_not(settings):
    dense = fitted(**settings).predict_proba(VOTES, features=FEATURES)
    sparse = fitted(sparse_of(VOTES), **settings)
    assert_close(sparse.predict_proba(sparse_of(VOTES), features=FEATURES), dense, "sweeps")


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_form_of_the_features_does_not(kernel):
    features = np.where(np.abs(FEATURES) < 0.5, 0.0, FEATURES)
    dense = fitted(features=features, kernel=kernel, n_inducing=10).predict_proba(VOTES, features=features)
    for other in (sp.csr_array(features), np.asfortranarray(features), features.tolist()):
        found = fitted(features=other, kernel=kernel, n_inducing=10).predict_proba(VOTES, features=other)
        assert_close(found, dense, "sweeps")
    single = features.astype(np.float32)
    found = fitted(features=single, kernel=kernel, n_inducing=10).predict_proba(VOTES, features=single)
    assert_close(found.astype(np.float32), dense.astype(np.float32), "sweeps")


def test_a_second_fit_is_the_first():
    model = fitted(n_subtypes=2, kernel="rbf", n_inducing=8)
    first = model.predict_proba(VOTES, features=FEATURES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        again = model.fit(VOTES, features=FEATURES).predict_proba(VOTES, features=FEATURES)
    assert np.array_equal(first, again)


@each_setting
def test_saved_and_loaded_it_says_the_same(settings, tmp_path, monkeypatch):
    monkeypatch.setitem(MODELS, "FABLE", Entry("labelfable.models.fable.estimator"))
    model = fitted(**settings)
    model.save(tmp_path / "model")
    again = labelfable.load(tmp_path / "model")
    assert again.get_params() == model.get_params()
    assert again.report_ == model.report_
    assert np.array_equal(again.predict_proba(VOTES, features=FEATURES), model.predict_proba(VOTES, features=FEATURES))
