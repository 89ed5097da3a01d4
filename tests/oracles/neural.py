"""WeaSEL and Denoise in NumPy, item by item, from the papers' equations.

`layers` are a network's numbers by PyTorch's names: "classifier.0.weight" and so on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Layers = dict[str, Any]
BATCH_NORM_EPS = 1e-5


def softmax(scores: Any) -> Any:
    raised = [math.exp(score - max(scores)) for score in scores]
    return np.array([value / sum(raised) for value in raised])


def linear(layers: Layers, name: str, x: Any) -> Any:
    return np.array([layers[f"{name}.weight"] @ row + layers[f"{name}.bias"] for row in x])


def batch_norm(layers: Layers, name: str, x: Any) -> Any:
    """Of a training batch: its own mean and variance."""
    mean, variance = x.mean(axis=0), ((x - x.mean(axis=0)) ** 2).mean(axis=0)
    return (x - mean) / np.sqrt(variance + BATCH_NORM_EPS) * layers[f"{name}.weight"] + layers[f"{name}.bias"]


def classifier(layers: Layers, x: Any) -> Any:
    return linear(layers, "classifier.3", np.maximum(linear(layers, "classifier.0", x), 0))


def weighted_votes(weight_of: Any, votes: Any, n_classes: int) -> Any:
    """s_ik = Σ_j a_ijk 1[y_ij = k]."""
    sums = np.zeros((len(votes), n_classes))
    for i, row in enumerate(votes):
        for j, vote in enumerate(row):
            if vote >= 0:
                sums[i, vote] += weight_of(i, j, vote)
    return sums


def cross_entropy(logits: Any, targets: Any) -> float:
    """Against distributions."""
    total = 0.0
    for scores, target in zip(logits, targets, strict=True):
        total -= float(target @ np.log(softmax(scores)))
    return total / len(logits)


def weasel_logits(layers: Layers, x: Any, votes: Any, n_classes: int) -> tuple[Any, Any]:
    """Of the end model and of the encoder."""
    hidden = np.column_stack((votes, x))
    for first, norm in (("encoder.0", "encoder.1"), ("encoder.4", "encoder.5")):
        hidden = np.maximum(batch_norm(layers, norm, linear(layers, first, hidden)), 0)
    n_sources = votes.shape[1]
    scores = linear(layers, "encoder.8", hidden).reshape(len(x), n_sources, n_classes) / layers["temperature"]
    scale = math.sqrt(n_sources) * n_classes
    attention = np.array([[softmax(item[:, k]) for k in range(n_classes)] for item in scores])
    encoder = weighted_votes(lambda i, j, k: scale * attention[i, k, j], votes, n_classes) + layers["log_prior"]
    return classifier(layers, x), encoder


def weasel_loss(layers: Layers, x: Any, votes: Any, n_classes: int, held: tuple[Any, Any] | None = None) -> float:
    """Each network against the other's answer, which is `held` where it must not move."""
    logits = weasel_logits(layers, x, votes, n_classes)
    answer, encoder = held or logits
    to_encoder = [softmax(row) for row in encoder]
    to_answer = [softmax(row) for row in answer]
    return cross_entropy(logits[0], to_encoder) + cross_entropy(logits[1], to_answer)


def attention(layers: Layers, x: Any, votes: Any) -> Any:
    hidden = np.tanh(linear(layers, "attention.0", np.column_stack((votes, x))))
    return np.array([softmax(row) for row in linear(layers, "attention.2", hidden)])


def reliability(layers: Layers, x: Any, votes: Any) -> Any:
    """Softmax of the mean attention to what was said."""
    found = attention(layers, x, votes)
    means = [sum(a[j] for a, row in zip(found, votes, strict=True) if row[j] >= 0) for j in range(votes.shape[1])]
    return softmax(np.array(means) / len(votes))


def pseudo_labels(trust: Any, votes: Any, n_classes: int) -> NDArray[np.integer]:
    return weighted_votes(lambda _, j, __: trust[j], votes, n_classes).argmax(axis=1)


def ensemble(answers: list[Any], momentum: float) -> Any:
    """Weighted mean of an item's earlier answers, oldest first; the newest counts most."""
    shares = [momentum ** (len(answers) - 1 - place) for place in range(len(answers))]
    return sum(share * answer for share, answer in zip(shares, answers, strict=True)) / sum(shares)


def log_answers(layers: Layers, x: Any) -> Any:
    return np.array([np.log(softmax(row)) for row in classifier(layers, x)])


def denoise_loss(
    layers: Layers,
    covered: tuple[Any, Any, Any],
    uncovered: tuple[Any, Any],
    shares: tuple[float, float],
    n_classes: int,
) -> float:
    """`covered` has features, votes and pseudo labels, `uncovered` features and targets."""
    x, votes, labels = covered
    weights = attention(layers, x, votes)
    said = weighted_votes(lambda i, j, _: weights[i, j], votes, n_classes)
    targets = np.eye(n_classes)[labels]
    gap = np.mean((uncovered[1] - log_answers(layers, uncovered[0])) ** 2)
    first, second = shares
    return (
        first * cross_entropy(said, targets)
        + second * cross_entropy(classifier(layers, x), targets)
        + (1 - first - second) * float(gap)
    )


def vote_score(counted: Any, held_out: Any, decided: Any, n_classes: int, prior: float) -> float:
    """Mean log probability of held-out votes: a table of (source, label) pairs a class."""
    n_sources = counted.shape[1]
    tables = np.full((n_classes, n_sources, n_classes), prior)
    for row, k in zip(counted, decided, strict=False):
        for j, vote in enumerate(row):
            if vote >= 0:
                tables[k, j, vote] += 1
    total, number = 0.0, 0
    for row, k in zip(held_out, decided[len(counted) :], strict=True):
        for j, vote in enumerate(row):
            if vote >= 0:
                total += math.log(tables[k, j, vote] / tables[k].sum())
                number += 1
    return total / number
