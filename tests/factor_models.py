"""Small factor graphs with random weights, for the tests of data programming; every kind of dependency is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from labelfable.models.data_programming import estimator as data_programming
from labelfable.models.data_programming.estimator import DataProgramming
from labelfable.models.data_programming.graph import KINDS, Dependency, FactorGraph
from labelfable.votes import read_votes
from tests.crowds import some_gold
from tests.oracles.data_programming import Model
from tests.walk import setting_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.walk import Setting

Pairs = tuple[tuple[int, int, str], ...]

N_SOURCES = 4
TANGLED: Pairs = (
    (0, 1, "similar"),
    (2, 1, "fixing"),
    (1, 2, "reinforcing"),
    (3, 0, "exclusive"),
    (1, 0, "fixing"),
    (3, 2, "reinforcing"),  # closes a circle
)
GRAPHS: dict[str, Pairs] = {"independent": (), **{kind: ((1, 3, kind),) for kind in KINDS}, "tangled": TANGLED}
each_graph = pytest.mark.parametrize("pairs", GRAPHS.values(), ids=GRAPHS.keys())
each_size = pytest.mark.parametrize("n_classes", [2, 3])


def random_model(pairs: Pairs, n_classes: int, *, seed: int = 0) -> Model:
    """Weights of moderate size, some accuracies below chance."""
    draws = np.random.default_rng([seed, n_classes, len(pairs)])
    return Model(
        draws.normal(0.8, 1, N_SOURCES),
        draws.normal(-0.5, 0.7, N_SOURCES),
        draws.normal(0.5, 0.7, len(pairs)),
        pairs,
        draws.dirichlet(np.full(n_classes, 5.0)),
    )


def graph_of(model: Model) -> FactorGraph:
    """The model's factors, as src knows them."""
    return FactorGraph(len(model.accuracy), len(model.prior), tuple(Dependency(*pair) for pair in model.pairs))


def few_items(model: Model, *, seed: int = 3) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A few dozen items with votes at random, so that every factor meets all its cases; some equal, a few with gold."""
    draws = np.random.default_rng(seed)
    n_classes = len(model.prior)
    votes = draws.integers(-1, n_classes, size=(30, len(model.accuracy)))
    votes = np.vstack((votes, votes[:2], np.full((1, votes.shape[1]), -1)))
    return votes, some_gold(draws.integers(n_classes, size=len(votes)), 4)


def setting_at(model: Model, votes: NDArray[np.int64], gold: NDArray[np.int64] | None = None) -> Setting:
    """What `fit` hands to the sweep, at the model's class prior and with a penalty that counts."""
    estimator = DataProgramming(model.pairs, class_prior=model.prior, l2=0.3, accuracy_weight=1.1)
    return setting_of(estimator, data_programming, read_votes(votes, classes=len(model.prior)), gold)


def penalised(setting: Setting, model: Model, votes: NDArray[np.int64], gold: NDArray[np.int64]) -> float:
    """The oracle's log-likelihood, and the log prior."""
    penalty = setting.sweeps.penalty
    prior = -0.5 * float(np.sum(penalty.precision * (model.vector - penalty.centre) ** 2))
    return model.log_likelihood([tuple(row) for row in votes.tolist()], gold.tolist()) + prior
