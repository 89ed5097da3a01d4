"""Softmax, entropy and x log x: right at every size, in every dtype and array library."""

from __future__ import annotations

import math

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable.numerics import special
from labelfable.numerics.special import entropy, log_sum_exp, softmax, softmax_below_zero, x_log_x
from tests.tolerances import assert_close

rows = st.lists(st.floats(-50, 50), min_size=1, max_size=6)
sizes = st.sampled_from([0.0, 1.0, -700.0, 1e4, -1e6, 1e30, -1e150])


@settings(deadline=None)
@given(logits=rows)
def test_softmax_agrees_with_its_definition(logits):
    probabilities, normaliser = softmax(np.array(logits))
    total = math.fsum(math.exp(x) for x in logits)
    assert_close(probabilities, np.array([math.exp(x) / total for x in logits]))
    assert_close(normaliser, math.log(total))


def test_softmax_leaves_its_logits_alone_unless_it_may_have_their_memory():
    logits = np.array([[0.0, 1.0, -2.0], [5.0, 5.0, -np.inf]])
    kept = logits.copy()
    expected = softmax(logits)
    assert np.array_equal(logits, kept)
    found = softmax(logits, overwrite=True)
    assert np.shares_memory(found[0], logits)
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)


@settings(deadline=None)
@given(logits=st.lists(st.floats(-50, 0), min_size=1, max_size=6))
def test_softmax_of_logits_below_zero_is_softmax(logits):
    given = np.array([[*logits, -np.inf], [*logits, -1e4]])
    expected = softmax(given)
    found = softmax_below_zero(given)
    assert found is not None
    assert np.shares_memory(found[0], given)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize(("dtype", "lowest"), [("float32", -60.0), ("float64", -650.0)])
def test_rows_that_underflow_are_found(dtype, lowest):
    logits = np.array([[-1.0, -2.0], [lowest, lowest - 5]], dtype=dtype)
    probabilities, _ = softmax_below_zero(logits.copy())
    assert_close(probabilities, softmax(logits)[0])
    assert softmax_below_zero(np.array([[-1.0, -2.0], [1.3 * lowest, -np.inf]], dtype=dtype)) is None


@settings(deadline=None)
@given(logits=rows, shift=sizes)
def test_softmax_ignores_a_shift_that_its_normaliser_repeats(logits, shift):
    moved = np.array(logits) + shift  # at 1e30 all differences are lost, in the input already
    probabilities, normaliser = softmax(moved)
    expected, left = softmax(moved - shift)
    assert np.isfinite(normaliser)
    assert_close(probabilities.sum(), 1.0)
    assert_close(probabilities, expected)
    assert_close(float(normaliser), left + shift)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1.0, 88.0, 745.0, 1e10, 1e37])
def test_softmax_is_safe_at_extreme_sizes(dtype, size):
    logits = np.array([[size, -size, size], [-size, -size, 0], [size, size, size]], dtype=dtype)
    probabilities, normaliser = softmax(logits)
    assert probabilities.dtype == normaliser.dtype == dtype
    assert np.all(np.isfinite(probabilities))
    assert np.all(np.isfinite(normaliser))
    assert_close(probabilities.sum(axis=1), np.ones(3, dtype))
    assert_close(probabilities[2], np.full(3, 1 / 3, dtype))
    tail = math.exp(-2 * size)
    assert_close(probabilities[0], np.array([1, tail, 1], dtype) / (2 + tail))


def test_minus_infinity_is_impossible_and_nothing_more():
    probabilities, normaliser = softmax(np.array([[0.0, -np.inf, 1.0], [-np.inf, -1e5, -np.inf]]))
    assert np.array_equal(probabilities[:, 1], [0.0, 1.0])
    assert_close(probabilities[0], np.array([1, 0, math.e]) / (1 + math.e))
    assert_close(normaliser, np.array([math.log(1 + math.e), -1e5]))


def test_the_last_axis_is_the_one_summed():
    logits = np.random.default_rng(0).normal(size=(2, 3, 4))
    probabilities, normaliser = softmax(logits)
    assert normaliser.shape == (2, 3)
    assert_close(probabilities.sum(axis=-1), np.ones((2, 3)))
    assert np.array_equal(log_sum_exp(logits), normaliser)
    for i in range(2):
        for j in range(3):
            assert_close(normaliser[i, j], math.log(math.fsum(math.exp(x) for x in logits[i, j])))


@settings(deadline=None)
@given(values=st.lists(st.floats(0, 1e3, allow_subnormal=False), min_size=1, max_size=6))
def test_x_log_x_agrees_with_its_definition(values):
    assert_close(x_log_x(np.array(values)), np.array([x * math.log(x) if x > 0 else 0.0 for x in values]))


def test_x_log_x_at_zero_is_its_limit():
    assert np.array_equal(x_log_x(np.array([0.0, -0.0, 1.0])), np.zeros(3))


@pytest.mark.parametrize("n", [1, 2, 10])
def test_entropy_is_between_that_of_a_certain_and_a_uniform_event(n):
    assert np.array_equal(entropy(np.eye(n)), np.zeros(n))
    assert_close(entropy(np.full(n, 1 / n)), math.log(n))


def test_entropy_is_the_mean_surprise_of_draws():
    from tests.tolerances import STANDARD_ERRORS

    p = np.array([0.5, 0.3, 0.15, 0.05])
    surprise = -np.log(p)[np.random.default_rng(0).choice(4, size=100_000, p=p)]
    noise = surprise.std() / math.sqrt(len(surprise))
    assert abs(surprise.mean() - entropy(p)) < STANDARD_ERRORS * noise


@pytest.mark.parametrize("function", [lambda x: softmax(x)[0], log_sum_exp, entropy, x_log_x])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_stay_in_the_array_library_and_dtype_of_their_argument(function, dtype):
    """array-api-strict has the standard and nothing else, so that what it accepts runs on any library."""
    values = np.random.default_rng(0).dirichlet(np.ones(4), size=3).astype(dtype)
    expected = function(values)
    found = function(strict.asarray(values))
    assert type(found) is type(strict.asarray(values))
    assert found.dtype == getattr(strict, dtype)
    assert expected.dtype == dtype
    assert_close(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_traces_are_dropped_and_nothing_else(dtype):
    eps = float(np.finfo(dtype).eps)
    values = np.array([0.0, 1.0, -1.0, 2 * eps**2, -2 * eps**2, eps**2 / 2, -(eps**2) / 2, np.nan], dtype=dtype)
    found = special.without_traces(values)
    assert found.dtype == values.dtype
    assert np.array_equal(found, np.where(np.abs(values) == np.abs(values[5]), 0, values).astype(dtype), equal_nan=True)
