"""Distance covariance from its definition: distances of all pairs, centred by loops."""

from __future__ import annotations

import math


def distances(rows):
    return [[math.dist(one, other) for other in rows] for one in rows]


def covariance(left, right):
    """Mean of the products of doubly centred distances."""
    n = len(left)
    a, b = (centred(distances(side)) for side in (left, right))
    return sum(a[i][j] * b[i][j] for i in range(n) for j in range(n)) / n**2


def centred(table):
    n = len(table)
    rows = [sum(row) / n for row in table]
    whole = sum(rows) / n
    return [[table[i][j] - rows[i] - rows[j] + whole for j in range(n)] for i in range(n)]


def correlation(left, right):
    scale = math.sqrt(covariance(left, left) * covariance(right, right))
    return math.sqrt(max(covariance(left, right), 0) / scale) if scale else 0.0


def unbiased_covariance(left, right):
    """Inner product of U-centred distances: the diagonal is zero, rows sum to zero."""
    n = len(left)
    a, b = (u_centred(distances(side)) for side in (left, right))
    return sum(a[i][j] * b[i][j] for i in range(n) for j in range(n)) / (n * (n - 3))


def u_centred(table):
    n = len(table)
    rows = [sum(row) / (n - 2) for row in table]
    whole = sum(sum(row) for row in table) / ((n - 1) * (n - 2))
    return [[0.0 if i == j else table[i][j] - rows[i] - rows[j] + whole for j in range(n)] for i in range(n)]
