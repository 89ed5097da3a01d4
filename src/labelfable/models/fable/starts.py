"""Where the responsibilities start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.models.class_prior import vote_shares
from labelfable.models.confusion import clamp
from labelfable.models.fable.clusters import Clusters
from labelfable.models.fable.scaling import Rows

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
    return _spread(shares, seen, _centres(shares, seen, n_subtypes, seed), n_subtypes)


def _centres(
    shares: NDArray[np.floating], seen: NDArray[np.floating], n_subtypes: int, seed: int
) -> tuple[NDArray[np.floating] | None, ...]:
    """Centres of each class's own items; None where it has too few.

    One core is enough for so few centres, and the answer does not depend on how many there are.
    """
    rows, likely, found = Rows(seen), shares.argmax(axis=1), []
    for k in range(shares.shape[1]):
        own = np.flatnonzero(likely == k)
        inside = rows.part(own)
        clusters = None if len(own) < n_subtypes else Clusters(inside, np.ones(inside.n_rows), inside.squares())
        seeds = None if clusters is None else clusters.seed(n_subtypes, np.random.default_rng(seed))
        found.append(None if clusters is None or seeds is None else clusters.improve(seeds))
    return tuple(found)


def _spread(
    shares: NDArray[np.floating],
    seen: NDArray[np.floating],
    centres: tuple[NDArray[np.floating] | None, ...],
    n_subtypes: int,
) -> NDArray[np.floating]:
    """Most of each class's share to the subtype whose centre is nearest.  [n, K] -> [n, C]."""
    n_items, n_classes = shares.shape
    split = np.full((n_items, n_classes, n_subtypes), 0.1 / n_subtypes)
    clusters = Clusters(Rows(seen), np.ones(n_items), Rows(seen).squares())
    for k, own in enumerate(centres):
        if own is None:
            split[:, k] = 1 / n_subtypes
        else:
            split[np.arange(n_items), k, clusters.nearest(own)] += 0.9
    return np.asarray((shares[:, :, None] * split / split.sum(axis=2, keepdims=True)).reshape(n_items, -1))


@dataclass(frozen=True, eq=False)
class SampledSplit:
    """How each class's share is split over subtypes, from centres that were found in a sample of the items."""

    n_subtypes: int
    centres: tuple[NDArray[np.floating] | None, ...]
    axes: NDArray[np.floating] | None
    """Main directions of the votes, [sources·labels, r]; None where items are told apart by their features."""

    def of(self, shares: NDArray[np.floating], phi: NDArray[np.floating], rows: VoteTable) -> NDArray[np.floating]:
        """Responsibilities of some items.  [n, K] -> [n, C]."""
        seen = phi if self.axes is None else rows.plain_incidence @ self.axes
        return _spread(shares, seen, self.centres, self.n_subtypes)


def sampled_splits(
    sample: tuple[NDArray[np.floating], NDArray[np.floating], Any], asked: tuple[int, int, int]
) -> list[SampledSplit]:
    """The starts of `subtype_starts` but the first, from a sample of items: their shares, φ and votes Ψ."""
    from sklearn.utils.extmath import randomized_svd

    (shares, phi, incidence), (n_subtypes, n_init, seed) = sample, asked
    splits = []
    for attempt in range(n_init):
        axes, seen = None, phi
        if attempt % 2:
            axes = randomized_svd(incidence, min(16, *incidence.shape), random_state=0)[2].T
            seen = np.asarray(incidence @ axes)
        splits.append(SampledSplit(n_subtypes, _centres(shares, seen, n_subtypes, seed + attempt), axes))
    return splits
