"""Kernels, weighted Grams, quadratic forms and Nyström columns, number by number from their equations."""

from __future__ import annotations

import math

import numpy as np


def kernel_value(name, x, y, variance, lengthscale):
    """k(x, y) of two points; `lengthscale` is a number or one for each dimension."""
    scales = [float(lengthscale)] * len(x) if np.ndim(lengthscale) == 0 else [float(s) for s in lengthscale]
    a = [float(p) / s for p, s in zip(x, scales, strict=True)]
    b = [float(q) / s for q, s in zip(y, scales, strict=True)]
    dot = math.fsum(p * q for p, q in zip(a, b, strict=True))
    if name == "linear":
        return variance * dot
    if name == "cosine":
        lengths = math.sqrt(math.fsum(p * p for p in a)) * math.sqrt(math.fsum(q * q for q in b))
        return variance * dot / lengths if lengths > 0 else 0.0
    # the difference first: no cancellation, whatever the size of x and y
    r = math.sqrt(math.fsum(((float(p) - float(q)) / s) ** 2 for p, q, s in zip(x, y, scales, strict=True)))
    if name == "rbf":
        return variance * math.exp(-r * r / 2)
    if name == "matern12":
        return variance * math.exp(-r)
    if name == "matern32":
        return variance * (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)
    assert name == "matern52"
    return variance * (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)


def kernel_matrix(name, left, right, variance=1.0, lengthscale=1.0):
    return np.array([[kernel_value(name, x, y, variance, lengthscale) for y in right] for x in left]).reshape(
        len(left), len(right)
    )


def weighted_gram(phi, weights):
    """Σ_i θ_ic φ_i φ_i'"""
    total = np.zeros((weights.shape[1], phi.shape[1], phi.shape[1]))
    for i in range(len(phi)):
        row = phi[i].astype(np.float64)
        for c in range(weights.shape[1]):
            total[c] += float(weights[i, c]) * np.outer(row, row)
    return total


def quadratic_forms(phi, covariances):
    """φ_i' S_c φ_i"""
    found = np.zeros((len(phi), len(covariances)))
    for i in range(len(phi)):
        row = phi[i].astype(np.float64)
        for c in range(len(covariances)):
            found[i, c] = row @ covariances[c].astype(np.float64) @ row
    return found


def nystrom(name, items, points, jitter, **parameters):
    """k(X, Z) ( k(Z, Z) + jitter I )⁻¹ k(Z, X), the part of k(X, X) that inducing points see."""
    across = kernel_matrix(name, items, points, **parameters)
    among = kernel_matrix(name, points, points, **parameters) + jitter * np.eye(len(points))
    return across @ np.linalg.solve(among, across.T)


def pivoted_cholesky(matrix, n_columns):
    """Pivots and factor by the textbook: the residual matrix is kept whole."""
    left = matrix.astype(np.float64).copy()
    pivots, columns = [], []
    for _ in range(n_columns):
        pivot = int(np.argmax(np.diag(left)))
        column = left[:, pivot] / math.sqrt(left[pivot, pivot])
        left = left - np.outer(column, column)
        pivots.append(pivot)
        columns.append(column)
    return pivots, np.array(columns).T


def slopes(function, parameters, step):
    """Central differences of a function of a vector, with an error of the fourth power of the step."""
    found = []
    for k in range(len(parameters)):
        move = np.zeros(len(parameters))
        move[k] = step
        near = function(parameters + move) - function(parameters - move)
        far = function(parameters + 2 * move) - function(parameters - 2 * move)
        found.append((8 * near - far) / (12 * step))
    return np.array(found)
