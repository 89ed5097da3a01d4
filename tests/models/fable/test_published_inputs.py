"""inference="published": settings, inputs of every kind, and labels of other items."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import labelfable
from labelfable.errors import InputError, LabelfableWarning, ModelError
from labelfable.models.fable.published import fingerprint, fit_published, predict_published
from labelfable.models.fable.published_settings import PublishedSettings
from labelfable.models.fable.published_steps import PublishedSteps, item_kernel
from labelfable.votes.features import read_features
from tests.crowds import planted_votes, soft_of, some_gold, sparse_of
from tests.oracles import published as oracle
from tests.tolerances import assert_close

K, M = 3, 2
VOTES, TRUTH = planted_votes(40, [0.8, 0.7, 0.6, 0.9], K)
DRAWS = np.random.default_rng(1)
FEATURES = DRAWS.standard_normal((40, 6)) + 0.5
APART = np.hstack((3 * np.eye(40), np.eye(20)[np.arange(40) % 20]))  # so little alike that the rules last
ONCE = PublishedSettings(n_subtypes=M, max_iter=1)


def table_of(votes=VOTES, n_classes=K):
    return labelfable.read_votes(votes, classes=n_classes)


def fit(votes=VOTES, features=FEATURES, settings=ONCE, *, n_classes=K, **rest):
    return fit_published(table_of(votes, n_classes), features, settings, 0, **rest)


def assert_probabilities(values, shape):
    assert values.shape == shape
    assert values.min() >= 0
    assert_close(values.sum(axis=1), np.ones(shape[0]))


# -- settings ----------------------------------------------------------------------------------------------------------


def test_settings_are_those_of_the_paper_unless_told_otherwise():
    assert PublishedSettings.of(None) == PublishedSettings()
    found = PublishedSettings.of({"variant": "code", "rank": None})
    assert (found.variant, found.rank, found.n_subtypes, found.correct_votes, found.max_iter) == (
        "code",
        None,
        3,
        1000,
        10,
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n_subtypes": 0}, "n_subtypes=0 is not a whole number from 1"),
        ({"n_subtypes": 2.5}, "n_subtypes=2.5 is not a whole number from 1"),
        ({"rank": "all"}, "rank='all' is not a whole number from 1"),
        ({"max_iter": True}, "max_iter=True is not a whole number from 1"),
        ({"max_items": None}, "max_items=None is not a whole number from 1"),
        ({"correct_votes": 1}, "correct_votes=1 is not a finite number more than 1"),
        ({"correct_votes": float("inf")}, "correct_votes=inf is not a finite number more than 1"),
        ({"tolerance": -0.1}, "tolerance=-0.1 is not a finite number from 0"),
        ({"tolerance": float("nan")}, "tolerance=nan is not a finite number from 0"),
        ({"variant": "book"}, "variant='book' is unknown .* It is 'paper' or 'code'"),
        ({"kernel": "rbf"}, "kernel='rbf' is unknown"),
        ({"class_prior": "learned"}, "class_prior='learned' is unknown"),
        ({"missing": None}, "missing=None is unknown"),
        ({"subtypes": 3}, "there is no setting 'subtypes' .* Its settings are n_subtypes, variant"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(given, said):
    with pytest.raises(ModelError, match=said.replace("(", r"\(")):
        PublishedSettings.of(given)


def test_large_sets_are_refused_before_anything_is_formed():
    with pytest.raises(ModelError, match=r"40 items are more than max_items=39: .* items × items.*raise max_items"):
        fit(settings=replace(ONCE, max_items=39))
    fit(settings=replace(ONCE, max_items=40))
    with pytest.raises(ModelError, match=r"max_items=10,000: .* of 0\.8 GB each"):
        PublishedSettings().refuse_size(10_001)


# -- features ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cosine", "linear"])
@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_array, lambda x: x.astype(np.float32)])
def test_kernel_is_the_oracles(kind, as_given):
    features = np.round(FEATURES, 2)
    features[3, 1] = np.nan
    given = as_given(features)
    told = oracle.kernel(given.toarray() if sp.issparse(given) else given, kind)
    assert_close(item_kernel(read_features(given), kind), told)


def test_a_row_of_zeros_is_like_no_other():
    features = FEATURES.copy()
    features[2] = 0
    kernel = item_kernel(read_features(features), "cosine")
    assert not kernel[2].any()
    assert np.isfinite(kernel).all()


def test_kernels_differ_unless_rows_have_length_one():
    twice = replace(ONCE, max_iter=2, tolerance=0)
    units = APART / np.sqrt(10)
    cosine = fit(features=APART, settings=twice).probabilities
    assert_close(fit(features=units, settings=replace(twice, kernel="linear")).probabilities, cosine)
    assert not np.allclose(fit(features=APART * 0.3, settings=replace(twice, kernel="linear")).probabilities, cosine)


def test_missing_features_are_refused_or_leave_an_item_to_its_votes():
    features = FEATURES.copy()
    features[7, 2] = np.nan
    with pytest.raises(InputError, match=r"1 of 40 items have no features or only some of them .*item 7"):
        fit(features=features)
    assert_probabilities(fit(features=features, settings=replace(ONCE, missing="ignore")).probabilities, (40, K))


def test_features_of_other_items_are_refused():
    with pytest.raises(InputError, match="39 rows of features for 40 items"):
        fit(features=FEATURES[1:])


# -- votes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("votes", [sparse_of(VOTES), soft_of(VOTES, K)])
def test_votes_may_be_sparse_or_soft(votes):
    found = fit(votes).probabilities
    assert_probabilities(found, (40, K))
    if sp.issparse(votes):
        assert_close(found, fit().probabilities)


def test_votes_against_a_class_are_refused():
    table = labelfable.read_votes([["a", "not b"], ["b", "a"]], exclusions={"not b": "b"})
    with pytest.raises(ModelError, match="votes for a class only"):
        fit_published(table, None, ONCE, 0)


def test_where_nobody_abstains_there_is_no_label_for_it():
    votes = np.where(VOTES < 0, 0, VOTES)
    found = fit(votes)
    assert found.shared.tables.shape == (4, K, K * M)
    assert_probabilities(found.probabilities, (40, K))
    assert fit().shared.tables.shape == (4, K + 1, K * M)


@pytest.mark.parametrize(("n_items", "n_classes"), [(1, 2), (5, 1), (2, 2)])
@pytest.mark.parametrize("variant", ["paper", "code"])
@pytest.mark.filterwarnings("ignore::labelfable.errors.LabelfableWarning")
def test_the_smallest_sets(n_items, n_classes, variant):
    votes = np.zeros((n_items, 2), dtype=int)
    votes[0, 1] = n_classes - 1
    settings = PublishedSettings(n_subtypes=1, variant=variant, correct_votes=1.5)
    found = fit(votes, FEATURES[:n_items], settings, n_classes=n_classes)
    assert_probabilities(found.probabilities, (n_items, n_classes))


def test_known_labels_stay():
    gold = some_gold(TRUTH, 3)
    found = fit(gold=gold).probabilities
    assert_close(found[gold >= 0], np.eye(K)[gold[gold >= 0]])
    assert not np.allclose(found[gold < 0], fit().probabilities[gold < 0])


def test_class_prior_is_the_votes_totals_or_one():
    equal = PublishedSteps(table_of(), None, replace(ONCE, class_prior="uniform"), 0)
    assert_close(equal.class_prior, np.ones(K))
    by_votes = PublishedSteps(table_of(), None, ONCE, 0)
    assert_close(by_votes.class_prior, oracle.start_shares(VOTES, K).sum(axis=0))


# -- other items -------------------------------------------------------------------------------------------------------


def predict(found, votes, features, settings=ONCE):
    return predict_published(found, table_of(votes), features, settings, 0)


def test_items_of_the_fit_keep_its_answer_however_they_are_stored():
    twice = replace(ONCE, max_iter=2, tolerance=0)
    found = fit(features=APART, settings=twice)
    assert found.iterations == 2
    anew = fit(features=APART, settings=twice, held=found.shared).probabilities
    assert not np.allclose(found.probabilities, anew)
    for votes in (VOTES, VOTES.astype(np.int8), sparse_of(VOTES)):
        for features in (APART, sp.csr_array(APART), APART.astype(int).tolist()):
            assert np.array_equal(predict(found, votes, features, twice), found.probabilities)


def test_fingerprints_tell_votes_and_features_apart():
    moved, other = VOTES.copy(), FEATURES.copy()
    moved[[0, 1]] = moved[[1, 0]]
    other[-1, -1] += 1e-9
    hidden = FEATURES.copy()
    hidden[0, 0] = np.nan
    cases = [(VOTES, FEATURES), (moved, FEATURES), (VOTES, other), (VOTES, hidden), (VOTES, None)]
    cases += [(VOTES[:39], FEATURES[:39]), (np.where(VOTES < 0, 0, VOTES), FEATURES)]
    read = [(table_of(votes), None if features is None else read_features(features)) for votes, features in cases]
    assert len({fingerprint(*pair) for pair in read}) == len(cases)


def test_other_items_are_labelled_under_the_tables_of_the_fit():
    found = fit(VOTES[:30], FEATURES[:30])
    new = predict(found, VOTES[30:], FEATURES[30:])
    assert_probabilities(new, (10, K))
    held = fit_published(table_of(VOTES[30:]), FEATURES[30:], ONCE, 0, held=found.shared)
    assert held.shared is found.shared
    assert np.array_equal(new, held.probabilities)
    assert not np.allclose(new, fit(VOTES[30:], FEATURES[30:]).probabilities)


def test_other_items_may_break_down_too():
    found = fit()
    alike = FEATURES + 3
    with pytest.warns(LabelfableWarning, match="break down in iteration 2"):
        predict(found, VOTES, alike, replace(ONCE, max_iter=10))


def test_other_items_may_abstain_where_none_of_the_fit_did():
    found = fit(np.where(VOTES < 0, 0, VOTES))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_probabilities(predict(found, VOTES, FEATURES), (40, K))
