"""Digamma, trigamma and log Γ by their own definitions: recurrence, derivative, known values."""

from __future__ import annotations

import math

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable.numerics.namespace import digamma, log_gamma, trigamma
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
