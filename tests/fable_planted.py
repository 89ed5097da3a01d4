"""Items drawn from FABLE's own story, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labelfable.datasets.synthetic import fable_story

if TYPE_CHECKING:
    import numpy as np
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


def planted(n_items: int, *, seed: int = 0, **settings) -> Planted:
    """A draw of `fable_story`."""
    story = fable_story(n_items, random_state=seed, **settings)
    data = story.data
    return Planted(data.votes.votes, data.features, data.gold, story.by_both, story.by_votes, story.by_features)
