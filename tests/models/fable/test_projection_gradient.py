"""Slopes in the hyperparameters against finite differences of the very same objective, and slips that must show."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelfable.models.fable import projection_gradient as module
from labelfable.models.fable.projection import build_projection
from labelfable.models.fable.projection_gradient import cholesky_gradient, projection_gradient
from labelfable.numerics.kernels import KERNELS, ParameterSlopes
from tests.oracles import kernels as oracle
from tests.tolerances import TOLERANCE, assert_close

NAMES = list(KERNELS)
STEP = TOLERANCE["float64"].step


def items(seed=0, n=40, d=6):
    return np.random.default_rng(seed).standard_normal((n, d)) * np.linspace(0.5, 3, d) + 1.0


def projection_of(features, kernel, method, lengthscale):
    """Well conditioned, so that differences are about slopes and not about rounding: short lengthscales, few points."""
    n_inducing = 5 if kernel == "cosine" else 12
    given = lengthscale if lengthscale == "ard" else (1.0 if KERNELS[kernel]().is_stationary else None)
    rows = 15 if method == "exact" and kernel != "cosine" else features.shape[0]
    return build_projection(
        features[:rows], kernel=kernel, method="inducing" if (method, kernel) == ("exact", "cosine") else method,
        n_inducing=n_inducing, lengthscale=given, variance=3.0, constant=2.0, missing="ignore",
    )  # fmt: skip


def check(features, kernel, method, lengthscale):
    """B is quadratic in φ and in d, so that its own slopes change with the parameters."""
    projection = projection_of(features, kernel, method, lengthscale)
    generator = np.random.default_rng(1)
    n_items = features.shape[0]
    to_phi, to_residual = generator.standard_normal((n_items, projection.n_columns)), generator.standard_normal(n_items)

    def objective(logs):
        lengthscales = np.exp(logs[2:])
        moved = projection.with_parameters(
            variance=np.exp(logs[0]),
            constant=np.exp(logs[1]),
            lengthscale=lengthscales if lengthscale == "ard" else float(lengthscales[0]),
        ).project(features)
        whole = np.sum(to_phi * moved.phi) + 0.5 * np.sum(moved.phi**2) / n_items
        return float(whole + to_residual @ moved.residual + 0.5 * np.sum(moved.residual**2))

    now = projection.project(features)
    found = projection_gradient(
        projection, features, to_phi + now.phi / n_items, (to_residual + now.residual).astype(np.float64)
    )
    exact = [found["log variance"], found["log constant"], *np.atleast_1d(found["log lengthscale"])]
    logs = np.log([projection.kernel.variance, projection.constant, *np.atleast_1d(projection.kernel.lengthscale)])
    assert_close(np.array(exact), oracle.slopes(objective, logs, STEP), "slope")


@pytest.mark.parametrize("lengthscale", ["one", "ard"])
@pytest.mark.parametrize("method", ["inducing", "exact", "lanczos"])
@pytest.mark.parametrize("kernel", NAMES)
def test_slopes_are_finite_differences(kernel, method, lengthscale):
    features = items()
    features[[3, 17], 1] = np.nan  # their residual is the variance
    check(features, kernel, method, lengthscale)


@pytest.mark.parametrize("kernel", ["rbf", "cosine", "linear"])
def test_slopes_of_sparse_features_are_finite_differences(kernel):
    numbers = items()
    numbers[np.random.default_rng(2).random(numbers.shape) < 0.6] = 0.0
    check(sp.csr_array(numbers), kernel, "inducing", "ard")


def test_slopes_of_principal_components_are_finite_differences_with_the_axes_held():
    features = items(d=6)
    projection = build_projection(features, variance=3.0, max_components=3)
    upstream = np.random.default_rng(3).standard_normal((40, 3))

    def objective(logs):
        moved = projection.with_parameters(variance=np.exp(logs[0]), lengthscale=float(np.exp(logs[1])))
        return float(np.sum(upstream * moved.project(features).phi))

    found = projection_gradient(projection, features, upstream, np.zeros(40))
    logs = np.log([3.0, projection.kernel.lengthscale])
    exact = np.array([found["log variance"], found["log lengthscale"]])
    assert_close(exact, oracle.slopes(objective, logs, STEP), "slope")


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_slopes_add_up_over_items_and_do_not_depend_on_blocks(kernel, monkeypatch):
    features = items()
    projection = projection_of(features, kernel, "inducing", "ard")
    generator = np.random.default_rng(4)
    d_phi, d_residual = generator.standard_normal((40, projection.n_columns)), generator.standard_normal(40)
    whole = projection_gradient(projection, features, d_phi, d_residual)
    parts = [projection_gradient(projection, features[r], d_phi[r], d_residual[r]) for r in (slice(11), slice(11, 40))]
    monkeypatch.setattr("labelfable.votes.features.BLOCK_ENTRIES", 1)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 1)
    blocked = projection_gradient(projection, features, d_phi, d_residual)
    for name, value in whole.items():
        assert_close(np.asarray(parts[0][name]) + parts[1][name], np.asarray(value), "sums")
        assert_close(np.asarray(blocked[name]), np.asarray(value), "sums")


def test_the_gradient_of_a_cholesky_factor_is_finite_differences():
    generator = np.random.default_rng(5)
    root = generator.standard_normal((4, 4))
    matrix, upstream = root @ root.T + np.eye(4), np.tril(generator.standard_normal((4, 4)))
    found = cholesky_gradient(np.linalg.cholesky(matrix), upstream)
    assert_close(found, found.T)
    for i in range(4):
        for j in range(i + 1):
            toward = np.zeros((4, 4))
            toward[i, j] = toward[j, i] = 1.0

            def objective(move, toward=toward):
                return float(np.sum(upstream * np.linalg.cholesky(matrix + move[0] * toward)))

            assert_close(np.sum(found * toward), oracle.slopes(objective, np.zeros(1), STEP)[0], "slope")


def forgotten_diagonal(lower, d_lower):
    """The slip: the diagonal of tril(L' dL) is not halved."""
    inverse = np.linalg.inv(lower)
    whole = inverse.T @ np.tril(lower.T @ d_lower) @ inverse
    return (whole + whole.T) / 2


SLIPS = {
    "the diagonal of the Cholesky factor's slope is not halved": ("cholesky_gradient", forgotten_diagonal),
    "L⁻ᵀ is held fixed": ("_of_whitening", lambda *_: ParameterSlopes(0.0, 0.0)),
    "a factor of 2 is missing": ("cholesky_gradient", lambda *given: cholesky_gradient(*given) / 2),
    "the sign is wrong": ("cholesky_gradient", lambda *given: -cholesky_gradient(*given)),
}


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("method", ["inducing", "lanczos"])
def test_a_planted_slip_is_caught(slip, method, monkeypatch):
    name, wrong = SLIPS[slip]
    check(items(), "rbf", method, "one")
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(AssertionError):
        check(items(), "rbf", method, "one")


def test_a_slope_that_forgets_the_residual_is_caught(monkeypatch):
    right = module._of_points
    monkeypatch.setattr(module, "_of_points", lambda *given: right(*given[:-1], 0 * given[-1]))
    with pytest.raises(AssertionError):
        check(items(), "rbf", "inducing", "one")
