"""Majority vote, plain and weighted: the model that no other may lose to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from labelfable.errors import ModelError
from labelfable.models.class_prior import fixed_prior, numbers_each, vote_totals
from labelfable.models.protocol import ENGINE, BaseLabelModel
from labelfable.models.report import Course

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable


class MajorityVote(BaseLabelModel):
    """The share of the votes that each class has.                                       Equations (MV.1), (MV.2)

    Parameters
    ----------
    weights : None, "agreement", or one number a source
        None counts each vote once.  "agreement" weights each source by the log-odds, above chance, of its agreeing with
        the other votes on the same item.
    class_prior : "uniform", "votes", or one number a class
        The answer on items without votes.
    engine : None, "dask", a scheduler's address, or a Dask client
        Where the work is done: threads of this process, a cluster of this machine's cores, or one that runs already.
        The answer does not depend on it.
    random_state : int
        Seed of the draws between tied classes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "weights": ["array-like", StrOptions({"agreement"}), None],
        "class_prior": ["array-like", StrOptions({"votes", "uniform"})],
        "engine": ENGINE,
        "random_state": ["random_state"],
    }

    def __init__(
        self, weights: Any = None, *, class_prior: Any = "uniform", engine: Any = None, random_state: Any = 0
    ) -> None:
        self.weights = weights
        self.class_prior = class_prior
        self.engine = engine
        self.random_state = random_state

    def _fit_rows(self, rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Course:
        prior = fixed_prior(self.class_prior, rows, weights, gold)
        self.class_prior_ = np.full(rows.n_classes, 1 / rows.n_classes) if prior is None else prior
        self.source_weights_ = self._source_weights(rows, weights)
        return Course()

    def _source_weights(self, rows: VoteTable, weights: NDArray[np.floating]) -> NDArray[np.floating]:
        if self.weights is None:
            return np.ones(rows.n_sources)
        if isinstance(self.weights, str):
            return agreement_weights(rows, weights)
        given = numbers_each(self.weights, rows.n_sources)
        if given is None:
            raise ModelError(
                f"weights={self.weights!r} is not one number, finite and not negative, a source",
                hint=f"There are {rows.n_sources} sources",
            )
        return given

    def _row_probabilities(self, rows: VoteTable) -> NDArray[np.floating]:
        totals = vote_totals(rows, self.source_weights_)
        whole = totals.sum(axis=1, keepdims=True)
        return np.asarray(np.where(whole > 0, totals / np.where(whole > 0, whole, 1), self.class_prior_))


def agreement_weights(rows: VoteTable, weights: NDArray[np.floating]) -> NDArray[np.floating]:
    """Weight of each source from how often the other votes agree with it.  [sources].           Equation (MV.2)

        a_j = ( 1 + Σ_i Σ_{j' ≠ j} 1[y_ij = y_ij'] ) / ( K + Σ_i Σ_{j' ≠ j} 1[j, j' both vote] )
        w_j = max( log (K − 1) a_j / (1 − a_j), small )

    One agreement in K pairs is added, so that a source that never meets another counts as chance.
    """
    n_classes, spoken = rows.n_classes, slice(rows.n_spoken)
    totals, meaning = vote_totals(rows), rows.meaning[spoken]
    met = rows.counts((weights * rows.votes_per_item)[:, None])[:, spoken, 0].sum(axis=1)
    alone = rows.counts(weights[:, None])[:, spoken, 0]
    together = np.einsum("jlk,lk->j", rows.counts(weights[:, None] * totals)[:, spoken], meaning)
    own = alone if rows.is_hard else _squared(rows).counts(weights[:, None])[:, spoken, 0]
    agreed = together - own @ np.sum(meaning**2, axis=1)  # a vote agrees with itself
    accuracy = np.clip((1 + agreed) / (n_classes + met - alone.sum(axis=1)), 1e-3, 1 - 1e-3)
    odds = (n_classes - 1) * accuracy / (1 - accuracy)
    return np.asarray(np.maximum(np.log(np.maximum(odds, 1e-12)), 1e-3))


def _squared(rows: VoteTable) -> VoteTable:
    """Soft votes with squared weights, which is how far each agrees with itself."""
    return replace(rows, votes=rows.plain_incidence.power(2))
