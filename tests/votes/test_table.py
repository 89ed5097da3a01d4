"""VoteTable: rows that repeat, cuts of rows, other classes and sources, silence as a label, coverage."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable.votes import VoteTable, distinct, read_votes
from labelfable.votes.alphabet import smallest_int
from tests.crowds import planted_votes, soft_of, some_gold
from tests.oracles import votes as oracle
from tests.tolerances import assert_close
from tests.votes.same import assert_same, codes, cube

VOTES, TRUTH = planted_votes(60, [0.9, 0.7], 2)  # 9 rows that differ
GOLD = some_gold(TRUTH, 3)
WORDS = np.array([["b", "not a", "a"], [None, None, None], ["c", "not a", "b"], ["a", None, "b"]] * 3, dtype=object)
EXCLUSIONS = {"not a": "a"}


def sparse_of(votes, n_labels: int) -> VoteTable:
    """The votes stored sparsely."""
    incidence = sp.csr_array(oracle.cube_of(votes, n_labels).reshape(len(votes), -1))
    sources = tuple(map(str, range(votes.shape[1])))
    return VoteTable(incidence, np.arange(n_labels), sources, np.eye(n_labels))


def soft_repeated() -> VoteTable:
    """Soft votes of which each occurs three times."""
    return read_votes(np.tile(soft_of(VOTES[:20], 2), (3, 1, 1)))


def exclusion_table() -> VoteTable:
    return read_votes(WORDS, classes=["a", "b", "c"], exclusions=EXCLUSIONS)


TABLES = {
    "dense": lambda: read_votes(VOTES),
    "sparse": lambda: sparse_of(VOTES, 2),
    "soft": soft_repeated,
    "exclusions": exclusion_table,
    "silence": lambda: read_votes(VOTES).with_abstain_as_label(),
    "sparse, silence": lambda: sparse_of(VOTES, 2).with_abstain_as_label(),
}


@pytest.fixture(params=TABLES)
def table(request):
    return TABLES[request.param]()


def assert_distinct(table: VoteTable, extra=None) -> None:
    """`distinct` gives each row once, its count, and the way back."""
    rows, number, weights = table.distinct(extra)
    assert_same(rows.rows(number), table)
    shared = None if extra is None else np.full(rows.n_items, -9)
    if extra is not None:
        shared[number] = extra
        np.testing.assert_array_equal(shared[number], extra)  # items of one row agree in it
    expected = oracle.row_counts(cube(table), extra)
    assert oracle.row_counts(cube(rows), shared) == dict.fromkeys(expected, 1)
    keys = list(oracle.row_counts(cube(rows), shared))
    assert {key: round(weight) for key, weight in zip(keys, weights.tolist(), strict=True)} == expected
    assert weights.dtype == np.float64


# -- rows that repeat ------------------------------------------------------------------------------------------------


def test_distinct_rows_count_their_items(table):
    assert_distinct(table)
    assert table.distinct()[0].n_items < table.n_items


def test_distinct_rows_differ_where_gold_does(table):
    gold = np.resize(GOLD, table.n_items)
    assert_distinct(table, gold)
    assert table.distinct(gold)[0].n_items > table.distinct()[0].n_items


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=60, deadline=None)
def test_distinct_of_any_votes(n_items, n_sources, n_labels, seed, with_extra):
    draws = np.random.default_rng(seed)
    votes = draws.integers(-1, n_labels, (n_items, n_sources))
    extra = draws.integers(-1, n_labels + 3, n_items) if with_extra else None
    for made in (read_votes(votes, classes=n_labels), sparse_of(votes, n_labels)):
        assert_distinct(made, extra)


def test_rows_with_more_digits_than_a_key_has():
    votes = np.random.default_rng(0).integers(-1, 100, (30, 40))  # 101^40 is far past 2^62
    votes = np.concatenate((votes, votes[::2], votes[:1]))
    made = read_votes(votes, classes=100)
    assert made.distinct()[0].n_items == 30
    assert_distinct(made)
    assert_distinct(made, np.arange(len(votes)) % 2)
    three = np.random.default_rng(0).integers(0, 3, (1, 40)).repeat(2, axis=0)  # a digit of base 4 each: 80 bits
    three[:, 0] = [0, 1]  # the first of them would fall off the end of 64
    assert read_votes(three).distinct()[0].n_items == 2


@pytest.mark.parametrize("keys", [[5, 5, 2, 9, 2, 5], [0], [2**40, 7, 2**40], [-3, 4, -3]])
def test_groups_by_counting_and_by_sorting(keys):
    first, number, sizes = distinct.group(np.array(keys))
    values = sorted(set(keys))
    assert first.tolist() == [keys.index(value) for value in values]
    assert number.tolist() == [values.index(key) for key in keys]
    assert sizes.tolist() == [keys.count(value) for value in values]


@pytest.mark.parametrize("extra", [None, np.resize(GOLD, 60)])
def test_a_hash_that_merges_rows_is_found_out(monkeypatch, extra):
    monkeypatch.setattr(distinct, "_mixers", lambda number: np.ones(number, dtype=np.uint64))  # adds up votes, no more
    made = sparse_of(VOTES, 2)
    rows, number, weights = made.distinct(extra)
    assert rows.n_items == 60
    assert number.tolist() == list(range(60))
    assert weights.tolist() == [1.0] * 60
    assert_same(rows, made)


def test_a_hash_that_merges_gold_alone_is_found_out(monkeypatch):
    def mixers(number):
        found = np.random.default_rng(0).integers(1, 2**62, size=number, dtype=np.uint64)
        found[-1] = 0  # blind to gold
        return found

    monkeypatch.setattr(distinct, "_mixers", mixers)
    assert sparse_of(VOTES, 2).distinct(GOLD)[0].n_items == 60


def test_where_a_sample_has_few_repeats_the_table_comes_back(monkeypatch):
    monkeypatch.setattr(distinct, "SAMPLE_ITEMS", 10)
    votes = np.array(np.unravel_index(np.arange(81), (3, 3, 3, 3))).T - 1  # each row once
    made = read_votes(votes)
    rows, number, weights = made.distinct()
    assert rows is made
    assert number.tolist() == list(range(81))
    assert weights.tolist() == [1.0] * 81
    assert read_votes(np.tile(votes[:3], (27, 1))).distinct()[0].n_items == 3
    assert sparse_of(np.tile(votes[:3], (27, 1)), 2).distinct()[0].n_items == 3
    repeated = read_votes(np.tile(votes[:3], (27, 1)))
    assert repeated.distinct(np.arange(81))[0] is repeated  # the sample has gold too


def test_a_single_item_is_distinct():
    made = read_votes(VOTES[:1], classes=2)
    rows, number, weights = made.distinct()
    assert (rows.n_items, number.tolist(), weights.tolist()) == (1, [0], [1.0])


# -- rows, sources, classes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [slice(1, 4), np.array([2, 0]), [3, 3, 1]])
def test_rows_are_those_items(table, chosen):
    np.testing.assert_array_equal(cube(table.rows(chosen)), cube(table)[chosen])
    mask = np.zeros(table.n_items, dtype=bool)
    mask[[0, 3]] = True
    np.testing.assert_array_equal(cube(table.rows(mask)), cube(table)[mask])
    assert table.rows(chosen).labels == table.labels
    assert table.rows(chosen).silence == table.silence


def test_names_of_items_follow_their_rows():
    import pandas as pd

    made = read_votes(pd.DataFrame({"item": ["x", "y", "z"], "lf": [0, 1, 0]}))
    assert made.rows([2, 0]).items.tolist() == ["z", "x"]
    assert made.rows(np.array([False, True, False])).items.tolist() == ["y"]


def test_sources_are_picked_and_ordered(table):
    names = table.sources[::-1][:2]
    chosen = [table.sources.index(name) for name in names]
    picked = table.with_sources(names)
    np.testing.assert_array_equal(cube(picked), cube(table)[:, chosen])
    weights = np.random.default_rng(0).normal(size=(2, table.n_labels, 2))
    shares = np.random.default_rng(0).random((table.n_items, 2))
    assert_close(picked.counts(shares), table.counts(shares)[chosen])
    assert picked.evidence(weights).shape == (table.n_items, 2)
    assert read_votes(table, sources=names).sources == names


def test_more_classes_leave_the_votes_as_they_are(table):
    more = np.array([*table.classes.tolist(), *(["zz", "z"] if table.classes.dtype.kind == "U" else [7, 5])])
    wider = table.with_classes(more)
    assert wider.classes.tolist() == more.tolist()
    assert wider.n_labels == table.n_labels + 2
    assert wider.silence == table.silence
    place = [wider.labels.index(label) for label in table.alphabet.labels]
    np.testing.assert_array_equal(cube(wider)[:, :, place], cube(table))
    assert cube(wider).sum() == cube(table).sum()
    assert_same(wider.with_alphabet(wider.alphabet), wider)


def test_classes_in_another_order_move_the_votes(table):
    turned = table.with_classes(table.classes[::-1])
    n_classes = table.n_classes
    expected = cube(table)
    expected[:, :, :n_classes] = expected[:, :, n_classes - 1 :: -1]
    np.testing.assert_array_equal(cube(turned), expected)
    assert turned.alphabet.exclusions == table.alphabet.exclusions
    assert_same(turned.with_classes(table.classes), table)


def test_an_exclusion_label_speaks_for_all_other_classes():
    made = exclusion_table()
    assert made.labels == ("a", "b", "c", "not a")
    assert made.alphabet.exclusions == {"not a": "a"}
    assert not made.is_plain
    assert made.is_hard
    assert made.meaning.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.5, 0.5]]
    wider = made.with_classes(np.array(["a", "b", "c", "d"]))
    assert_close(wider.meaning[4], np.array([0, 1, 1, 1]) / 3)
    assert_close(made.evidence(made.vote_weights)[:4], np.array([[1, 1.5, 0.5], [0, 0, 0], [0, 1.5, 1.5], [1, 1, 0]]))


# -- silence ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_silence_as_a_label_is_one_more_label(form):
    plain = read_votes(VOTES) if form == "dense" else sparse_of(VOTES, 2)
    quiet = plain.with_abstain_as_label()
    aloud = read_votes(np.where(VOTES < 0, 2, VOTES), classes=3)  # the same, with a label for it
    weights = np.random.default_rng(0).normal(size=(2, 3, 4))
    shares = np.random.default_rng(1).random((60, 4))
    assert_close(quiet.evidence(weights), aloud.evidence(weights))
    assert_close(quiet.counts(shares), aloud.counts(shares))
    assert (quiet.n_labels, quiet.n_spoken, quiet.labels) == (3, 2, (0, 1, "abstain"))
    assert quiet.meaning[2].tolist() == [0.5, 0.5]
    assert quiet.with_abstain_as_label() is quiet
    np.testing.assert_array_equal(quiet.covered, plain.covered)
    np.testing.assert_array_equal(quiet.votes_per_item, plain.votes_per_item)


def test_silence_is_no_vote_for_any_class(table):
    quiet = table.with_abstain_as_label()
    assert_close(quiet.evidence(quiet.vote_weights), table.evidence(table.vote_weights))
    assert quiet.vote_weights.shape == (table.n_sources, quiet.n_labels, table.n_classes)


# -- counts ----------------------------------------------------------------------------------------------------------


def test_coverage_and_counts_are_those_of_the_loops(table):
    weights = cube(table)
    np.testing.assert_array_equal(table.covered, [bool(item.any()) for item in weights])
    assert_close(table.votes_per_item, [sum(float(vote.sum()) for vote in item) for item in weights])
    assert_close(table.label_counts()[:, : table.n_spoken], sum(weights))
    assert table.n_items == len(weights)


def test_what_kind_of_votes_a_table_holds():
    kinds = {name: (made().is_dense, made().is_hard, made().is_plain) for name, made in TABLES.items()}
    assert kinds == {
        "dense": (True, True, True),
        "sparse": (False, True, True),
        "soft": (False, False, True),
        "exclusions": (True, True, False),
        "silence": (True, True, True),
        "sparse, silence": (False, True, True),
    }


def test_labels_left_out_are_the_classes():
    made = VoteTable(np.array([[0, 1]]), np.array(["a", "b"]), ("x", "y"), np.eye(2))
    assert made.labels == ("a", "b")
    assert codes(made) == [[0, 1]]


def test_label_numbers_have_the_smallest_type_that_holds_them():
    assert [smallest_int(n) for n in (2, 127, 128, 32_767, 32_768)] == [np.int8, np.int8, np.int16, np.int16, np.int32]


@pytest.mark.parametrize(("n_labels", "dtype"), [(127, np.int8), (128, np.int16), (1000, np.int16)])
def test_many_labels_take_a_wider_type(n_labels, dtype):
    votes = np.array([[0, n_labels - 1, -1]])
    made = read_votes(votes, classes=n_labels)
    assert made.votes.dtype == dtype
    assert made.votes.tolist() == votes.tolist()
