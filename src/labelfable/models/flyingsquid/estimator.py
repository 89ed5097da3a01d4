"""FlyingSquid: accuracies in closed form from triplets of sources, one class against the rest.

D. Y. Fu, M. F. Chen, F. Sala, S. M. Hooper, K. Fatahalian, C. Ré: Fast and Three-rious: Speeding Up Weak Supervision
with Triplet Methods. ICML 2020.

For class k a vote is λ_j = +1 (class k), −1 (another class) or 0 (silence), the truth is Y = ±1 with π = P(Y = 1) and
b = E[Y] = 2π − 1.  Of sources that are independent given Y two tell the product of their contrasts, three tell each:

    E[λ_i λ_j] − E[λ_i] E[λ_j] = (1 − b²) Δ_i Δ_j                                                     Equation (FS.1)
    Δ_j = ( E[λ_j | Y = 1] − E[λ_j | Y = −1] ) / 2

Three things differ from the published code, whose form the settings `moments` and `tables` still give:

- It takes the raw E[λ_i λ_j] for E[λ_i Y] E[λ_j Y].  That is right where λ_j Y does not depend on Y: not for a source
  that knows one label only, as most labeling functions do, nor for a class against the rest, where two sources that
  both say "rest" agree for no good reason.  Covariances are right for all of them.
- A source without a triplet has E[λ_j Y] = 0 in what was published (in the last release NaN: one such source, and every
  probability is NaN).  On semeval that is all 164 sources, since no two partners of a source ever vote together.  At
  E[λ_j Y] = 0 a source that knows one label leaves the class that it names no more probable than the others: every item
  a tie, and the published 11.2 % are one class in nine.  Covariances exist for pairs that never meet as well; those
  within their own noise are left out; and a source that has no triplet even so is judged by its agreement with others.
- Its P(λ_j | Y) fits the shares of a source's votes to class proportions that are mostly just assumed to be even.  Then
  good sources on uneven classes pass for bad ones; symmetric tables do not ask for the shares.
"""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from labelfable.models.class_prior import LEAST_SHARE, fixed_prior
from labelfable.models.confusion import clamp
from labelfable.models.flyingsquid.triplets import (
    SignedVotes,
    combine_triplets,
    independence,
    informed_share,
    label_signs,
)
from labelfable.models.protocol import AT_LEAST_ONE, CLASS_PRIOR, NOT_NEGATIVE, BaseLabelModel
from labelfable.models.report import Course
from labelfable.numerics.random import seed_of
from labelfable.numerics.special import softmax
from labelfable.votes.encode import short_list

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

LEAST_CORRELATION = 1e-9  # less than this is rounding
TRIPLET_WORTH = 20.0  # known labels that weigh as much as an estimate from triplets
TRIPLET = 3


class FlyingSquid(BaseLabelModel):
    """Accuracies by the triplet method, in closed form.                                   Equations (FS.1) to (FS.8)

    Parameters
    ----------
    combine : "median" or "mean"
        What to take of a source's triplets.  The published code takes the mean, which one pair that hardly correlates
        can spoil.
    moments : "centred" or "published"
        Covariances of the votes or their raw products; the top of this module says why.
    tables : "symmetric" or "published"
        From E[λ_j Y] to P(λ_j | Y).  "symmetric": a source errs equally often on all classes; vote shares are used only
        of sources that know one label.  "published": from vote shares and class prior, the same silence for all
        classes.  Good where the class prior is known; where it is not, vote shares that do not fit it are taken for
        errors.
    class_prior : "uniform", "votes", "learned", or one number a class
        Class proportions.  "learned": the mean answer under "uniform" is the prior of a second and last fit.
    dependencies : list of pairs, or None
        Pairs of sources, by name or number, that depend on each other beyond the truth: no triplet holds both.
    min_signal : float
        A pair of sources counts where its moment is at least so many standard errors from zero.
    max_triplets : int
        Most triplets looked at for one source and class; a source that could have more (past 101 sources) gets so many
        random ones, seeded.
    max_odds : float
        No vote multiplies the odds of a class by more: second moments cannot tell how rare a good source's errors are.
    random_state : int
        Seed of the choice of triplets and of the draws between tied classes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "combine": [StrOptions({"median", "mean"})],
        "moments": [StrOptions({"centred", "published"})],
        "tables": [StrOptions({"symmetric", "published"})],
        "class_prior": CLASS_PRIOR,
        "dependencies": ["array-like", None],
        "min_signal": NOT_NEGATIVE,
        "max_triplets": AT_LEAST_ONE,
        "max_odds": [Interval(Real, 1, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        combine: str = "median",
        moments: str = "centred",
        tables: str = "symmetric",
        class_prior: Any = "uniform",
        dependencies: Any = None,
        min_signal: float = 1.0,
        max_triplets: int = 5000,
        max_odds: float = 19.0,
        random_state: Any = 0,
    ) -> None:
        self.combine = combine
        self.moments = moments
        self.tables = tables
        self.class_prior = class_prior
        self.dependencies = dependencies
        self.min_signal = min_signal
        self.max_triplets = max_triplets
        self.max_odds = max_odds
        self.random_state = random_state

    def _fit_rows(self, rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Course:
        rows = rows.without_abstain_label()
        independent = independence(self.dependencies, self.sources_.tolist())
        prior = fixed_prior(self.class_prior, rows, weights, gold)
        votes = SignedVotes.of(rows, weights)
        roots, self.triplets_ = self._triplets(votes, independent)
        informed = informed_share(votes, independent)
        known = known_agreement(rows, weights, gold)

        def fit_under(prior: NDArray[np.floating]) -> None:
            π = np.clip(prior, LEAST_SHARE, 1 - LEAST_SHARE)
            found = expected_agreement(votes, roots, informed, π, centred=self.moments == "centred")
            self.class_prior_ = prior
            self.agreement_ = with_known(found, votes.coverage, *known)
            self.log_odds_ = self._log_odds(votes, π)

        fit_under(np.full(rows.n_classes, 1 / rows.n_classes) if prior is None else prior)
        if prior is None:
            shares = clamp(np.asarray(self._row_probabilities(rows)), gold)
            counted = weights * (rows.covered if gold is None else rows.covered | (gold >= 0))
            if counted.any():
                fit_under(np.asarray(fixed_prior(counted @ shares, rows, weights, gold)))
        return Course(notes=self._notes(votes))

    def _triplets(
        self, votes: SignedVotes, independent: NDArray[np.bool_]
    ) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """What triplets say for each class, and how many they are.  [sources, classes] both."""
        roots = np.full(votes.plus.shape, np.nan)
        number = np.zeros(votes.plus.shape, dtype=np.int64)
        seed = seed_of(self.random_state)
        least = max(LEAST_CORRELATION, self.min_signal / np.sqrt(votes.n_items))
        for k in map(int, np.flatnonzero(votes.asked)):
            moments = votes.products_for(k)
            if self.moments == "centred":
                moments -= np.outer(votes.mean[:, k], votes.mean[:, k])
            spread = np.sqrt(np.maximum(np.diag(moments), 0))
            usable = independent & (np.abs(moments) > least * np.outer(spread, spread))
            roots[:, k], number[:, k] = combine_triplets(moments, usable, self.combine, self.max_triplets, seed)
        return roots, number

    def _log_odds(self, votes: SignedVotes, π: NDArray[np.floating]) -> NDArray[np.floating]:
        """By how much each vote shifts each class's log-odds against the rest.  [sources, labels, classes]."""
        table = symmetric_log_odds if self.tables == "symmetric" else published_log_odds
        most = np.log(self.max_odds)
        plus, minus = (np.clip(odds, -most, most)[:, None] for odds in table(votes, self.agreement_, π))
        return np.where(votes.signs > 0, plus, 0.0) + np.where(votes.signs < 0, minus, 0.0)

    def _row_probabilities(self, rows: VoteTable) -> NDArray[np.floating]:
        """Posteriors of each class against the rest, normalised.                                     Equation (FS.8)

            P(Y_i = k) ∝ σ( log π_k / (1 − π_k) + Σ_j log P(λ_ij | Y = k) / P(λ_ij | Y ≠ k) )

        In logarithms: the largest is always a number, however many votes there are.
        """
        log_odds = rows.without_abstain_label().evidence(self.log_odds_) + log_ratio(self.class_prior_)
        return np.asarray(softmax(-np.logaddexp(0, -log_odds))[0])

    def _notes(self, votes: SignedVotes) -> list[str]:
        n_sources = len(self.sources_)
        if n_sources < TRIPLET:
            return [f"a triplet takes three sources, there are {n_sources}: judged by their agreement alone"]
        without = (votes.coverage > 0) & votes.asked & (self.triplets_ == 0)
        lone = self.sources_[without.any(axis=1)].tolist()
        told = f"{len(lone)} of {n_sources} sources have no usable triplet for some class and are judged there by "
        return [f"{told}their agreement with the others: {short_list(lone)}"] if lone else []


def expected_agreement(
    votes: SignedVotes,
    roots: NDArray[np.floating],
    informed: NDArray[np.floating],
    π: NDArray[np.floating],
    *,
    centred: bool,
) -> NDArray[np.floating]:
    """E[λ_j Y], the sources taken to be better than chance.                              Equations (FS.3) and (FS.4)

        √(1 − b²) g_j + b E[λ_j]                  from covariances, where g = √(1 − b²) |Δ|
        g_j                                       from raw products
        t_j P(λ_j ≠ 0) + (1 − t_j) b E[λ_j]       without a triplet: a share t_j of the votes knows the truth

    Shapes: roots [sources, classes], informed [sources], π [classes] -> [sources, classes].
    """
    b = 2 * π - 1
    by_chance = b * votes.mean
    share = informed[:, None]
    without = share * votes.coverage + (1 - share) * by_chance
    found = np.minimum(np.sqrt(1 - b**2) * roots + by_chance, votes.coverage) if centred else roots
    return np.where(np.isnan(roots), without, found)


def known_agreement(
    rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Sums of λ_j Y and of |λ_j| over the items whose class is known.  [sources, classes] both."""
    truth = np.zeros((rows.n_items, rows.n_classes))
    if gold is not None:
        known = np.flatnonzero(gold >= 0)
        truth[known, gold[known]] = weights[known]
    signs, counts = label_signs(rows), rows.counts(truth)
    every = counts.sum(axis=2)
    return 2 * np.einsum("jlk,lk->jk", counts, signs) - every @ signs, every @ np.abs(signs)


def with_known(
    agreement: NDArray[np.floating],
    coverage: NDArray[np.floating],
    agreed: NDArray[np.floating],
    met: NDArray[np.floating],
) -> NDArray[np.floating]:
    """E[λ_j Y] where some labels are known.  [sources, classes].                                     Equation (FS.5)

        ( P(λ_j ≠ 0) Σ_known λ_j Y + T E[λ_j Y] ) / ( Σ_known |λ_j| + T )

    T = 20 known labels is what the estimate without them counts for.
    """
    return np.asarray((coverage * agreed + TRIPLET_WORTH * agreement) / (met + TRIPLET_WORTH))


def symmetric_log_odds(
    votes: SignedVotes, agreement: NDArray[np.floating], π: NDArray[np.floating]
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Log P(λ | Y = k) / P(λ | Y ≠ k) of λ = 1 and of λ = −1.  [sources, classes] both.              Equation (FS.6)

        P(λ_j = 1 | Y = k) = ( c + (K − 1) Δ ) / K,   P(λ_j = 1 | Y ≠ k) = ( c − Δ ) / K,   c = P(λ_j ≠ 0)

    and P(λ_j = −1 | Y) is the rest of c.  A source that only ever says v cannot be symmetric and need not be: all of
    its table follows from P(λ_j = v, Y = v) = ( c + E[λ_j Y] ) / 2.
    """
    wrong_classes, b, c = len(π) - 1, 2 * π - 1, votes.coverage
    Δ = (agreement - b * votes.mean) / (1 - b**2)
    Δ = np.clip(Δ, -c / max(wrong_classes, 1), c)
    one_sided = _log((c + agreement) / 2) - _log((c - agreement) / 2)
    plus = np.where(votes.minus > 0, _log(c + wrong_classes * Δ) - _log(c - Δ), one_sided - log_ratio(π))
    minus = _log(wrong_classes * (c - Δ)) - _log(wrong_classes * c + Δ)
    minus = np.where(votes.plus > 0, minus, -one_sided - log_ratio(π))
    return np.where(votes.plus > 0, plus, 0.0), np.where(votes.minus > 0, minus, 0.0)


def published_log_odds(
    votes: SignedVotes, agreement: NDArray[np.floating], π: NDArray[np.floating]
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """The same from the shares of both votes and the class prior, silence being independent of Y.    Equation (FS.7)

        P(λ_j = Y) = ( c + E[λ_j Y] ) / 2
        P(λ_j = 1, Y = 1) = ( P(λ_j = Y) + P(λ_j = 1) + π c − c ) / 2

    and the other three are what the margins leave.  Margins that contradict each other make some of them negative; the
    published code drops the sign.
    """
    c = votes.coverage
    right = (c + agreement) / 2
    both_plus = (right + votes.plus + π * c - c) / 2
    both_minus = right - both_plus
    plus = _log(np.abs(both_plus)) - _log(np.abs(votes.plus - both_plus)) - log_ratio(π)
    minus = _log(np.abs(votes.minus - both_minus)) - _log(np.abs(both_minus)) - log_ratio(π)
    return np.where(votes.plus > 0, plus, 0.0), np.where(votes.minus > 0, minus, 0.0)


def log_ratio(shares: NDArray[np.floating]) -> NDArray[np.floating]:
    """Log π / (1 − π), finite for every share."""
    safe = np.clip(shares, LEAST_SHARE, 1 - LEAST_SHARE)
    return np.asarray(np.log(safe) - np.log1p(-safe))


def _log(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Logarithm, finite at 0: the odds that it enters are capped."""
    return np.asarray(np.log(np.maximum(values, np.finfo(np.float64).tiny)))
