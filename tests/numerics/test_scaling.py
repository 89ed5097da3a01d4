"""Scaled features: what each choice does, dense and sparse alike."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from labelfable.numerics import scaling as module
from labelfable.numerics.scaling import SCALINGS, Scaling, fit_scaling, principal_axes
from labelfable.votes.features import read_features
from tests.tolerances import TOLERANCE, assert_close

NAN = np.nan


def mixed(seed=0, n=60):
    """Columns of all sizes, half of their entries 0; one constant, one a copy of another."""
    generator = np.random.default_rng(seed)
    numbers = generator.standard_normal((n, 6)) * (generator.random((n, 6)) < 0.5) * [1, 10, 1e6, 1e-6, 0, 1]
    numbers[:, 4] = 7.0
    numbers[:, 5] = numbers[:, 0]
    return numbers


def scaled(numbers, kind, most=128):
    found = read_features(numbers)
    scaling = fit_scaling(found, kind, most, 0)
    return scaling, scaling.rows(found.numbers)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_standardised_columns_have_mean_0_and_variance_1_or_never_vary(container, dtype):
    scaling, rows = scaled(container(mixed().astype(dtype)), "standardise")
    dense = rows.dense()
    assert_close(dense.mean(axis=0), np.zeros(6))
    assert_close(dense.std(axis=0), np.array([1, 1, 1, 1, 0, 1]))
    assert_close(np.abs(dense[:, 4]).max(), 0.0)
    assert scaling.typical_length**2 == pytest.approx(5)
    assert_close(rows.squares().mean(), 5.0)


@pytest.mark.parametrize("value", [0.1, 1e6 + 0.1, -3e-9, 1e80, 0.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_constant_column_is_constant_whatever_the_rounding_of_its_mean(value, dtype):
    numbers = np.full((1003, 1), value if dtype == "float64" or value < 1e38 else 1e30).astype(dtype)
    wobbly = numbers * (1 + np.finfo(dtype).eps * (np.arange(1003)[:, None] % 2)).astype(dtype)
    for given in (numbers, wobbly, sp.csr_array(numbers)):
        scaling, rows = scaled(given, "standardise")
        assert scaling.factor.tolist() == [0.0]
        assert not rows.dense().any()


def test_a_large_offset_leaves_the_spread_as_it_is():
    numbers = np.arange(8.0)[:, None] % 2 + 1e6
    assert_close(scaled(numbers, "standardise")[1].dense()[:, 0], np.tile([-1.0, 1.0], 4))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_normalised_rows_have_length_1_or_are_zero(container):
    numbers = np.array([[3.0, 4.0], [0.0, 0.0], [-3e-9, 4e-9], [3e50, 4e50]])
    rows = scaled(container(numbers), "normalise")[1]
    assert_close(rows.dense(), np.array([[0.6, 0.8], [0, 0], [-0.6, 0.8], [0.6, 0.8]]))
    assert_close(rows.squares(), np.array([1.0, 0, 1, 1]))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_whitened_features_are_uncorrelated_and_copies_are_gone(container):
    scaling, rows = scaled(container(mixed()), "whiten")
    assert scaling.n_outputs == 4  # six columns less a constant and a copy
    dense = rows.dense()
    assert_close(dense.T @ dense / len(dense), np.eye(4), "sums")
    assert scaled(container(mixed()), "whiten", most=2)[1].dense().shape == (60, 2)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_whitening_features_that_never_vary_gives_zeros(container):
    assert not scaled(container(np.full((5, 3), 2.0)), "whiten")[1].dense().any()


def test_none_is_none():
    assert_close(scaled(mixed(), "none")[1].dense(), mixed())


@pytest.mark.parametrize("kind", SCALINGS)
def test_sparse_rows_are_the_dense_ones_in_every_way_they_are_used(kind):
    numbers = mixed() / [1, 10, 1e6, 1e-6, 1, 1]
    (_, dense), (_, sparse) = scaled(numbers, kind), scaled(sp.csr_array(numbers), kind)
    width = dense.dense().shape[1]
    generator = np.random.default_rng(1)
    matrix, tall = generator.standard_normal((width, 3)), generator.standard_normal((60, 2))
    belongs = sp.csr_array((np.ones(60), (np.arange(60), np.arange(60) % 4)), shape=(60, 4))
    origin, factor = generator.standard_normal(width), generator.random(width) + 0.5
    sign = np.sign(np.sum(dense.dense() * sparse.dense(), axis=0))  # principal axes have no direction
    if kind != "whiten":
        assert np.all((sign > 0) | (np.abs(dense.dense()).sum(axis=0) < TOLERANCE["float64"].sums))
        for one, other in (
            (dense, sparse),
            (dense.minus(origin).scaled(factor), sparse.minus(origin).scaled(factor)),
            (dense.scaled(2.0).minus(origin).part(slice(3, 9)), sparse.scaled(2.0).minus(origin).part(slice(3, 9))),
        ):
            assert_close(other.dense(), one.dense())
            assert_close(other.times(matrix), one.times(matrix))
            assert_close(other.squares(), one.squares())
            assert_close(other.products(), one.products())
            assert_close(other.transposed_times(tall[: one.n_rows]), one.transposed_times(tall[: one.n_rows]))
            if one.n_rows == 60:
                assert_close(other.transposed_times(belongs), one.transposed_times(belongs))
                assert_close(one.transposed_times(belongs), one.dense().T @ belongs.toarray())
        assert_close(dense.products(), dense.dense() @ dense.dense().T)
    assert_close(sparse.products(), dense.products(), "sums")


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_items_without_features_do_not_count(kind, container):
    numbers = mixed()
    with_gaps = np.insert(numbers, [0, 30], NAN, axis=0)
    one, other = (fit_scaling(read_features(container(given)), kind, 128, 0) for given in (numbers, with_gaps))
    assert_close(other.rows(numbers).products(), one.rows(numbers).products(), "sums")


def test_the_scaling_of_the_fit_is_what_new_items_get():
    scaling, rows = scaled(mixed(), "standardise")
    assert_close(scaling.rows(mixed()[7:9]).dense(), rows.dense()[7:9])
    assert_close(scaling.rows(sp.csr_array(mixed()[7:9])).dense(), rows.dense()[7:9])


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_principal_axes_are_those_of_the_second_moments(container, monkeypatch):
    generator = np.random.default_rng(2)
    numbers = generator.standard_normal((200, 30)) * np.geomspace(1, 0.01, 30)
    found = read_features(container(numbers))
    expected = np.linalg.eigvalsh(numbers.T @ numbers / 200)[::-1]
    for widest in (1024, 1):  # 1: by Lanczos, where the space is the whole one
        monkeypatch.setattr(module, "WIDEST_MOMENT", widest)
        values, axes = principal_axes(found, Scaling("none", 30), 1.0, 5, 0)
        assert_close(values, expected[:5])
        assert_close(axes.T @ axes, np.eye(5))
        assert_close(axes.T @ (numbers.T @ numbers / 200) @ axes, np.diag(expected[:5]), "sums")


def test_many_columns_are_reduced_by_lanczos_nearly_as_well_as_can_be():
    generator = np.random.default_rng(3)
    signal = generator.standard_normal((100, 4)) @ (3 * generator.standard_normal((4, 1100)))
    numbers = generator.standard_normal((100, 1100)) + signal
    values, axes = principal_axes(read_features(numbers), Scaling("none", 1100), 1.0, 4, 0)
    assert_close(values, np.linalg.svd(numbers, compute_uv=False)[:4] ** 2 / 100, "sums")
    assert axes.shape == (1100, 4)


@pytest.mark.parametrize("kind", ["standardise", "normalise", "whiten", "none"])
def test_sparse_features_are_never_made_dense(kind):
    matrix = sp.random_array((4_000, 5_000), density=0.001, format="csr", rng=np.random.default_rng(4))
    found = read_features(matrix)
    tracemalloc.start()
    scaling = fit_scaling(found, kind, 4, 0)
    for _, block in found.blocks(4):
        scaling.rows(block).times(np.ones((scaling.n_outputs, 4)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000 * 5_000 * 8 / 10
