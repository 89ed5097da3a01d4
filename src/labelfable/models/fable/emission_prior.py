"""The prior of the votes: how strong, how it is shared, and what it says of right and wrong.

    β_jlc = strength · S_jl · A_lk + flat,        A_lk = accuracy where label l speaks for class k, the rest shared by
    the others

Strength is in counts, or proportional to the votes that each source gave: then a rule that fires on ten items is held
as firmly to its name as one that fires on ten thousand, and rare classes do not die out.  Strength and accuracy are as
set, or learned for all sources together (see `emission_hierarchy.py`): sharing="hierarchical" learns the accuracy,
"hierarchical_strength" both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from labelfable.errors import ModelError
from labelfable.models.fable.emission import EmissionName, VotePrior
from labelfable.models.fable.emission_hierarchy import Hierarchy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

ScaleName = Literal["proportional", "counts"]
SharingName = Literal["source", "shared", "hierarchical", "hierarchical_strength"]
LEARNED = ("hierarchical", "hierarchical_strength")
LEAST_SHARE = 1e-3  # of a label among the votes, and of silence among a source's items


@dataclass(frozen=True)
class PriorSettings:
    """How the prior of the votes is made."""

    strength: float = 1.0
    accuracy: float = 0.85
    scale: ScaleName = "proportional"
    sharing: SharingName = "source"
    flat: float = 0.01
    rarity: float = 0.85
    """How far a class's rarity is divided out of its label's votes (pattern): 0 reads A as P(class | label), 1 as
    P(label | class)."""
    firmness: float = 100.0
    """How firmly strength and accuracy are held to those that are set, where they are learned."""
    silence_weight: float = 1.0
    """Whose weight this is: see `update_speech`.  The prior of what is said goes with it, from that of fired."""


def class_support(meaning: NDArray[np.floating], accuracy: float) -> NDArray[np.floating]:
    """A_lk: how strongly label l speaks for class k.  Columns need not sum to 1.  Shapes: [labels, K] -> the same.

    A class's own label gets `accuracy`; the rest is shared evenly.  A label that excludes a class speaks for all
    others, silence for all.
    """
    n_classes = meaning.shape[1]
    if n_classes == 1:
        return np.ones_like(meaning)
    wrong = (1 - accuracy) / (n_classes - 1)
    share = meaning / meaning.max(axis=1, keepdims=True)
    return np.asarray(wrong + (accuracy - wrong) * share)


def vote_prior(rows: VoteTable, emission: EmissionName, settings: PriorSettings, n_subtypes: int) -> VotePrior:
    """β (and the Gamma rate) of one emission model, the same for all subtypes of a class.            Equation (P)"""
    given = rows.label_counts()
    if settings.sharing == "shared":
        given = np.broadcast_to(given.mean(axis=0), given.shape)
    support = class_support(rows.meaning, settings.accuracy)
    table = settings.strength * _unit_table(rows, given, support, emission, settings)
    if emission == "silence" and settings.silence_weight < 1:
        spoken = rows.without_abstain_label()
        alone = _unit_table(spoken, given[:, :-1], support[:-1], "fired", settings)
        table[:, :-1] += (1 - settings.silence_weight) * (settings.strength * alone - table[:, :-1])
    table, flat = np.repeat(table / n_subtypes, n_subtypes, axis=2), settings.flat / n_subtypes
    rate = None
    if emission == "rates":
        unit = 1.0 if settings.scale == "counts" else rows.n_items / rows.n_classes
        least = max(settings.strength * unit / n_subtypes, flat)  # a strength of 0 leaves a proper prior
        rate = np.full(table.shape[2], least)
    if settings.sharing not in LEARNED:
        return VotePrior(table + flat, rate)
    return _with_strengths(table, rate, flat, _right_share(rows, support, settings.accuracy, n_subtypes), settings)


def _unit_table(
    rows: VoteTable,
    given: NDArray[np.floating],
    support: NDArray[np.floating],
    emission: EmissionName,
    settings: PriorSettings,
) -> NDArray[np.floating]:
    """β of a strength of one without its flat part, all subtypes of a class together.  [sources, labels, K]."""
    if emission == "rates":  # each rate's prior mean is the label's own rate, times K A_lk
        shares = given[:, :, None] * support
        return shares if settings.scale == "proportional" else shares * rows.n_classes / rows.n_items
    shares = _pattern_shares(given, support, settings) if emission == "pattern" else _label_shares(given, support, rows)
    return np.asarray(_prior_sizes(given, emission, settings, rows) * shares)


def _right_share(
    rows: VoteTable, support: NDArray[np.floating], accuracy: float, n_subtypes: int
) -> NDArray[np.floating]:
    """How much of each support comes from accuracy, the rest from its opposite; silence is both.  [labels, C]"""
    of_own = accuracy * rows.meaning / rows.meaning.max(axis=1, keepdims=True) / support
    if rows.silence:
        of_own[-1] = accuracy
    return np.asarray(np.repeat(of_own, n_subtypes, axis=1))


def _with_strengths(
    table: NDArray[np.floating],
    rate: NDArray[np.floating] | None,
    flat: float,
    right: NDArray[np.floating],
    settings: PriorSettings,
) -> VotePrior:
    """The same prior as a function of two strengths, at those that are set."""
    if settings.strength == 0:
        raise ModelError(
            f"sharing={settings.sharing!r} learns around the strength that is set, and that is 0",
            hint="Set a strength above 0, or sharing='source'",
        )
    start = settings.strength * settings.accuracy, settings.strength * (1 - settings.accuracy)
    hierarchy = Hierarchy(
        right=table * right / start[0],
        wrong=table * (1 - right) / start[1],
        flat=flat,
        start=start,
        firmness=settings.firmness,
        unit=None if rate is None else rate / settings.strength,
        is_held=settings.sharing == "hierarchical",
    )
    return VotePrior(hierarchy.concentration(start), hierarchy.rate(start), hierarchy)


def _pattern_shares(
    given: NDArray[np.floating], support: NDArray[np.floating], settings: PriorSettings
) -> NDArray[np.floating]:
    """P(source, label | class) up to the class's rarity: each label's votes are spread over sources as they are.

    S_jl A_lk / V_l^rarity, scaled to an average of one per class.  Shapes: [sources, labels], [labels, K] -> [sources,
    labels, K].
    """
    by_label = given.sum(axis=0)
    spread = given / np.maximum(by_label, LEAST_SHARE * max(by_label.sum(), 1)) ** settings.rarity
    shares = spread[:, :, None] * support
    return np.asarray(shares / np.maximum(shares.sum(axis=(0, 1)).mean(), 1e-300))


def _label_shares(given: NDArray[np.floating], support: NDArray[np.floating], rows: VoteTable) -> NDArray[np.floating]:
    """P(label | class, source): the support alone, and where silence is a label, as often as the source is silent."""
    labels = support / support.sum(axis=0)
    shares = np.broadcast_to(labels, (rows.n_sources, *labels.shape))
    if not rows.silence:
        return shares
    lean = support[:-1] / support[:-1].mean(axis=1, keepdims=True)
    spoken = given[:, :-1, None] * lean / rows.n_items
    talk = spoken.sum(axis=1, keepdims=True)
    spoken *= np.minimum(1, (1 - LEAST_SHARE) / np.maximum(talk, LEAST_SHARE))
    return np.concatenate((spoken, 1 - spoken.sum(axis=1, keepdims=True)), axis=1)


def _prior_sizes(
    given: NDArray[np.floating], emission: EmissionName, settings: PriorSettings, rows: VoteTable
) -> NDArray[np.floating]:
    """How many votes of one class the prior's strength is counted in.  [sources or 1, 1, 1]."""
    if settings.scale == "counts":
        return np.ones((1, 1, 1))
    size = np.atleast_1d(given.sum()) if emission == "pattern" else given.sum(axis=1)
    return (size / rows.n_classes)[:, None, None]
