"""FABLE where there is little to go on, or too much of it: an answer that is finite, or an error in words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from labelfable.errors import InputError, LabelfableError, LabelfableWarning, ModelError
from labelfable.models.fable.estimator import FABLE
from tests.conform import assert_distributions
from tests.crowds import planted_votes, some_gold
from tests.tolerances import TOLERANCE, assert_close

N, K = 60, 3
VOTES, TRUTH = planted_votes(N, [0.9, 0.7, 0.6, 0.8], K)
VOTES[5] = -1
X = np.eye(K)[TRUTH] + np.random.default_rng(0).normal(size=(N, K))
GOLD = some_gold(TRUTH, 5)
EVERY_FIFTH = np.arange(N)[:, None] % 5 == 0

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "posteriors": {"tilt": "posterior", "tables": "posterior"},
    "fired": {"emission": "fired", "tilt": "posterior", "uncovered": "in"},
    "silence": {"emission": "silence"},
    "rates": {"emission": "rates"},
    "hierarchical": {"sharing": "hierarchical"},
    "hierarchical strength": {
        "sharing": "hierarchical_strength",
        "tables": "posterior",
        "emission": "silence",
        "silence_weight": 0.3,
        "firmness": 1e-3,
    },
    "base, learned": {"reading": "base", "class_prior": "learned"},
    "factored": {"normaliser": "factored", "tilt": "posterior"},
    "conditional": {"reading": "conditional", "n_subtypes": 2, "n_init": 1},
    "subtypes": {"n_subtypes": 3, "n_init": 2},
    "rbf": {"kernel": "rbf", "n_inducing": 10},
    "pivoted": {"kernel": "rbf", "inducing": "pivoted", "n_inducing": 10, "tilt": "posterior"},
    "lanczos": {"kernel": "cosine", "method": "lanczos", "n_inducing": 10},
    "exact": {"kernel": "matern12", "method": "exact", "tilt": "posterior", "max_iter": 3},
}
# name: votes, gold, features, settings
EXTREMES: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "constant features": (VOTES, None, np.ones((N, 3)), {}),
    "duplicated features": (VOTES, None, np.repeat(X, 2, axis=1), {}),
    "duplicated items": (np.repeat(VOTES, 3, axis=0), None, np.repeat(X, 3, axis=0), {}),
    "features of size 1e6": (VOTES, None, 1e6 * X, {"scaling": "none"}),
    "features of size 1e-6": (VOTES, None, 1e-6 * X, {"scaling": "none"}),
    "features of all sizes": (VOTES, None, X * [1e6, 1, 1e-6], {"scaling": "none"}),
    "one item far out": (VOTES, None, np.vstack((X[:-1], [[1e6, 0, 0]])), {"scaling": "none"}),
    "one column": (VOTES, None, X[:, 0], {}),
    "more columns than items": (VOTES, None, np.random.default_rng(0).normal(size=(N, 70)), {}),
    "no features": (VOTES, None, None, {}),
    "features without a column": (VOTES, None, np.zeros((N, 0)), {}),
    "one item": (VOTES[:1], None, X[:1], {}),
    "two items": (VOTES[:2], None, X[:2], {}),
    "one class": (np.where(VOTES >= 0, 0, -1), None, X, {}),
    "one source": (VOTES[:, :1], None, X, {}),
    "a source that never votes": (np.hstack((VOTES, np.full((N, 1), -1))), None, X, {}),
    "everybody agrees": (np.repeat(TRUTH[:, None], 5, axis=1), None, X, {}),
    "some gold": (VOTES, GOLD, X, {}),
    "all gold": (VOTES, TRUTH, X, {}),
    "gold where there are no votes": (np.where(EVERY_FIFTH, -1, VOTES), GOLD, X, {}),
    "an item without features": (VOTES, None, np.where(np.arange(N)[:, None] == 3, np.nan, X), {"missing": "ignore"}),
    "a prior without strength": (VOTES, None, X, {"strength": 0}),
}


def fitted(votes: Any, y: Any, features: Any, **settings: Any) -> FABLE:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        return FABLE(**{"max_iter": 10, "n_jobs": 1, **settings}).fit(votes, y, features=features)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("extreme", EXTREMES)
def test_there_is_an_answer(extreme, settings):
    votes, gold, features, own = EXTREMES[extreme]
    if "sharing" in settings and own.get("strength") == 0:
        with pytest.raises(ModelError, match="around the strength that is set"):
            fitted(votes, gold, features, **(settings | own))
        return
    model = fitted(votes, gold, features, **(settings | own))
    assert_distributions(model.predict_proba(votes, features=features), len(votes), len(model.classes_))
    totals = np.array(model.report_.objective)
    assert np.all(np.isfinite(totals))
    assert np.all(np.diff(totals) >= -TOLERANCE["float64"].climb * np.abs(totals[1:]))


def test_nobody_is_contradicted_where_everybody_agrees():
    votes, _, features, _ = EXTREMES["everybody agrees"]
    found = fitted(votes, None, features, max_iter=100).predict(votes, features=features)
    assert np.array_equal(found, TRUTH)


def test_copies_of_an_item_are_told_alike():
    votes, _, features, _ = EXTREMES["duplicated items"]
    found = fitted(votes, None, features).predict_proba(votes, features=features)
    for copy in (1, 2):
        assert_close(found[copy::3], found[::3])


def test_constant_features_are_no_features():
    constant = fitted(VOTES, None, np.ones((N, 2))).predict_proba(VOTES, features=np.ones((N, 2)))
    assert_close(constant, fitted(VOTES, None, None).predict_proba(VOTES), "sweeps")


def test_standardised_features_have_no_unit():
    plain = fitted(VOTES, None, X).predict_proba(VOTES, features=X)
    for scale in (1e6, 1e-6, [1e6, 1.0, 1e-6]):
        found = fitted(VOTES, None, X * scale).predict_proba(VOTES, features=X * scale)
        assert_close(found, plain, "sweeps")


REFUSED: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "NaN": (VOTES, np.where(np.arange(N)[:, None] == 3, np.nan, X), {}, r"item 3.*missing='ignore'"),
    "only NaN": (VOTES, np.full((N, 2), np.nan), {"missing": "ignore"}, "no item has features"),
    "infinity": (VOTES, np.where(np.arange(N)[:, None] == 3, np.inf, X), {}, r"infinite.*item 3, feature 0"),
    "words": (VOTES, np.full((N, 2), "x"), {}, "real numbers|not numbers"),
    "no vote": (np.full((N, 3), -1), X, {}, "no vote at all"),
    "a class prior of another length": (VOTES, X, {"class_prior": [0.5, 0.5]}, "3 classes"),
    "lengthscales of another number": (VOTES, X, {"lengthscale": [1.0, 2.0]}, "2 lengthscales for 3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_fitted_is_refused_in_words(case):
    votes, features, settings, words = REFUSED[case]
    with pytest.raises(LabelfableError, match=words):
        fitted(votes, None, features, **settings)


@pytest.mark.parametrize(
    ("name", "value"),
    {
        "n_subtypes": 0,
        "kernel": "polynomial",
        "accuracy": 1.0,
        "emission": "words",
        "reading": "twice",
        "tilt": "both",
        "variance": 0.0,
        "rarity": 1.5,
        "evidence_weight": 0.0,
        "max_iter": 0,
    }.items(),
)
def test_settings_have_limits(name, value):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of FABLE must be"):
        fitted(VOTES, None, X, **{name: value})


def test_before_the_fit_there_is_no_answer():
    with pytest.raises(NotFittedError):
        FABLE().predict_proba(VOTES, features=X)


def test_an_item_without_features_is_told_by_its_votes():
    """Its features may be anything, as long as they are absent; other items' answers are their own."""
    absent = X.copy()
    absent[[3, 4]] = np.nan
    partly = X.copy()
    partly[[3, 4], [0, 2]] = np.nan
    votes = VOTES.copy()
    votes[3] = votes[4]
    found, again = (
        fitted(votes, None, features, missing="ignore").predict_proba(votes, features=features)
        for features in (absent, partly)
    )
    assert np.array_equal(found, again)
    assert np.array_equal(found[3], found[4])


def test_new_items_without_features_are_refused_or_told_by_their_votes():
    absent = np.where(np.arange(N)[:, None] == 7, np.nan, X)
    with pytest.raises(InputError, match="item 7"):
        fitted(VOTES, None, X).predict_proba(VOTES, features=absent)
    model = fitted(VOTES, None, X, missing="ignore")
    whole, found = model.predict_proba(VOTES, features=X), model.predict_proba(VOTES, features=absent)
    others = np.arange(N) != 7
    assert_close(found[others], whole[others])
    assert not np.array_equal(found[7], whole[7])
    assert_distributions(found, N, K)
