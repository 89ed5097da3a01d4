"""What FABLE's augmentation needs: log 2cosh, the Pólya-Gamma mean, the Gamma divergence."""

from __future__ import annotations

import math

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from labelfable.numerics.distributions import gamma_divergence
from labelfable.numerics.special import SMALL_TILT, log_two_cosh, polya_gamma_mean
from tests.tolerances import STANDARD_ERRORS, TOLERANCE, assert_close

TILTS = [
    0.0,
    5e-324,
    1e-300,
    1e-9,
    1e-4,
    0.999 * SMALL_TILT,
    SMALL_TILT,
    1.001 * SMALL_TILT,
    0.5,
    3.0,
    40.0,
    1e4,
    1e300,
]


def polya_gamma_series(t):
    """E ω of PG(1, t), an infinite sum of Gamma variables: (1/2π²) Σ_k 1 / ( (k − ½)² + t²/4π² )"""
    terms = 200_000
    k = np.arange(1, terms + 1) - 0.5
    scaled = (t / (2 * math.pi)) ** 2
    tail = 1 / terms if scaled == 0 else math.atan(math.sqrt(scaled) / terms) / math.sqrt(scaled)
    return (float(np.sum(1 / (k * k + scaled))) + tail) / (2 * math.pi**2)


@pytest.mark.parametrize("t", TILTS[:-2])
def test_the_polya_gamma_mean_is_its_series(t):
    assert_close(polya_gamma_mean(np.array(t)), polya_gamma_series(t), "sums")


def test_the_polya_gamma_mean_is_that_of_draws():
    """Sums of Gamma variables, cut where the rest is its mean."""
    draws, terms = np.random.default_rng(0), 100
    for t in (0.0, 1.0, 6.0):
        scales = 1 / ((np.arange(1, terms + 1) - 0.5) ** 2 + (t / (2 * math.pi)) ** 2) / (2 * math.pi**2)
        values = draws.standard_gamma(1.0, size=(20_000, terms)) @ scales
        rest = polya_gamma_series(t) - scales.sum()
        noise = values.std() / math.sqrt(len(values))
        assert abs(values.mean() + rest - float(polya_gamma_mean(np.array(t)))) < STANDARD_ERRORS * noise


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_polya_gamma_mean_falls_smoothly_from_a_quarter(dtype):
    """Nothing jumps where the series takes over, and nothing overflows."""
    tilts = np.linspace(0.9 * SMALL_TILT, 1.1 * SMALL_TILT, 2001, dtype=dtype)
    assert_close(polya_gamma_mean(tilts), (0.25 - tilts.astype(float) ** 2 / 48).astype(dtype), "sums")
    largest = [1e300] if dtype == "float64" else [1e38]
    extreme = np.array([t for t in TILTS if t == 0 or 1e-40 < t < 1e38] + largest, dtype=dtype)
    found = polya_gamma_mean(extreme)
    assert found.dtype == dtype
    assert np.all(np.diff(found) <= TOLERANCE[dtype].rounding)
    assert polya_gamma_mean(np.zeros(1, dtype)) == 0.25
    assert_close(extreme[-1] * found[-1], np.asarray(0.5, dtype))


@settings(deadline=None)
@given(x=st.floats(-300, 300))
def test_log_two_cosh_agrees_with_its_definition(x):
    assert_close(log_two_cosh(np.array(x)), math.log(math.exp(x) + math.exp(-x)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_two_cosh_is_safe_and_even_at_every_size(dtype):
    sizes = np.array([0, 1e-30, 1e-3, 1, 90, 800, 1e10, 1e38], dtype=dtype)
    found = log_two_cosh(sizes)
    assert np.array_equal(found, log_two_cosh(-sizes))
    assert_close(found[0], np.asarray(math.log(2), dtype))
    assert np.array_equal(found[-3:], sizes[-3:])


PAIRS = [((2.0, 3.0), (1.0, 1.0)), ((0.3, 0.1), (5.0, 2.0)), ((80.0, 4.0), (0.02, 0.3)), ((1.5, 2.5), (1.5, 2.5))]


@pytest.mark.parametrize(("posterior", "prior"), PAIRS)
def test_the_gamma_divergence_is_its_integral(posterior, prior):
    """Over log λ, where the integrand is smooth."""
    q, p = (stats.gamma(a, scale=1 / b) for a, b in (posterior, prior))

    def integrand(log_rate):
        λ = math.exp(log_rate)
        return λ * q.pdf(λ) * (q.logpdf(λ) - p.logpdf(λ))

    middle = math.log(posterior[0] / posterior[1])
    truth = quad(integrand, middle - 200, middle + 8, points=[middle - 5, middle, middle + 2], limit=1000, epsabs=0)[0]
    found = float(gamma_divergence(*(np.array(x) for x in (*posterior, *prior))))
    assert_close(found, truth, "quadrature")
    assert found >= 0


@pytest.mark.parametrize("function", [log_two_cosh, polya_gamma_mean, lambda x: gamma_divergence(x, 2 * x, x + 1, x)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_stay_in_the_array_library_and_dtype_of_their_argument(function, dtype):
    values = np.random.default_rng(0).uniform(0.1, 3, size=(2, 3)).astype(dtype)
    expected = function(values)
    found = function(strict.asarray(values))
    assert type(found) is type(strict.asarray(values))
    assert found.dtype == getattr(strict, dtype)
    assert expected.dtype == dtype
    assert_close(found, expected)
