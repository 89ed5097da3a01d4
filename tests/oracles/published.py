"""FABLE's printed rules, item by item and component by component, from the equations at the top of each function.

Component c = (k, m) has number k·M + m.  Votes are −1 where a source abstains; abstaining is label K.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import psi

if TYPE_CHECKING:
    from numpy.typing import NDArray

JITTER, LEAST_VOTES = 1e-3, 1e-5


def kernel(features: Any, kind: str) -> NDArray[np.floating]:
    """x_i·x_j / (|x_i| |x_j|), or x_i·x_j; a row with NaN is like no other, nor like itself."""
    rows = [None if any(math.isnan(x) for x in row) else [float(x) for x in row] for row in features]
    found = np.zeros((len(rows), len(rows)))
    for i, left in enumerate(rows):
        for j, right in enumerate(rows):
            if left is None or right is None:
                continue
            found[i, j] = math.fsum(x * y for x, y in zip(left, right, strict=True))
            if kind == "cosine":
                found[i, j] /= math.hypot(*left) * math.hypot(*right)
    return found


def poisson_mean(shape: float, mean: float, tilt: float, n_classes: int, variant: str) -> float:
    """exp(E log λ) exp(−m̂/2) / cosh(c/2), with E log λ = ψ(a) − log K; the code has cosh(c)."""
    rate = math.exp(float(psi(shape))) / n_classes
    return rate * math.exp(-mean / 2) / math.cosh(tilt / 2 if variant == "paper" else tilt)


def coefficients(ρ: float, mean: float) -> tuple[float, float]:
    """φ = ρ + 1, ξ = log 2 − m̂/2."""
    return ρ + 1, math.log(2) - mean / 2


def curvature(φ: float, ξ: float, γ: float, tilt: float) -> float:
    """θ = (φ/ξ + γ) / (2c) · tanh(c/2)."""
    return (φ / ξ + γ) / (2 * tilt) * math.tanh(tilt / 2)


def process(precision: Any, θ: Any, pull: Any) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """m̂ = ½ Σ̂ (φ/ξ − γ) and Σ̂ = (Σ⁻¹ + diag θ)⁻¹ of one component."""
    covariance = np.linalg.inv(precision + np.diag(θ))
    return 0.5 * covariance @ pull, covariance


def krylov_process(
    precision: Any, θ: Any, pull: Any, probe: Any, rank: int
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """The same with Σ̂ = Q (Q' A Q)⁻¹ Q', Q an orthonormal basis of probe, A probe, A² probe, …"""
    matrix = precision + np.diag(θ)
    basis: list[NDArray[np.floating]] = []
    vector = np.asarray(probe, dtype=np.float64)
    for _ in range(min(rank, len(matrix))):
        for _ in range(3):
            for known in basis:
                vector = vector - known * float(known @ vector)
        basis.append(vector / np.linalg.norm(vector))
        vector = matrix @ basis[-1]
    Q = np.stack(basis, axis=1)
    covariance = Q @ np.linalg.inv(Q.T @ matrix @ Q) @ Q.T
    return 0.5 * covariance @ pull, covariance


def table_prior(votes: Any, n_classes: int, n_subtypes: int, correct: float, variant: str) -> NDArray[np.floating]:
    """β, [labels, C]: N·M·correct (code: K·M·correct − 1) for the own label, 1 for another, all abstentions."""
    prior = np.ones((n_classes + 1, n_classes * n_subtypes))
    for c in range(n_classes * n_subtypes):
        size = len(votes) if variant == "paper" else n_classes
        prior[c // n_subtypes, c] = size * n_subtypes * correct - (0 if variant == "paper" else 1)
        prior[n_classes, c] = np.count_nonzero(np.asarray(votes) < 0)
    return prior


def start_shares(votes: Any, n_classes: int) -> NDArray[np.floating]:
    """Shares of each item's votes, every class with a hair more than its votes."""
    shares = np.full((len(votes), n_classes), LEAST_VOTES)
    for i, row in enumerate(votes):
        for vote in row:
            if vote >= 0:
                shares[i, vote] += 1
        shares[i] /= shares[i].sum()
    return shares


def tables(votes: Any, ρ: Any, prior: Any) -> NDArray[np.floating]:
    """μ_jlc = β_lc + Σ_i ρ_ic 1[y_ij = l], abstaining being the last label."""
    found = np.repeat(prior[None], len(votes[0]), axis=0)
    for i, row in enumerate(votes):
        for j, vote in enumerate(row):
            found[j, vote if vote >= 0 else len(prior) - 1] += ρ[i]
    return found


def responsibilities(votes: Any, φ: Any, ξ: Any, classes: Any, μ: Any, *, n_subtypes: int) -> NDArray[np.floating]:
    """ρ ∝ exp( ψ(φ) − log ξ + E log τ_k + Σ_j E log v )"""
    found = np.zeros(φ.shape)
    for i, row in enumerate(votes):
        for c in range(φ.shape[1]):
            found[i, c] = float(psi(φ[i, c])) - math.log(ξ[i, c])
            found[i, c] += float(psi(classes[c // n_subtypes])) - float(psi(math.fsum(classes)))
            for j, vote in enumerate(row):
                table = μ[j, :, c]
                found[i, c] += float(psi(table[vote])) - float(psi(table.sum()))  # −1 is the last label
        found[i] = np.exp(found[i] - found[i].max())
        found[i] /= found[i].sum()
    return found


class Method:
    """The whole method on dense arrays, from a given start, with the exact inverse."""

    def __init__(self, votes: Any, features: Any, n_classes: int, n_subtypes: int, variant: str) -> None:
        self.votes, self.n_classes, self.n_subtypes, self.variant = votes, n_classes, n_subtypes, variant
        self.Σ = kernel(features, "cosine") + JITTER * np.eye(len(votes))
        self.prior = table_prior(votes, n_classes, n_subtypes, 1000, variant)
        self.α = start_shares(votes, n_classes).sum(axis=0)

    def iterate(self, ρ: Any, mean: Any, variance: Any, shape: Any) -> tuple[Any, Any, Any, Any]:
        """One iteration: ρ, m̂, diag Σ̂ and a.  An error of `math.log` where ξ is not positive."""
        n_items, n_components = ρ.shape
        classes = self.α + ρ.reshape(n_items, self.n_classes, -1).sum(axis=(0, 2))
        μ = tables(self.votes, ρ, self.prior)
        γ, θ, φ, ξ = (np.zeros(ρ.shape) for _ in range(4))
        for i, c in np.ndindex(ρ.shape):
            tilt = math.sqrt(mean[i, c] ** 2 + variance[i, c])
            γ[i, c] = poisson_mean(shape[i], mean[i, c], tilt, self.n_classes, self.variant)
            φ[i, c], ξ[i, c] = coefficients(ρ[i, c], mean[i, c])
            θ[i, c] = curvature(φ[i, c], ξ[i, c], γ[i, c], tilt)
        after = responsibilities(self.votes, φ, ξ, classes, μ, n_subtypes=self.n_subtypes)
        new_mean, new_variance = np.zeros(ρ.shape), np.zeros(ρ.shape)
        for c in range(n_components):
            pull = φ[:, c] / ξ[:, c] - γ[:, c]
            new_mean[:, c], covariance = process(np.linalg.inv(self.Σ), θ[:, c], pull)
            new_variance[:, c] = np.diag(covariance)
        return after, new_mean, new_variance, 1 + γ.sum(axis=1)
