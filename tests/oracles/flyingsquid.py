"""FlyingSquid loop by loop, from the equations: one class at a time, one triplet at a time.

Votes are a list of rows, one label number a source, −1 = abstain; λ_j of class k is 1 for a vote for k, −1 for another
vote, 0 for silence.  `weights` says how many items a row stands for.
"""

from __future__ import annotations

import math
import statistics
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORTH = 20.0  # known labels that an estimate from triplets counts for
BORROWED = 5.0  # meetings that a source borrows from all sources
USUAL = 0.25  # agreement above chance before any meeting
LEAST = 0.2  # informed share of a source at least


class Settings(NamedTuple):
    """As the model's, with the prior as numbers and dependencies as numbers of sources."""

    prior: list[float]
    combine: str = "median"
    moments: str = "centred"
    tables: str = "symmetric"
    min_signal: float = 1.0
    max_odds: float = 19.0
    dependencies: tuple[tuple[int, int], ...] = ()


class Answer(NamedTuple):
    """What the model keeps."""

    agreement: NDArray[np.floating]
    triplets: NDArray[np.int64]
    log_odds: NDArray[np.floating]
    probabilities: NDArray[np.floating]


def flyingsquid(votes, weights, settings: Settings, gold=None) -> Answer:
    """Everything, by loops.  Shapes: [items, sources], [items], gold [items] or None."""
    n_sources, n_classes = len(votes[0]), len(settings.prior)
    agreement = np.zeros((n_sources, n_classes))
    number = np.zeros((n_sources, n_classes), dtype=np.int64)
    log_odds = np.zeros((n_sources, n_classes, n_classes))
    shares = informed(votes, weights, n_classes, settings.dependencies)
    for k in range(n_classes):
        signed = [[signed_vote(vote, k) for vote in row] for row in votes]
        b = 2 * settings.prior[k] - 1
        for j in range(n_sources):
            rate = mean(signed, weights, lambda row, j=j: abs(row[j]))
            tilt = mean(signed, weights, lambda row, j=j: row[j])
            values = triplet_values(signed, weights, j, settings)
            number[j, k] = len(values)
            if not values:
                found = shares[j] * rate + (1 - shares[j]) * b * tilt
            else:
                g = statistics.median(values) if settings.combine == "median" else sum(values) / len(values)
                found = min(math.sqrt(1 - b * b) * g + b * tilt, rate) if settings.moments == "centred" else g
            truths = [
                0 if truth < 0 else 2 * (truth == k) - 1 for truth in ([-1] * len(votes) if gold is None else gold)
            ]
            agreement[j, k] = with_gold(found, rate, [row[j] for row in signed], weights, truths)
            vote_shares = ((rate + tilt) / 2, (rate - tilt) / 2)
            plus, minus = table(vote_shares, agreement[j, k], settings.prior[k], n_classes, settings.tables)
            most = math.log(settings.max_odds)
            for label in range(n_classes):
                log_odds[j, label, k] = min(max(plus if label == k else minus, -most), most)
    return Answer(agreement, number, log_odds, posteriors(votes, log_odds, settings.prior))


def signed_vote(vote: int, k: int) -> int:
    if vote < 0:
        return 0
    return 1 if vote == k else -1


def mean(signed, weights, what) -> float:
    return sum(w * what(row) for row, w in zip(signed, weights, strict=True)) / sum(weights)


def moment(signed, weights, i, j, kind) -> float:
    both = mean(signed, weights, lambda row: row[i] * row[j])
    if kind == "published":
        return both
    return both - mean(signed, weights, lambda row: row[i]) * mean(signed, weights, lambda row: row[j])


def triplet_values(signed, weights, i, settings) -> list[float]:
    """√| m_ij m_ih / m_jh | for every pair j < h that may be used."""
    n_sources = len(signed[0])
    if len(settings.prior) > 2 and not any(vote == 1 for row in signed for vote in row):
        return []  # nobody votes for the class (of two classes, votes for the one tell of the other)
    values = []
    for j, h in combinations([s for s in range(n_sources) if s != i], 2):
        if all(usable(signed, weights, a, b, settings) for a, b in ((i, j), (i, h), (j, h))):
            ij, ih, jh = (moment(signed, weights, a, b, settings.moments) for a, b in ((i, j), (i, h), (j, h)))
            values.append(math.sqrt(abs(ij * ih / jh)))
    return values


def usable(signed, weights, i, j, settings) -> bool:
    if (i, j) in settings.dependencies or (j, i) in settings.dependencies:
        return False
    spread = math.sqrt(
        max(moment(signed, weights, i, i, settings.moments), 0)
        * max(moment(signed, weights, j, j, settings.moments), 0)
    )
    size = abs(moment(signed, weights, i, j, settings.moments))
    return size > max(1e-9, settings.min_signal / math.sqrt(sum(weights))) * spread


def informed(votes, weights, n_classes, dependencies) -> list[float]:
    """Share of each source's votes that know the truth, from how often it agrees with those that it meets."""
    n_sources = len(votes[0])
    met, above = [0.0] * n_sources, [0.0] * n_sources
    for row, w in zip(votes, weights, strict=True):
        for i, j in product(range(n_sources), repeat=2):
            if i != j and row[i] >= 0 and row[j] >= 0 and (i, j) not in dependencies and (j, i) not in dependencies:
                met[i] += w
                chance = 1 / n_classes
                above[i] += w * ((row[i] == row[j]) - chance) / (1 - chance) if n_classes > 1 else 0.0
    everyone = (sum(above) + BORROWED * USUAL) / (sum(met) + BORROWED)
    squares = [(above[j] + BORROWED * everyone) / (met[j] + BORROWED) for j in range(n_sources)]
    return [min(math.sqrt(max(square, LEAST**2)), 1.0) for square in squares]


def with_gold(found, rate, own, weights, truths) -> float:
    """`own` are the source's λ, `truths` Y = ±1 where the class is known, 0 elsewhere."""
    agreed = met = 0.0
    for λ, w, y in zip(own, weights, truths, strict=True):
        agreed += w * λ * y
        met += w * abs(λ) * abs(y)
    return (rate * agreed + WORTH * found) / (met + WORTH)


def table(shares, agreement, π, n_classes, kind) -> tuple[float, float]:
    """Log P(λ | Y = k) / P(λ | Y ≠ k) of λ = 1 and λ = −1, from the shares of both votes."""
    p_plus, p_minus = shares
    c = p_plus + p_minus
    right = (c + agreement) / 2
    if kind == "published":
        plus_plus = (right + p_plus + π * c - c) / 2
        plus_rest, minus_minus = p_plus - plus_plus, right - plus_plus
        minus_plus = p_minus - minus_minus
        of_plus = log(abs(plus_plus) / π) - log(abs(plus_rest) / (1 - π))
        of_minus = log(abs(minus_plus) / π) - log(abs(minus_minus) / (1 - π))
    elif p_plus > 0 and p_minus > 0:
        b, K = 2 * π - 1, n_classes
        Δ = (agreement - b * (p_plus - p_minus)) / (1 - b * b)
        Δ = min(max(Δ, -c / (K - 1)), c)
        yes, no = (c + (K - 1) * Δ) / K, (c - Δ) / K
        of_plus, of_minus = log(yes) - log(no), log(c - yes) - log(c - no)
    else:
        of_plus = log(right / π) - log((c - right) / (1 - π))
        of_minus = log((c - right) / π) - log(right / (1 - π))
    return (of_plus if p_plus > 0 else 0.0), (of_minus if p_minus > 0 else 0.0)


def log(value: float) -> float:
    return math.log(max(value, 1e-300))


def posteriors(votes, log_odds, prior) -> NDArray[np.floating]:
    answer = np.zeros((len(votes), len(prior)))
    for i, row in enumerate(votes):
        for k, π in enumerate(prior):
            total = math.log(π / (1 - π))
            for j, vote in enumerate(row):
                if vote >= 0:
                    total += log_odds[j, vote, k]
            answer[i, k] = 1 / (1 + math.exp(-total))
        answer[i] /= answer[i].sum()
    return answer


def population(prior, tables) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Every pattern of votes and its exact probability.

    `tables` has for each source P(vote | class) as [labels + 1, classes], the last row being silence.
    """
    n_labels = len(tables[0]) - 1
    patterns, weights = [], []
    for votes in product(range(-1, n_labels), repeat=len(tables)):
        whole = 0.0
        for k, share in enumerate(prior):
            chance = share
            for vote, probabilities in zip(votes, tables, strict=True):
                chance *= probabilities[vote][k]  # −1 is the last row
            whole += chance
        if whole > 0:
            patterns.append(votes)
            weights.append(whole)
    return np.array(patterns), np.array(weights)


def true_agreement(prior, tables) -> NDArray[np.floating]:
    """E[λ_j Y] of each source in each class's problem, from its table."""
    answer = np.zeros((len(tables), len(prior)))
    for j, probabilities in enumerate(tables):
        for k in range(len(prior)):
            for vote in range(len(probabilities) - 1):
                for truth, share in enumerate(prior):
                    answer[j, k] += share * probabilities[vote][truth] * (1 if (vote == k) == (truth == k) else -1)
    return answer


def true_log_odds(prior, tables) -> NDArray[np.floating]:
    """Log P(λ | Y = k) / P(λ | Y ≠ k) of each vote, from the tables; 0 where nobody casts it.  [sources, labels, K]."""
    n_labels, n_classes = len(tables[0]) - 1, len(prior)
    answer = np.zeros((len(tables), n_labels, n_classes))
    for j, probabilities in enumerate(tables):
        for vote, k in product(range(n_labels), range(n_classes)):
            same = [label for label in range(n_labels) if (label == k) == (vote == k)]
            under = [sum(probabilities[label][truth] for label in same) for truth in range(n_classes)]
            rest = [truth for truth in range(n_classes) if truth != k]
            against = sum(prior[truth] * under[truth] for truth in rest) / sum(prior[truth] for truth in rest)
            if any(probabilities[label][truth] > 0 for label in same for truth in range(n_classes)):
                answer[j, vote, k] = math.log(under[k] / against)
    return answer
