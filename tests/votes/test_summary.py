"""The table of sources, against loops that follow snorkel's definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelfable.errors import InputError
from labelfable.votes import read_gold, read_votes, source_summary
from tests.crowds import planted_votes, soft_of, some_gold
from tests.oracles import votes as oracle
from tests.tolerances import assert_close

VOTES, TRUTH = planted_votes(80, [0.9, 0.7, 0.5, 0.8], 3, coverage=0.4)
VOTES[:, 2] = -1  # a source that never votes
GOLD = some_gold(TRUTH, 3)
SHARES = np.random.default_rng(0).dirichlet(np.ones(3), size=80)
PLAIN = [{0}, {1}, {2}]


def dense(votes):
    return read_votes(votes, classes=3)


def sparse(votes):
    rows, columns = np.nonzero(votes >= 0)
    return read_votes(sp.csr_array((votes[rows, columns], (rows, columns)), shape=votes.shape), classes=3)


FORMS = {
    "dense": dense,
    "sparse": sparse,
    "silence": lambda votes: dense(votes).with_abstain_as_label(),
    "sparse, silence": lambda v: sparse(v).with_abstain_as_label(),
}


def assert_table(found, expected):
    """The same columns and the same numbers."""
    assert list(found)[:2] == ["source", "j"]
    assert list(found)[2:] == list(expected)
    assert found["Polarity"] == expected["Polarity"]
    for name, column in expected.items():
        if name != "Polarity":
            np.testing.assert_array_equal(np.isnan(found[name]), np.isnan(column), err_msg=name)
            assert_close(np.nan_to_num(found[name]), np.nan_to_num(column), message=name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gold", [None, GOLD, np.full(80, -1)], ids=["no gold", "some gold", "unknown gold"])
@pytest.mark.parametrize("probabilities", [None, SHARES], ids=["no model", "a model"])
def test_the_table_is_what_the_loops_say(form, gold, probabilities):
    found = source_summary(FORMS[form](VOTES), gold, probabilities)
    assert found["source"] == ["0", "1", "2", "3"]
    assert found["j"] == [0, 1, 2, 3]
    assert_table(found, oracle.summary(VOTES, PLAIN, gold, probabilities))


def test_an_example_small_enough_to_read():
    votes = read_votes(
        [["a", "a", None], ["a", "b", None], ["b", None, None], [None, None, None]], sources=["x", "y", "z"]
    )
    _, gold = read_gold(["a", "b", "b", None], votes)
    found = source_summary(votes, gold, np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [1, 0]]))
    assert found["source"] == ["x", "y", "z"]
    assert found["Polarity"] == [["a", "b"], ["a", "b"], []]
    assert found["Coverage"] == [0.75, 0.5, 0]
    assert found["Overlaps"] == [0.5, 0.5, 0]
    assert found["Conflicts"] == [0.25, 0.25, 0]
    assert found["Correct"] == [2, 2, 0]
    assert found["Incorrect"] == [1, 0, 0]
    assert all(isinstance(count, int) for count in found["Correct"] + found["Incorrect"])
    assert_close(found["Emp. Acc."][:2], [2 / 3, 1])
    assert_close(found["Est. Acc."][:2], [(0.9 + 0.5 + 0.8) / 3, (0.9 + 0.5) / 2])
    assert np.isnan(found["Emp. Acc."][2])
    assert np.isnan(found["Est. Acc."][2])


def test_a_single_source_meets_nobody():
    found = source_summary(read_votes(VOTES[:, :1], classes=3))
    assert found["Coverage"][0] > 0
    assert found["Overlaps"] == found["Conflicts"] == [0]


def test_an_exclusion_vote_is_against_the_class_that_it_rules_out_and_no_other():
    excluding = np.where((VOTES == 2) & (np.arange(80) % 2 == 0)[:, None], 3, VOTES)  # 3: "not 0"
    excluding[:, 3] = np.where(excluding[:, 3] == 1, 4, excluding[:, 3])  # 4: "not 2"
    table = read_votes(excluding, classes=3, exclusions={3: 0, 4: 2})
    possible = [*PLAIN, {1, 2}, {0, 1}]
    assert_table(source_summary(table, GOLD, SHARES), oracle.summary(excluding, possible, GOLD, SHARES))


def test_soft_votes_meet_as_their_most_probable_label():
    soft = soft_of(VOTES, 3)
    found, hard = source_summary(read_votes(soft), GOLD, SHARES), np.where(soft.any(axis=2), soft.argmax(axis=2), -1)
    expected = oracle.summary(hard, PLAIN, GOLD, SHARES)
    for name in ("Coverage", "Overlaps", "Conflicts"):
        assert found[name] == expected[name]
    right = [sum(soft[i, j, GOLD[i]] for i in range(80) if GOLD[i] >= 0) for j in range(4)]
    given = [sum(soft[i, j].sum() for i in range(80) if GOLD[i] >= 0) for j in range(4)]
    assert_close(found["Correct"], right)
    assert_close(found["Incorrect"], np.subtract(given, right))
    votes = soft.sum(axis=(0, 2))
    hoped = [(soft[:, j] * SHARES).sum() / votes[j] if votes[j] else 0 for j in range(4)]
    assert_close(np.nan_to_num(found["Est. Acc."]), hoped)


def test_two_equal_soft_votes_are_no_conflict():
    found = source_summary(read_votes(np.full((1, 2, 2), 0.5)))
    assert found["Overlaps"] == [1, 1]
    assert found["Conflicts"] == [0, 0]


@pytest.mark.parametrize(
    ("gold", "probabilities", "what"),
    [
        (GOLD[:-1], None, "gold of shape (79,)"),
        (GOLD.astype(float), None, "type float64"),
        (GOLD + 1, None, "does not fit 80 items and 3 classes"),
        (None, SHARES[:, :2], "probabilities have shape (80, 2)"),
    ],
)
def test_gold_and_probabilities_must_fit(gold, probabilities, what):
    with pytest.raises(InputError) as caught:
        source_summary(dense(VOTES), gold, probabilities)
    assert what in caught.value.what
