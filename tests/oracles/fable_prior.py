"""The prior of FABLE's votes, number by number from its description."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

LEAST = 1e-3


def support(meaning: Any, accuracy: float) -> Any:
    """A_lk: `accuracy` for the classes that label l speaks for, the rest shared by the others."""
    n_labels, n_classes = meaning.shape
    A = np.ones((n_labels, n_classes))
    if n_classes > 1:
        for label, k in np.ndindex(n_labels, n_classes):
            wrong = (1 - accuracy) / (n_classes - 1)
            A[label, k] = accuracy if meaning[label, k] > 0 else wrong
    return A


def vote_counts(spoken: Any, n_sources: int, n_labels: int) -> Any:
    """V_jl."""
    V = np.zeros((n_sources, n_labels))
    for entries in spoken:
        for j, label, weight in entries:
            V[j, label] += weight
    return V


def vote_prior(spoken: Any, meaning: Any, emission: str, settings: Any, *, n_sources: int, n_subtypes: int) -> Any:
    """β [sources, labels, C] and the Gamma rate [C] or None; `spoken` lists silence where it is a label."""
    n_labels, n_classes = meaning.shape
    V, A = vote_counts(spoken, n_sources, n_labels), support(meaning, settings.accuracy)
    if settings.sharing == "shared":
        V = np.array([[V[:, label].mean() for label in range(n_labels)] for _ in range(n_sources)])
    n_items, M = len(spoken), n_subtypes
    β = np.zeros((n_sources, n_labels, n_classes * M))
    if emission == "rates":
        unit = 1.0 if settings.scale == "proportional" else n_classes / n_items
        for j, label, k in np.ndindex(n_sources, n_labels, n_classes):
            value = settings.strength * unit * V[j, label] * A[label, k] + settings.flat
            β[j, label, k * M : (k + 1) * M] = value / M
        items = max(settings.strength * unit * n_items / n_classes, settings.flat)
        return β, np.full(n_classes * M, items / M)
    shares = {"pattern": pattern_shares, "fired": fired_shares, "silence": silence_shares}[emission]
    told = shares(V, A, settings.rarity, n_items)
    alone = fired_shares(V[:, :-1], A[:-1], settings.rarity, n_items) if emission == "silence" else None
    for j, label, k in np.ndindex(n_sources, n_labels, n_classes):
        size = 1.0
        if settings.scale == "proportional":
            size = (V.sum() if emission == "pattern" else V[j].sum()) / n_classes
        value = size * told[j, label, k]
        if alone is not None and label < n_labels - 1:  # of what is said, with the weight from fired's to silence's
            size = V[j, :-1].sum() / n_classes if settings.scale == "proportional" else 1.0
            value = settings.silence_weight * value + (1 - settings.silence_weight) * size * alone[j, label, k]
        β[j, label, k * M : (k + 1) * M] = (settings.strength * value + settings.flat) / M
    return β, None


def pattern_shares(V: Any, A: Any, rarity: float, _n_items: int) -> Any:
    """V_jl A_lk / V_l^rarity, so scaled that a class has 1 on average."""
    told = np.zeros((*V.shape, A.shape[1]))
    for j, label, k in np.ndindex(told.shape):
        whole = max(V[:, label].sum(), LEAST * max(V.sum(), 1.0))
        told[j, label, k] = V[j, label] * A[label, k] / whole**rarity
    whole = math.fsum(told.ravel().tolist()) / A.shape[1]
    return told / whole if whole > 0 else told


def fired_shares(V: Any, A: Any, _rarity: float, _n_items: int) -> Any:
    """A_lk / Σ_l A_lk, the same for all sources."""
    told = np.zeros((*V.shape, A.shape[1]))
    for j, label, k in np.ndindex(told.shape):
        told[j, label, k] = A[label, k] / A[:, k].sum()
    return told


def silence_shares(V: Any, A: Any, _rarity: float, n_items: int) -> Any:
    """A label as often as the source gives it, leaning as A does; the rest, at least LEAST, is silence (the last)."""
    told = np.zeros((*V.shape, A.shape[1]))
    n_sources, n_labels = V.shape
    for j in range(n_sources):
        for k in range(A.shape[1]):
            for label in range(n_labels - 1):
                told[j, label, k] = V[j, label] / n_items * A[label, k] / A[label].mean()
            talk = told[j, :-1, k].sum()
            if talk > 1 - LEAST:
                told[j, :-1, k] *= (1 - LEAST) / talk
            told[j, -1, k] = 1 - told[j, :-1, k].sum()
    return told
