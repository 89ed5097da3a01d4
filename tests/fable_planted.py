"""Items drawn from FABLE's own story, and what an observer who knows everything but the labels would say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Planted:
    """Votes, features and truth, with three posteriors of the true parameters."""

    votes: NDArray[np.integer]
    features: NDArray[np.floating]
    truth: NDArray[np.integer]
    by_both: NDArray[np.floating]
    """p(z | votes, features), [items, K]: nobody is right more often."""
    by_votes: NDArray[np.floating]
    by_features: NDArray[np.floating]


def planted(
    n_items: int,
    *,
    n_classes: int = 3,
    n_subtypes: int = 1,
    n_sources: int = 6,
    n_features: int = 5,
    strength: float = 4.0,
    right: tuple[float, float] = (0.45, 0.8),
    seed: int = 0,
) -> Planted:
    """w ~ N(0, strength/√d), x ~ N(0, I), p(c | x) = σ(w_c x)/Σ, and each source's table of the component."""
    draws = np.random.default_rng(seed)
    C = n_classes * n_subtypes
    x = draws.normal(size=(n_items, n_features))
    f = x @ draws.normal(size=(n_features, C)) * strength / np.sqrt(n_features)
    raised = 1 / (1 + np.exp(-f))
    prior = raised / raised.sum(axis=1, keepdims=True)
    component = (draws.random(n_items)[:, None] < prior.cumsum(axis=1)).argmax(axis=1)
    tables = np.empty((n_sources, n_classes, C))
    for j, c in np.ndindex(n_sources, C):
        accuracy = draws.uniform(*right)
        wrong = draws.dirichlet(np.full(n_classes - 1, 2.0)) * (1 - accuracy)
        tables[j, :, c] = np.insert(wrong, c // n_subtypes, accuracy)
    votes, log_votes = np.full((n_items, n_sources), -1), np.zeros((n_items, C))
    for j in range(n_sources):
        fires = draws.random(n_items) < 0.6
        levels = tables[j].cumsum(axis=0)[:, component]
        votes[fires, j] = (draws.random(n_items) > levels).sum(axis=0)[fires].clip(max=n_classes - 1)
        log_votes[fires] += np.log(tables[j])[votes[fires, j]]
    return Planted(
        votes,
        x,
        component // n_subtypes,
        *(
            _by_class(logits, n_classes)
            for logits in (log_votes + np.log(prior), log_votes + np.log(prior.mean(axis=0)), np.log(prior))
        ),
    )


def _by_class(logits: NDArray[np.floating], n_classes: int) -> NDArray[np.floating]:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    raised /= raised.sum(axis=1, keepdims=True)
    return raised.reshape(len(raised), n_classes, -1).sum(axis=2)
