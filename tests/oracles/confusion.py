"""Dawid-Skene, iBCC and EBCC loop by loop, from the equations at the top of each function.

Votes are `spoken`: for each item a list of (source, label, weight).  That covers missing votes (not listed), silence
as a label (listed), soft votes (several labels of one source, weights that sum to 1).  Nothing here knows of distinct
rows, weights of items, shards, packing or sparse matrices.  Tables are [sources][labels][components]; component
c = (k, m) has number k·M + m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

Spoken = list[list[tuple[int, int, float]]]


@dataclass(frozen=True)
class Prior:
    """What is known before any vote."""

    votes: NDArray[np.floating]
    """β_jlc."""
    subtypes: NDArray[np.floating]
    """η₀_km."""
    classes: NDArray[np.floating] | None = None
    """ν₀_k, or None where the class proportions are given ..."""
    proportions: NDArray[np.floating] | None = None
    """... by these τ_k."""


# -- votes ------------------------------------------------------------------------------------------------------------


def spoken_of(votes: NDArray[np.integer], silence: int | None = None) -> Spoken:
    """Hard votes, −1 = none; with `silence` a source that does not vote gives that label."""
    spoken: Spoken = []
    for row in votes:
        entries = []
        for source, vote in enumerate(row.tolist()):
            if vote >= 0:
                entries.append((source, vote, 1.0))
            elif silence is not None:
                entries.append((source, silence, 1.0))
        spoken.append(entries)
    return spoken


def spoken_of_soft(weights: NDArray[np.floating]) -> Spoken:
    """Soft votes [items, sources, labels]."""
    return [
        [(j, label, w) for j, vote in enumerate(item) for label, w in enumerate(vote.tolist()) if w > 0]
        for item in weights
    ]


def majority_shares(
    spoken: Spoken, meaning: NDArray[np.floating], gold: NDArray[np.integer] | None
) -> NDArray[np.floating]:
    """Share of each class among an item's votes, a vote counting for what it speaks for; known classes as known."""
    n_classes = meaning.shape[1]
    shares = np.zeros((len(spoken), n_classes))
    for i, entries in enumerate(spoken):
        if gold is not None and gold[i] >= 0:
            shares[i, gold[i]] = 1.0
            continue
        for _, label, weight in entries:
            for k in range(n_classes):
                shares[i, k] += weight * meaning[label, k]
        total = sum(shares[i].tolist())
        for k in range(n_classes):
            shares[i, k] = shares[i, k] / total if total > 0 else 1.0 / n_classes
    return shares


def counts_of(spoken: Spoken, ρ: NDArray[np.floating], shape: tuple[int, int]) -> NDArray[np.floating]:
    """n_jlc = Σ_i ρ_ic 1[y_ij = l]."""
    n_sources, n_labels = shape
    counts = np.zeros((n_sources, n_labels, ρ.shape[1]))
    for i, entries in enumerate(spoken):
        for source, label, weight in entries:
            for c in range(ρ.shape[1]):
                counts[source, label, c] += weight * ρ[i, c]
    return counts


def responsibilities(
    spoken: Spoken,
    log_votes: NDArray[np.floating],
    log_components: NDArray[np.floating],
    gold: NDArray[np.integer] | None = None,
    n_subtypes: int = 1,
) -> NDArray[np.floating]:
    """ρ_ic ∝ exp( log π_c + Σ_j log v_{jc y_ij} ), over the components that a known class leaves."""
    n_components = len(log_components)
    ρ = np.zeros((len(spoken), n_components))
    for i, entries in enumerate(spoken):
        logits: dict[int, float] = {}
        for c in range(n_components):
            if gold is None or gold[i] < 0 or c // n_subtypes == gold[i]:
                logits[c] = float(log_components[c])
                for source, label, weight in entries:
                    logits[c] += weight * float(log_votes[source, label, c])
        top = max(logits.values())
        total = sum(math.exp(logit - top) for logit in logits.values())
        for c, logit in logits.items():
            ρ[i, c] = math.exp(logit - top) / total
    return ρ


def items_part(
    spoken: Spoken,
    ρ: NDArray[np.floating],
    log_votes: NDArray[np.floating],
    log_components: NDArray[np.floating],
    *,
    gold: NDArray[np.integer] | None = None,
    n_subtypes: int = 1,
) -> float:
    """Σ_i Σ_c ρ_ic ( log π_c + Σ_j log v_{jc y_ij} − log ρ_ic ), −inf where ρ allows a class that gold rules out."""
    total = 0.0
    for i, entries in enumerate(spoken):
        for c in range(ρ.shape[1]):
            r = float(ρ[i, c])
            if r > 0:
                if gold is not None and gold[i] >= 0 and c // n_subtypes != gold[i]:
                    return -math.inf
                evidence = sum(weight * float(log_votes[source, label, c]) for source, label, weight in entries)
                total += r * (float(log_components[c]) + evidence - math.log(r))
    return total


# -- Dawid and Skene --------------------------------------------------------------------------------------------------


def dawid_skene_objective(
    spoken: Spoken,
    ρ: NDArray[np.floating],
    confusion: NDArray[np.floating],
    proportions: NDArray[np.floating],
    smoothing: float,
    *,
    learned: bool,
    gold: NDArray[np.integer] | None = None,
) -> float:
    """What EM raises: the items' part, and the log prior  smoothing · ( Σ log v + [learned] Σ log π )."""
    total = items_part(spoken, ρ, logs_of(confusion), logs_of(proportions), gold=gold)
    return total + _log_prior(confusion, proportions, smoothing, learned=learned)


def dawid_skene_log_likelihood(
    spoken: Spoken,
    confusion: NDArray[np.floating],
    proportions: NDArray[np.floating],
    gold: NDArray[np.integer] | None = None,
) -> float:
    """Σ_i log Σ_k π_k Π_j v_{jk y_ij}, the sum over the known class alone where it is known."""
    total = 0.0
    for i, entries in enumerate(spoken):
        likelihood = 0.0
        for k in range(len(proportions)):
            if gold is None or gold[i] < 0 or gold[i] == k:
                term = float(proportions[k])
                for source, label, weight in entries:
                    term *= float(confusion[source, label, k]) ** weight
                likelihood += term
        total += math.log(likelihood)
    return total


def dawid_skene_tables(
    spoken: Spoken, ρ: NDArray[np.floating], shape: tuple[int, int], smoothing: float
) -> NDArray[np.floating]:
    """v_jlk = ( n_jlk + smoothing ) / Σ_l ( n_jlk + smoothing ), even where that is 0 / 0."""
    counts = counts_of(spoken, ρ, shape)
    tables = np.zeros_like(counts)
    for j in range(shape[0]):
        for k in range(ρ.shape[1]):
            raised = [float(count) + smoothing for count in counts[j, :, k]]
            whole = sum(raised)
            for label in range(shape[1]):
                tables[j, label, k] = raised[label] / whole if whole > 0 else 1.0 / shape[1]
    return tables


def dawid_skene_proportions(ρ: NDArray[np.floating], smoothing: float) -> NDArray[np.floating]:
    """π_k = ( Σ_i ρ_ik + smoothing ) / ( N + K · smoothing )."""
    n_items, n_classes = ρ.shape
    return np.array([(sum(ρ[:, k].tolist()) + smoothing) / (n_items + n_classes * smoothing) for k in range(n_classes)])


# -- Bayesian classifier combination ----------------------------------------------------------------------------------


def bcc_bound(
    spoken: Spoken,
    ρ: NDArray[np.floating],
    μ: NDArray[np.floating],
    η: NDArray[np.floating],
    ν: NDArray[np.floating] | None,
    *,
    prior: Prior,
    gold: NDArray[np.integer] | None = None,
) -> float:
    """The bound  E_q[ log p(y, z, g, v, π, τ) ] − E_q[ log q ]  with every constant, for any factors.

    Each Dirichlet gives E_q log p − E_q log q:
    Σ_l (β_l − 1) E log v_l − log B(β) − Σ_l (μ_l − 1) E log v_l + log B(μ).
    """
    n_sources, _, n_components = μ.shape
    log_votes, log_components = expected_logs(μ, η, ν, prior.proportions)
    total = items_part(spoken, ρ, log_votes, log_components, gold=gold, n_subtypes=η.shape[1])
    for j in range(n_sources):
        for c in range(n_components):
            total += _dirichlet_part(μ[j, :, c], prior.votes[j, :, c])
    for k in range(len(η)):
        total += _dirichlet_part(η[k], prior.subtypes[k])
    if ν is not None:
        total += _dirichlet_part(ν, prior.classes)
    return total


def expected_logs(
    μ: NDArray[np.floating],
    η: NDArray[np.floating],
    ν: NDArray[np.floating] | None,
    proportions: NDArray[np.floating] | None,
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """E log v_jlc, and E log τ_k + E log π_km for component (k, m)."""
    n_sources, n_labels, n_components = μ.shape
    log_votes = np.zeros(μ.shape)
    for j in range(n_sources):
        for c in range(n_components):
            whole = sum(μ[j, :, c].tolist())
            for label in range(n_labels):
                log_votes[j, label, c] = digamma(μ[j, label, c]) - digamma(whole)
    n_classes, n_subtypes = η.shape
    log_components = np.zeros(n_components)
    for k in range(n_classes):
        class_part = math.log(proportions[k]) if ν is None else digamma(ν[k]) - digamma(sum(ν.tolist()))
        for m in range(n_subtypes):
            log_components[k * n_subtypes + m] = class_part + digamma(η[k, m]) - digamma(sum(η[k].tolist()))
    return log_votes, log_components


def bcc_update(
    spoken: Spoken, ρ: NDArray[np.floating], prior: Prior
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating] | None]:
    """μ = β + counts, η_km = η₀ + Σ_i ρ_ikm, ν_k = ν₀ + Σ_m Σ_i ρ_ikm."""
    n_classes, n_subtypes = prior.subtypes.shape
    μ = prior.votes + counts_of(spoken, ρ, prior.votes.shape[:2])
    η = prior.subtypes.copy()
    ν = None if prior.classes is None else prior.classes.copy()
    for i in range(len(spoken)):
        for k in range(n_classes):
            for m in range(n_subtypes):
                r = ρ[i, k * n_subtypes + m]
                η[k, m] += r
                if ν is not None:
                    ν[k] += r
    return μ, η, ν


def bcc_log_evidence(spoken: Spoken, prior: Prior, gold: NDArray[np.integer] | None = None) -> float:
    """Log p(y) exactly: the sum over all assignments of items to components, the Dirichlets integrated out.

    p(y, assignment) = Π_jc B(β_jc + counts) / B(β_jc)  ·  Π_k B(η₀_k + totals) / B(η₀_k)  ·  B(ν₀ + totals) / B(ν₀)
    """
    terms = [weight for _, weight in _assignments(spoken, prior, gold)]
    top = max(terms)
    return top + math.log(sum(math.exp(term - top) for term in terms))


def bcc_exact_posterior(spoken: Spoken, prior: Prior, gold: NDArray[np.integer] | None = None) -> NDArray[np.floating]:
    """p(z_i = k | y) exactly.  [items, classes]."""
    n_subtypes = prior.subtypes.shape[1]
    log_evidence = bcc_log_evidence(spoken, prior, gold)
    posterior = np.zeros((len(spoken), prior.subtypes.shape[0]))
    for assignment, weight in _assignments(spoken, prior, gold):
        for i, c in enumerate(assignment):
            posterior[i, c // n_subtypes] += math.exp(weight - log_evidence)
    return posterior


def _assignments(spoken: Spoken, prior: Prior, gold: NDArray[np.integer] | None) -> list[tuple[tuple[int, ...], float]]:
    """Every assignment of items to components with log p(y, assignment)."""
    n_classes, n_subtypes = prior.subtypes.shape
    allowed = [
        [c for c in range(n_classes * n_subtypes) if gold is None or gold[i] < 0 or c // n_subtypes == gold[i]]
        for i in range(len(spoken))
    ]
    found = []
    for assignment in product(*allowed):
        ρ = np.zeros((len(spoken), n_classes * n_subtypes))
        for i, c in enumerate(assignment):
            ρ[i, c] = 1.0
        μ, η, ν = bcc_update(spoken, ρ, prior)
        weight = 0.0
        for j in range(μ.shape[0]):
            for c in range(μ.shape[2]):
                weight += _log_beta(μ[j, :, c]) - _log_beta(prior.votes[j, :, c])
        for k in range(n_classes):
            weight += _log_beta(η[k]) - _log_beta(prior.subtypes[k])
        if ν is not None:
            weight += _log_beta(ν) - _log_beta(prior.classes)
        else:
            weight += sum(math.log(prior.proportions[c // n_subtypes]) for c in assignment)
        found.append((assignment, weight))
    return found


# -- small parts ------------------------------------------------------------------------------------------------------


def _dirichlet_part(posterior: NDArray[np.floating], prior: NDArray[np.floating]) -> float:
    whole = digamma(sum(posterior.tolist()))
    total = _log_beta(posterior) - _log_beta(prior)
    for after, before in zip(posterior.tolist(), prior.tolist(), strict=True):
        total += ((before - 1) - (after - 1)) * float(digamma(after) - whole)
    return total


def _log_beta(concentration: NDArray[np.floating]) -> float:
    """Log B(α) = Σ log Γ(α_l) − log Γ(Σ α_l)."""
    values = concentration.tolist()
    return sum(math.lgamma(value) for value in values) - math.lgamma(sum(values))


def logs_of(probabilities: NDArray[np.floating]) -> NDArray[np.floating]:
    """Logarithms, of which those of zero are never used: nothing was counted there."""
    with np.errstate(divide="ignore"):
        return np.where(probabilities > 0, np.log(probabilities), -1e30)


def _log_prior(
    confusion: NDArray[np.floating], proportions: NDArray[np.floating], smoothing: float, *, learned: bool
) -> float:
    if smoothing == 0:
        return 0.0
    total = sum(math.log(value) for value in confusion.ravel().tolist())
    if learned:
        total += sum(math.log(value) for value in proportions.tolist())
    return smoothing * total
