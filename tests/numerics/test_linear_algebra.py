"""Factorisations, weighted Grams, quadratic forms, Lanczos and pivoted Cholesky against their definitions."""

from __future__ import annotations

import math

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelfable.errors import ModelError
from labelfable.numerics import linear_algebra
from labelfable.numerics.linear_algebra import (
    FEWEST_GRAM_ROWS,
    FORM_ROWS,
    cholesky,
    jitter_of,
    lanczos,
    pivoted_cholesky,
    quadratic_forms,
    squared_lengths,
    weighted_gram,
)
from tests.oracles import kernels as oracle
from tests.tolerances import assert_close, tolerance_of

DTYPES = ["float32", "float64"]


def draw(seed, *shape, dtype="float64"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def positive(seed, *shape, dtype="float64"):
    return np.random.default_rng(seed).exponential(size=shape).astype(dtype)


def covariances(seed, n_components, n_columns):
    roots = draw(seed, n_components, n_columns, n_columns)
    return roots @ roots.swapaxes(1, 2) / n_columns + 1e-3 * np.eye(n_columns)


def symmetric(values, seed=0):
    """A matrix with these eigenvalues."""
    turn = np.linalg.qr(draw(seed, len(values), len(values)))[0]
    return turn @ np.diag(values) @ turn.T


@pytest.mark.parametrize("dtype", DTYPES)
def test_jitter_is_the_root_of_the_smallest_relative_difference(dtype):
    assert jitter_of(np.zeros(1, dtype=dtype)) == pytest.approx(math.sqrt(np.finfo(dtype).eps))
    assert jitter_of(strict.zeros(1, dtype=getattr(strict, dtype))) == jitter_of(np.zeros(1, dtype=dtype))


def test_cholesky_factors_multiply_back_one_or_many():
    stack = covariances(1, 3, 5)
    lower = cholesky(stack)
    assert_close(lower @ lower.swapaxes(1, 2), stack)
    assert_close(lower, np.tril(lower))
    assert_close(cholesky(stack[1]), lower[1])
    assert_close(cholesky(strict.asarray(stack)), lower)


def test_jitter_is_relative_to_each_matrix_of_a_stack():
    stack = np.stack((np.ones((3, 3)), 1e8 * np.ones((3, 3)), np.zeros((3, 3))))  # of rank 1, 1 and 0
    lower = cholesky(stack, jitter=1e-4)
    raised = lower @ lower.swapaxes(1, 2) - stack
    assert_close(raised[0], 1e-4 * np.eye(3))
    assert_close(raised[1] / 1e8, 1e-4 * np.eye(3))
    assert_close(raised[2], np.zeros((3, 3)))


@pytest.mark.parametrize("xp", [np, strict])
def test_cholesky_says_what_is_wrong_with_a_matrix(xp):
    with pytest.raises(ModelError, match=r"the kernel cannot .* eigenvalues run from -1 to 3"):
        cholesky(xp.asarray([[1.0, 2.0], [2.0, 1.0]]), what="the kernel")
    with pytest.raises(ModelError, match="not finite"):
        cholesky(xp.asarray([[math.nan, 0.0], [0.0, 1.0]]))
    with pytest.raises(ModelError, match="not finite"):
        cholesky(xp.asarray([[math.inf, 0.0], [0.0, 1.0]]), jitter=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_items", [0, 1, FEWEST_GRAM_ROWS - 1, 2 * FEWEST_GRAM_ROWS + 3])
def test_weighted_gram_is_its_sum_over_items(dtype, n_items):
    phi, weights = draw(2, n_items, 4, dtype=dtype), positive(3, n_items, 3, dtype=dtype)
    found = weighted_gram(phi, weights)
    assert found.dtype == np.float64
    assert_close(found.astype(dtype), oracle.weighted_gram(phi, weights).astype(dtype), "sums")


def test_weighted_gram_takes_weights_of_another_dtype_and_of_zero():
    phi, weights = draw(2, 50, 4, dtype="float32"), positive(3, 50, 2)
    weights[:, 1] = 0.0
    found = weighted_gram(phi, weights)
    assert_close(found.astype(np.float32), oracle.weighted_gram(phi, weights).astype(np.float32), "sums")
    assert not found[1].any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_weighted_gram_stays_in_its_array_library(dtype):
    phi, weights = draw(4, 2 * FEWEST_GRAM_ROWS + 3, 3, dtype=dtype), positive(5, 2 * FEWEST_GRAM_ROWS + 3, 2)
    weights = weights.astype(dtype)
    found = weighted_gram(strict.asarray(phi), strict.asarray(weights))
    assert isinstance(found, type(strict.asarray(phi)))
    assert found.dtype == strict.float64
    assert_close(np.asarray(found).astype(dtype), weighted_gram(phi, weights).astype(dtype), "sums")


def test_float32_blocks_are_added_up_in_float64():
    """A float32 running sum would stop growing at 2^24 = 16,777,216; blocks of a few thousand never get there."""
    n_items = 2**24 + 2**16
    phi = np.broadcast_to(np.ones((1, 1), dtype=np.float32), (n_items, 1))
    weights = np.broadcast_to(np.ones((1, 1), dtype=np.float32), (n_items, 1))
    assert weighted_gram(phi, weights)[0, 0, 0] == n_items


@given(split=st.integers(0, 40), seed=st.integers(0, 5))
def test_weighted_grams_of_shards_add_up_in_any_order_of_items(split, seed):
    phi, weights = draw(seed, 40, 3), positive(seed, 40, 2)
    order = np.random.default_rng(seed).permutation(40)
    parts = weighted_gram(phi[:split], weights[:split]) + weighted_gram(phi[split:], weights[split:])
    assert_close(parts, weighted_gram(phi, weights))
    assert_close(weighted_gram(phi[order], weights[order]), weighted_gram(phi, weights))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_items", "n_columns"), [(0, 3), (1, 1), (9, 31), (FORM_ROWS + 5, 33), (20, 70)])
def test_quadratic_forms_are_their_definition(dtype, n_items, n_columns):
    phi, stack = draw(6, n_items, n_columns, dtype=dtype), covariances(7, 3, n_columns)
    found = quadratic_forms(phi, stack)
    assert found.dtype == dtype
    assert_close(found, oracle.quadratic_forms(phi, stack).astype(dtype), "sums")


@pytest.mark.parametrize("dtype", DTYPES)
def test_quadratic_forms_stay_in_their_array_library(dtype):
    phi, stack = draw(6, FORM_ROWS + 5, 40, dtype=dtype), covariances(7, 2, 40)
    found = quadratic_forms(strict.asarray(phi), strict.asarray(stack))
    assert found.dtype == getattr(strict, dtype)
    assert_close(np.asarray(found), quadratic_forms(phi, stack), "sums")


def test_quadratic_forms_are_never_negative_where_the_variance_is_tiny():
    """In float32, φ'Sφ itself comes out below 0 here: φ lies along an eigenvector of the smallest eigenvalue."""
    values = np.geomspace(1e-12, 1, 40)
    stack = symmetric(values)[None]
    phi = np.linalg.eigh(stack[0])[1][:, :8].T.astype(np.float32)
    plain = np.einsum("ir,rs,is->i", phi, stack[0].astype(np.float32), phi)
    assert plain.min() < 0
    assert quadratic_forms(phi, stack).min() >= 0


def test_quadratic_forms_of_no_variance_are_zero():
    stack = np.stack((np.zeros((5, 5)), np.ones((5, 5))))  # ranks 0 and 1
    phi = draw(8, 6, 5)
    assert_close(quadratic_forms(phi, stack), np.stack((np.zeros(6), phi.sum(axis=1) ** 2), axis=1))


def test_squared_lengths_read_nothing_above_the_triangle():
    factors = np.tril(draw(9, 2, 70, 70))
    phi = draw(10, 4, 70)
    expected = ((phi[:, None, :] @ factors.swapaxes(0, 0)[None, 0]) ** 2).sum(axis=(1, 2))
    assert_close(squared_lengths(phi, factors)[:, 0], expected, "sums")


@pytest.mark.parametrize("block", [1, 3])
def test_lanczos_over_the_whole_space_is_the_eigendecomposition(block):
    matrix = symmetric(np.linspace(-2, 5, 20))
    found = lanczos(lambda vectors: matrix @ vectors, draw(11, 20, block), 20)
    assert_close(found.values, np.linspace(5, -2, 20))
    assert_close(found.vectors.T @ found.vectors, np.eye(20))
    assert_close(found.vectors @ np.diag(found.values) @ found.vectors.T, matrix)
    assert_close(found.errors, np.zeros(20))


@pytest.mark.parametrize("values", [np.ones(12), np.repeat([3.0, 1.0, 0.0], 4), np.zeros(12), np.eye(12)[0]])
@pytest.mark.parametrize("block", [1, 2])
def test_lanczos_finds_repeated_eigenvalues_as_often_as_they_are(values, block):
    matrix = symmetric(values)
    found = lanczos(lambda vectors: matrix @ vectors, draw(12, 12, block), 12)
    assert_close(found.values, np.sort(values)[::-1])
    assert_close(found.vectors.T @ found.vectors, np.eye(12))


def test_lanczos_stays_orthogonal_long_after_its_first_values_have_settled():
    """Without reorthogonalisation the top eigenvalues come back as ghosts, and the basis is no longer one."""
    values = np.concatenate((np.geomspace(1e-6, 1, 190), [1e3, 1e5, 1e7, 1e8, 1e9]))
    found = lanczos(lambda vectors: (vectors.T * values).T, draw(13, 195, 1), 120)
    assert_close(found.vectors.T @ found.vectors, np.eye(120), "sums")
    assert_close(found.values[:5] / values[:-6:-1], np.ones(5), "sums")
    assert np.all(found.errors[:5] <= tolerance_of(found.values).sums * 1e9)


def test_lanczos_values_only_grow_with_the_space_and_lie_within_their_errors():
    values = np.geomspace(1e-3, 1, 60)
    matrix, start = symmetric(values), draw(14, 60, 2)
    before = np.zeros(0)
    for size in (4, 8, 16, 32, 60):
        found = lanczos(lambda vectors: matrix @ vectors, start, size)
        assert found.vectors.shape == (60, size)
        assert np.all(found.values[: len(before)] >= before - tolerance_of(before).rounding)
        nearest = np.abs(found.values[:, None] - values[None, :]).min(axis=1)
        assert np.all(nearest <= found.errors + tolerance_of(before).rounding)
        before = found.values


def test_lanczos_without_reorthogonalisation_is_caught(monkeypatch):
    monkeypatch.setattr(linear_algebra, "_without", lambda vectors, _basis: vectors)
    with pytest.raises(AssertionError):
        test_lanczos_stays_orthogonal_long_after_its_first_values_have_settled()


def test_lanczos_stays_in_its_array_library():
    matrix, start = symmetric(np.repeat([2.0, 1.0], 4)), draw(15, 8, 2)
    found = lanczos(lambda vectors: strict.asarray(matrix) @ vectors, strict.asarray(start), 8)
    assert isinstance(found.vectors, type(strict.asarray(start)))
    assert_close(found.values, lanczos(lambda vectors: matrix @ vectors, start, 8).values)


@pytest.mark.parametrize("xp", [np, strict])
def test_pivoted_cholesky_is_the_textbooks(xp):
    matrix = xp.asarray(covariances(16, 1, 12)[0])
    found = pivoted_cholesky(lambda p: matrix[:, p], xp.linalg.diagonal(matrix), 7)
    pivots, factor = oracle.pivoted_cholesky(np.asarray(matrix), 7)
    assert found.pivots == pivots
    assert_close(found.factor, factor)
    assert_close(found.residual, np.diag(np.asarray(matrix) - factor @ factor.T))


def test_pivoted_cholesky_never_takes_a_duplicate_and_stops_at_the_rank():
    few = draw(17, 4, 6)
    rows = few[[0, 1, 2, 3, 0, 1, 2, 3, 3]]
    matrix = rows @ rows.T
    found = pivoted_cholesky(lambda p: matrix[:, p], np.diag(matrix), 9)
    assert len(found.pivots) == 4
    assert len({p % 4 for p in found.pivots if p < 8}) == len([p for p in found.pivots if p < 8])
    assert_close(found.factor @ found.factor.T, matrix, "sums")
    assert np.all(found.residual >= 0)


def test_pivoted_cholesky_of_nothing_has_no_pivots():
    found = pivoted_cholesky(lambda _: np.zeros(3), np.zeros(3), 2)
    assert found.pivots == []
    assert found.factor.shape == (3, 0)
