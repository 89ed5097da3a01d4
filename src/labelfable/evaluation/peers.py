"""What else a user could do with the same votes and features: comparators behind the contract of our own models.

Those here need scikit-learn alone; `peer_packages.py` wraps other packages.  They are for benchmarks: none is among
the registered models, and they take no known labels.
"""

from __future__ import annotations

import importlib
from importlib import metadata
from importlib.util import find_spec
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from labelfable.errors import InputError, MissingExtraError, ModelError
from labelfable.models.protocol import BaseLabelModel
from labelfable.models.registry import MODELS, model_named
from labelfable.models.report import Answer, Course
from labelfable.votes.features import read_features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

EXTRA = "peers"
MAX_ITER = 1000  # of the logistic regression: enough for every set of the benchmark
SAME_LENGTH = 0.01  # rows whose lengths differ by less are embeddings, which were normalised by whoever made them


class Peer(NamedTuple):
    """Where a comparator's class is, its settings, and the package that it needs."""

    module: str
    kind: str
    settings: dict[str, Any]
    package: str = ""
    """Its name as installed; empty: none beyond our own."""
    imported: str = "sklearn.linear_model"
    """What is imported before a fit, so that the fit's seconds are its own."""


OURS, OTHERS = "labelfable.evaluation.peers", "labelfable.evaluation.peer_packages"
PEERS: dict[str, Peer] = {
    "MVLogistic": Peer(OURS, "VotesThenRegression", {}),
    "MVLogisticProduct": Peer(OURS, "VotesThenRegression", {"multiply": True}),
    "DSLogistic": Peer(OURS, "VotesThenRegression", {"labeller": "DawidSkene"}),
    "snorkel": Peer(OTHERS, "SnorkelLabelModel", {}, "snorkel", "snorkel.labeling.model"),
    "crowdkit:MV": Peer(OTHERS, "CrowdKit", {"method": "MajorityVote"}, "crowd-kit", "crowdkit.aggregation"),
    "crowdkit:DawidSkene": Peer(OTHERS, "CrowdKit", {"method": "DawidSkene"}, "crowd-kit", "crowdkit.aggregation"),
    "crowdkit:GLAD": Peer(OTHERS, "CrowdKit", {"method": "GLAD"}, "crowd-kit", "crowdkit.aggregation"),
    "crowdkit:MACE": Peer(OTHERS, "CrowdKit", {"method": "MACE"}, "crowd-kit", "crowdkit.aggregation"),
    "cleanlab:CROWDLAB": Peer(OTHERS, "Crowdlab", {}, "cleanlab", "cleanlab.multiannotator"),
}


def any_model(name: str) -> BaseLabelModel:
    """An unfitted model of ours or a comparator, by name; letters' case and punctuation do not matter."""
    peer = PEERS.get(canonical_name(name))
    if peer is None:
        return model_named(name)()
    if find_spec(peer.imported.split(".", maxsplit=1)[0]) is None:
        raise MissingExtraError(f"{peer.package} is not installed", hint=f"pip install 'labelfable[{EXTRA}]'")
    importlib.import_module(peer.imported)
    model: BaseLabelModel = getattr(importlib.import_module(peer.module), peer.kind)(**peer.settings)
    return model


def canonical_name(name: str) -> str:
    """The name that tables show."""
    plain = {_plain(known): known for known in PEERS}
    if _plain(name) in plain:
        return plain[_plain(name)]
    try:
        return model_named(name).__name__
    except MissingExtraError:  # a model of ours whose extra is absent: it is known all the same
        return next(public for public in MODELS if _plain(public) == _plain(name))
    except ModelError as error:
        raise ModelError(error.what, hint=f"{error.hint}; comparators are {', '.join(PEERS)}") from error


def package_version(name: str) -> str:
    """Name and version of the package behind a comparator; empty for our own models."""
    peer = PEERS.get(name)
    if peer is None or not peer.package:
        return ""
    try:
        return f"{peer.package} {metadata.version(peer.package)}"
    except metadata.PackageNotFoundError:
        return f"{peer.package} absent"


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


class PeerModel(BaseLabelModel):
    """A comparator: `_labels_of` gives the probabilities of all items at once."""

    needs_features: ClassVar[bool] = False

    def _fit_table(self, table: VoteTable, gold: NDArray[np.integer] | None, features: Any) -> tuple[Course, Answer]:
        if gold is not None:
            raise ModelError(f"{type(self).__name__} is a comparator and takes no known labels")
        probabilities = self._labels_of(table, self._given(table, features))
        return Course(), Answer.of(table, np.ones(table.n_items), None, probabilities)

    def _given(self, table: VoteTable, features: Any) -> NDArray[np.floating]:
        """The features as numbers, [items, columns]; no columns where there are none and none are needed."""
        if features is None:
            if self.needs_features:
                raise ModelError(f"{type(self).__name__} needs features")
            return np.empty((table.n_items, 0))
        return _feature_matrix(features, table.n_items)

    def _labels_of(self, table: VoteTable, features: NDArray[np.floating]) -> NDArray[np.floating]:
        """Fit, and give the probabilities of the same items, [items, classes]."""
        raise NotImplementedError


class VotesThenRegression(PeerModel):
    """A label model's probabilities of the covered items, then a logistic regression on the features.

    Parameters
    ----------
    labeller : "MajorityVote" or "DawidSkene"
        Whose soft labels the regression learns.
    multiply : bool
        Answer with the product of both probabilities instead of the regression's alone.
    inverse_penalty : float
        C of scikit-learn's LogisticRegression.
    random_state : int
        Seed of the draws between tied classes.

    """

    needs_features: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "labeller": [StrOptions({"MajorityVote", "DawidSkene"})],
        "multiply": ["boolean"],
        "inverse_penalty": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        labeller: str = "MajorityVote",
        *,
        multiply: bool = False,
        inverse_penalty: float = 10.0,
        random_state: Any = 0,
    ) -> None:
        self.labeller = labeller
        self.multiply = multiply
        self.inverse_penalty = inverse_penalty
        self.random_state = random_state

    def _labels_of(self, table: VoteTable, features: NDArray[np.floating]) -> NDArray[np.floating]:
        self.labeller_ = model_named(self.labeller)().fit(table)
        shares = self.labeller_.predict_proba(table)
        self.regression_ = SoftRegression(self.inverse_penalty).fit(features[table.covered], shares[table.covered])
        return self._answer(shares, features)

    def _table_probabilities(self, table: VoteTable, features: Any) -> NDArray[np.floating]:
        return self._answer(self.labeller_.predict_proba(table), self._given(table, features))

    def _answer(self, shares: NDArray[np.floating], features: NDArray[np.floating]) -> NDArray[np.floating]:
        """Probabilities from both, [items, classes]."""
        from_features = self.regression_.predict_proba(features)
        if not self.multiply:
            return from_features
        product = np.maximum(from_features * shares, np.finfo(np.float64).tiny)
        return np.asarray(product / product.sum(axis=1, keepdims=True))


class SoftRegression:
    """Logistic regression on soft labels: each item counts once for each class, with the class's probability."""

    def __init__(self, inverse_penalty: float) -> None:
        self.inverse_penalty = inverse_penalty

    def fit(self, features: NDArray[np.floating], shares: NDArray[np.floating]) -> SoftRegression:
        """Learn.  Shapes: [items, columns], [items, classes]."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        item, label = np.nonzero(shares)
        self.n_classes, self.present = shares.shape[1], np.unique(label)
        if len(self.present) > 1:
            regression = LogisticRegression(C=self.inverse_penalty, max_iter=MAX_ITER)
            self.model = make_pipeline("passthrough" if _same_length(features) else StandardScaler(), regression)
            weights = {"logisticregression__sample_weight": shares[item, label]}
            self.model.fit(features[item], label, **weights)
        return self

    def predict_proba(self, features: NDArray[np.floating]) -> NDArray[np.floating]:
        """Probabilities, [items, classes]; uniform where nothing could be learned, certain where one class was seen."""
        answer = np.zeros((len(features), self.n_classes))
        if len(self.present) > 1:
            answer[:, self.present] = self.model.predict_proba(features)
        elif len(self.present):
            answer[:, self.present] = 1
        else:
            answer[:] = 1 / self.n_classes
        return answer


def _feature_matrix(features: Any, n_items: int) -> NDArray[np.float64]:
    """Finite numbers, [items, columns]."""
    found = read_features(features, n_items)
    if found.missing.any():
        item = f"item {int(found.missing.argmax())}"
        raise InputError("a comparator needs the features of every item", where=item, hint="Fill them in")
    return dense_numbers(found.numbers)


def dense_numbers(numbers: Any) -> NDArray[np.float64]:
    """Dense or sparse numbers as a dense matrix."""
    return np.asarray(numbers.toarray() if hasattr(numbers, "toarray") else numbers, dtype=np.float64)


def _same_length(features: NDArray[np.floating]) -> bool:
    """Whether all rows have length one, as sentence embeddings do: their columns are comparable already."""
    return bool(np.all(np.abs(np.linalg.norm(features, axis=1) - 1) < SAME_LENGTH))
