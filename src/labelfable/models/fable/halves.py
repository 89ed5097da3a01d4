"""Sources in two halves that are as alike as can be: each has sources of every label, and about as many votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from labelfable.votes.table import VoteTable


def two_halves(rows: VoteTable, split: int = 0) -> list[tuple[str, ...]]:
    """Names of the sources of each half; no halves where fewer than two sources would be cut apart.

    Sources that vote are put in the order of the label that they give most, labels with more votes first, and of how
    much they vote; then 2^split at a time go to the half that the parity of the place's binary digits says (0 1 1 0 1 0
    0 1 …), which keeps sums alike.  So `split` 0, 1, … cut differently.  Nothing is drawn, and neither the order of
    items nor that of sources or classes matters, except among sources with equal counts.
    """
    given = rows.label_counts()[:, : rows.n_spoken]
    votes, label = given.sum(axis=1), given.argmax(axis=1)
    order = np.lexsort((-given.max(axis=1), -votes, -given.sum(axis=0)[label]))
    order = order[votes[order] > 0]
    side = np.array([(place >> split).bit_count() % 2 for place in range(len(order))], dtype=bool)
    halves = [tuple(rows.sources[j] for j in np.sort(order[side == which])) for which in (False, True)]
    return halves if all(halves) else []
