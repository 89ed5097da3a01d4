"""Gibbs sampling of data programming's factor graph: what its factors are expected to be, where sums are too long.

Many chains (λ, y) run side by side.  A factor's expectation is not read off the samples but off the conditional
distributions that they are drawn from: the same mean, less noise.  Sources are not drawn one by one but as whole trees
of the dependency graph, messages going up from the leaves and draws down from the root, so that sources that copy each
other do not hold each other where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labelfable.models.data_programming.graph import Block, FactorGraph, dependency_factor
from labelfable.numerics.special import log_sum_exp, softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.models.data_programming.forest import Branch, Forest
    from labelfable.models.data_programming.sweeps import FactorGlobals

MOST_CELLS = 2**22  # chains × sources × labels in one piece of work: 32 MB


@dataclass(frozen=True)
class Chains:
    """The present state of each chain."""

    labels: NDArray[np.int64]
    """y, [chains]."""
    votes: NDArray[np.int64]
    """λ, −1 = abstain, [chains, sources]."""

    def with_votes(self, sources: NDArray[np.integer] | int, drawn: NDArray[np.int64]) -> Chains:
        """The chains after some sources have been drawn; abstain is drawn as 0."""
        votes = self.votes.copy()
        votes[:, sources] = drawn - 1
        return Chains(self.labels, votes)


@dataclass(frozen=True)
class Neighbour:
    """A dependency between a source that is being drawn and one that stands."""

    dependency: int
    place: int
    """Of the source among those that are being drawn."""
    factor: NDArray[np.floating]
    """h_d for each vote that the source could give, abstain first, [chains, 1 + K]."""


def neighbours_of(graph: FactorGraph, chains: Chains, sources: NDArray[np.integer]) -> list[Neighbour]:
    """The dependencies that lead out of some sources."""
    places = {source: place for place, source in enumerate(sources.tolist())}
    choices, labels = np.arange(-1, graph.n_classes)[None, :], chains.labels[:, None]
    found = []
    for d, (first, second, kind) in enumerate(graph.dependencies):
        if first in places and second not in places:
            factor = dependency_factor(kind, choices, chains.votes[:, [second]], labels)
            found.append(Neighbour(d, places[first], factor))
        elif second in places and first not in places:
            factor = dependency_factor(kind, chains.votes[:, [first]], choices, labels)
            found.append(Neighbour(d, places[second], factor))
    return found


def vote_evidence(
    graph: FactorGraph,
    factor_weights: NDArray[np.floating],
    chains: Chains,
    sources: NDArray[np.integer],
    neighbours: list[Neighbour],
) -> NDArray[np.floating]:
    """Log p(λ_j | y, the sources that stand), up to a constant, without links among the chosen.     Equation (DP.8)

        1[l ≠ abstain] θ_lab,j + 1[l = y] θ_acc,j + Σ_{d from j to a source that stands} θ_d h_d

    Shapes: -> [chains, chosen sources, 1 + K], abstain first.
    """
    everyone = np.arange(len(chains.labels))
    logits = np.zeros((len(everyone), len(sources), 1 + graph.n_classes))
    logits[:, :, 1:] = factor_weights[graph.propensity][sources][:, None]
    logits[everyone, :, 1 + chains.labels] += factor_weights[graph.accuracy][sources]
    for neighbour in neighbours:
        logits[:, neighbour.place] += factor_weights[graph.dependency][neighbour.dependency] * neighbour.factor
    return logits


def link_factors(graph: FactorGraph, branch: Branch) -> NDArray[np.floating]:
    """h_d of each dependency between a source and its parent, for all votes of both.  [links, K, own, parent's]."""
    choices, classes = np.arange(-1, graph.n_classes), np.arange(graph.n_classes)[:, None, None]
    own, above = choices[None, :, None], choices[None, None, :]
    found = np.zeros((len(branch.links), graph.n_classes, len(choices), len(choices)))
    for number, d in enumerate(branch.links):
        first, _, kind = graph.dependencies[d]
        ends = (own, above) if first == branch.source else (above, own)
        found[number] = dependency_factor(kind, *ends, classes)
    return found


def label_conditionals(
    graph: FactorGraph, factor_weights: NDArray[np.floating], log_proportions: NDArray[np.floating], chains: Chains
) -> NDArray[np.floating]:
    """p(y | λ) of each chain.  [chains, K].                                                    Equation (DP.6)"""
    n_chains, n_classes = len(chains.labels), graph.n_classes
    chain, source = np.nonzero(chains.votes >= 0)
    cells = chain * n_classes + chains.votes[chain, source]
    said = np.bincount(cells, weights=factor_weights[graph.accuracy][source], minlength=n_chains * n_classes)
    logits = said.reshape(n_chains, n_classes) + log_proportions
    for weight, (first, second, kind) in zip(factor_weights[graph.dependency], graph.dependencies, strict=True):
        votes = chains.votes[:, [first]], chains.votes[:, [second]]
        logits += weight * dependency_factor(kind, *votes, np.arange(n_classes))
    return np.asarray(softmax(logits)[0])


def draw(probabilities: NDArray[np.floating], generator: np.random.Generator) -> NDArray[np.int64]:
    """One draw from each distribution along the last axis."""
    thresholds = np.cumsum(probabilities, axis=-1)
    points = generator.random((*probabilities.shape[:-1], 1)) * thresholds[..., -1:]
    return np.asarray((thresholds[..., :-1] <= points).sum(axis=-1))


@dataclass(frozen=True)
class Sweep:
    """One sweep of the chains: `expected` fills up as sources are drawn, each factor by its last draw."""

    graph: FactorGraph
    factor_weights: NDArray[np.floating]
    expected: NDArray[np.floating]
    generator: np.random.Generator

    def draw_alone(self, chains: Chains, sources: NDArray[np.integer]) -> Chains:
        """Draw sources that depend on none of the others here."""
        neighbours = neighbours_of(self.graph, chains, sources)
        p = softmax(vote_evidence(self.graph, self.factor_weights, chains, sources, neighbours))[0]
        self._note(chains, sources, p, neighbours)
        return chains.with_votes(sources, draw(p, self.generator))

    def draw_trees(self, chains: Chains, branches: tuple[Branch, ...]) -> Chains:
        """Draw trees of sources: messages go up from the leaves, draws go down from the roots."""
        sources = np.array([branch.source for branch in branches])
        place = {branch.source: number for number, branch in enumerate(branches)}
        neighbours = neighbours_of(self.graph, chains, sources)
        logits = vote_evidence(self.graph, self.factor_weights, chains, sources, neighbours)
        weights = self.factor_weights[self.graph.dependency]
        links = [link_factors(self.graph, branch) for branch in branches]
        joint = [np.tensordot(weights[list(b.links)], h, axes=1) for b, h in zip(branches, links, strict=True)]
        for number in reversed(range(len(branches))):
            if branches[number].links:
                both = logits[:, number, None, :] + np.swapaxes(joint[number], 1, 2)[chains.labels]
                logits[:, place[branches[number].parent]] += log_sum_exp(both)
        p = np.empty_like(logits)
        for number, branch in enumerate(branches):
            above = 1 + chains.votes[:, branch.parent]  # drawn just before; a root has no links, and adds nothing
            p[:, number] = softmax(logits[:, number] + joint[number][chains.labels, :, above])[0]
            for d, h in zip(branch.links, links[number], strict=True):
                mean = (p[:, number] * h[chains.labels, :, above]).sum(axis=1).mean()
                self.expected[self.graph.dependency][d] = mean
            chains = chains.with_votes(branch.source, draw(p[:, number], self.generator))
        self._note(chains, sources, p, neighbours)
        return chains

    def _note(
        self, chains: Chains, sources: NDArray[np.integer], p: NDArray[np.floating], neighbours: list[Neighbour]
    ) -> None:
        """Means of the sources' factors under the distributions that they are drawn from."""
        graph, everyone = self.graph, np.arange(len(p))
        self.expected[graph.accuracy][sources] = p[everyone, :, 1 + chains.labels].mean(axis=0)
        self.expected[graph.propensity][sources] = 1 - p[:, :, 0].mean(axis=0)
        for neighbour in neighbours:
            mean = (p[:, neighbour.place] * neighbour.factor).sum(axis=1).mean()
            self.expected[graph.dependency][neighbour.dependency] = mean


def gibbs_sweep(
    graph: FactorGraph,
    global_: FactorGlobals,
    chains: Chains,
    forests: list[Forest],
    generator: np.random.Generator,
) -> tuple[Chains, NDArray[np.floating]]:
    """Draw every vote and every class once.  Also E φ, averaged over the chains, [weights]."""
    sweep = Sweep(graph, global_.factor_weights, np.zeros(graph.n_weights), generator)
    size = max(1, MOST_CELLS // (len(chains.labels) * (1 + graph.n_classes)))
    for forest in forests:
        for first in range(0, len(forest.alone), size):
            chains = sweep.draw_alone(chains, forest.alone[first : first + size])
        if forest.branches:
            chains = sweep.draw_trees(chains, forest.branches)
    p = label_conditionals(graph, global_.factor_weights, global_.logs.components, chains)
    return Chains(draw(p, generator), chains.votes), sweep.expected


def start_chains(graph: FactorGraph, global_: FactorGlobals, n_chains: int, generator: np.random.Generator) -> Chains:
    """Chains with classes from their distribution and silent sources."""
    labels = generator.choice(graph.n_classes, size=n_chains, p=np.exp(global_.logs.components))
    return Chains(labels, np.full((n_chains, graph.n_sources), -1))


def sampled_factors(block: Block, chains: Chains) -> NDArray[np.floating]:
    """φ of one connected block in each chain.  [chains, P]."""
    votes = chains.votes[:, block.parameters[0, : block.n_sources]]
    labels = chains.labels[:, None]
    columns = [votes == labels, votes >= 0]
    columns += [dependency_factor(kind, votes[:, [a]], votes[:, [b]], labels) for a, b, kind in block.dependencies]
    return np.concatenate(columns, axis=1).astype(np.float64)


def weight_of_samples(graph: FactorGraph, factor_weights: NDArray[np.floating], chains: Chains) -> NDArray[np.floating]:
    """θ·φ of each chain.  [chains]."""
    right, voted = chains.votes == chains.labels[:, None], chains.votes >= 0
    total = right @ factor_weights[graph.accuracy] + voted @ factor_weights[graph.propensity]
    for weight, (first, second, kind) in zip(factor_weights[graph.dependency], graph.dependencies, strict=True):
        total += weight * dependency_factor(kind, chains.votes[:, first], chains.votes[:, second], chains.labels)
    return np.asarray(total)
