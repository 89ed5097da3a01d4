"""Calibration without gold, written from the equations: one item, one pair of votes, one view at a time."""

from __future__ import annotations

import math

import numpy as np


def pair_agreement(votes: np.ndarray) -> float:
    """Mean over items with two or more votes of the share of their pairs that agree."""
    shares = []
    for row in votes.tolist():
        given = [vote for vote in row if vote >= 0]
        pairs = [(given[i], given[j]) for i in range(len(given)) for j in range(i)]
        if pairs:
            shares.append(sum(one == other for one, other in pairs) / len(pairs))
    return sum(shares) / len(shares)


def agreement_at(accuracy: float, n_classes: int) -> float:
    """How often two votes agree that are right with this probability and else spread evenly."""
    by_label = [accuracy if label == 0 else (1 - accuracy) / (n_classes - 1) for label in range(n_classes)]
    return sum(p * p for p in by_label)


def meanings(counts: list[float], fits: np.ndarray, accuracy: float) -> np.ndarray:
    """Probability of each label given each class.  fits [labels, K]."""
    n_labels, n_classes = fits.shape
    table = np.zeros((n_classes, n_labels))
    for k in range(n_classes):
        right = sum(counts[label] for label in range(n_labels) if fits[label, k])
        wrong = sum(counts[label] for label in range(n_labels) if not fits[label, k])
        for label in range(n_labels):
            share = accuracy / right if fits[label, k] else (1 - accuracy) / wrong
            table[k, label] = share * counts[label]
    return table


def stacked_score(likelihoods: np.ndarray, counts: np.ndarray, prior: np.ndarray, weights: np.ndarray) -> float:
    """Log posterior of the views' weights, but for a constant."""
    total = sum(b * math.log(w) for b, w in zip(prior.tolist(), weights.tolist(), strict=True))
    for row, count in zip(likelihoods.tolist(), counts.tolist(), strict=True):
        total += count * math.log(sum(w * p for w, p in zip(weights.tolist(), row, strict=True)))
    return total


def pooled(views: list[np.ndarray], shares: list[float], weights: np.ndarray) -> np.ndarray:
    """Mean over members and views; views of each member [views, n, K]."""
    answer = np.zeros(views[0].shape[1:])
    for member, share in zip(views, shares, strict=True):
        for u in range(len(weights)):
            for i in range(answer.shape[0]):
                for k in range(answer.shape[1]):
                    answer[i, k] += share * weights[u] * member[u, i, k]
    return answer
