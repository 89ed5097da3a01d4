"""iBCC by Gibbs sampling: the posterior itself, up to the noise of sampling.

z_i | v, τ ∝ τ_k Π_j v_{jk y_ij},      v_jk | z ~ Dirichlet(β_jk + counts),      τ | z ~ Dirichlet(ν₀ + totals)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.oracles.confusion import Prior


def ibcc_posterior(
    votes: NDArray[np.integer], prior: Prior, *, n_draws: int, n_burn: int, seed: int = 0
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Mean of p(z_i = k | v, τ, y) over the chain, and its standard error by batches.  [items, classes] twice.

    The conditional probabilities are averaged, not the drawn classes: the same mean with less noise.
    """
    generator = np.random.default_rng(seed)
    n_sources, n_labels, n_classes = prior.votes.shape
    n_batches = 20
    given = votes >= 0
    spots = np.where(given, votes, 0)
    # start at majority vote, each item's ties to the first class
    tallies = np.stack([(votes == k).sum(axis=1) for k in range(n_classes)], axis=1)
    classes = tallies.argmax(axis=1)
    batches = np.zeros((n_batches, len(votes), n_classes))
    for draw in range(-n_burn, n_draws):
        counts = np.zeros((n_sources, n_labels, n_classes))
        for j in range(n_sources):
            np.add.at(counts[j], (votes[given[:, j], j], classes[given[:, j]]), 1.0)
        gammas = generator.standard_gamma(prior.votes + counts)
        log_tables = np.log(gammas / gammas.sum(axis=1, keepdims=True))
        proportions = prior.proportions
        if prior.classes is not None:
            proportions = generator.dirichlet(prior.classes + np.bincount(classes, minlength=n_classes))
        logits = np.tile(np.log(proportions), (len(votes), 1))
        for j in range(n_sources):
            logits += np.where(given[:, j, None], log_tables[j, spots[:, j]], 0.0)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances = powers / powers.sum(axis=1, keepdims=True)
        if draw >= 0:
            batches[draw * n_batches // n_draws] += chances * n_batches / n_draws
        classes = (generator.random((len(votes), 1)) > np.cumsum(chances, axis=1)).sum(axis=1)
        classes = np.minimum(classes, n_classes - 1)
    return batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(n_batches)
