"""Where the responsibilities start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from labelfable.models.class_prior import vote_shares
from labelfable.models.confusion import clamp
from labelfable.models.fable.clusters import Clusters
from labelfable.numerics.scaling import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable


def subtype_starts(
    rows: VoteTable,
    gold: NDArray[np.integer] | None,
    phi: NDArray[np.floating],
    asked: tuple[int, int, int],
) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Numbers of subtypes and responsibilities to start from, given (n_subtypes, n_init, seed).

    The first start has one subtype, so that more of them are kept only where they raise the bound.  The others split
    each class by where its items lie among the features (k-means), and by which sources vote on them.
    """
    n_subtypes, n_init, seed = asked
    shares = clamp(vote_shares(rows), gold)
    yield 1, shares
    if n_subtypes == 1:
        return
    for attempt in range(n_init):
        seen = phi if attempt % 2 == 0 else _vote_profile(rows)
        yield n_subtypes, _split(shares, seen, n_subtypes, seed + attempt)


def _vote_profile(rows: VoteTable) -> NDArray[np.floating]:
    """Votes as columns of numbers, turned to their main directions."""
    from sklearn.utils.extmath import randomized_svd

    left, sizes, _ = randomized_svd(rows.plain_incidence, min(16, *rows.plain_incidence.shape), random_state=0)
    return np.asarray(left * sizes)


def _split(
    shares: NDArray[np.floating], seen: NDArray[np.floating], n_subtypes: int, seed: int
) -> NDArray[np.floating]:
    """Each class's share over subtypes: most of it to the cluster that the item is in.  [n, K] -> [n, C]."""
    n_items, n_classes = shares.shape
    split = np.full((n_items, n_classes, n_subtypes), 0.1 / n_subtypes)
    likely = shares.argmax(axis=1)
    for k in range(n_classes):
        own = likely == k
        if own.sum() < n_subtypes:
            split[:, k] = 1 / n_subtypes
            continue
        split[np.arange(n_items), k, _nearest_centre(seen, own, n_subtypes, seed)] += 0.9
    return np.asarray((shares[:, :, None] * split / split.sum(axis=2, keepdims=True)).reshape(n_items, -1))


def _nearest_centre(
    seen: NDArray[np.floating], own: NDArray[np.bool_], n_centres: int, seed: int
) -> NDArray[np.integer]:
    """Number of the centre that each item is nearest to; the centres are those of a class's own items.  [n].

    One core is enough for so few centres, and the answer does not depend on how many there are.
    """
    rows = Rows(seen)
    inside = rows.part(np.flatnonzero(own))
    clusters = Clusters(inside, np.ones(inside.n_rows), inside.squares())
    centres = clusters.improve(clusters.seed(n_centres, np.random.default_rng(seed)))
    return Clusters(rows, np.ones(rows.n_rows), rows.squares()).nearest(centres)
