"""Tables that are known, the moments and votes that follow from them, and tables fitted to those moments."""

from __future__ import annotations

import numpy as np

from labelfable.models.metal.estimator import MomentFit
from labelfable.models.metal.inverse import InverseFit
from labelfable.models.moments import Moments
from tests.oracles import metal as oracle


def planted_tables(n_sources: int, prior: list[float], *, coverage: tuple[float, float] = (0.4, 0.9), seed: int = 0):
    """μ [sources, labels, classes] of sources that are right more often than not, and p."""
    draws = np.random.default_rng(seed)
    n_classes = len(prior)
    tables = np.zeros((n_sources, n_classes, n_classes))
    for j in range(n_sources):
        wrong = draws.dirichlet(np.full(n_classes, 2.0), size=n_classes).T
        tables[j] = (0.45 * np.eye(n_classes) + 0.55 * wrong) * draws.uniform(*coverage, size=n_classes)
    return tables, np.array(prior)


def sampled(tables, prior, n_items: int, *, seed: int = 0):
    """Votes drawn from tables, and the classes."""
    draws = np.random.default_rng(seed)
    truth = draws.choice(len(prior), size=n_items, p=prior)
    votes = np.full((n_items, len(tables)), -1)
    for j, table in enumerate(tables):
        levels = np.cumsum(table, axis=0)[:, truth]
        said = (draws.random(n_items) >= levels).sum(axis=0)
        votes[:, j] = np.where(said < len(table), said, -1)
    return votes, truth


def exact_moments(tables, prior) -> Moments:
    size = tables.shape[0] * tables.shape[1]
    products = oracle.expected_moments(tables, prior).reshape(size, size)
    return Moments(products, 1e12, tables.shape[0], tables.shape[1])


def rough_start(tables, prior):
    """X of tables half way to saying nothing: on the right side, and far from the truth."""
    said_of_nothing = (tables @ prior)[:, :, None]
    return ((tables + said_of_nothing) / 2).reshape(-1, len(prior)) * np.sqrt(prior)


def tables_of(point, shape, prior):
    return (point / np.sqrt(prior)).reshape(shape)


def fit_exactly(tables, prior, components=None, *, moments=None, anchor=0.0, kind="moments"):
    """Tables fitted to exact moments, and how the descent went."""
    moments = exact_moments(tables, prior) if moments is None else moments
    components = np.arange(len(tables)) if components is None else np.asarray(components)
    limits = {"tol": 1e-9, "max_iter": 20_000}
    if kind == "moments":
        fitter = MomentFit(moments, moments.between(components), components, None, **limits)
    else:
        fitter = InverseFit(moments, components, **limits)
    found = fitter.run(rough_start(tables, prior), prior, anchor)
    return tables_of(found.point, tables.shape, prior), found


def repeated_source(tables, prior):
    """Tables and exact moments where source 1 repeats source 0."""
    tables = tables.copy()
    tables[1] = tables[0]
    moments = exact_moments(tables, prior)
    n_labels = tables.shape[1]
    first, second = slice(0, n_labels), slice(n_labels, 2 * n_labels)
    moments.products[first, second] = moments.products[second, first] = moments.products[first, first]
    return tables, moments
