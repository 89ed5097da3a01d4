"""Log evidence of FABLE on a handful of items: every assignment of components summed, the processes drawn.

    p(y)^(w) = Σ_z  E_f,τ Π_i p(z_i | f_i, τ)  ·  ∫ p(v) Π_ij p(y_ij | v_z_i)^w dv

The integral over vote tables or rates is closed; with w ≠ 1 it is that of the power likelihood.  The expectation over
the processes (and over τ where it stands in the normaliser) is a mean over draws.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from tests.oracles.fable import draws

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.oracles.fable import Model

BATCHES = 20


def log_evidence(model: Model, n_draws: int, seed: int = 0) -> tuple[float, float]:
    """The estimate and its standard error."""
    assignments = [z for z in product(range(model.n_components), repeat=len(model.spoken)) if _allowed(model, z)]
    likelihood = np.array([math.exp(_log_votes(model, z) + _log_class_counts(model, z)) for z in assignments])
    generator = np.random.default_rng(seed)
    means = []
    for _ in range(BATCHES):
        shares = _component_shares(model, n_draws // BATCHES, generator)
        joint = shares[:, 0]
        for i in range(1, len(model.spoken)):
            joint = (joint[:, :, None] * shares[:, None, i]).reshape(len(shares), -1)
        table = joint.mean(axis=0).reshape((model.n_components,) * len(model.spoken))
        means.append(sum(p * table[z] for p, z in zip(likelihood.tolist(), assignments, strict=True)))
    whole = float(np.mean(means))
    return math.log(whole), float(np.std(means)) / math.sqrt(BATCHES) / whole


def _allowed(model: Model, z: tuple[int, ...]) -> bool:
    if model.gold is None:
        return True
    known = model.gold.tolist()
    return all(label < 0 or model.class_of(c) == label for c, label in zip(z, known, strict=True))


def _component_shares(model: Model, n_draws: int, generator: np.random.Generator) -> NDArray[np.floating]:
    """p(g_i | f_i) in the conditional reading, p(z_i, g_i | f_i, τ) in the others.  [draws, items, C]."""
    n_items, n_columns = model.phi.shape
    w = generator.normal(size=(n_draws, n_columns, model.n_components))
    rest = generator.normal(size=(n_draws, n_items, model.n_components)) * np.sqrt(model.residual)[:, None]
    f = model.process_mean + np.einsum("ir,src->sic", model.phi, w) + rest
    raised = 1 / (1 + np.exp(-f))
    if model.reading == "base":
        raised *= np.repeat(_proportions(model, n_draws, generator), model.n_subtypes, axis=1)[:, None, :]
    for group in model.groups:
        raised[:, :, group] /= raised[:, :, group].sum(axis=2, keepdims=True)
    return raised


def _proportions(model: Model, n_draws: int, generator: np.random.Generator) -> NDArray[np.floating]:
    if model.class_prior is None:
        return np.broadcast_to(model.proportions, (n_draws, model.n_classes))
    return generator.dirichlet(model.class_prior, size=n_draws)


def _log_class_counts(model: Model, z: tuple[int, ...]) -> float:
    """Log p(z) of the conditional reading, τ integrated out; the other readings have it in the shares."""
    if model.reading != "conditional":
        return 0.0
    counts = [0.0] * model.n_classes
    for c in z:
        counts[model.class_of(c)] += 1
    if model.class_prior is None:
        return math.fsum(n * math.log(p) for n, p in zip(counts, model.proportions.tolist(), strict=True))
    return log_dirichlet_integral(model.class_prior.tolist(), counts)


def log_dirichlet_integral(concentration: list[float], counts: list[float]) -> float:
    """Log E Π_l p_l^n_l under a Dirichlet."""
    whole = math.fsum(concentration)
    value = math.lgamma(whole) - math.lgamma(whole + math.fsum(counts))
    return value + math.fsum(math.lgamma(x + n) - math.lgamma(x) for x, n in zip(concentration, counts, strict=True))


def _log_votes(model: Model, z: tuple[int, ...]) -> float:
    """Log of the integral over tables or rates."""
    n_sources, n_labels, n_components = model.concentration.shape
    counts = np.zeros((n_sources, n_labels, n_components))
    totals = [0.0] * n_components
    for entries, c in zip(model.spoken, z, strict=True):
        totals[c] += model.weight
        for j, label, vote in entries:
            counts[j, label, c] += model.weight * vote
    value = 0.0
    for c in range(n_components):
        if model.emission != "rates":
            for weight, β, events in draws(model, c, model.concentration):
                n = [weight * math.fsum(float(counts[j, label, c]) for j, label in pairs) for pairs in events]
                value += log_dirichlet_integral(β, n)
            continue
        before, after = float(model.rate[c]), float(model.rate[c]) + totals[c]
        for j, label in np.ndindex(n_sources, n_labels):
            β, n = float(model.concentration[j, label, c]), float(counts[j, label, c])
            value += math.lgamma(β + n) - math.lgamma(β) + β * math.log(before) - (β + n) * math.log(after)
    return value
