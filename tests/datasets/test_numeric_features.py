import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from labelfable.datasets import numeric_features
from labelfable.errors import InputError
from tests.tolerances import assert_close

NUMBERS = np.random.default_rng(0).normal(size=(300, 4)) @ np.diag([1.0, 100.0, 0.01, 0.0]) + 7


def test_standardised_columns_have_mean_0_and_variance_1():
    found = numeric_features(NUMBERS)
    assert_close(found.mean(axis=0), np.zeros(4), "sums")
    assert_close(found.std(axis=0), np.array([1.0, 1.0, 1.0, 0.0]), "sums")  # the last column never varies


def test_whitened_columns_are_uncorrelated():
    mixed = np.random.default_rng(1).normal(size=(300, 3)) @ [[1.0, 2.0, 0.0], [0.0, 1.0, 5.0], [3.0, 0.0, 1.0]]
    assert_close(np.cov(numeric_features(mixed, "whiten").T, bias=True), np.eye(3), "sweeps")
    assert numeric_features(mixed, "whiten", max_columns=2).shape == (300, 2)


def test_normalised_rows_have_length_1_and_none_changes_nothing():
    assert_close(np.linalg.norm(numeric_features(NUMBERS, "normalise"), axis=1), np.ones(300))
    np.testing.assert_array_equal(numeric_features(NUMBERS, "none"), NUMBERS)


@pytest.mark.parametrize("scaling", ["standardise", "whiten", "normalise", "none"])
def test_tables_and_sparse_matrices_are_scaled_alike(scaling):
    numbers = np.where(np.abs(NUMBERS - 7) < 0.5, 0, NUMBERS)
    dense = numeric_features(numbers, scaling)
    assert_close(np.abs(numeric_features(sp.csr_array(numbers), scaling)), np.abs(dense), "sweeps")  # axes have no sign
    np.testing.assert_array_equal(numeric_features(pd.DataFrame(numbers), scaling), dense)
    assert numeric_features(numbers.astype(np.float32), scaling).dtype == np.float32


def test_items_with_a_missing_number_do_not_count_and_stay_missing():
    holed = NUMBERS.copy()
    holed[[3, 7], [0, 1]] = np.nan
    found = numeric_features(holed)
    assert np.flatnonzero(np.isnan(found).all(axis=1)).tolist() == [3, 7]
    np.testing.assert_array_equal(
        np.delete(found, [3, 7], axis=0), numeric_features(np.delete(NUMBERS, [3, 7], axis=0))
    )


def test_what_cannot_be_scaled_is_refused():
    with pytest.raises(InputError, match=r"no scaling 'log'.*standardise, normalise, whiten, none"):
        numeric_features(NUMBERS, "log")
    with pytest.raises(InputError, match="no item has all of its numbers"):
        numeric_features([[np.nan, 1.0]])
    with pytest.raises(InputError, match="features are numbers, but column 'a'"):
        numeric_features(pd.DataFrame({"a": ["x"]}))
