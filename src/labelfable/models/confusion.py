"""What Dawid-Skene, iBCC and EBCC share: votes that depend on a component through a table per source.

    y_ij | z_i in component c  ~  Categorical(v_jc),        component c = (class k, subtype m),  C = K·M

The models differ in what they know of v (a point or a Dirichlet) and of the proportions; given their (expected)
logarithms the local step is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace, device

from labelfable.inference.device_engine import shard_rows
from labelfable.inference.execution import engine_of
from labelfable.inference.shards import cut, shard_items
from labelfable.models.class_prior import shares_of
from labelfable.numerics.namespace import Array, column_sum, folded, inner
from labelfable.numerics.special import softmax, softmax_below_zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from labelfable.inference.shards import Shard
    from labelfable.votes.maps import Layout
    from labelfable.votes.table import VoteTable


SINGLE_ITEMS, SINGLE_COMPONENTS = 2**17, 8  # fewest for which a fit's responsibilities are in single precision
LONGEST_SINGLE_SUM = 2**15  # terms
ONE_LABEL_SHARE = 0.05  # of the votes; in a crowd a few people who voted once or twice come to less


@dataclass(frozen=True)
class ConfusionStatistics:
    """Sums over items; they add up over shards."""

    counts: NDArray[np.floating]
    """Σ_i ρ_ic Ψ_i, over the packed columns of the votes, [columns, C]."""
    totals: NDArray[np.floating]
    """Σ_i ρ_ic, [C]."""
    entropy: Any
    """Σ_i H[ρ_i], a number; not a number where nobody asks for it."""

    def __add__(self, other: ConfusionStatistics) -> ConfusionStatistics:
        """The statistics of both."""
        return ConfusionStatistics(self.counts + other.counts, self.totals + other.totals, self.entropy + other.entropy)


@dataclass(frozen=True)
class ConfusionLogs:
    """All that the local step needs of the globals."""

    votes: NDArray[np.floating]
    """(Expected) log v_jcl over the packed columns, [columns, C]."""
    components: NDArray[np.floating]
    """(Expected) log proportion of each component, [C]."""
    single: bool = False
    """Whether what is made of each item is in single precision."""

    @cached_property
    def offered(self) -> Array:
        """`votes`, each row less its largest entry.

        An item's responsibilities stay the same, since all its components lose the same.  But no sum is above 0 any
        more, and those of the components that matter are small, so that single precision says enough of them.
        """
        xp = array_namespace(self.votes)
        found = self.votes - xp.max(self.votes, axis=1, keepdims=True)
        offered: Array = xp.astype(found, xp.float32 if self.single else xp.float64, copy=False)
        return offered


def responsibilities(
    shard: Shard, logs: ConfusionLogs, n_classes: int
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Responsibilities and their log normalisers.                                               Equation (C.1)

        log ρ_ic = log π_c + Σ_j log v_{jc y_ij} − normaliser_i

    The normalisers are those of the offered logarithms.  Where the class is known, only its components remain.
    Shapes: -> [n, C], [n].
    """

    def logits() -> Array:
        evidence = shard.maps.evidence(logs.offered)
        if not isinstance(evidence, np.ndarray):
            xp = array_namespace(evidence)
            return clamp_logits(evidence + xp.astype(logs.components, evidence.dtype), shard.gold, n_classes)
        wide = folded(evidence)
        wide += np.resize(logs.components.astype(wide.dtype), wide.shape[1])
        return clamp_logits(evidence, shard.gold, n_classes)

    is_here = isinstance(logs.components, np.ndarray)  # elsewhere a look at one number would make the host wait
    found = softmax_below_zero(logits()) if is_here else None
    return softmax(logits(), overwrite=True) if found is None else found


def start_statistics(shard: Shard, packed: Array, shares_of_subtypes: Array | None = None) -> ConfusionStatistics:
    """Statistics at majority vote's soft labels, a class's share split over its subtypes.

    Shapes: packed [columns, K], shares_of_subtypes [n, M].
    """
    ρ: Array = clamp(shares_of(shard.maps.evidence(packed)), shard.gold)
    if shard.is_weighted:
        ρ *= shard.weights[:, None]
    if shares_of_subtypes is not None and not isinstance(ρ, np.ndarray):
        ρ = (ρ[:, :, None] * shares_of_subtypes[:, None, :]).reshape(len(ρ), -1)
    elif shares_of_subtypes is not None:
        split = np.empty((*ρ.shape, shares_of_subtypes.shape[1]), ρ.dtype)
        for subtype, share in enumerate(shares_of_subtypes.T):
            np.multiply(ρ, share[:, None], out=split[:, :, subtype])
        ρ = split.reshape(len(ρ), -1)
    return ConfusionStatistics(shard.maps.counts(ρ), column_sum(ρ), math.nan)


def local_statistics(shard: Shard, logs: ConfusionLogs, n_classes: int) -> ConfusionStatistics:
    """Sums over one shard at the responsibilities that the globals imply.                        Equation (C.2)

    At these the entropy is Σ_i normaliser_i − Σ_ic ρ_ic ( log π_c + evidence_ic ), and the last sum is over counts and
    totals.  Sums over a shard are in the items' precision, all that follows in double.
    """
    ρ, normaliser = responsibilities(shard, logs, n_classes)
    if shard.is_weighted:
        ρ *= array_namespace(ρ).astype(shard.weights[:, None], ρ.dtype)
    counts, totals = shard.maps.counts(ρ), column_sum(ρ)
    xp = array_namespace(ρ)
    normalisers = inner(shard.weights, xp.astype(normaliser, xp.float64))
    entropy = normalisers - inner(counts, xp.astype(logs.offered, xp.float64)) - inner(totals, logs.components)
    return ConfusionStatistics(counts, totals, entropy)


def items_bound(statistics: ConfusionStatistics, logs: ConfusionLogs) -> dict[str, float]:
    """The items' part of the bound, for any responsibilities and any globals.                    Equation (C.3)

    Σ_i Σ_c ρ_ic Σ_j log v_{jc y_ij}  +  Σ_i Σ_c ρ_ic log π_c  +  Σ_i H[ρ_i]
    """
    return {
        "votes": inner(statistics.counts, logs.votes),
        "components": inner(statistics.totals, logs.components),
        "entropy": statistics.entropy,
    }


def heard(rows: VoteTable, weights: NDArray[np.floating], abstain: str) -> VoteTable:
    """The votes as a model hears them: silence says nothing ("missing"), or is one more label ("label").

    "auto" decides by the sources that only ever give one label.  Of their votes a confusion matrix learns nothing: all
    they say lies in *when* they speak.  Where they give a fair share of the votes, the sources are rules that look at
    every item, and silence is a label; else they are people who were given some items, and silence says nothing.
    """
    if abstain == "auto" and rows.silence:
        return rows
    if abstain == "auto":
        given = rows.label_counts(weights)[:, : rows.n_spoken]
        one_label = (given > 0).sum(axis=1) == 1
        abstain = "label" if given[one_label].sum() >= ONE_LABEL_SHARE * given.sum() > 0 else "missing"
    return rows.with_abstain_as_label() if abstain == "label" else rows.without_abstain_label()


def clamp_logits(logits: Array, gold: NDArray[np.integer] | None, n_classes: int) -> Array:
    """Leave only the components of the known class.  Shapes: [n, C], [n] (−1 = unknown) -> [n, C]."""
    if gold is None:
        return logits
    xp = array_namespace(logits)
    known = xp.asarray(gold, device=device(logits))[:, None]
    component_class = np.repeat(np.arange(n_classes, dtype=np.int64), logits.shape[1] // n_classes)
    ruled_out = (known >= 0) & (xp.asarray(component_class, device=device(logits)) != known)
    return xp.where(ruled_out, xp.asarray(-np.inf, dtype=logits.dtype, device=device(logits)), logits)


def clamp(shares: Array, gold: Array | None) -> Array:
    """Class shares with the known classes in place.  [n, K]."""
    if gold is None:
        return shares
    if not isinstance(shares, np.ndarray):
        xp = array_namespace(shares)
        known = xp.astype(xp.arange(shares.shape[1], device=device(shares)) == gold[:, None], shares.dtype)
        return xp.where(gold[:, None] >= 0, known, shares)
    return np.where(gold[:, None] >= 0, np.eye(shares.shape[1])[gold], shares)


def cut_for(
    rows: VoteTable,
    weights: NDArray[np.floating],
    gold: NDArray[np.integer] | None,
    n_components: int,
    device_name: Any = None,
) -> list[Shard]:
    """Shards sized for tables over `n_components`, or for a device."""
    if device_name is not None:
        return cut(rows, weights, gold, shard_rows(rows.layout.single.n_columns))
    return cut(rows, weights, gold, shard_items(rows.layout.n_columns * n_components))


def suits_single(shards: Sequence[Shard], n_components: int) -> bool:
    """Whether what a fit makes of each item is to be in single precision: where items and components are many.

    It takes two thirds of the time where components are many, nine tenths where they are few.
    """
    many = shards[-1].stop >= SINGLE_ITEMS and n_components >= SINGLE_COMPONENTS
    return many and shards[0].stop <= LONGEST_SINGLE_SUM


def class_probabilities(
    rows: VoteTable, log_votes: NDArray[np.floating], log_components: NDArray[np.floating], n_jobs: int | None = None
) -> Any:
    """Responsibilities of new rows with the globals held, summed over subtypes.                   Equation (C.1)

    Shapes: log_votes [sources, labels, C], log_components [C] -> [rows, K].
    """
    layout: Layout = rows.layout
    logs = ConfusionLogs(layout.pack(log_votes), log_components)
    answer = np.empty((rows.n_items, rows.n_classes))

    def fill(shard: Shard) -> None:
        ρ, _ = responsibilities(shard, logs, rows.n_classes)
        own = answer[shard.start : shard.stop].reshape(-1)
        first, *others = ρ.reshape(len(own), -1).T  # a sum over so short an axis would be entered for each class
        own[:] = first
        for other in others:
            own += other

    for _ in engine_of(n_jobs).map(fill, cut_for(rows, np.ones(rows.n_items), None, len(log_components))):
        pass
    return answer
