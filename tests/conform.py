"""What the conformance tests share: votes, and any public model by name."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pytest

from labelfable.errors import LabelfableWarning, ModelError
from labelfable.models.registry import MODELS, available_models, model_named
from tests.crowds import planted_votes, some_gold
from tests.tolerances import assert_close

if TYPE_CHECKING:
    from collections.abc import Callable

    from labelfable.models.protocol import BaseLabelModel

T = TypeVar("T")

N_CLASSES = 3
ACCURACIES = [0.9, 0.8, 0.75, 0.85, 0.7]
VOTES, TRUTH = planted_votes(150, ACCURACIES, N_CLASSES, coverage=0.8, seed=1)
VOTES[7] = VOTES[70] = -1  # two items without votes
GOLD = some_gold(TRUTH, 10)
WORDS = np.append(np.array(["cat", "dog", "eel"], dtype=object), None)[VOTES]
COLUMNS = {f"rule {j}": WORDS[:, j].tolist() for j in range(WORDS.shape[1])}
ONE_START = {"n_subtypes": 1}  # random starts are drawn row by row, and equal rows are found in an order of their own

QUICK = {"n_init": 2}
QUICK_NETWORK = {"learning_rate": 0.02, "batch_size": 64, "max_iter": 20, "patience": 5}

ALL_MODELS = [
    pytest.param(
        name,
        marks=[] if name in available_models() else pytest.mark.skip(reason=f"needs the extra {entry.extra!r}"),
    )
    for name, entry in MODELS.items()
]


def is_network(name: str) -> bool:
    """Whether its mini-batches are drawn by the items' numbers, and its first weights by the classes' numbers."""
    return MODELS[name].extra == "neural"


def settings_of(name: str) -> dict[str, list[object]]:
    """The limits of the model's settings."""
    return model_named(name)._parameter_constraints


def made(name: str, **params: object) -> BaseLabelModel:
    """The model with as many of these settings as it has."""
    quick = QUICK_NETWORK if is_network(name) else QUICK
    return model_named(name)(**{key: value for key, value in (quick | params).items() if key in settings_of(name)})


def quiet(action: Callable[[], T]) -> T:
    """An action's answer, its remarks on the fit left aside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        return action()


def fitted(name: str, votes: Any = None, y: Any = None, **params: object) -> BaseLabelModel:
    """The model after a fit, to VOTES where nothing else is said."""
    if votes is None and y is None and not params:
        return plain_fit(name)
    return quiet(lambda: made(name, **params).fit(VOTES if votes is None else votes, y))


def fit_or_refusal(name: str, votes: Any, **params: object) -> BaseLabelModel | ModelError:
    """The fitted model, or the error in which it says why it cannot fit these votes."""
    try:
        return fitted(name, votes, **params)
    except ModelError as refusal:
        return refusal


@functools.cache
def plain_fit(name: str) -> BaseLabelModel:
    """The fit that many tests ask; none of them changes it."""
    return quiet(lambda: made(name).fit(VOTES))


def assert_distributions(probabilities: Any, n_items: int, n_classes: int) -> None:
    """Rows of class probabilities."""
    assert probabilities.shape == (n_items, n_classes)
    assert probabilities.dtype == np.float64
    assert np.all(np.isfinite(probabilities))
    assert np.all(probabilities >= 0)
    assert_close(probabilities.sum(axis=1), np.ones(n_items))
