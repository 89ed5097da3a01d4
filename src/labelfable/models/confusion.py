"""What Dawid-Skene, iBCC and EBCC share: votes that depend on a component through a table per source.

    y_ij | z_i in component c  ~  Categorical(v_jc),        component c = (class k, subtype m),  C = K·M

The models differ in what they know of v (a point or a Dirichlet) and of the proportions; given their (expected)
logarithms the local step is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace, device

from labelfable.inference.execution import engine_of
from labelfable.inference.shards import cut, shard_items
from labelfable.models.class_prior import shares_of
from labelfable.numerics.namespace import Array, column_sum, inner
from labelfable.numerics.special import entropy, softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.inference.shards import Shard
    from labelfable.votes.maps import Layout
    from labelfable.votes.table import VoteTable


ONE_LABEL_SHARE = 0.05  # of the votes; in a crowd a few people who voted once or twice come to less


@dataclass(frozen=True)
class ConfusionStatistics:
    """Sums over items; they add up over shards."""

    counts: NDArray[np.floating]
    """Σ_i ρ_ic Ψ_i, over the packed columns of the votes, [columns, C]."""
    totals: NDArray[np.floating]
    """Σ_i ρ_ic, [C]."""
    entropy: float
    """Σ_i H[ρ_i]."""

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


def responsibilities(
    shard: Shard, logs: ConfusionLogs, n_classes: int
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Responsibilities and their log normalisers.                                               Equation (C.1)

        log ρ_ic = log π_c + Σ_j log v_{jc y_ij} − normaliser_i

    Where the class is known, only its components remain.  Shapes: -> [n, C], [n].
    """
    logits = shard.maps.evidence(logs.votes)
    logits += logs.components
    return softmax(clamp_logits(logits, shard.gold, n_classes), overwrite=True)


def start_statistics(
    shard: Shard, packed: NDArray[np.floating], shares_of_subtypes: NDArray[np.floating] | None = None
) -> ConfusionStatistics:
    """Statistics at majority vote's soft labels, a class's share split over its subtypes.

    Shapes: packed [columns, K], shares_of_subtypes [n, M].
    """
    totals = shard.maps.evidence(packed)
    ρ = clamp(shares_of(totals), shard.gold)
    spread = inner(shard.weights, entropy(ρ))
    ρ = ρ * shard.weights[:, None]
    if shares_of_subtypes is not None:
        spread += inner(shard.weights, entropy(shares_of_subtypes))  # independent of the class
        ρ = (ρ[:, :, None] * shares_of_subtypes[:, None, :]).reshape(len(ρ), -1)
    return ConfusionStatistics(shard.maps.counts(ρ), column_sum(ρ), spread)


def local_statistics(shard: Shard, logs: ConfusionLogs, n_classes: int) -> ConfusionStatistics:
    """Sums over one shard at the responsibilities that the globals imply.                        Equation (C.2)

    At these the entropy is Σ_i normaliser_i − Σ_ic ρ_ic ( log π_c + evidence_ic ), and the last sum is over counts and
    totals.
    """
    ρ, normaliser = responsibilities(shard, logs, n_classes)
    if shard.is_weighted:
        ρ *= shard.weights[:, None]
    counts, totals = shard.maps.counts(ρ), column_sum(ρ)
    entropy = inner(shard.weights, normaliser) - inner(counts, logs.votes) - inner(totals, logs.components)
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
        given = rows.counts(weights[:, None])[:, : rows.n_spoken, 0]
        one_label = (given > 0).sum(axis=1) == 1
        abstain = "label" if given[one_label].sum() >= ONE_LABEL_SHARE * given.sum() > 0 else "missing"
    return rows.with_abstain_as_label() if abstain == "label" else rows.without_abstain_label()


def clamp_logits(logits: Array, gold: NDArray[np.integer] | None, n_classes: int) -> Array:
    """Leave only the components of the known class.  Shapes: [n, C], [n] (−1 = unknown) -> [n, C]."""
    if gold is None:
        return logits
    xp = array_namespace(logits)
    component_class = np.repeat(np.arange(n_classes), logits.shape[1] // n_classes)
    ruled_out = xp.asarray((gold[:, None] >= 0) & (component_class != gold[:, None]), device=device(logits))
    return xp.where(ruled_out, xp.asarray(-np.inf, dtype=logits.dtype, device=device(logits)), logits)


def clamp(shares: NDArray[np.floating], gold: NDArray[np.integer] | None) -> NDArray[np.floating]:
    """Class shares with the known classes in place.  [n, K]."""
    if gold is None:
        return shares
    return np.where(gold[:, None] >= 0, np.eye(shares.shape[1])[gold], shares)


def cut_for(
    rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None, n_components: int
) -> list[Shard]:
    """Shards sized for tables over `n_components`."""
    return cut(rows, weights, gold, shard_items(rows.layout.n_columns * n_components))


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
        answer[shard.start : shard.stop] = np.einsum("nkm->nk", ρ.reshape(len(ρ), rows.n_classes, -1))

    for _ in engine_of(n_jobs).map(fill, cut_for(rows, np.ones(rows.n_items), None, len(log_components))):
        pass
    return answer
