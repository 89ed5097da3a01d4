"""Data sets drawn by a recipe, the same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labelfable.datasets.dataset import Dataset, table_of
from labelfable.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAPER_SIZES = (1_000, 5_000, 10_000, 15_000, 20_000)
RANDOM_WIDTHS = (1.0, 3.0)
N_CLASSES = 4
N_DIMENSIONS = 2
FIRING = 0.6  # how often a source of the story speaks


def gaussian_classes(
    n_items: int, *, width: float | str = 1.0, separation: float = 2.0, random_state: int = 0
) -> Dataset:
    """The paper's synthetic data: four Gaussian classes in two dimensions, eight sources that each know one class.

    A class is as frequent as any other, x | class j ~ N(mean_j, I).  For each class j and dimension k a source votes j
    where |x_k − mean_jk| < ψ_jk, and is silent elsewhere: whether it is right depends on the features.  `width` is ψ;
    "random" draws each source's ψ from Uniform(1, 3).

    The paper's sizes are `PAPER_SIZES`.  Where its classes lie, and ψ where it is fixed, are not known here: in each
    dimension the means stand `separation` standard deviations apart, in an order that is drawn.
    """
    lowest, highest = RANDOM_WIDTHS if width == "random" else (width, width)
    if isinstance(lowest, str) or isinstance(highest, str) or min(n_items, lowest, separation) <= 0:
        raise InputError(
            f"no such data: n_items={n_items!r}, width={width!r}, separation={separation!r}",
            hint='Give numbers above 0; width may be "random"',
        )
    draws = np.random.default_rng([random_state, n_items])
    places = separation * (np.arange(N_CLASSES) - (N_CLASSES - 1) / 2)
    means = np.stack([draws.permutation(places) for _ in range(N_DIMENSIONS)], axis=1)
    widths = draws.uniform(lowest, highest, size=means.shape)
    gold = draws.integers(N_CLASSES, size=n_items)
    features = means[gold] + draws.standard_normal((n_items, N_DIMENSIONS))
    near = np.abs(features[:, None, :] - means) < widths
    voted = np.arange(N_CLASSES, dtype=np.int8)[:, None]
    votes = np.where(near, voted, np.int8(-1)).reshape(n_items, -1)
    names = [f"class {j}, dimension {k}" for j, k in np.ndindex(means.shape)]
    return Dataset(
        name=f"gaussian-{n_items}",
        votes=table_of(votes, range(N_CLASSES), names),
        gold=gold,
        features=features,
        provenance={
            "recipe": "gaussian_classes",
            "random_state": random_state,
            "means": means.tolist(),
            "widths": widths.tolist(),
        },
    )


@dataclass(frozen=True)
class Story:
    """A draw from FABLE's own story, and what an observer who knows everything but the labels would say of it."""

    data: Dataset
    by_both: NDArray[np.floating]
    """p(class | votes, features) under the parameters of the draw, [items, classes]: nobody is right more often."""
    by_votes: NDArray[np.floating]
    by_features: NDArray[np.floating]


def fable_story(
    n_items: int,
    *,
    n_classes: int = 3,
    n_subtypes: int = 1,
    n_sources: int = 6,
    n_features: int = 5,
    strength: float = 4.0,
    right: tuple[float, float] = (0.45, 0.8),
    random_state: int = 0,
) -> Story:
    """Items as FABLE tells that they come about, with a linear kernel.

        w_c ~ N(0, strength²/n_features I),  f_c = x w_c,  x ~ N(0, I)
        p(component c | f) = σ(f_c) / Σ_c' σ(f_c')
        source j speaks with probability 0.6, and then votes l with probability v_jcl

    A table v_jc gives the component's own class a probability between the limits `right`, the rest to the others.
    """
    draws = np.random.default_rng(random_state)
    C = n_classes * n_subtypes
    x = draws.normal(size=(n_items, n_features))
    f = x @ draws.normal(size=(n_features, C)) * strength / np.sqrt(n_features)
    raised = 1 / (1 + np.exp(-f))
    prior = raised / raised.sum(axis=1, keepdims=True)
    component = (draws.random(n_items)[:, None] < prior.cumsum(axis=1)).argmax(axis=1)
    tables = _emission_tables(draws, n_sources, n_classes, n_subtypes, right)
    votes, log_votes = np.full((n_items, n_sources), -1), np.zeros((n_items, C))
    for j in range(n_sources):
        fires = draws.random(n_items) < FIRING
        levels = tables[j].cumsum(axis=0)[:, component]
        votes[fires, j] = (draws.random(n_items) > levels).sum(axis=0)[fires].clip(max=n_classes - 1)
        log_votes[fires] += np.log(tables[j])[votes[fires, j]]
    posteriors = (log_votes + np.log(prior), log_votes + np.log(prior.mean(axis=0)), np.log(prior))
    data = Dataset(
        name=f"story-{n_items}",
        votes=table_of(votes, range(n_classes), None),
        gold=component // n_subtypes,
        features=x,
        provenance={"recipe": "fable_story", "random_state": random_state},
    )
    return Story(data, *(_by_class(logits, n_classes) for logits in posteriors))


def _emission_tables(
    draws: np.random.Generator, n_sources: int, n_classes: int, n_subtypes: int, right: tuple[float, float]
) -> NDArray[np.floating]:
    """v_jcl as [sources, labels, components]; columns sum to 1."""
    tables = np.empty((n_sources, n_classes, n_classes * n_subtypes))
    for j, c in np.ndindex(n_sources, n_classes * n_subtypes):
        accuracy = draws.uniform(*right)
        wrong = draws.dirichlet(np.full(n_classes - 1, 2.0)) * (1 - accuracy)
        tables[j, :, c] = np.insert(wrong, c // n_subtypes, accuracy)
    return tables


def _by_class(logits: NDArray[np.floating], n_classes: int) -> NDArray[np.floating]:
    """Probabilities of classes from unnormalised log probabilities of components."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    raised /= raised.sum(axis=1, keepdims=True)
    return np.asarray(raised.reshape(len(raised), n_classes, -1).sum(axis=2))
