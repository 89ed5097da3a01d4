"""One class against the rest: second moments of ±1 votes, and what triplets of sources tell of each of the three.

For class k a vote is λ_j = +1 (class k), −1 (another class) or 0 (silence), and the truth is Y = ±1.  The moments of
all classes come from one matrix of vote products: no class passes over the items, let alone a triplet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.models.dependencies import PAIR, read_pairs
from labelfable.models.moments import vote_moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

SHARED_MEETINGS = 5.0  # meetings with others that a source borrows from all sources together
USUAL_AGREEMENT = 0.25  # above chance, as long as no two sources have met
LEAST_INFORMED = 0.2  # sources are better than chance


@dataclass(frozen=True)
class SignedVotes:
    """The ±1 votes of every class against the rest."""

    products: Any
    """Share of the items that get both of two votes, [sources·labels, sources·labels], dense or sparse."""
    signs: NDArray[np.floating]
    """What a label is to a class: 1 (names it), −1 (rules it out) or 0 (says neither), [labels, classes]."""
    plus: NDArray[np.floating]
    """P(λ_j = 1), [sources, classes]."""
    minus: NDArray[np.floating]
    """P(λ_j = −1), [sources, classes]."""
    n_items: float

    @classmethod
    def of(cls, rows: VoteTable, weights: NDArray[np.floating]) -> SignedVotes:
        """One pass over the rows, each of which stands for `weights` items."""
        moments = vote_moments(rows, weights)
        signs = label_signs(rows)
        rates = rows.counts(weights[:, None])[:, :, 0] / moments.n_items
        return cls(moments.products, signs, rates @ (signs > 0), rates @ (signs < 0), moments.n_items)

    @property
    def coverage(self) -> NDArray[np.floating]:
        """P(λ_j ≠ 0), [sources, classes]."""
        return self.plus + self.minus

    @property
    def mean(self) -> NDArray[np.floating]:
        """E[λ_j], [sources, classes]."""
        return self.plus - self.minus

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Classes of which triplets tell something: that somebody votes for, or, of two, against.  [classes]."""
        spoken = self.coverage if self.signs.shape[1] == PAIR else self.plus
        return np.asarray(spoken.sum(axis=0) > 0)

    @cached_property
    def usual(self) -> NDArray[np.floating]:
        """A label's sign for most classes: −1 if it names a class, 0 if it only rules one out.  [labels]."""
        return np.where(np.arange(len(self.signs)) < self.signs.shape[1], -1.0, 0.0)

    @cached_property
    def folded(self) -> Any:
        """The products, their columns summed over labels under the usual signs.  [sources·labels, sources]."""
        return self.products @ sp.kron(sp.eye_array(len(self.plus)), self.usual[:, None], format="csr")

    def fold_of(self, label: int) -> NDArray[np.floating]:
        """The folded products of one label's votes, [sources, sources]."""
        return _dense(self.folded[label :: len(self.signs)])

    def pairs(self, label: int, other: int) -> NDArray[np.floating]:
        """Share of the items where source i gives one label and source j the other, [sources, sources]."""
        step = len(self.signs)
        return _dense(self.products[label::step][:, other::step])

    @cached_property
    def meetings(self) -> NDArray[np.floating]:
        """Share of the items where two sources both name a class, [sources, sources]."""
        return np.asarray(sum(-self.fold_of(label) for label in range(self.signs.shape[1])))

    @cached_property
    def matches(self) -> NDArray[np.floating]:
        """Share of the items where two sources name the same class, [sources, sources]."""
        return np.asarray(sum(self.pairs(label, label) for label in range(self.signs.shape[1])))

    def products_for(self, k: int) -> NDArray[np.floating]:
        """E[λ_i λ_j] of one class, at the cost of the few labels whose sign s is not the usual u.  [sources, sources].

            s'Ps = u'Pu + Σ_l d_l ( (Pu)_l + (Pu)_l' ) + Σ_lm d_l d_m P_lm,      d = s − u

        P_lm and (Pu)_l are the rows of label l.
        """
        total = self.meetings.copy()
        differ = self.signs[:, k] - self.usual
        for label in map(int, np.flatnonzero(differ)):
            half = differ[label] * self.fold_of(label)
            total += half + half.T
            for other in map(int, np.flatnonzero(differ)):
                total += differ[label] * differ[other] * self.pairs(label, other)
        return total


def label_signs(rows: VoteTable) -> NDArray[np.floating]:
    """What each label is to each class: 1 names it, −1 rules it out, 0 says neither.  [labels, classes]."""
    return np.where(rows.meaning == 1, 1.0, np.where(rows.meaning == 0, -1.0, 0.0))


def combine_triplets(
    moments: NDArray[np.floating], usable: NDArray[np.bool_], combine: str, most: int, seed: int
) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """Median or mean over each source's triplets, and how many there are.                           Equation (FS.2)

        g_i = median over j < h of √| m_ij m_ih / m_jh |        all three pairs usable

    Shapes: [sources, sources] twice -> [sources] twice; NaN where there is none.  One source is in memory at a time,
    with no more than `most` triplets; a source that could have more gets so many draws.
    """
    roots, number = np.full(len(moments), np.nan), np.zeros(len(moments), dtype=np.int64)
    for i in range(len(moments)):
        partners = np.flatnonzero(usable[i])
        if len(partners) * (len(partners) - 1) <= PAIR * most:
            j, h = partners[np.array(np.triu_indices(len(partners), 1))]
        else:
            j, h = partners[np.random.default_rng([seed, i]).integers(len(partners), size=(PAIR, most))]
        valid = usable[j, h]
        j, h = j[valid], h[valid]
        number[i] = len(j)
        if len(j):
            values = np.sqrt(np.abs(moments[i, j] * moments[i, h] / moments[j, h]))
            roots[i] = np.median(values) if combine == "median" else values.mean()
    return roots, number


def informed_share(votes: SignedVotes, independent: NDArray[np.bool_]) -> NDArray[np.floating]:
    """Share t_j of a source's votes that know the truth, if those it meets know as much.  [sources]. Equation (FS.4)

        t_j² = ( P(agreement of j with another) − 1/K ) / ( 1 − 1/K )

    A source that has met few others borrows from the agreement of all.
    """
    n_classes = votes.signs.shape[1]
    met = votes.n_items * (votes.meetings * independent).sum(axis=1)
    matched = votes.n_items * (votes.matches * independent).sum(axis=1)
    above = (n_classes * matched - met) / max(n_classes - 1, 1)
    pooled = (above.sum() + SHARED_MEETINGS * USUAL_AGREEMENT) / (met.sum() + SHARED_MEETINGS)
    own = (above + SHARED_MEETINGS * pooled) / (met + SHARED_MEETINGS)
    return np.asarray(np.sqrt(np.clip(own, LEAST_INFORMED**2, 1)))


def independence(dependencies: Any, sources: Sequence[str]) -> NDArray[np.bool_]:
    """Which two sources may stand in one triplet, [sources, sources]."""
    may = ~np.eye(len(sources), dtype=bool)
    for first, second in read_pairs(dependencies, sources):
        may[first, second] = may[second, first] = False
    return may


def _dense(matrix: Any) -> NDArray[np.floating]:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, dtype=np.float64)
