"""Some votes, and whether two tables hold the same ones, however they store them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable


VOTES = [[0, 1, -1], [2, -1, 2], [-1, -1, -1], [1, 1, 0]]
NAMED = ["ham", "spam", "eggs"]
WORDS = [["ham", "spam", None], ["eggs", None, "eggs"], [None, None, None], ["spam", "spam", "ham"]]


def cube(table: VoteTable) -> NDArray[np.floating]:
    """Weights of the votes, [items, sources, labels], without silence."""
    return table.plain_incidence.toarray().reshape(table.n_items, table.n_sources, table.n_spoken)


def codes(table: VoteTable) -> list[list[int]]:
    """Label numbers of hard votes, −1 = abstain."""
    weights = cube(table)
    assert set(np.unique(weights).tolist()) <= {0.0, 1.0}
    return np.where(weights.any(axis=2), weights.argmax(axis=2), -1).tolist()


def named(table: VoteTable) -> list[list[Any]]:
    """Labels of hard votes by name, None = abstain."""
    return [[None if code < 0 else table.labels[code] for code in row] for row in codes(table)]


def assert_same(actual: VoteTable, expected: VoteTable) -> None:
    """The same votes under the same names."""
    assert actual.sources == expected.sources
    assert actual.labels == expected.labels
    assert actual.classes.tolist() == expected.classes.tolist()
    assert actual.silence == expected.silence
    np.testing.assert_array_equal(actual.meaning, expected.meaning)
    np.testing.assert_array_equal(cube(actual), cube(expected))
