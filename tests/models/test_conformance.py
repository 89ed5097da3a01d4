"""What every public model promises, one test a promise.  A new model in the registry is covered without being named."""

from __future__ import annotations

import copy
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from labelfable import read_votes
from labelfable.errors import InputError, NotConvergedWarning, VanishedClassWarning
from labelfable.models.protocol import BaseLabelModel, LabelModel
from labelfable.models.registry import model_named
from tests.conform import (
    ALL_MODELS,
    COLUMNS,
    GOLD,
    N_CLASSES,
    VOTES,
    assert_distributions,
    fitted,
    is_network,
    made,
    quiet,
    settings_of,
)
from tests.crowds import planted_votes, sparse_of
from tests.tolerances import assert_close

pytestmark = pytest.mark.usefixtures("votes_as_features")

WORSE_THAN_MAJORITY = {"WeaSEL": 0.06}  # with nothing but the votes as features its two networks lead each other astray


@pytest.fixture(params=ALL_MODELS)
def name(request) -> str:
    return request.param


# -- answers ----------------------------------------------------------------------------------------------------------


def test_it_is_a_label_model_and_a_classifier(name):
    model = fitted(name)
    assert isinstance(model, LabelModel)
    assert is_classifier(model)
    assert model_named(name).__doc__


def test_answers_have_the_promised_shapes(name):
    model = fitted(name)
    assert model.fit.__func__ is BaseLabelModel.fit
    assert_distributions(model.predict_proba(VOTES), len(VOTES), N_CLASSES)
    labels = model.predict(VOTES)
    assert labels.shape == (len(VOTES),)
    assert set(labels.tolist()) <= {0, 1, 2}
    assert np.array_equal(model.classes_, [0, 1, 2])
    assert model.n_features_in_ == VOTES.shape[1]


def test_labels_are_the_most_probable_classes(name):
    model = fitted(name)
    probabilities = model.predict_proba(VOTES)
    clear = np.diff(np.sort(probabilities, axis=1)[:, -2:], axis=1)[:, 0] > 1e-6
    assert clear.sum() > 100
    for ties in ("random", "first", "abstain"):
        labels = model.predict(VOTES, ties=ties)
        assert np.array_equal(labels[clear], probabilities[clear].argmax(axis=1))


def test_fit_predict_is_fit_then_predict(name):
    both = quiet(lambda: made(name).fit_predict(VOTES))
    assert np.array_equal(both, fitted(name).predict(VOTES))


def test_an_item_gets_the_same_answer_in_any_company(name):
    """Sampling shares nothing between items, so that what is asked together does not matter."""
    model = fitted(name)
    probabilities = model.predict_proba(VOTES)
    for items in (slice(3, 4), slice(None, None, -1), np.arange(40, 90), [7, 7, 0]):
        assert_close(model.predict_proba(VOTES[items]), probabilities[items])


def test_the_same_seed_gives_the_same_fit_bit_for_bit(name):
    one, other = (fitted(name, random_state=3).predict_proba(VOTES) for _ in range(2))
    assert np.array_equal(one, other)


def test_threads_change_nothing_bit_for_bit(name):
    if "n_jobs" not in settings_of(name):
        pytest.skip("has no n_jobs")
    assert np.array_equal(fitted(name, n_jobs=1).predict_proba(VOTES), fitted(name, n_jobs=2).predict_proba(VOTES))


def test_the_order_of_the_items_does_not_matter(name):
    if is_network(name):
        pytest.skip("its mini-batches are drawn by the numbers of the items")
    order = np.random.default_rng(0).permutation(len(VOTES))
    found = fitted(name, VOTES[order]).predict_proba(VOTES)
    assert_close(found, fitted(name).predict_proba(VOTES), "sweeps")


def test_it_is_no_worse_than_majority_vote_on_an_easy_problem(name):
    for seed in range(2):
        for n_classes in (2, 4):
            votes, truth = planted_votes(600, [0.9, 0.85, 0.8, 0.75, 0.7, 0.65], n_classes, coverage=0.9, seed=seed)
            model = fitted(name, votes)
            majority = fitted("MajorityVote", votes)
            found, plain = (np.mean(one.predict(votes) == truth) for one in (model, majority))
            assert found >= plain - WORSE_THAN_MAJORITY.get(name, 0.01)
            assert model.report_.collapsed == []


# -- use --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["predict", "predict_proba", "label_table"])
def test_before_fit_it_says_so(name, method):
    with pytest.raises(NotFittedError, match="not fitted"):
        getattr(made(name), method)(VOTES)


@pytest.mark.parametrize("columns", [1, 4, 6])
def test_another_number_of_sources_is_a_clear_error(name, columns):
    model = fitted(name)
    other = np.zeros((3, columns), dtype=int)
    with pytest.raises(InputError, match=f"{columns} sources, the fit saw 5"):
        model.predict(other)
    with pytest.raises(InputError, match="sources"):
        model.predict(read_votes(other, classes=N_CLASSES))


def test_a_class_that_the_fit_has_not_seen_is_a_clear_error(name):
    with pytest.raises(InputError, match=r"vote 3 is not a known label.*item 1, source '0'"):
        fitted(name).predict(np.array([[0] * 5, [3] * 5]))


def test_a_bad_setting_is_a_clear_error(name):
    for setting in settings_of(name):
        model = model_named(name)()
        setattr(model, setting, object())
        with pytest.raises(ValueError, match=setting):
            model.fit(VOTES)


def test_the_votes_are_left_as_they_were(name):
    array, gold, sparse, frame = VOTES.copy(), GOLD.copy(), sparse_of(VOTES), pd.DataFrame(COLUMNS)
    table = read_votes(array)
    for form in (array, sparse, frame, table):
        before = copy.deepcopy(form)
        quiet(lambda form=form: made(name).fit_predict(form, gold if form is not frame else None))
        assert_same_votes(form, before)
    assert np.array_equal(gold, GOLD)
    array.setflags(write=False)
    fitted(name, array).predict(array)


def assert_same_votes(form, before):
    if isinstance(form, np.ndarray):
        assert np.array_equal(form, before)
    elif sp.issparse(form):
        assert np.array_equal(form.data, before.data)
        assert np.array_equal(form.indices, before.indices)
    elif isinstance(form, pd.DataFrame):
        pd.testing.assert_frame_equal(form, before)
    else:
        assert np.array_equal(form.votes, before.votes)
        assert form.classes.tolist() == before.classes.tolist()


def test_a_new_fit_forgets_the_last_one(name):
    other, _ = planted_votes(80, [0.9, 0.8, 0.7], 2, seed=9)
    model = quiet(lambda: made(name).fit(VOTES))
    quiet(lambda: model.fit(other))
    fresh = fitted(name, other)
    assert np.array_equal(model.predict_proba(other), fresh.predict_proba(other))
    assert vars(model).keys() == vars(fresh).keys()
    assert model.classes_.tolist() == [0, 1]
    assert model.report_.history == fresh.report_.history


def test_settings_survive_clone_and_a_fit_changes_none(name):
    model = made(name, random_state=5, max_iter=7, class_prior="uniform")
    before = model.get_params()
    assert clone(model).get_params() == before
    quiet(lambda: model.fit(VOTES))
    assert model.get_params() == before
    assert set(before) == set(settings_of(name))


def test_copies_and_pickles_answer_alike(name):
    model = fitted(name)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301 (its own bytes)
        assert np.array_equal(twin.predict_proba(VOTES), model.predict_proba(VOTES))


def test_scikit_learn_knows_what_the_votes_are(name):
    tags = get_tags(made(name))
    assert tags.estimator_type == "classifier"
    assert tags.input_tags.categorical
    assert tags.input_tags.sparse
    assert tags.input_tags.allow_nan
    assert not tags.target_tags.required


# -- the report -------------------------------------------------------------------------------------------------------


def test_the_report_tells_the_fit(name):
    told = fitted(name).report_
    assert (told.model, told.n_items, told.n_sources, told.n_classes) == (name, 150, 5, 3)
    assert told.n_covered == 148
    sees_items = is_network(name) or name == "FABLE"
    fitted_rows = len(VOTES) if sees_items else len(np.unique(VOTES, axis=0))  # features tell equal votes apart
    assert told.n_distinct == fitted_rows
    assert told.seconds > 0
    assert 0 <= told.changed_share < 0.2
    assert told.contradicted == 0
    assert told.collapsed == []
    json.dumps(told.as_dict(), allow_nan=False)
    assert str(told).startswith(f"{name}: 150 items")


def test_an_iterative_fit_tells_its_course(name):
    model = fitted(name)
    told = model.report_
    if "max_iter" not in settings_of(name):
        assert told.converged
        pytest.skip("in closed form")
    assert told.iterations == model.n_iter_ >= 1
    assert all(np.isfinite(total) for total in told.objective)
    assert len({tuple(terms) for terms in told.history}) == 1  # the same terms each time


def test_warnings_say_what_the_report_says(name):
    """On votes that make some models collapse: each remark is made exactly where its reason is in the report."""
    votes, _ = planted_votes(60, [0.5, 0.4, 0.4], 4, coverage=0.5, seed=5)
    for params in ({}, {"class_prior": "learned", "max_iter": 2, "tol": 0}):
        if params and not takes_learned_prior(name):
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            told = made(name, **params).fit(votes).report_
        kinds = {warning.category for warning in caught}
        assert (VanishedClassWarning in kinds) == bool(told.collapsed)
        assert (NotConvergedWarning in kinds) == (not told.converged)
        assert kinds <= {VanishedClassWarning, NotConvergedWarning}


def takes_learned_prior(name):
    return any("learned" in getattr(limit, "options", ()) for limit in settings_of(name).get("class_prior", ()))


def test_too_few_iterations_are_said_aloud(name):
    if not {"max_iter", "tol"} <= set(settings_of(name)):
        pytest.skip("in closed form")
    with pytest.warns(NotConvergedWarning, match=f"{name} stopped after 1 iterations"):
        made(name, max_iter=1, tol=0).fit(VOTES)
