"""Dirichlet moments and divergences against numerical integrals and draws."""

from __future__ import annotations

import math

import array_api_strict as strict
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln

from labelfable.numerics.distributions import (
    dirichlet_divergence,
    dirichlet_log_normaliser,
    dirichlet_mean,
    dirichlet_mean_log,
)
from tests.tolerances import STANDARD_ERRORS, assert_close

PAIRS = [([2.0, 3.0], [1.0, 1.0]), ([0.7, 1.6], [2.5, 0.4]), ([40.0, 3.0], [0.2, 0.02]), ([5.0, 5.0], [5.0, 5.0])]
MANY = [[0.3, 1.0, 4.0], [12.0, 0.5, 0.5, 3.0], [1.0, 1.0, 1.0]]


def by_quadrature(concentration, function):
    """E f(p, 1 − p) of a two-label Dirichlet; the integral runs over logit p, where it is smooth."""
    first, second = concentration
    log_normaliser = float(dirichlet_log_normaliser(np.array(concentration)))

    def integrand(logit):
        # log p and log (1 − p), each without cancellation; dp = p (1 − p) dlogit
        log_p, log_q = -math.log1p(math.exp(-logit)), -math.log1p(math.exp(logit))
        return function(log_p, log_q) * math.exp(first * log_p + second * log_q - log_normaliser)

    middle = math.log(first / second)
    return integrate.quad(integrand, -300, 300, limit=500, points=[middle - 5, middle, middle + 5], epsabs=0)[0]


@pytest.mark.parametrize(("posterior", "prior"), PAIRS)
def test_two_label_moments_are_their_integrals(posterior, prior):
    found = np.array(posterior)
    assert_close(1.0, by_quadrature(posterior, lambda *_: 1.0), "quadrature", message="normaliser")
    assert_close(dirichlet_mean(found)[0], by_quadrature(posterior, lambda log_p, _: math.exp(log_p)), "quadrature")
    assert_close(dirichlet_mean_log(found)[0], by_quadrature(posterior, lambda log_p, _: log_p), "quadrature")
    assert_close(dirichlet_mean_log(found)[1], by_quadrature(posterior, lambda _, log_q: log_q), "quadrature")


@pytest.mark.parametrize(("posterior", "prior"), PAIRS)
def test_two_label_divergence_is_its_integral(posterior, prior):
    def log_ratio(log_p, log_q):
        """Of the two Beta densities, with SciPy's normalisers."""
        tilted = (posterior[0] - prior[0]) * log_p + (posterior[1] - prior[1]) * log_q
        return tilted - betaln(*posterior) + betaln(*prior)

    found = dirichlet_divergence(np.array(posterior), np.array(prior))
    assert_close(found, by_quadrature(posterior, log_ratio), "quadrature")
    assert found >= 0


@pytest.mark.parametrize("concentration", MANY)
def test_moments_of_more_labels_are_the_means_of_draws(concentration):
    draws = np.random.default_rng(0).dirichlet(concentration, size=100_000)
    for found, values in (
        (dirichlet_mean(np.array(concentration)), draws),
        (dirichlet_mean_log(np.array(concentration)), np.log(np.maximum(draws, 1e-300))),
    ):
        noise = values.std(axis=0) / math.sqrt(len(values))
        assert np.all(np.abs(values.mean(axis=0) - found) < STANDARD_ERRORS * noise)


@pytest.mark.parametrize("posterior", MANY)
def test_divergence_of_more_labels_is_the_mean_log_ratio_of_draws(posterior):
    prior = np.linspace(0.5, 2.0, len(posterior))
    draws = np.random.default_rng(1).dirichlet(posterior, size=100_000)
    ratios = stats.dirichlet(posterior).logpdf(draws.T) - stats.dirichlet(prior).logpdf(draws.T)
    noise = ratios.std() / math.sqrt(len(ratios))
    assert abs(ratios.mean() - dirichlet_divergence(np.array(posterior), prior)) < STANDARD_ERRORS * noise


@pytest.mark.parametrize("concentration", MANY)
def test_normaliser_makes_the_density_scipys(concentration):
    p = np.random.default_rng(2).dirichlet(concentration)
    by_hand = float(
        np.sum((np.array(concentration) - 1) * np.log(p)) - dirichlet_log_normaliser(np.array(concentration))
    )
    assert_close(by_hand, stats.dirichlet(concentration).logpdf(p), "sums")


def test_a_distribution_does_not_diverge_from_itself():
    same = np.array(MANY[0])
    assert dirichlet_divergence(same, same) == 0


def test_the_last_axis_is_the_event():
    concentration = np.random.default_rng(3).uniform(0.1, 3, size=(2, 3, 4))
    prior = np.ones((2, 3, 4))
    for i in range(2):
        for j in range(3):
            one, other = concentration[i, j], prior[i, j]
            assert_close(dirichlet_mean(concentration)[i, j], dirichlet_mean(one))
            assert_close(dirichlet_mean_log(concentration)[i, j], dirichlet_mean_log(one))
            assert_close(dirichlet_divergence(concentration, prior)[i, j], dirichlet_divergence(one, other))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "function",
    [dirichlet_mean, dirichlet_mean_log, dirichlet_log_normaliser, lambda a: dirichlet_divergence(a, a * 2)],
    ids=["mean", "mean log", "normaliser", "divergence"],
)
def test_functions_stay_in_the_array_library_and_dtype_of_their_argument(function, dtype):
    values = np.random.default_rng(4).uniform(0.2, 5, size=(3, 4)).astype(dtype)
    expected = function(values)
    found = function(strict.asarray(values))
    assert type(found) is type(strict.asarray(values))
    assert found.dtype == getattr(strict, dtype)
    assert expected.dtype == dtype
    assert_close(found, expected)
    assert_close(expected, function(values.astype(np.float64)).astype(dtype), "sums")
