"""Other packages behind our contract, so that one benchmark measures all: snorkel, crowd-kit, cleanlab.

Each answers for the items that it was fitted to; where a package cannot label items anew, that is said.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from labelfable.errors import ModelError
from labelfable.evaluation.peers import PeerModel, SoftRegression
from labelfable.models.class_prior import vote_shares
from labelfable.numerics.random import seed_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

LEAST_SNORKEL_SOURCES = 3


def vote_matrix(table: VoteTable) -> NDArray[np.int64]:
    """Class numbers, −1 = abstain, [items, sources]: the form that all three packages start from."""
    if not (table.is_plain and table.is_hard):
        raise ModelError("other packages take votes for one class each", hint="Leave them out for these votes")
    if table.is_dense:
        return np.asarray(table.votes, dtype=np.int64)
    matrix = np.full((table.n_items, table.n_sources), -1)
    entries = table.plain_incidence.tocoo()
    matrix[entries.row, entries.col // table.n_classes] = entries.col % table.n_classes
    return matrix


class FittedItemsModel(PeerModel):
    """A package that gives probabilities only of the items that it was fitted to."""

    def _labels_of(self, table: VoteTable, features: NDArray[np.floating]) -> NDArray[np.floating]:
        self.votes_ = vote_matrix(table)
        self.probabilities_ = self._run(table, self.votes_, features)
        return self.probabilities_

    def _table_probabilities(self, table: VoteTable, features: Any) -> NDArray[np.floating]:
        del features  # those of the fit
        if not np.array_equal(vote_matrix(table), self.votes_):
            raise ModelError(f"{type(self).__name__} labels only the items that it was fitted to")
        return self.probabilities_

    def _run(self, table: VoteTable, votes: NDArray[np.int64], features: NDArray[np.floating]) -> NDArray[np.floating]:
        """Probabilities, [items, classes]."""
        raise NotImplementedError


class SnorkelLabelModel(PeerModel):
    """snorkel's LabelModel with its own defaults.

    Parameters
    ----------
    n_epochs : int
        Steps of its gradient descent.
    random_state : int
        Its seed, and that of the draws between tied classes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, n_epochs: int = 100, *, random_state: Any = 0) -> None:
        self.n_epochs = n_epochs
        self.random_state = random_state

    def _labels_of(self, table: VoteTable, features: NDArray[np.floating]) -> NDArray[np.floating]:
        del features  # a model of votes alone
        from snorkel.labeling.model import LabelModel

        if table.n_sources < LEAST_SNORKEL_SOURCES:
            raise ModelError(f"snorkel needs at least {LEAST_SNORKEL_SOURCES} sources, there are {table.n_sources}")
        votes = vote_matrix(table)
        self.model_ = LabelModel(cardinality=table.n_classes, verbose=False)
        self.model_.fit(votes, n_epochs=self.n_epochs, seed=seed_of(self.random_state), progress_bar=False)
        return np.asarray(self.model_.predict_proba(votes), dtype=np.float64)

    def _table_probabilities(self, table: VoteTable, features: Any) -> NDArray[np.floating]:
        del features
        return np.asarray(self.model_.predict_proba(vote_matrix(table)), dtype=np.float64)


class CrowdKit(FittedItemsModel):
    """An aggregation of crowd-kit with its own defaults.  Items without votes get equal probabilities.

    Parameters
    ----------
    method : "MajorityVote", "DawidSkene", "GLAD" or "MACE"
        Which one.
    random_state : int
        Its seed where it has one, and that of the draws between tied classes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "method": [StrOptions({"MajorityVote", "DawidSkene", "GLAD", "MACE"})],
        "random_state": ["random_state"],
    }

    def __init__(self, method: str = "MajorityVote", *, random_state: Any = 0) -> None:
        self.method = method
        self.random_state = random_state

    def _run(self, table: VoteTable, votes: NDArray[np.int64], features: NDArray[np.floating]) -> NDArray[np.floating]:
        del features  # a model of votes alone
        from crowdkit import aggregation

        from labelfable.votes.frames import frame_from

        item, source = np.nonzero(votes >= 0)
        answers = frame_from({"task": item, "worker": source, "label": votes[item, source]}, "pandas")
        seeded = {"random_state": seed_of(self.random_state)} if self.method == "MACE" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # how it calls pandas is not our user's concern
            found = getattr(aggregation, self.method)(**seeded).fit_predict_proba(answers)
        probabilities = np.full((table.n_items, table.n_classes), 1 / table.n_classes)
        probabilities[found.index.to_numpy()] = 0
        columns = found.columns.to_numpy().astype(np.int64)
        probabilities[np.ix_(found.index.to_numpy(), columns)] = found.to_numpy(dtype=np.float64)
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))


class Crowdlab(FittedItemsModel):
    """cleanlab's CROWDLAB: votes and a classifier's probabilities in one weighted mean.

    The classifier is the logistic regression of `VotesThenRegression` on majority vote's soft labels; each fold of the
    items is answered by a regression that did not see it.  Items without votes get the classifier's answer, as CROWDLAB
    takes only items that have one.

    Parameters
    ----------
    n_folds : int
        Parts of the items, each answered by a regression on the others.
    inverse_penalty : float
        C of scikit-learn's LogisticRegression.
    random_state : int
        Seed of the folds, and of the draws between tied classes.

    """

    needs_features: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "inverse_penalty": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(self, n_folds: int = 5, *, inverse_penalty: float = 10.0, random_state: Any = 0) -> None:
        self.n_folds = n_folds
        self.inverse_penalty = inverse_penalty
        self.random_state = random_state

    def _run(self, table: VoteTable, votes: NDArray[np.int64], features: NDArray[np.floating]) -> NDArray[np.floating]:
        from cleanlab.multiannotator import get_label_quality_multiannotator

        probabilities = self._held_out(table, features)
        rows, speaks = table.covered, (votes >= 0).any(axis=0)
        given = np.where(votes >= 0, votes, np.nan)[np.ix_(rows, speaks)]
        try:
            found = get_label_quality_multiannotator(
                given, probabilities[rows], consensus_method="majority_vote", return_weights=True, verbose=False
            )
        except ValueError as error:  # its way to say that it does not apply, as with one source or one vote an item
            raise ModelError(f"CROWDLAB does not apply to these votes: {str(error).strip().splitlines()[0]}") from error
        agreement = found["label_quality"]["annotator_agreement"].to_numpy(dtype=np.float64)
        model_weight, source_weights = float(found["model_weight"]), np.asarray(found["annotator_weight"], dtype=float)
        probabilities[rows] = crowdlab_mean(given, probabilities[rows], agreement, model_weight, source_weights)
        return probabilities

    def _held_out(self, table: VoteTable, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Each item's probabilities by a regression that did not see it, [items, classes]."""
        shares = vote_shares(table)
        fold = np.random.default_rng(seed_of(self.random_state)).permutation(table.n_items) % self.n_folds
        answer = np.empty((table.n_items, table.n_classes))
        for number in range(self.n_folds):
            seen = (fold != number) & table.covered
            regression = SoftRegression(self.inverse_penalty).fit(features[seen], shares[seen])
            answer[fold == number] = regression.predict_proba(features[fold == number])
        return answer


def crowdlab_mean(
    given: NDArray[np.floating],
    classifier: NDArray[np.floating],
    agreement: NDArray[np.floating],
    model_weight: float,
    source_weights: NDArray[np.floating],
) -> NDArray[np.floating]:
    """CROWDLAB's probabilities from the weights that cleanlab returns (it keeps the probabilities to itself).

        p_ik = ( w c_ik + Σ_j w_j (P if y_ij = k else (1 − P)/(K − 1)) ) / ( w + Σ_j w_j ),   j over the votes on i

    P is how often a vote agrees with the consensus on items with several votes.  H. Goh, U. Tkachenko, J. Mueller:
    CROWDLAB.  2022.  Shapes: [items, sources] with NaN for silence, [items, classes], [items], -, [sources].
    """
    n_classes, spoken = classifier.shape[1], ~np.isnan(given)
    right = agreement[spoken.sum(axis=1) > 1].mean()
    wrong = (1 - right) / (n_classes - 1)
    weight = spoken @ source_weights
    answer = model_weight * classifier + wrong * weight[:, None]
    for k in range(n_classes):
        answer[:, k] += (right - wrong) * ((given == k) @ source_weights)
    return np.asarray(answer / (model_weight + weight)[:, None])
