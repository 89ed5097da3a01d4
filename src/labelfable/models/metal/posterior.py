"""What fitted tables say of an item: naive Bayes, with dependent sources counted as fewer votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.models.moments import Moments

LEAST_SHARE_OF_RATE = 0.02  # measured: 0.001 to 0.1 give the same labels, and small values too much confidence


def log_tables(
    tables: NDArray[np.floating], rates: NDArray[np.floating], weights: NDArray[np.floating], *, silence: bool
) -> NDArray[np.floating]:
    """What each vote says of each class, [sources, labels, classes]; with silence as a last label.   Equation (ME.9)

        log P(Y = k | votes) = log p_k + Σ_j w_j log μ_jk(vote of j) + const

    μ is the share of all items of the class, silence included, not of those on which the source votes: when a source
    speaks tells classes apart too.  Silence is what the votes leave of 1.  No table goes below a fiftieth of the vote's
    overall rate, so that no single vote rules a class out; a label that was never given says nothing.
    """
    least = LEAST_SHARE_OF_RATE * rates[:, :, None]
    seen = np.where(least > 0, np.maximum(tables, least), 1)
    if silence:
        rest = np.maximum(1 - rates.sum(axis=1), 0)[:, None, None]
        silent = np.maximum(1 - tables.sum(axis=1, keepdims=True), LEAST_SHARE_OF_RATE * rest)
        seen = np.concatenate((seen, np.where(rest > 0, silent, 1)), axis=1)
    return np.asarray(weights[:, None, None] * np.log(seen))


def effective_votes(
    moments: Moments, point: NDArray[np.floating], components: NDArray[np.integer]
) -> NDArray[np.floating]:
    """Weight of each source's votes among those that depend on it, 1 where none does.  [sources].      Equation (ME.10)

        w_j = 1 / ( 1 + Σ_b r_jb ),    r_jb = tr( O_jb − X_j X_b' ) / √( v_j v_b ),    v_j = tr( diag O_j − X_j X_j' )

    over the other sources b of its component, r limited to [0, 1]: the design effect of a cluster sample.  r is what
    the class leaves of the correlation of the two sources' votes.  A source that repeats another has r = 1, and both
    together count once.
    """
    blocks = point.reshape(moments.n_sources, -1, point.shape[1])
    spare = np.maximum(moments.rates.reshape(moments.n_sources, -1) - (blocks**2).sum(axis=2), 0).sum(axis=1)
    sizes = np.bincount(components)
    burden = np.ones(moments.n_sources)
    for component in np.flatnonzero(sizes > 1):
        members = np.flatnonzero(components == component)
        for place, first in enumerate(members):
            for second in members[place + 1 :]:
                shared = np.trace(moments.block(int(first), int(second))) - np.vdot(blocks[first], blocks[second])
                size = np.sqrt(spare[first] * spare[second])
                together = float(np.clip(shared / size, 0, 1)) if size > 0 else 0.0
                burden[[first, second]] += together
    return 1 / burden
