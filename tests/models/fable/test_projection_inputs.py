"""Projections of features of all kinds: sparse, float32, strange, missing, and those of new items."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from labelfable.errors import InputError
from tests.projections import EIGHT, METHODS, NAMES, NAN, build, items
from tests.tolerances import assert_close


@pytest.mark.parametrize("scaling", ["standardise", "normalise", "whiten", "none"])
@pytest.mark.parametrize("kernel", NAMES)
def test_sparse_and_dense_features_give_the_same_kernel(kernel, scaling):
    features = items(n=50) * (np.random.default_rng(3).random((50, 4)) < 0.5)
    dense = build(features, kernel, n_inducing=12, scaling=scaling)
    sparse = build(sp.csr_array(features), kernel, n_inducing=12, scaling=scaling)
    found = [p.project(given).phi for p in (dense, sparse) for given in (features, sp.csr_array(features))]
    for other in found[1:]:
        assert_close(other @ other.T, found[0] @ found[0].T, "jitter")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", NAMES)
def test_float32_features_give_nearly_the_float64_kernel(kernel, method):
    features = items().astype(np.float16)
    projection = build(features, kernel, method, constant=1.0, **EIGHT)
    found, twice = projection.project(features), projection.project(features.astype(np.float64))
    assert found.phi.dtype == found.residual.dtype == np.float32
    assert twice.phi.dtype == np.float64
    assert_close(found.phi, twice.phi.astype(np.float32))
    assert_close(found.residual, twice.residual.astype(np.float32))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", NAMES)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: np.hstack((x, np.full((40, 1), 5.0))),
        lambda x: np.hstack((x, x)),
        lambda x: x * 1e6,
        lambda x: x * 1e-6,
        lambda x: x + 1e6,
        lambda x: np.hstack((x * 1e6, x * 1e-6)),
        lambda x: np.full_like(x, 3.0),
        np.zeros_like,
        lambda x: x[:1],
        lambda x: x[:2],
        lambda x: np.round(x).astype(int),
    ],
    ids=["constant", "copied", "1e6", "1e-6", "offset", "mixed", "all constant", "zero", "one", "two", "integers"],
)
def test_strange_features_still_make_a_kernel(spoil, kernel, method):
    features = spoil(items())
    for dtype in (features.dtype, np.float32):
        projection = build(features.astype(dtype), kernel, method, constant=1.0, **EIGHT)
        found = projection.project(features.astype(dtype))
        assert np.all(np.isfinite(found.phi))
        assert np.all(found.residual >= 0)
        assert found.phi.shape == (len(features), projection.n_columns)
        own = np.sum(found.phi[:, :-1] ** 2, axis=1) + found.residual
        whole = projection.kernel.diagonal(projection.scaling.rows(features.astype(dtype)).dense())
        assert_close(own, whole.astype(own.dtype), "sums")


def test_no_columns_leave_the_constant():
    for kernel in NAMES:
        found = build(np.zeros((3, 0)), kernel, constant=4.0).project(np.zeros((3, 0)))
        assert found.phi.tolist() == [[2.0]] * 3
        assert found.residual.tolist() == [0.0] * 3


def test_no_items_are_projected_to_no_rows():
    for kernel in NAMES:
        assert build(items(), kernel, **EIGHT).project(np.zeros((0, 4))).phi.shape[0] == 0


def test_the_constant_is_a_last_column_of_its_own():
    features = items()
    without, with_it = build(features, "rbf", **EIGHT), build(features, "rbf", constant=4.0, **EIGHT)
    assert with_it.n_columns == without.n_columns + 1
    found = with_it.project(features)
    np.testing.assert_array_equal(found.phi[:, -1], np.full(40, 2.0))
    np.testing.assert_array_equal(found.phi[:, :-1], without.project(features).phi)
    np.testing.assert_array_equal(found.residual, without.project(features).residual)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kernel", NAMES)
def test_items_without_features_are_left_to_the_constant(kernel, container):
    features = items()
    with_gaps = features.copy()
    with_gaps[5] = NAN
    with_gaps[30, 2] = NAN
    known = np.delete(np.arange(40), [5, 30])
    projection = build(container(with_gaps), kernel, constant=4.0, missing="ignore", **EIGHT)
    found = projection.project(container(with_gaps))
    assert not found.phi[[5, 30], :-1].any()
    assert np.all(found.phi[:, -1] == 2.0)
    assert found.residual[[5, 30]].tolist() == [0.0 if kernel == "linear" else 3.0] * 2
    alone = build(container(features[known]), kernel, constant=4.0, **EIGHT).project(container(features[known]))
    assert_close(found.phi[known] @ found.phi[known].T, alone.phi @ alone.phi.T, "jitter")
    absent = projection.project_missing(2)
    np.testing.assert_array_equal(absent.phi, found.phi[[5, 30]])
    np.testing.assert_array_equal(absent.residual, found.residual[[5, 30]])


def test_missing_features_are_an_error_that_names_the_item():
    features = items()
    projection = build(features, "rbf", **EIGHT)
    features[[5, 9]] = NAN
    for refuse in (projection.project, lambda given: build(given, "rbf")):
        with pytest.raises(InputError, match=r"2 of 40 items .*first is item 5"):
            refuse(features)
    with pytest.raises(InputError, match="no item has features"):
        build(np.full((3, 2), NAN), "rbf", missing="ignore")


def test_new_items_must_look_like_those_of_the_fit():
    projection = build(items(), "rbf", **EIGHT)
    with pytest.raises(InputError, match="have 3 columns, the fit saw 4"):
        projection.project(items()[:, :3])
    with pytest.raises(InputError, match="infinite"):
        projection.project(np.array([[1.0, 2.0, 3.0, np.inf]]))
    with pytest.raises(InputError, match="40 rows of features for 41 items"):
        projection.project(items(), 41)
    frame = pd.DataFrame(items(), columns=list("abcd"))
    named = build(frame, "rbf", **EIGHT)
    assert_close(named.project(frame[list("dbca")]).phi, projection.project(items()).phi, "sums")


@pytest.mark.parametrize("kernel", ["linear", "rbf", "cosine"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_an_items_columns_do_not_depend_on_the_other_items(kernel, container, monkeypatch):
    features = items()
    projection = build(container(features), kernel, **EIGHT)
    whole, some = projection.project(container(features)), projection.project(container(features[[7, 3, 39]]))
    assert_close(some.phi, whole.phi[[7, 3, 39]], "sums")
    assert_close(some.residual, whole.residual[[7, 3, 39]], "sums")
    monkeypatch.setattr("labelfable.votes.features.BLOCK_ENTRIES", 1)
    monkeypatch.setattr("labelfable.votes.features.FEWEST_ROWS", 3)
    assert_close(projection.project(container(features)).phi, whole.phi, "sums")
