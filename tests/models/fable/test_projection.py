"""Columns of the Gaussian process against the kernel they stand for, by every method."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from labelfable.errors import ModelError
from labelfable.models.fable import inducing as inducing_module
from labelfable.models.fable import projection as projection_module
from labelfable.models.fable.inducing import EXACT_ITEMS, LANCZOS_ITEMS
from labelfable.models.fable.projection import STORED_TYPES, Projection, build_projection
from labelfable.models.state import Reader, Writer
from tests.oracles import kernels as oracle
from tests.projections import CURVED, EIGHT, METHODS, NAMES, NAN, build, items, kernel_of
from tests.tolerances import TOLERANCE, assert_close

# --- the linear kernel -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_linear_columns_are_exact_in_their_weights_whatever_the_method(method):
    features = items()
    found = build(features, "linear", method, variance=16.0).project(features)
    standard = (features - features.mean(axis=0)) / features.std(axis=0)
    assert_close(found.phi @ found.phi.T, 16 * standard @ standard.T / 4)
    assert_close(np.mean(np.sum(found.phi**2, axis=1)), 16.0)
    assert not found.residual.any()


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_principal_components_are_the_best_columns_there_are(container):
    features = items(d=12)
    whole = build_projection(features).project(features).phi
    values = np.linalg.eigvalsh(whole @ whole.T)[::-1]
    for most in (1, 4, 11):
        found = build_projection(container(features), max_components=most).project(container(features))
        assert found.phi.shape == (40, most)
        assert_close(np.linalg.norm(whole @ whole.T - found.phi @ found.phi.T), np.linalg.norm(values[most:]), "sums")


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_principal_components_of_few_dimensions_are_exact(container):
    features = items(d=3) @ np.random.default_rng(1).standard_normal((3, 50))
    whole = build_projection(features, max_components=50).project(features).phi
    found = build_projection(container(features), max_components=5).project(container(features)).phi
    assert found.shape == (40, 3)
    assert_close(found @ found.T, whole @ whole.T, "sums")


@pytest.mark.parametrize("lengthscale", [2.0, [1.0, 2.0, 3.0, 4.0], "ard", None])
def test_a_linear_kernel_divides_by_its_lengthscales(lengthscale):
    features = items()
    projection = build_projection(features, lengthscale=lengthscale, scaling="none")
    found = projection.project(features)
    assert_close(found.phi @ found.phi.T, kernel_of(projection, features, "linear"))


# --- inducing points, the exact process, Lanczos ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", CURVED)
def test_with_all_items_the_columns_are_the_kernel(kernel, method, dtype):
    features = items(dtype=dtype)
    projection = build(features, kernel, method, variance=3.0, n_inducing=100)  # more than there are items
    found = projection.project(features)
    assert found.phi.dtype == found.residual.dtype == dtype
    assert_close(found.phi @ found.phi.T, kernel_of(projection, features, kernel).astype(dtype), "jitter")
    assert_close(found.residual, np.zeros(40, dtype=dtype), "jitter")
    assert np.all(found.residual >= 0)


@pytest.mark.parametrize("method", ["inducing-kmeans", "inducing-pivoted"])
@pytest.mark.parametrize("kernel", CURVED)
def test_inducing_points_give_the_nystrom_kernel_of_any_items(kernel, method):
    features, new = items(), items(7, n=15)
    projection = build(features, kernel, method, lengthscale=1.5, **EIGHT)
    jitter = 3.0 * np.sqrt(np.finfo(np.float64).eps)
    for given in (features, new):
        rows = projection.scaling.rows(given).dense()
        found = projection.project(given)
        expected = oracle.nystrom(kernel, rows, projection.points, jitter, variance=3.0, lengthscale=1.5)
        assert_close(found.phi @ found.phi.T, expected, "jitter")
        assert_close(found.residual, np.diag(kernel_of(projection, given, kernel) - expected), "jitter")


@pytest.mark.parametrize("method", ["inducing-kmeans", "inducing-pivoted", "lanczos"])
@pytest.mark.parametrize("kernel", CURVED)
def test_more_columns_leave_less_out_and_never_less_than_nothing(kernel, method):
    features = items(n=60)
    left = []
    for n_inducing in (1, 2, 4, 8, 16, 32, 60):
        found = build(features, kernel, method, n_inducing=n_inducing).project(features)
        assert found.phi.shape[1] <= n_inducing
        assert np.all(found.residual >= 0)
        left.append(found.residual.sum())
    assert np.all(np.diff(left) <= TOLERANCE["float64"].jitter)
    assert left[2] < left[0]


@pytest.mark.parametrize("kernel", CURVED)
def test_lanczos_is_near_the_best_there_is_and_better_than_points(kernel):
    features = items(n=80, d=6)
    projection = build(features, kernel, "lanczos", n_inducing=12)
    left = projection.project(features).residual.sum()
    values = np.linalg.eigvalsh(kernel_of(projection, features, kernel))[::-1]
    best = values[12:].sum()
    assert best - TOLERANCE["float64"].sums <= left
    for method in ("inducing-kmeans", "inducing-pivoted"):
        points = build(features, kernel, method, n_inducing=12).project(features).residual.sum()
        assert left <= points + TOLERANCE["float64"].jitter
        assert left - best <= (points - best) / 4 + TOLERANCE["float64"].jitter


def test_lanczos_without_a_stored_kernel_is_the_same(monkeypatch):
    features = items(n=80)
    stored = build(features, "rbf", "lanczos", n_inducing=10).project(features)
    monkeypatch.setattr(inducing_module, "STORED_ITEMS", 1)
    monkeypatch.setattr(inducing_module, "BLOCK_ENTRIES", 80)
    blocked = build(features, "rbf", "lanczos", n_inducing=10).project(features)
    assert_close(blocked.phi @ blocked.phi.T, stored.phi @ stored.phi.T, "sums")


SLIPS = {
    "L⁻¹ in place of L⁻ᵀ": ("whitened", lambda right: lambda *given: np.ascontiguousarray(right(*given).T)),
    "L⁻ᵀ of another variance": ("whitened", lambda right: lambda *given: right(*given) * np.sqrt(2)),
    "points before their lengthscale": ("Anchors", lambda right: lambda kernel, points: right(kernel, points * 1.1)),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_planted_slip_is_caught(slip, monkeypatch):
    name, wrong = SLIPS[slip]
    test_inducing_points_give_the_nystrom_kernel_of_any_items("rbf", "inducing-kmeans")
    monkeypatch.setattr(projection_module, name, wrong(getattr(projection_module, name)))
    with pytest.raises(AssertionError):
        test_inducing_points_give_the_nystrom_kernel_of_any_items("rbf", "inducing-kmeans")


def test_exact_and_lanczos_refuse_more_items_than_they_can_take():
    for method, most in (("exact", EXACT_ITEMS), ("lanczos", LANCZOS_ITEMS)):
        with pytest.raises(ModelError, match=rf"at most {most:,} items, and {most + 1:,} .*method='inducing'"):
            build(np.arange(most + 1.0), "rbf", method)


def test_points_too_large_to_keep_are_refused():
    with pytest.raises(ModelError, match="too large to keep"):
        build(sp.csr_array((300, 10**6)), "rbf", n_inducing=300, scaling="none")


# --- the choice of points --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "cosine"])
@pytest.mark.parametrize("method", METHODS)
def test_copies_of_an_item_are_one_point(kernel, method):
    features = np.repeat(items(n=5), 6, axis=0)
    projection = build(features, kernel, method, n_inducing=20)
    assert len(projection.points) <= 5
    found = projection.project(features)
    assert_close(found.phi @ found.phi.T, kernel_of(projection, features, kernel), "jitter")


@pytest.mark.parametrize("kernel", ["rbf", "cosine"])
def test_k_means_never_has_more_centres_than_different_items(kernel, monkeypatch):
    monkeypatch.setattr(inducing_module, "_distinct", lambda features: features)  # k-means must see to it by itself
    features = np.repeat(items(n=5), 6, axis=0)
    points = build(features, kernel, n_inducing=20).points
    assert len(points) == 5
    assert len(np.unique(points.round(6), axis=0)) == 5


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("method", ["inducing-kmeans", "inducing-pivoted"])
def test_planted_groups_each_get_a_point(method, container):
    generator = np.random.default_rng(2)
    centres = 10 * generator.standard_normal((7, 5))
    features = np.repeat(centres, 30, axis=0) + 0.1 * generator.standard_normal((210, 5))
    points = build(container(features), "rbf", method, n_inducing=7, scaling="none", lengthscale=1.0).points
    nearest = np.linalg.norm(points[:, None] - centres, axis=2).argmin(axis=1)
    assert sorted(nearest) == list(range(7))


def test_the_seed_alone_decides_the_points():
    features = items(n=200)
    one, same, other = (build(features, "rbf", n_inducing=10, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.points, same.points)
    assert not np.array_equal(one.points, other.points)


def test_points_come_from_a_sample_where_items_are_many(monkeypatch):
    monkeypatch.setattr(inducing_module, "SAMPLE_ITEMS", 50)
    monkeypatch.setattr(inducing_module, "SAMPLE_A_POINT", 2)
    features = items(n=400)
    for method in ("inducing-kmeans", "inducing-pivoted"):
        projection = build(features, "rbf", method, n_inducing=10)
        assert projection.points.shape == (10, 4)
        assert projection.project(features).residual.mean() < projection.kernel.variance / 2


def test_the_median_distance_is_the_first_lengthscale():
    features = items(n=50)
    projection = build(features, "rbf", n_inducing=5)
    rows = projection.scaling.rows(features).dense()
    distances = [np.linalg.norm(rows[i] - rows[j]) for i in range(50) for j in range(i)]
    assert_close(projection.kernel.lengthscale, np.median(distances))
    many = build(sp.csr_array(features), "rbf", n_inducing=5, lengthscale="ard", scaling="none").kernel.lengthscale
    distances = [np.linalg.norm((features[i] - features[j]) / many) for i in range(50) for j in range(i)]
    assert_close(np.median(distances), 1.0)
    assert_close(many / features.std(axis=0), np.full(4, many[0] / features[:, 0].std()))


# --- settings, storing, cost -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"kernel": "poly"}, "kernel='poly' is unknown.*linear, rbf"),
        ({"method": "nystrom"}, "method='nystrom' is unknown"),
        ({"inducing": "random"}, "inducing='random' is unknown"),
        ({"scaling": "minmax"}, "scaling='minmax' is unknown"),
        ({"missing": "drop"}, "missing='drop' is unknown"),
        ({"variance": 0.0}, "variance=0.0 is not a positive"),
        ({"variance": NAN}, "variance=nan"),
        ({"constant": -1.0}, "constant=-1.0"),
        ({"n_inducing": 0}, "n_inducing=0"),
        ({"n_inducing": 2.5}, "n_inducing=2.5"),
        ({"max_components": 0}, "max_components=0"),
        ({"lengthscale": 0.0}, "lengthscale=0.0 is no positive"),
        ({"lengthscale": "long"}, "lengthscale='long'"),
        ({"lengthscale": [1.0, 2.0]}, "2 lengthscales for 4 scaled features"),
        ({"lengthscale": [1.0, -1.0, 1.0, 1.0]}, "no positive number"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, says):
    with pytest.raises(ModelError, match=says):
        build_projection(items(), **settings)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "matern32", "cosine"])
def test_other_hyperparameters_on_the_same_points_are_those_of_a_new_projection(kernel, method):
    features = items()
    old = build(features, kernel, method, **EIGHT)
    moved = old.with_parameters(variance=5.0, lengthscale=np.array([1.0, 2.0, 0.5, 1.5]), constant=1.0)
    assert moved.points is old.points
    assert moved.constant == 1.0
    found = moved.project(features)
    own = np.sum(found.phi[:, :-1] ** 2, axis=1) + found.residual
    assert_close(own, moved.kernel.diagonal(moved.scaling.rows(features).dense()), "sums")
    back = moved.with_parameters(variance=3.0, lengthscale=old.kernel.lengthscale, constant=0.0)
    np.testing.assert_array_equal(back.project(features).phi, old.project(features).phi)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", NAMES)
def test_a_projection_is_stored_as_arrays_and_json(kernel, method):
    frame = pd.DataFrame(items(), columns=list("abcd"))
    projection = build(frame, kernel, method, lengthscale="ard", scaling="whiten", constant=1.0, **EIGHT)
    types = {kind.__name__: kind for kind in STORED_TYPES}
    writer = Writer(types)
    written = json.loads(json.dumps(writer.encode(projection, "projection")))
    loaded = Reader(writer.arrays, types).decode(written)
    assert isinstance(loaded, Projection)
    for given in (frame, frame[list("dcba")]):
        np.testing.assert_array_equal(loaded.project(given).phi, projection.project(given).phi)
        np.testing.assert_array_equal(loaded.project(given).residual, projection.project(given).residual)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_memory_beyond_the_columns_does_not_grow_with_the_items(kernel):
    beyond = []
    for n_items in (30_000, 30_000, 60_000):  # the first for what is imported on the way
        features = np.random.default_rng(4).standard_normal((n_items, 100), dtype=np.float32)
        tracemalloc.start()
        found = build(features, kernel, **EIGHT).project(features)
        beyond.append(tracemalloc.get_traced_memory()[1] - found.phi.nbytes)
        tracemalloc.stop()
    assert beyond[2] - beyond[1] < features.nbytes / 20
