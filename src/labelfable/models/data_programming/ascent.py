"""Stochastic ascent of data programming's likelihood, its gradient estimated by Gibbs sampling.

As published, the votes are clamped for one expectation and sampled for the other.  The chains stay from one step to the
next (persistent contrastive divergence).  Steps are scaled by the factors' covariance, because sources may differ a
thousandfold in how often they vote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labelfable.inference.convergence import History
from labelfable.inference.execution import Engine, add_in_order
from labelfable.models.data_programming.forest import Forest, forests_of
from labelfable.models.data_programming.gibbs import (
    Chains,
    gibbs_sweep,
    sampled_factors,
    start_chains,
    weight_of_samples,
)
from labelfable.models.data_programming.graph import Block, FactorGraph
from labelfable.models.data_programming.weights import log_normaliser, score, start_weights
from labelfable.numerics.special import log_sum_exp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from labelfable.inference.shards import Shard
    from labelfable.models.confusion import ConfusionStatistics
    from labelfable.models.data_programming.sweeps import FactorGlobals, FactorSweeps

BURN_IN = 20  # sweeps of the chains before the first step
LONGEST_MOVE = 1.0  # of any weight in one step
LONGEST_STRIDE = 0.05  # of any weight between two sweeps of the chains that estimate log Z
DECAY_STEPS = 10.0
DECAY_POWER = 0.6  # between ½ and 1, as averaging asks
STEPS_THAT_SHARE_NOISE = 10  # measured: chains in circles of dependencies forget about as fast


@dataclass(frozen=True)
class AscentSettings:
    """How many chains, how many steps, and when the answer counts as settled."""

    n_chains: int
    n_steps: int
    tolerance: float
    seed: int


@dataclass(frozen=True)
class Ascent:
    """Where the ascent ended."""

    global_: FactorGlobals
    expected: NDArray[np.floating]
    """E φ, averaged over the second half of the steps, [weights]."""
    history: History
    converged: bool


def ascend(sweeps: FactorSweeps, shards: Sequence[Shard], engine: Engine, settings: AscentSettings) -> Ascent:
    """Steps from majority vote's weights, and their average.                                Equations (DP.9), (DP.10)

        θ ← θ + η_t ( N C + precision )⁻¹ ( Σ_i E[φ | λ_i] − N Ê[φ] − precision (θ − centre) )
        log Z ← log Z + ½ ( Ê[φ] before + Ê[φ] after )·( θ after − θ before )

    E[φ | λ_i] is exact, Ê comes from one sweep of the chains.  η_t is 1 for the first half of the steps, then falls as
    ( 1 + t / 10 )^−0.6, and the answer is the average over that half (Polyak and Juditsky 1992).  The second line runs
    along a smoothed path: see `Witness`.
    """
    graph, generator = sweeps.graph, np.random.default_rng(settings.seed)
    statistics = add_in_order(statistics for _, statistics in engine.map(sweeps.start, shards))
    weights = start_weights(graph, sweeps.observed_factors(statistics), sweeps.n_items)
    global_ = sweeps.globals_of(weights, sweeps.proportions_of(statistics))
    sampler = Sampler.started(graph, global_, settings.n_chains, generator)
    witness = Witness.started(graph, global_, settings.n_chains, generator)
    history, path = History(), Path([], [], [])
    for step in range(settings.n_steps):
        statistics = _clamped(sweeps, shards, engine, global_)
        history.record(sweeps.objective(statistics, global_, witness.log_normaliser(graph, weights)))
        slope = score(sweeps.observed_factors(statistics), sweeps.n_items, sampler.expected, weights, sweeps.penalty)
        weights = weights + step_size(step, settings.n_steps) * direction(sweeps, sampler, slope)
        global_ = sweeps.globals_of(weights, sweeps.proportions_of(statistics))
        sampler, witness = sampler.swept(graph, global_), witness.follow(sweeps, global_, step)
        path.add(weights, np.exp(global_.logs.components), sampler.expected)
    weights, proportions, expected = path.averages(settings.n_steps // 2)
    global_, log_z = sweeps.globals_of(weights, proportions), witness.log_normaliser(graph, weights)
    history.record(sweeps.objective(_clamped(sweeps, shards, engine, global_), global_, log_z))
    return Ascent(global_, expected, history, is_settled(path, sweeps, sampler, settings))


def step_size(step: int, n_steps: int) -> float:
    """η_t: 1 for half of the steps, then falling."""
    late = max(0, step - n_steps // 2)
    return float((1 + late / DECAY_STEPS) ** -DECAY_POWER)


@dataclass(frozen=True)
class Sampler:
    """The chains and what they last said of the factors."""

    chains: Chains
    expected: NDArray[np.floating]
    forests: list[Forest]
    generator: np.random.Generator

    @classmethod
    def started(
        cls, graph: FactorGraph, global_: FactorGlobals, n_chains: int, generator: np.random.Generator
    ) -> Sampler:
        """Chains that have forgotten where they started."""
        chains = start_chains(graph, global_, n_chains, generator)
        sampler = cls(chains, np.zeros(graph.n_weights), forests_of(graph), generator)
        for _ in range(BURN_IN):
            sampler = sampler.swept(graph, global_)
        return sampler

    def swept(self, graph: FactorGraph, global_: FactorGlobals) -> Sampler:
        """The chains one sweep later."""
        chains, expected = gibbs_sweep(graph, global_, self.chains, self.forests, self.generator)
        return Sampler(chains, expected, self.forests, self.generator)


@dataclass(frozen=True)
class Witness:
    """Chains that follow the ascent at a distance, to estimate log Z on the way.                  Equation (DP.10)

    log Z is exact at the start, where dependencies have no weight, and then grows by ½ ( Ê before + Ê after )·( step ).
    Chains lag behind a path that shakes, which would add up; so these walk along its running average, in short strides,
    and they are not the chains whose noise shakes it.  From there to the path itself it is one step of importance
    sampling.
    """

    sampler: Sampler
    weights: NDArray[np.floating]
    log_z: float

    @classmethod
    def started(
        cls, graph: FactorGraph, global_: FactorGlobals, n_chains: int, generator: np.random.Generator
    ) -> Witness:
        """At weights without dependencies."""
        independent = FactorGraph(graph.n_sources, graph.n_classes)
        log_z = log_normaliser(independent, global_.factor_weights)
        return cls(Sampler.started(graph, global_, n_chains, generator), global_.factor_weights, log_z)

    def follow(self, sweeps: FactorSweeps, global_: FactorGlobals, step: int) -> Witness:
        """One step after the ascent, in strides short enough for the chains to keep up."""
        way = (global_.factor_weights - self.weights) / (1 + step / DECAY_STEPS)
        strides = max(1, int(np.ceil(np.abs(way).max() / LONGEST_STRIDE)))
        sampler, weights, log_z = self.sampler, self.weights, self.log_z
        for _ in range(strides):
            weights = weights + way / strides
            before = sampler.expected
            sampler = sampler.swept(sweeps.graph, sweeps.globals_of(weights, np.exp(global_.logs.components)))
            log_z += 0.5 * float((before + sampler.expected) @ way) / strides
        return Witness(sampler, weights, log_z)

    def log_normaliser(self, graph: FactorGraph, weights: NDArray[np.floating]) -> float:
        """Log Z at weights nearby: log Z here + log of the mean of e^{(θ − θ here)·φ}."""
        ahead = weight_of_samples(graph, weights - self.weights, self.sampler.chains)
        return self.log_z + float(log_sum_exp(ahead)) - float(np.log(len(ahead)))


@dataclass(frozen=True)
class Path:
    """Where the ascent has been."""

    weights: list[NDArray[np.floating]]
    proportions: list[NDArray[np.floating]]
    expected: list[NDArray[np.floating]]

    def add(
        self, weights: NDArray[np.floating], proportions: NDArray[np.floating], expected: NDArray[np.floating]
    ) -> None:
        """One more step."""
        self.weights.append(weights)
        self.proportions.append(proportions)
        self.expected.append(expected)

    def averages(self, first: int) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
        """Averages from one step on: weights, class proportions, E φ."""
        parts = (self.weights, self.proportions, self.expected)
        weights, proportions, expected = (np.mean(part[first:], axis=0) for part in parts)
        return weights, proportions, expected


def _clamped(
    sweeps: FactorSweeps, shards: Sequence[Shard], engine: Engine, global_: FactorGlobals
) -> ConfusionStatistics:
    """Statistics with the votes clamped, exact."""
    answers = engine.map(lambda shard: sweeps.local_step(shard, None, global_), shards)
    return add_in_order(statistics for _, statistics in answers)


def curvature(block: Block, expected: NDArray[np.floating], chains: Chains) -> NDArray[np.floating]:
    """An estimate of Cov φ, from above.  [copies, P, P].

    A source's own two factors are 0 or 1 and the first implies the second, so their covariance follows from E φ.  In a
    block with dependencies the sampled covariance is added: that may halve a step, and keeps it from overshooting.
    """
    m, n = expected[block.parameters], block.n_sources
    right, voted = np.arange(n), n + np.arange(n)
    found = np.zeros((len(m), m.shape[1], m.shape[1]))
    found[:, right, right] = m[:, right] * (1 - m[:, right])
    found[:, voted, voted] = m[:, voted] * (1 - m[:, voted])
    found[:, right, voted] = found[:, voted, right] = m[:, right] * (1 - m[:, voted])
    if block.dependencies:
        found[0] += np.cov(sampled_factors(block, chains), rowvar=False, bias=True)
        pairs = np.arange(2 * n, m.shape[1])
        found[0, pairs, pairs] += 1 / len(chains.labels)  # one chain's worth, where no chain ever moves
    return found


def direction(sweeps: FactorSweeps, sampler: Sampler, slope: NDArray[np.floating]) -> NDArray[np.floating]:
    """The slope over the curvature, block by block, no weight moving further than LONGEST_MOVE.  [weights]."""
    found = np.empty_like(slope)
    for block in sweeps.graph.blocks:
        steepness = sweeps.n_items * curvature(block, sampler.expected, sampler.chains)
        steepness += sweeps.penalty.precision[block.parameters][:, :, None] * np.eye(block.parameters.shape[1])
        move = np.linalg.solve(steepness, slope[block.parameters][:, :, None])[:, :, 0]
        longest = np.abs(move).max(axis=1, keepdims=True)
        found[block.parameters] = move / np.maximum(longest / LONGEST_MOVE, 1)
    return found


def is_settled(path: Path, sweeps: FactorSweeps, sampler: Sampler, settings: AscentSettings) -> bool:
    """Whether the averages of the weights over the last two quarters of the steps agree.

    Moving from one to the other must be worth less than the tolerance an item, or no more than sampling noise: that is
    worth one in `n_chains` a weight at a single step, and some ten steps in a row share it.
    """
    quarter = max(1, settings.n_steps // 4)
    late = np.asarray(path.weights[-2 * quarter :])
    drift, worth = late[-quarter:].mean(axis=0) - late[:quarter].mean(axis=0), 0.0
    for block in sweeps.graph.blocks:
        inside = drift[block.parameters]
        metric = curvature(block, sampler.expected, sampler.chains)
        worth += 0.5 * float(np.einsum("bp,bpq,bq->", inside, metric, inside))
    noise = len(drift) / settings.n_chains * min(1.0, STEPS_THAT_SHARE_NOISE / quarter)
    return settings.n_steps > 1 and worth <= max(settings.tolerance, noise)
