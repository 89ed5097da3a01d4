"""Sources that say what another has said already: heard once.

A source that is copied ten times looks like ten witnesses, in the fit as in majority vote.  Sources that err for
themselves never agree that closely unless they are nearly always right, and then little is lost with one of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

SAME = 0.98  # of the votes that either of two sources gives, both give: then they are one
FEWEST_VOTES = 20  # fewer may agree by chance
FEWEST_VOICES = 3  # that must remain: with fewer nobody can tell who is right, and agreement is all there is


def copied_sources(table: VoteTable) -> NDArray[np.bool_]:
    """Which sources repeat one before them.  [sources].

        shared votes ≥ SAME · votes of either

    None where fewer than FEWEST_VOICES would be left: sources that all agree may be copies, or may all be right.
    Only pairs whose counts of every label are as close as that are compared vote by vote.
    """
    given = table.label_counts()[:, : table.n_spoken]
    number = given.sum(axis=1)
    copied = np.zeros(table.n_sources, dtype=bool)
    columns = _by_source(table)
    for later in range(1, table.n_sources):
        shared = np.minimum(given[:later], given[later]).sum(axis=1)  # at most so many can be the same
        likely = (shared >= SAME * (number[:later] + number[later] - shared)) & ~copied[:later]
        if number[later] >= FEWEST_VOTES:
            copied[later] = any(
                _are_one(columns, first, later, table.n_spoken) for first in np.flatnonzero(likely).tolist()
            )
    voices = np.count_nonzero((number > 0) & ~copied)
    return copied if voices >= FEWEST_VOICES else np.zeros_like(copied)


def without_votes_of(table: VoteTable, silenced: NDArray[np.bool_]) -> VoteTable:
    """The same table where some sources do not vote."""
    if not silenced.any():
        return table
    if table.is_dense:
        return replace(table, votes=np.where(silenced, np.array(-1, dtype=table.votes.dtype), np.asarray(table.votes)))
    kept = sp.diags_array(np.repeat(~silenced, table.n_spoken).astype(np.float64))
    votes = sp.csr_array(table.votes @ kept)
    votes.eliminate_zeros()
    return replace(table, votes=votes)


def _by_source(table: VoteTable) -> sp.csc_array:
    """Ψ by columns, [items, sources·labels]."""
    return sp.csc_array(table.plain_incidence)


def _are_one(columns: sp.csc_array, first: int, later: int, n_labels: int) -> bool:
    """Whether two sources give the same votes."""
    one, other = (columns[:, source * n_labels : (source + 1) * n_labels] for source in (first, later))
    shared = float(one.minimum(other).sum())
    return shared >= SAME * (float(one.sum()) + float(other.sum()) - shared)
