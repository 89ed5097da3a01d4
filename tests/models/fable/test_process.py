"""q(w): Equation (F) by plain linear algebra, its moments by draws, its divergence by SciPy's densities."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
from scipy import stats

from labelfable.models.fable.process import expected_process, prior_weights, update_weights
from tests.oracles import fable as oracle
from tests.tolerances import STANDARD_ERRORS, assert_close

R, C, N = 3, 2, 4
DRAWS = np.random.default_rng(0)
PHI = DRAWS.normal(size=(N, R))
RESIDUAL = DRAWS.uniform(0.1, 1, size=N)
MEAN = np.array([0.4, -1.1])
THETA = DRAWS.uniform(0.1, 2, size=(N, C))
GRAM = np.einsum("ic,ir,is->crs", THETA, PHI, PHI)
POTENTIAL = DRAWS.normal(size=(R, C))


def test_the_factor_solves_its_equation():
    found = update_weights(GRAM, POTENTIAL, is_point=False)
    for c in range(C):
        precision = np.eye(R) + GRAM[c]
        assert_close(found.covariance[c] @ precision, np.eye(R))
        assert_close(precision @ found.mean[:, c], POTENTIAL[:, c])
        assert np.array_equal(found.covariance[c], found.covariance[c].T)
    point = update_weights(GRAM, POTENTIAL, is_point=True)
    assert point.covariance is None
    assert np.array_equal(point.mean, found.mean)


def test_the_divergence_is_the_mean_log_ratio_of_draws():
    found = update_weights(GRAM, POTENTIAL, is_point=False)
    ratios = np.zeros(100_000)
    for c in range(C):
        posterior = stats.multivariate_normal(found.mean[:, c], found.covariance[c])
        draws = posterior.rvs(len(ratios), random_state=c)
        ratios += posterior.logpdf(draws) - stats.multivariate_normal(np.zeros(R), np.eye(R)).logpdf(draws)
    noise = ratios.std() / np.sqrt(len(ratios))
    assert abs(ratios.mean() - found.divergence) < STANDARD_ERRORS * noise
    assert_close(found.divergence, oracle.weight_divergence(found.mean, found.covariance))


def test_the_divergence_of_a_point_is_its_log_priors_fall_from_the_peak():
    found = update_weights(GRAM, POTENTIAL, is_point=True)
    prior = stats.norm.logpdf(found.mean)
    assert_close(found.divergence, (stats.norm.logpdf(0.0) - prior).sum())


@pytest.mark.parametrize("is_point", [False, True])
def test_before_any_item_the_factor_is_the_prior(is_point):
    start = prior_weights(R, C, PHI, is_point=is_point)
    found = update_weights(np.zeros((C, R, R)), np.zeros((R, C)), is_point=is_point)
    assert start.divergence == found.divergence == 0
    assert np.array_equal(start.mean, found.mean)
    assert (start.covariance is None) == is_point
    if not is_point:
        assert np.array_equal(start.covariance, found.covariance)


def test_moments_are_those_of_draws():
    weights = update_weights(GRAM, POTENTIAL, is_point=False)
    mean, variance = expected_process(PHI, RESIDUAL, weights, MEAN)
    draws = np.random.default_rng(1)
    for c in range(C):
        w = draws.multivariate_normal(weights.mean[:, c], weights.covariance[c], size=100_000)
        f = MEAN[c] + w @ PHI.T + draws.normal(size=(len(w), N)) * np.sqrt(RESIDUAL)
        for found, seen in ((mean, f), (variance, (f - f.mean(axis=0)) ** 2)):
            noise = seen.std(axis=0) / np.sqrt(len(seen))
            assert np.all(np.abs(found[:, c] - seen.mean(axis=0)) < STANDARD_ERRORS * noise)


def test_moments_are_the_oracles():
    weights = update_weights(GRAM, POTENTIAL, is_point=False)
    mean, variance = expected_process(PHI, RESIDUAL, weights, MEAN)
    nothing = np.zeros(0)
    model = oracle.Model("joint", C, 1, "fired", [], PHI, RESIDUAL, MEAN, nothing)
    for i, c in np.ndindex(N, C):
        expected_mean, square = oracle.process(model, i, c, weights.mean, weights.covariance)
        assert_close(mean[i, c], expected_mean)
        assert_close(variance[i, c] + mean[i, c] ** 2, square)


def test_a_point_has_no_variance_not_even_the_residuals():
    point = update_weights(GRAM, POTENTIAL, is_point=True)
    mean, variance = expected_process(PHI, RESIDUAL, point, MEAN)
    assert_close(mean, PHI @ point.mean + MEAN)
    assert np.array_equal(variance, np.zeros((N, C)))


def test_without_columns_only_the_mean_and_the_residual_are_left():
    for is_point in (False, True):
        weights = update_weights(np.zeros((C, 0, 0)), np.zeros((0, C)), is_point=is_point)
        mean, variance = expected_process(np.zeros((N, 0)), RESIDUAL, weights, MEAN)
        assert np.array_equal(mean, np.tile(MEAN, (N, 1)))
        assert np.array_equal(variance, 0 * mean if is_point else np.tile(RESIDUAL[:, None], (1, C)))
        assert weights.divergence == 0


def test_a_huge_gram_leaves_a_small_covariance():
    """Features of size 1e6: the precision's condition is 1e12, and its factor is there."""
    found = update_weights(1e12 * GRAM, 1e6 * POTENTIAL, is_point=False)
    _, variance = expected_process(1e6 * PHI, 0 * RESIDUAL, found, MEAN)
    assert np.all(np.isfinite(found.mean))
    assert np.isfinite(found.divergence)
    assert np.all(variance >= 0)
    assert np.all(variance < 1e3)


@pytest.mark.parametrize("is_point", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rules_stay_in_the_array_library(dtype, is_point):
    """Sums and factors are float64 whatever the columns are."""
    expected = update_weights(GRAM, POTENTIAL, is_point=is_point)
    found = update_weights(strict.asarray(GRAM), strict.asarray(POTENTIAL), is_point=is_point)
    kind = type(strict.asarray(GRAM))
    assert type(found.mean) is kind
    assert_close(found.mean, expected.mean)
    assert_close(found.divergence, expected.divergence)
    phi, residual = strict.asarray(PHI.astype(dtype)), strict.asarray(RESIDUAL.astype(dtype))
    for factor, plain in (
        (found, expected),
        (prior_weights(R, C, phi, is_point=is_point), prior_weights(R, C, PHI, is_point=is_point)),
    ):
        moments = expected_process(phi, residual, factor, strict.asarray(MEAN))
        told = expected_process(PHI.astype(dtype), RESIDUAL.astype(dtype), plain, MEAN)
        for mine, theirs in zip(moments, told, strict=True):
            assert type(mine) is kind
            assert mine.dtype == getattr(strict, dtype)
            assert_close(np.asarray(mine).astype(dtype), theirs.astype(dtype), "sums")
