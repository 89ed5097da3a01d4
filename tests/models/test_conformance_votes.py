"""Every public model takes every form of votes, known classes, class priors and ties."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import DataConversionWarning

from labelfable import read_votes
from labelfable.errors import InputError, ModelError
from tests.conform import (
    ALL_MODELS,
    COLUMNS,
    GOLD,
    N_CLASSES,
    ONE_START,
    VOTES,
    WORDS,
    assert_distributions,
    fit_or_refusal,
    fitted,
    is_network,
    made,
    quiet,
    settings_of,
)
from tests.crowds import soft_of, sparse_of
from tests.tolerances import assert_close

pytestmark = pytest.mark.usefixtures("votes_as_features")


@pytest.fixture(params=ALL_MODELS)
def name(request) -> str:
    return request.param


# -- forms of votes ---------------------------------------------------------------------------------------------------


def test_names_of_classes_come_back(name):
    numbers, words = fitted(name), fitted(name, WORDS)
    assert words.classes_.tolist() == ["cat", "dog", "eel"]
    assert_close(words.predict_proba(WORDS), numbers.predict_proba(VOTES))
    assert np.array_equal(words.predict(WORDS, ties="first"), words.classes_[numbers.predict(VOTES, ties="first")])


def test_classes_keep_the_order_that_they_are_given_in(name):
    if is_network(name):
        pytest.skip("the first weights of each class are drawn by its number")
    table = read_votes(WORDS, classes=["eel", "cat", "dog"])
    model = fitted(name, table, **ONE_START)
    assert model.classes_.tolist() == ["eel", "cat", "dog"]
    expected = fitted(name, WORDS, **ONE_START).predict_proba(WORDS)
    assert_close(model.predict_proba(WORDS), expected[:, [2, 0, 1]], "sweeps")


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("kind", FRAMES)
def test_data_frames_go_in_and_come_out(name, kind):
    frame = FRAMES[kind](COLUMNS)
    model, expected = fitted(name, frame), fitted(name, WORDS).predict_proba(WORDS)
    assert model.sources_.tolist() == list(COLUMNS)
    assert_close(model.predict_proba(frame), expected)
    answer = model.label_table(frame)
    assert type(answer) is type(frame)
    columns = answer.to_pydict() if kind == "pyarrow" else {key: list(answer[key]) for key in answer.columns}
    assert list(columns) == ["item", "label", "covered", "p(cat)", "p(dog)", "p(eel)"]
    assert columns["label"] == model.predict(frame).tolist()
    assert columns["covered"] == (VOTES >= 0).any(axis=1).tolist()
    assert_close(np.array([columns[f"p({word})"] for word in model.classes_]).T, expected)


def test_columns_of_a_frame_are_found_by_name(name):
    frame = pd.DataFrame(COLUMNS)
    model = fitted(name, frame)
    shuffled = frame[list(COLUMNS)[::-1]]
    assert np.array_equal(model.predict_proba(shuffled), model.predict_proba(frame))
    with pytest.raises(InputError, match="no column for source 'rule 2'"):
        model.predict(frame.drop(columns="rule 2"))


def test_sparse_votes_are_dense_votes(name):
    model = fitted(name, sparse_of(VOTES), **ONE_START)
    expected = fitted(name, VOTES, **ONE_START).predict_proba(VOTES)
    assert_close(model.predict_proba(sparse_of(VOTES)), expected, "sweeps")
    assert_close(model.predict_proba(VOTES), model.predict_proba(sparse_of(VOTES)))


def test_a_vote_table_and_a_list_are_what_they_hold(name):
    expected = fitted(name).predict_proba(VOTES)
    for form in (
        read_votes(VOTES),
        VOTES.tolist(),
        VOTES.astype(float),
        np.asfortranarray(VOTES),
        VOTES.astype(np.int8),
    ):
        assert np.array_equal(fitted(name, form).predict_proba(form), expected)


def test_soft_votes_are_taken_or_refused_in_words(name):
    soft = soft_of(VOTES, N_CLASSES)
    model = fit_or_refusal(name, soft)
    if isinstance(model, ModelError):
        assert "soft" in str(model)
    else:
        assert_distributions(model.predict_proba(soft), len(VOTES), N_CLASSES)


def test_exclusion_votes_are_taken_or_refused_in_words(name):
    words = WORDS.copy()
    words[::3, 1] = "not eel"
    table = read_votes(words, classes=["cat", "dog", "eel"], exclusions={"not eel": "eel"})
    model = fit_or_refusal(name, table)
    if isinstance(model, ModelError):
        assert "exclu" in str(model)
    else:
        assert_distributions(model.predict_proba(table), len(VOTES), N_CLASSES)
        assert_close(model.predict_proba(words), model.predict_proba(table))


def test_votes_that_count_silence_as_a_label_are_taken(name):
    table = read_votes(VOTES).with_abstain_as_label()
    model = fitted(name, table)
    assert_distributions(model.predict_proba(table), len(VOTES), N_CLASSES)
    assert_close(model.predict_proba(VOTES), model.predict_proba(table))


# -- gold, priors, ties -----------------------------------------------------------------------------------------------


def test_known_classes_are_kept(name):
    wrong = np.where(GOLD >= 0, (GOLD + 1) % N_CLASSES, -1)
    labels = quiet(lambda: made(name).fit_predict(VOTES, wrong))
    assert np.array_equal(labels[wrong >= 0], wrong[wrong >= 0])
    words = quiet(lambda: made(name).fit_predict(WORDS, np.append(["cat", "dog", "eel"], None)[GOLD]))
    assert np.array_equal(words[GOLD >= 0], np.array(["cat", "dog", "eel"])[GOLD[GOLD >= 0]])


def test_gold_that_knows_nothing_changes_nothing(name):
    unknown = np.full(len(VOTES), -1)
    assert np.array_equal(fitted(name, y=unknown).predict_proba(VOTES), fitted(name).predict_proba(VOTES))


def test_gold_may_name_a_class_that_has_no_votes(name):
    gold = np.full(len(VOTES), -1)
    gold[0] = N_CLASSES
    model = fitted(name, y=gold)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert_distributions(model.predict_proba(VOTES), len(VOTES), N_CLASSES + 1)
    assert quiet(lambda: made(name).fit_predict(VOTES, gold))[0] == N_CLASSES


def test_gold_as_a_column_is_used_with_a_warning(name):
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        model = quiet(lambda: made(name).fit(VOTES, GOLD[:, None]))
    assert np.array_equal(model.predict_proba(VOTES), fitted(name, y=GOLD).predict_proba(VOTES))


@pytest.mark.parametrize("y", [GOLD[:-1], np.full(150, 0.5), np.full(150, -2), np.full(150, "yes"), [[0, 1]] * 150])
def test_gold_that_is_no_gold_is_a_clear_error(name, y):
    with pytest.raises(InputError):
        made(name).fit(VOTES, y)


@pytest.mark.parametrize("policy", ["votes", "uniform", "learned", [5, 3, 2]])
def test_every_class_prior_policy_works_or_is_no_setting(name, policy):
    allowed = settings_of(name).get("class_prior")
    if allowed is None:
        pytest.skip("has no class prior")
    if policy == "learned" and not any(
        getattr(limit, "options", ()) and "learned" in limit.options for limit in allowed
    ):
        with pytest.raises(ValueError, match="class_prior"):
            made(name, class_prior=policy).fit(VOTES)
        return
    model = fitted(name, class_prior=policy)
    assert_distributions(model.predict_proba(VOTES), len(VOTES), N_CLASSES)
    assert model.class_prior_.shape == (N_CLASSES,)
    assert_close(model.class_prior_.sum(), 1.0)
    if policy == "uniform":
        assert_close(model.class_prior_, np.full(N_CLASSES, 1 / N_CLASSES))
    if isinstance(policy, list):
        assert_close(model.class_prior_, np.array([0.5, 0.3, 0.2]))


@pytest.mark.parametrize("policy", [[0.5, 0.5], [1, -1, 1], [0, 0, 0], [np.nan, 1, 1], ["a", "b", "c"], "guess", 0.5])
def test_a_class_prior_that_is_none_is_a_clear_error(name, policy):
    if "class_prior" not in settings_of(name):
        pytest.skip("has no class prior")
    with pytest.raises(ValueError, match="class_prior"):
        made(name, class_prior=policy).fit(VOTES)


def tied_votes():
    """Half of the items have two votes that disagree between sources which are otherwise each other's mirror images."""
    return np.array([[0, 0], [1, 1], [0, 1], [1, 0]] * 30)


def test_ties_are_broken_as_asked(name):
    model = fit_or_refusal(name, tied_votes(), class_prior="uniform")
    if isinstance(model, ModelError):
        assert "source" in str(model)
        pytest.skip("cannot work with two sources, and says so")
    probabilities = model.predict_proba(tied_votes())
    tied = np.abs(probabilities[:, 0] - probabilities[:, 1]) < 1e-9
    if name == "MajorityVote":
        assert tied.sum() == 60
    assert np.all(model.predict(tied_votes(), ties="first")[tied] == 0)
    assert np.array_equal(model.predict(tied_votes(), ties="abstain") == -1, tied)
    drawn = [model.set_params(random_state=seed).predict(tied_votes()) for seed in (0, 0, 1)]
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[0][~tied], drawn[2][~tied])
    if tied.sum() >= 30:
        assert not np.array_equal(drawn[0], drawn[2])
        assert 0.2 < drawn[0][tied].mean() < 0.8
    with pytest.raises(InputError, match=r"ties='best' is unknown.*'random', 'first' or 'abstain'"):
        model.predict(tied_votes(), ties="best")


def test_an_abstaining_answer_among_names_is_none(name):
    model = fitted(name, WORDS, class_prior="uniform", abstain="missing")
    labels = model.predict(WORDS, ties="abstain")
    probabilities = np.sort(model.predict_proba(WORDS), axis=1)
    tied = probabilities[:, -1] - probabilities[:, -2] < 1e-9
    assert [label is None for label in labels] == tied.tolist()
    assert set(labels[~tied]) <= {"cat", "dog", "eel"}
