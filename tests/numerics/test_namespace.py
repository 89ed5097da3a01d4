"""Digamma, trigamma and log Γ by their own definitions: recurrence, derivative, known values."""

from __future__ import annotations

import math

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable.numerics.namespace import column_sum, digamma, folded, log_gamma, trigamma
from tests.tolerances import TOLERANCE, assert_close

positive = st.floats(1e-3, 1e6)


@settings(deadline=None)
@given(x=positive)
def test_log_gamma_is_that_of_the_standard_library(x):
    assert_close(log_gamma(np.array(x)), math.lgamma(x))


@settings(deadline=None)
@given(x=positive)
def test_digamma_obeys_its_recurrence(x):
    """ψ(x + 1) = ψ(x) + 1 / x"""
    assert_close(digamma(np.array(x + 1)), float(digamma(np.array(x))) + 1 / x)


@pytest.mark.parametrize("x", [0.05, 0.7, 1.0, 3.3, 250.0])
def test_digamma_is_the_derivative_of_log_gamma(x):
    step = TOLERANCE["float64"].step
    numeric = (math.lgamma(x * (1 + step)) - math.lgamma(x * (1 - step))) / (2 * step * x)
    assert_close(digamma(np.array(x)) * x, numeric * x, "slope")


def test_digamma_at_one_is_minus_eulers_constant():
    assert_close(digamma(np.array(1.0)), -np.euler_gamma)


@settings(deadline=None)
@given(x=positive)
def test_trigamma_obeys_its_recurrence(x):
    """ψ'(x) = ψ'(x + 1) + 1 / x²"""
    assert_close(trigamma(np.array(x)) * x * x, float(trigamma(np.array(x + 1))) * x * x + 1, "sums")


@pytest.mark.parametrize("x", [0.05, 0.7, 1.0, 3.3, 250.0])
def test_trigamma_is_the_derivative_of_digamma(x):
    step = TOLERANCE["float64"].step
    numeric = (digamma(np.array(x * (1 + step))) - digamma(np.array(x * (1 - step)))) / (2 * step * x)
    assert_close(trigamma(np.array(x)) * x, float(numeric) * x, "slope")


@pytest.mark.parametrize("function", [digamma, log_gamma, trigamma])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_stay_in_the_array_library_and_dtype_of_their_argument(function, dtype):
    values = np.array([[0.1, 1.0], [2.5, 300.0]], dtype=dtype)
    expected = function(values)
    found = function(strict.asarray(values))
    assert type(found) is type(strict.asarray(values))
    assert found.dtype == getattr(strict, dtype)
    assert expected.dtype == dtype
    assert_close(found, expected)
    assert_close(expected, function(values.astype(np.float64)).astype(dtype), "sums")


@pytest.mark.parametrize("n", [1, 7, 96, 128, 384, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_column_sums_are_those_of_exact_sums(n, dtype):
    values = np.random.default_rng(0).normal(size=(n, 3)).astype(dtype)
    found, exact = column_sum(values), np.array([math.fsum(column) for column in values.T.tolist()])
    assert found.dtype == np.float64
    assert_close(found.astype(dtype), exact, "sums")
    assert_close(np.asarray(column_sum(strict.asarray(values))), exact, "sums")


def test_a_column_sum_in_single_precision_does_not_lose_small_terms():
    """16,384 terms of 0.1 one after the other: a plain sum drifts by a part in ten thousand."""
    values = np.full((2**14, 2), 0.1, np.float32)
    whole = 2**14 * float(np.float32(0.1))
    assert_close((column_sum(values) / whole).astype(np.float32), np.ones(2))
    assert abs(np.einsum("nc->c", values)[0] / whole - 1) > TOLERANCE["float32"].rounding


def test_folding_shares_memory():
    values = np.arange(24.0).reshape(12, 2)
    wide = folded(values)
    assert wide.shape == (3, 8)
    assert np.shares_memory(wide, values)
