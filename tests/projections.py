"""Features and projections that the tests of projections share."""

from __future__ import annotations

import numpy as np

from labelfable.models.fable.projection import build_projection
from labelfable.numerics.kernels import KERNELS
from tests.oracles import kernels as oracle

NAN = np.nan
NAMES = list(KERNELS)
CURVED = [name for name in NAMES if name != "linear"]
METHODS = ["inducing-kmeans", "inducing-pivoted", "exact", "lanczos"]
EIGHT = {"variance": 3.0, "n_inducing": 8}


def items(seed=0, n=40, d=4, dtype="float64"):
    generator = np.random.default_rng(seed)
    return (generator.standard_normal((n, d)) * np.linspace(0.5, 3, d) + 1.0).astype(dtype)


def build(features, kernel, method="inducing-kmeans", **settings):
    method, _, how = method.partition("-")
    return build_projection(features, kernel=kernel, method=method, inducing=how or "kmeans", **settings)


def kernel_of(projection, features, kernel):
    """k(X, X) by the formula, on the scaled features."""
    rows = projection.scaling.rows(features).dense()
    return oracle.kernel_matrix(kernel, rows, rows, projection.kernel.variance, projection.kernel.lengthscale)
