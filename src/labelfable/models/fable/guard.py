"""Where the fit and unanimous votes part ways, unanimous votes are heard.

No gold is asked for: a class counts as lost where most of the items on which two or more votes all name it would get
another label.  A fit may be right in that, but it can no longer be checked, and it is how classes die.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labelfable.models.class_prior import vote_totals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

UNANIMOUS = 2  # votes that it takes
MOST_LOST = 0.5  # share of a class's unanimous items that may get another label
TINY = 1e-9


def unanimous_class(table: VoteTable) -> NDArray[np.integer]:
    """The class that two or more votes of an item all name, −1 where there is none.  [items]."""
    totals, given = vote_totals(table), table.votes_per_item
    agreed = (given > UNANIMOUS - TINY) & (totals.max(axis=1) > given - TINY)
    return np.where(agreed, totals.argmax(axis=1), -1)


def lost_classes(probabilities: NDArray[np.floating], table: VoteTable) -> NDArray[np.integer]:
    """Classes of which more than MOST_LOST of the unanimous items would get another label."""
    named = unanimous_class(table)
    items = np.flatnonzero(named >= 0)
    own = probabilities[items, named[items]]
    kept = own >= probabilities[items].max(axis=1) - TINY
    whole = np.bincount(named[items], minlength=table.n_classes)
    left = np.bincount(named[items][kept], minlength=table.n_classes)
    return np.flatnonzero(left < (1 - MOST_LOST) * whole)


def held_to_unanimous(
    probabilities: NDArray[np.floating], table: VoteTable, lost: NDArray[np.integer]
) -> NDArray[np.floating]:
    """The same, with the mean of fit and votes on the unanimous items of the lost classes.  [items, classes]."""
    named = unanimous_class(table)
    items = np.flatnonzero(np.isin(named, lost))
    held = probabilities.copy()
    held[items] /= 2
    held[items, named[items]] += 0.5
    return held
