"""MeTaL loop by loop, from its equations; the letters are those of the paper.

Votes are [items][sources][labels], the weight that each source gives to each label: one 1 for a hard vote, a
distribution for a soft one, zeros for silence.  μ[source][label][class] = P(vote | class), p[class] = P(class).  Source
j, label s (of symbol), class k; M are the moments, O in the paper.
"""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def one_hot(votes: NDArray[np.integer], n_labels: int) -> NDArray[np.floating]:
    """Hard votes (−1 = silent) as weights of labels."""
    spread = np.zeros((*votes.shape, n_labels))
    for i, j in product(*map(range, votes.shape)):
        if votes[i, j] >= 0:
            spread[i, j, votes[i, j]] = 1.0
    return spread


def moments(votes: NDArray[np.floating]) -> NDArray[np.floating]:
    """M[j, s, j', s'] = (1/n) Σ_i ψ_ijl ψ_ij's'."""
    n, L, labels = votes.shape
    M = np.zeros((L, labels, L, labels))
    for i in range(n):
        for (j, s), (j2, s2) in product(product(range(L), range(labels)), repeat=2):
            M[j, s, j2, s2] += votes[i, j, s] * votes[i, j2, s2] / n
    return M


def expected_moments(μ: NDArray[np.floating], p: NDArray[np.floating]) -> NDArray[np.floating]:
    """M under the model, sources independent given the class; a source gives one label at a time."""
    L, labels, K = μ.shape
    M = np.zeros((L, labels, L, labels))
    for (j, s), (j2, s2) in product(product(range(L), range(labels)), repeat=2):
        for k in range(K):
            if j != j2:
                M[j, s, j2, s2] += p[k] * μ[j, s, k] * μ[j2, s2, k]
            elif s == s2:
                M[j, s, j2, s2] += p[k] * μ[j, s, k]
    return M


def loss(
    M: NDArray[np.floating],
    μ: NDArray[np.floating],
    p: NDArray[np.floating],
    components: list[int],
    pulls: list[tuple[list[float], NDArray[np.floating]]] | None = None,
) -> dict[str, float]:
    """The loss of tables μ, term by term.  Pulls are (weight of each class, tables), on μ_k √p_k."""
    L, labels, K = μ.shape
    terms = {"moments": 0.0, "marginals": 0.0, "pulls": 0.0}
    for (j, s), (j2, s2) in product(product(range(L), range(labels)), repeat=2):
        if components[j] != components[j2]:
            account = sum(p[k] * μ[j, s, k] * μ[j2, s2, k] for k in range(K))
            terms["moments"] += (M[j, s, j2, s2] - account) ** 2
    for j, s in product(range(L), range(labels)):
        terms["marginals"] += (M[j, s, j, s] - sum(p[k] * μ[j, s, k] for k in range(K))) ** 2
        for weights, centre in pulls or []:
            terms["pulls"] += sum(weights[k] * p[k] * (μ[j, s, k] - centre[j, s, k]) ** 2 for k in range(K))
    return terms


def start(
    votes: NDArray[np.floating], p: NDArray[np.floating], meaning: NDArray[np.floating], share: float, accuracy: float
) -> NDArray[np.floating]:
    """Majority vote's conditional frequencies, a share of them replaced by a guess."""
    n, L, labels = votes.shape
    K = meaning.shape[1]
    counts, totals = np.zeros((L, labels, K)), np.zeros(K)
    for i in range(n):
        support = [sum(votes[i, j, s] * meaning[s, k] for j in range(L) for s in range(labels)) for k in range(K)]
        ρ = [support[k] / sum(support) if sum(support) > 0 else p[k] for k in range(K)]
        for k in range(K):
            totals[k] += ρ[k]
            for j, s in product(range(L), range(labels)):
                counts[j, s, k] += ρ[k] * votes[i, j, s]
    μ = np.zeros((L, labels, K))
    for j, s, k in product(range(L), range(labels), range(K)):
        A = accuracy * meaning[s, k] + (1 - accuracy) * (1 - meaning[s, k]) / (K - 1)
        top = (1 - share) * counts[j, s, k] + share * votes[:, j, s].sum() * A
        μ[j, s, k] = top / ((1 - share) * totals[k] + share * n / K)
    return μ


def third_moment(votes: NDArray[np.floating], v: NDArray[np.floating]) -> float:
    """(1/n) Σ_i Σ_{j<j'<j''} x_ij x_ij' x_ij'',   x_ij = Σ_l v_jl (ψ_ijl − o_jl), of hard votes."""
    n, L, labels = votes.shape
    o = votes.mean(axis=0)
    total = 0.0
    for i in range(n):
        x = [sum(v[j, s] * (votes[i, j, s] - o[j, s]) for s in range(labels)) for j in range(L)]
        total += sum(x[a] * x[b] * x[c] for a, b, c in combinations(range(L), 3)) / n
    return total


def posterior(
    vote: NDArray[np.floating],
    μ: NDArray[np.floating],
    silent: NDArray[np.floating],
    p: NDArray[np.floating],
    weights: list[float],
) -> list[float]:
    """P(Y | votes of one item) ∝ p_k Π_j μ_jk(vote)^(w_j); silent[j, k] stands for the vote of a source without one."""
    L, labels, K = μ.shape
    logs = [math.log(p[k]) for k in range(K)]
    for k, j in product(range(K), range(L)):
        for s in range(labels):
            logs[k] += weights[j] * vote[j, s] * math.log(μ[j, s, k]) if vote[j, s] else 0.0
        logs[k] += weights[j] * (1 - vote[j].sum()) * math.log(silent[j, k])
    powers = [math.exp(log - max(logs)) for log in logs]
    return [power / sum(powers) for power in powers]


def correlation(M: NDArray[np.floating], μ: NDArray[np.floating], p: NDArray[np.floating], j: int, j2: int) -> float:
    """Correlation of two sources' votes that the class leaves unexplained, summed over labels before dividing."""
    labels, K = μ.shape[1:]
    shared = spare = spare2 = 0.0
    for s in range(labels):
        shared += M[j, s, j2, s] - sum(p[k] * μ[j, s, k] * μ[j2, s, k] for k in range(K))
        spare += M[j, s, j, s] - sum(p[k] * μ[j, s, k] ** 2 for k in range(K))
        spare2 += M[j2, s, j2, s] - sum(p[k] * μ[j2, s, k] ** 2 for k in range(K))
    return min(max(shared / math.sqrt(spare * spare2), 0.0), 1.0)


def joint_inverse_covariance(μ: NDArray[np.floating], p: NDArray[np.floating]) -> NDArray[np.floating]:
    """Inverse covariance of all votes' indicators and of the first K − 1 classes', from the model's exact moments."""
    L, labels, K = μ.shape
    flat = μ.reshape(L * labels, K)
    M = expected_moments(μ, p).reshape(L * labels, L * labels)
    size = L * labels + K - 1
    second, mean = np.zeros((size, size)), np.zeros(size)
    for a in range(L * labels):
        mean[a] = sum(p[k] * flat[a, k] for k in range(K))
        for b in range(L * labels):
            second[a, b] = M[a, b]
        for k in range(K - 1):
            second[a, L * labels + k] = second[L * labels + k, a] = p[k] * flat[a, k]
    for k in range(K - 1):
        mean[L * labels + k] = second[L * labels + k, L * labels + k] = p[k]
    return np.linalg.inv(second - np.outer(mean, mean))
