"""Factor weights of highest penalised likelihood, given how often each factor is expected to hold: exact sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labelfable.numerics.special import softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.models.data_programming.graph import Block, FactorGraph

MOST_STEPS = 100
MOST_HALVINGS = 50
SMALLEST_GAIN = (
    1e-13  # in nats an item: Newton's method has long been converging quadratically there, and rounding is near
)


@dataclass(frozen=True)
class Penalty:
    """A Gaussian prior on the weights."""

    precision: NDArray[np.floating]
    centre: NDArray[np.floating]

    def value(self, factor_weights: NDArray[np.floating]) -> float:
        """The log prior without its constant: −½ Σ_p precision_p (θ_p − centre_p)²."""
        return float(-0.5 * self.precision @ (factor_weights - self.centre) ** 2)


@dataclass(frozen=True)
class Moments:
    """Normaliser, mean and covariance of the factors under the model."""

    log_normaliser: NDArray[np.floating]
    """[copies]."""
    mean: NDArray[np.floating]
    """[copies, P]."""
    covariance: NDArray[np.floating]
    """[copies, P, P]."""


def block_moments(block: Block, inside: NDArray[np.floating]) -> Moments:
    """Sums over all joint votes of a block, the class being 0.                                 Equation (DP.3)

        Z = Σ_λ e^{θ·φ(λ)},     E φ = Σ_λ φ(λ) e^{θ·φ(λ)} / Z,     Cov φ = E φφ' − E φ E φ'

    Shapes: [copies, P] -> see `Moments`.
    """
    factors, log_ways = block.states
    shares, log_normaliser = softmax(inside @ factors.T + log_ways)
    mean = shares @ factors
    centred = factors - mean[:, None, :]
    covariance = np.swapaxes(centred * shares[:, :, None], 1, 2) @ centred
    return Moments(log_normaliser, mean, covariance)


def log_normaliser(graph: FactorGraph, factor_weights: NDArray[np.floating]) -> float:
    """Log Z(θ), the same for each class."""
    return float(sum(block_moments(b, factor_weights[b.parameters]).log_normaliser.sum() for b in graph.blocks))


def expected_factors(graph: FactorGraph, factor_weights: NDArray[np.floating]) -> NDArray[np.floating]:
    """E φ under the model, in the order of θ.  [weights]."""
    mean = np.empty(graph.n_weights)
    for block in graph.blocks:
        mean[block.parameters] = block_moments(block, factor_weights[block.parameters]).mean
    return mean


def score(
    observed: NDArray[np.floating],
    n_items: float,
    expected: NDArray[np.floating],
    factor_weights: NDArray[np.floating],
    penalty: Penalty,
) -> NDArray[np.floating]:
    """Gradient of the penalised log-likelihood.                                                Equation (DP.4)

        Σ_i E[ φ | λ_i ] − N E[ φ ] − precision (θ − centre)

    `observed` is the first sum, each item's class weighted by its responsibilities at the same θ.  [weights].
    """
    return np.asarray(observed - n_items * expected - penalty.precision * (factor_weights - penalty.centre))


def update_weights(
    graph: FactorGraph, observed: NDArray[np.floating], n_items: float, penalty: Penalty
) -> NDArray[np.floating]:
    """The weights at which `score` vanishes with `observed` held: the M step.  [weights].      Equation (DP.5)

    The objective θ·observed − N log Z(θ) + log prior is concave and falls apart into blocks; Newton's method, its steps
    halved where they gain too little, finds the only maximum from anywhere.
    """
    weights = start_weights(graph, observed, n_items)
    for block in graph.blocks:
        weights[block.parameters] = _climb(block, weights, observed, n_items, penalty)
    return weights


def start_weights(graph: FactorGraph, observed: NDArray[np.floating], n_items: float) -> NDArray[np.floating]:
    """Weights of the model without dependencies in closed form, half a count added everywhere.  [weights].

    accuracy a = right / votes,  θ_acc = log (K − 1) a / (1 − a);    odds of voting = e^{θ_lab} ( e^{θ_acc} + K − 1 )
    """
    right, voted = observed[graph.accuracy], observed[graph.propensity]
    others = max(graph.n_classes - 1, 1)
    weights = np.zeros(graph.n_weights)
    accuracy = np.log(others * (right + 0.5) / (np.maximum(voted - right, 0) + 0.5))
    odds = (voted + 0.5) / (np.maximum(n_items - voted, 0) + 0.5)
    weights[graph.accuracy] = accuracy
    weights[graph.propensity] = np.log(odds) - np.log(np.exp(accuracy) + others)
    return weights


def _climb(
    block: Block, start: NDArray[np.floating], observed: NDArray[np.floating], n_items: float, penalty: Penalty
) -> NDArray[np.floating]:
    """Newton's method on one block, all copies at once.  [copies, P]."""
    inside, wanted = start[block.parameters], observed[block.parameters]
    precision, centre = penalty.precision[block.parameters], penalty.centre[block.parameters]

    def objective(at: NDArray[np.floating], log_z: NDArray[np.floating]) -> NDArray[np.floating]:
        fit = (at * wanted).sum(axis=1) - n_items * log_z
        return np.asarray(fit - 0.5 * (precision * (at - centre) ** 2).sum(axis=1))

    here, negligible = block_moments(block, inside), SMALLEST_GAIN * max(n_items, 1.0)
    for _ in range(MOST_STEPS):
        slope = wanted - n_items * here.mean - precision * (inside - centre)
        curvature = n_items * here.covariance + precision[:, :, None] * np.eye(precision.shape[1])
        step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
        promised = (step * slope).sum(axis=1)
        before = objective(inside, here.log_normaliser)
        size = np.ones(len(inside))
        for _ in range(MOST_HALVINGS):
            there = block_moments(block, inside + size[:, None] * step)
            gained = objective(inside + size[:, None] * step, there.log_normaliser) - before
            short = (gained < 0.25 * size * promised) & (promised > negligible)
            if not short.any():
                break
            size[short] /= 2
        inside, here = inside + size[:, None] * step, there
        if promised.max() <= negligible:
            break
    return np.asarray(inside)
