"""read_votes of sparse matrices, probabilities, and labels that rule a class out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelfable.votes import read_votes
from tests.tolerances import assert_close
from tests.votes.same import VOTES, assert_same, codes, cube

MATRIX = np.array(VOTES)
EXPECTED = read_votes(MATRIX)

# -- sparse ----------------------------------------------------------------------------------------------------------


def stored(values) -> sp.coo_array:
    """Votes with class 0 as a stored zero, which SciPy would drop from a dense matrix."""
    values = np.array(values)
    rows, columns = np.nonzero(values >= 0)
    return sp.coo_array((values[rows, columns], (rows, columns)), shape=values.shape)


SPARSE = {
    "coo": stored,
    "csr": lambda votes: stored(votes).tocsr(),
    "csc": lambda votes: stored(votes).tocsc(),
    "coo matrix": lambda votes: sp.coo_matrix(stored(votes)),
    "csr matrix": lambda votes: sp.csr_matrix(stored(votes)),
    "csc matrix": lambda votes: sp.csc_matrix(stored(votes)),
    "float": lambda votes: stored(votes).astype(float),
    "int8": lambda votes: stored(votes).astype(np.int8),
    "entries out of order": lambda votes: sp.coo_array(
        (stored(votes).data[::-1], tuple(c[::-1] for c in stored(votes).coords)), shape=(4, 3)
    ),
    "entries twice": lambda votes: sp.coo_array(
        (np.tile(stored(votes).data, 2), tuple(np.tile(c, 2) for c in stored(votes).coords)), shape=(4, 3)
    ),
    "stored abstentions": lambda votes: sp.coo_array(
        (np.array(votes).ravel(), np.unravel_index(np.arange(12), (4, 3))), shape=(4, 3)
    ),
    "stored NaN": lambda votes: sp.coo_array(
        (np.where(np.array(votes) < 0, np.nan, votes).ravel(), np.unravel_index(np.arange(12), (4, 3))), shape=(4, 3)
    ),
}


@pytest.mark.parametrize("form", SPARSE)
def test_sparse_votes(form):
    table = read_votes(SPARSE[form](VOTES))
    assert_same(table, EXPECTED)
    assert not table.is_dense
    assert table.is_hard


@pytest.mark.parametrize("kind", ["lil_array", "lil_matrix", "dok_array", "csr_array"])
def test_sparse_votes_without_class_0_need_classes(kind):
    votes = getattr(sp, kind)(np.array([[0, 1], [2, 0]]))  # its zeros are not stored
    assert codes(read_votes(votes, classes=3)) == [[-1, 1], [2, -1]]
    assert codes(read_votes(votes, abstain=0)) == [[-1, 0], [1, -1]]
    assert codes(read_votes(votes, classes=[1, 2])) == [[-1, 0], [1, -1]]


def test_sparse_truth_values():
    votes = sp.coo_array((np.array([True, False]), ([0, 1], [1, 0])), shape=(2, 2))
    assert codes(read_votes(votes)) == [[-1, 1], [0, -1]]


# -- soft ------------------------------------------------------------------------------------------------------------

SOFT = np.array([[[0.5, 0.25, 0.25], [0, 0, 0]], [[0, 1, 0], [0.25, 0, 0.75]]])


def test_soft_votes_keep_their_weights():
    table = read_votes(SOFT)
    np.testing.assert_array_equal(cube(table), SOFT)
    assert not table.is_hard
    assert table.votes_per_item.tolist() == [1, 2]
    assert read_votes(SOFT, classes=["x", "y", "z"], sources=["s", "t"]).labels == ("x", "y", "z")
    assert_same(read_votes(SOFT.tolist()), table)


def test_soft_votes_may_abstain_by_nan_or_by_a_mask():
    holes = SOFT.copy()
    holes[0, 1] = np.nan
    assert_same(read_votes(holes), read_votes(SOFT))
    hidden = np.ma.array(np.where(SOFT == 0, 0, SOFT), mask=np.isnan(holes))
    hidden.data[0, 1] = 7
    assert_same(read_votes(hidden), read_votes(SOFT))


def test_soft_votes_that_are_certain_are_hard():
    certain = np.eye(3, dtype=int)[np.maximum(MATRIX, 0)] * (MATRIX >= 0)[:, :, None]
    assert_same(read_votes(certain), EXPECTED)
    assert read_votes(certain).is_hard


def test_soft_votes_are_brought_to_a_sum_of_one():
    third = np.full((1, 1, 3), 1 / 3, dtype=np.float16)
    assert_close(cube(read_votes(third)), np.full((1, 1, 3), 1 / 3))


def test_soft_votes_over_exclusion_labels_too():
    table = read_votes(SOFT, classes=["a", "b"], exclusions={"not a": "a"})
    assert table.labels == ("a", "b", "not a")
    assert table.meaning[2].tolist() == [0, 1]


# -- exclusions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("votes", "classes", "exclusions"),
    [
        ([[0, 3, -1], [4, 2, 1]], [0, 1, 2], {3: 0, 4: 2}),
        ([["a", "-a", None], ["-c", "c", "b"]], ["a", "b", "c"], {"-a": "a", "-c": "c"}),
        ([["0", "-a", None], ["-c", "2", "1"]], [0, 1, 2], {"-a": 0, "-c": 2}),
    ],
)
def test_exclusion_labels_follow_the_classes(votes, classes, exclusions):
    table = read_votes(votes, classes=classes, exclusions=exclusions)
    assert codes(table) == [[0, 3, -1], [4, 2, 1]]
    assert table.labels == (*classes, *exclusions)
    assert table.alphabet.exclusions == exclusions
    assert table.meaning[3:].tolist() == [[0, 0.5, 0.5], [0.5, 0.5, 0]]


def test_exclusion_labels_by_name_need_no_classes():
    table = read_votes([["b", "not a"], ["a", "c"]], exclusions={"not a": "a"})
    assert table.labels == ("a", "b", "c", "not a")


def test_numbers_do_where_an_exclusion_label_has_a_name():
    table = read_votes([[0, 1]], classes=2, exclusions={"not 0": 0})
    assert (codes(table), table.labels) == ([[0, 1]], (0, 1, "not 0"))
