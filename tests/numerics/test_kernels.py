"""Kernels against their formulas, number by number, and their slopes against finite differences."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelfable.numerics import kernels
from labelfable.numerics.kernels import KERNELS, Matern
from tests.oracles import kernels as oracle
from tests.tolerances import TOLERANCE, assert_close

NAMES = list(KERNELS)
STATIONARY = [name for name in NAMES if name not in {"linear", "cosine"}]
SCALAR, ARD = 1.7, np.array([0.5, 2.0, 1.1, 4.0])


def points(seed, n, d=4, dtype="float64"):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def clumped(seed):
    """Points with duplicates, one at the origin and one at the mean of others."""
    rows = points(seed, 6)
    return np.vstack((rows, rows[:2], np.zeros((1, 4)), rows.mean(axis=0)))


def make(name, lengthscale=SCALAR, variance=2.5):
    return KERNELS[name](variance=variance, lengthscale=lengthscale)


@pytest.mark.parametrize("lengthscale", [SCALAR, ARD], ids=["one", "ard"])
@pytest.mark.parametrize("name", NAMES)
def test_values_are_the_formula(name, lengthscale):
    left, right = clumped(1), np.vstack((points(2, 5), clumped(1)[:3]))
    found = make(name, lengthscale).values(left, right)
    assert_close(found, oracle.kernel_matrix(name, left, right, 2.5, lengthscale), "sums")


@pytest.mark.parametrize("lengthscale", [SCALAR, ARD], ids=["one", "ard"])
@pytest.mark.parametrize("name", NAMES)
def test_the_diagonal_is_that_of_the_values_and_the_matrix_is_a_covariance(name, lengthscale):
    kernel, items = make(name, lengthscale), clumped(3)
    matrix = kernel.values(items, items)
    assert_close(kernel.diagonal(items), np.diag(matrix))
    assert_close(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > -TOLERANCE["float64"].rounding * np.trace(matrix)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_values_stay_in_the_dtype_and_array_library_of_the_points(name, dtype):
    kernel, left, right = make(name, ARD), points(4, 5, dtype=dtype), points(5, 3, dtype=dtype)
    found, diagonal = kernel.values(left, right), kernel.diagonal(left)
    assert found.dtype == diagonal.dtype == dtype
    assert_close(found, oracle.kernel_matrix(name, left, right, 2.5, ARD).astype(dtype))
    other = kernel.values(strict.asarray(left), strict.asarray(right))
    assert isinstance(other, type(strict.asarray(left)))
    assert other.dtype == getattr(strict, dtype)
    assert_close(np.asarray(other), found)
    assert_close(np.asarray(kernel.diagonal(strict.asarray(left))), diagonal)
    slopes = kernel.gradient(left, right, found)
    others = kernel.gradient(strict.asarray(left), strict.asarray(right), other)
    assert_close(np.asarray(others.log_lengthscale), slopes.log_lengthscale, "sums")
    assert_close(others.log_variance, slopes.log_variance, "sums")
    others = kernel.diagonal_gradient(strict.asarray(left), strict.asarray(diagonal))
    assert_close(np.asarray(others.log_lengthscale), kernel.diagonal_gradient(left, diagonal).log_lengthscale, "sums")


@pytest.mark.parametrize("size", [1e-6, 1e6])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_the_size_of_the_features_is_the_lengthscales_to_undo(name, size, dtype):
    left, right = points(6, 5), points(7, 4)
    small = make(name).values(left.astype(dtype), right.astype(dtype))
    scaled = make(name, SCALAR * size).values((left * size).astype(dtype), (right * size).astype(dtype))
    assert_close(scaled, small)


@pytest.mark.parametrize("name", NAMES)
def test_extreme_lengthscales_give_finite_values_and_slopes(name):
    items = clumped(8)
    for lengthscale in (1e-6, 1e6):
        kernel = make(name, lengthscale)
        values = kernel.values(items, items)
        slopes = kernel.gradient(items, items, np.ones_like(values))
        assert np.all(np.isfinite(values))
        assert np.isfinite(slopes.log_variance)
        assert np.isfinite(slopes.log_lengthscale)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", STATIONARY)
def test_a_common_offset_of_a_million_does_not_matter(name, dtype):
    """float64 all along: in float32 products of 1e6 × 1e6 would leave nothing of distances near 1."""
    left, right = points(9, 5).round(1), points(10, 4).round(1)
    offset = np.array([1e6, -1e6, 0.0, 1e6])
    moved_left, moved_right = (left + offset).astype(dtype), (right + offset).astype(dtype)
    found = make(name).values(moved_left, moved_right)
    assert_close(found, oracle.kernel_matrix(name, moved_left, moved_right, 2.5, SCALAR).astype(dtype), "sweeps")


@pytest.mark.parametrize("name", STATIONARY)
def test_equal_points_are_at_distance_zero_exactly(name):
    """√ of a rounding error would be 1e-8 in float64 and 3e-4 in float32: the rougher the kernel, the more it shows."""
    items = np.repeat(points(11, 30, d=200) + 3.0, 2, axis=0).astype(np.float32)
    matrix = make(name).values(items, items)
    assert np.all(matrix[np.arange(60), np.arange(60)] == 2.5)
    assert np.all(matrix[np.arange(0, 60, 2), np.arange(1, 60, 2)] == 2.5)


def test_constant_features_do_not_change_a_stationary_kernel():
    items = points(12, 6)
    with_constant = np.hstack((items, np.full((6, 1), 1e6)))
    for name in STATIONARY:
        assert_close(make(name).values(with_constant, with_constant), make(name).values(items, items))


@pytest.mark.parametrize("name", NAMES)
def test_no_points_are_no_values(name):
    empty = np.zeros((0, 4))
    assert make(name).values(empty, points(13, 3)).shape == (0, 3)
    assert make(name).values(points(13, 3), empty).shape == (3, 0)
    assert make(name).diagonal(empty).shape == (0,)


@given(seed=st.integers(0, 20), name=st.sampled_from(NAMES))
def test_dimensions_and_points_may_change_places(seed, name):
    left, right = points(seed, 5), points(seed + 100, 4)
    order = np.random.default_rng(seed).permutation(4)
    found = make(name, ARD).values(left, right)
    assert_close(make(name, ARD[order]).values(left[:, order], right[:, order]), found)
    assert_close(make(name, ARD).values(right, left), found.T)


@pytest.mark.parametrize("name", NAMES)
def test_one_lengthscale_is_as_many_equal_ones(name):
    left, right, upstream = points(14, 5), points(15, 4), points(16, 5, d=4)
    one, many = make(name, 1.3), make(name, np.full(4, 1.3))
    assert_close(one.values(left, right), many.values(left, right))
    slopes = many.gradient(left, right, upstream)
    assert_close(one.gradient(left, right, upstream).log_lengthscale, slopes.log_lengthscale.sum(), "sums")


def check_slopes(name, lengthscale):
    """Slopes of Σ U∘K + Σ u∘diag K against central differences, duplicates and the origin included."""
    left, right = clumped(17), np.vstack((points(18, 4), clumped(17)[:3]))
    upstream, d_diagonal = points(19, len(left), d=len(right)), points(20, len(left), d=1)[:, 0]
    kernel = make(name, lengthscale)

    def objective(logs):
        many = np.exp(logs[1:]) if np.ndim(lengthscale) else float(np.exp(logs[1]))
        moved = replace(kernel, variance=float(np.exp(logs[0])), lengthscale=many)
        return float(np.sum(upstream * moved.values(left, right)) + d_diagonal @ moved.diagonal(left))

    logs = np.log(np.concatenate(([kernel.variance], np.atleast_1d(lengthscale))))
    numeric = oracle.slopes(objective, logs, TOLERANCE["float64"].step)
    found = kernel.gradient(left, right, upstream) + kernel.diagonal_gradient(left, d_diagonal)
    exact = np.concatenate(([found.log_variance], np.atleast_1d(found.log_lengthscale)))
    assert np.abs(numeric[1:]).max() > TOLERANCE["float64"].slope or (name == "cosine" and not np.ndim(lengthscale))
    assert_close(exact, numeric, "slope")


@pytest.mark.parametrize("lengthscale", [SCALAR, ARD], ids=["one", "ard"])
@pytest.mark.parametrize("name", NAMES)
def test_slopes_are_finite_differences(name, lengthscale):
    check_slopes(name, lengthscale)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("matern")])
def test_a_factor_of_two_missing_in_a_slope_is_caught(name, monkeypatch):
    right = Matern._profile_slope
    monkeypatch.setattr(Matern, "_profile_slope", lambda self, distances: right(self, distances) / 2)
    with pytest.raises(AssertionError):
        check_slopes(name, ARD)


def test_a_slope_that_forgets_the_cosines_own_length_is_caught(monkeypatch):
    def slip(self, pairs, upstream):
        left = pairs.left * kernels._inverse_roots(pairs.left_squares)[:, None]
        right = pairs.right * kernels._inverse_roots(pairs.right_squares)[:, None]
        return -2 * self.variance * np.sum(left * (upstream @ right), axis=0)

    monkeypatch.setattr(kernels.Cosine, "_stretch", slip)
    with pytest.raises(AssertionError):
        check_slopes("cosine", ARD)


@pytest.mark.parametrize("name", NAMES)
def test_no_array_has_an_entry_for_every_pair_and_dimension(name):
    n, m, d = 300, 200, 100
    left, right = points(21, n, d=d), points(22, m, d=d)
    kernel, upstream = make(name, np.ones(d)), points(23, n, d=m)
    tracemalloc.start()
    kernel.gradient(left, right, upstream)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * m * d / 4
