"""Where MeTaL's fit begins, what known items add to it, and which sources depend on each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from labelfable.inference.execution import sum_over
from labelfable.models.confusion import cut_for, start_statistics
from labelfable.models.dependencies import PAIR, read_pairs
from labelfable.models.metal.completion import Completion, Pull
from labelfable.models.moments import Moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

GUESS_SHARE = 0.1  # of the start's counts come from a guess; measured: 0 to 0.25 differ in the log loss only
GUESS_ACCURACY = 0.8  # how often that guess takes a vote to be right
WORTH = 20  # known items of a class whose counts weigh as much as majority vote's


def read_components(given: Any, sources: Sequence[str]) -> NDArray[np.integer]:
    """Component of each source: sources that a chain of dependencies joins share a number.  [sources].

    `given` holds pairs of sources by name or number, or is None.  In a component all sources count as joined: whatever
    the graph inside, sources of different components are independent given the class, and only that is used.
    """
    n_sources = len(sources)
    ends = np.array(read_pairs(given, sources), dtype=np.int64).reshape(-1, PAIR)
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n_sources, n_sources))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


@dataclass(frozen=True)
class Start:
    """Majority vote's counts, from which the first tables are made."""

    counts: NDArray[np.floating]
    """Σ_i w_i ρ_ik Ψ_i, [sources, labels, classes]."""
    totals: NDArray[np.floating]
    """Σ_i w_i ρ_ik over items that have a vote or a known class, [classes]."""
    n_silent: float
    """Items that have neither."""
    meaning: NDArray[np.floating]
    """[labels, classes]."""

    @classmethod
    def of(cls, rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Start:
        """Counts at majority vote's soft labels, known classes in place."""
        packed = rows.layout.pack(rows.vote_weights)
        shards = cut_for(rows, weights, gold, rows.n_classes)
        statistics = sum_over(shards, partial(start_statistics, packed=packed), None)
        told = rows.covered if gold is None else rows.covered | (gold >= 0)
        n_silent = float(weights[~told].sum())
        totals = statistics.totals - n_silent / rows.n_classes
        return cls(rows.layout.unpack(statistics.counts), totals, n_silent, rows.meaning)

    def tables(self, prior: NDArray[np.floating]) -> NDArray[np.floating]:
        """First μ, [sources, labels, classes].                                                    Equation (ME.4)

            μ_jlk = ( (1 − s) n_jlk + s V_jl A_lk ) / ( (1 − s) n_k + s n / K )

        n_jlk are majority vote's counts and n_k its class totals, items without votes spread by the class proportions;
        V_jl is how often source j gave label l, A_lk the guess that a vote means its class with probability 0.8.  The
        share s of the guess keeps a source that only ever agreed with itself from counting as infallible.
        """
        n_classes = len(prior)
        wrong = (1 - self.meaning) / max(n_classes - 1, 1)
        guess = GUESS_ACCURACY * self.meaning + (1 - GUESS_ACCURACY) * wrong
        votes = self.counts.sum(axis=2, keepdims=True)
        n_items = self.totals.sum() + self.n_silent
        numerator = (1 - GUESS_SHARE) * self.counts + GUESS_SHARE * votes * guess
        totals = (1 - GUESS_SHARE) * (self.totals + self.n_silent * prior) + GUESS_SHARE * n_items / n_classes
        return np.asarray(numerator / totals)


@dataclass(frozen=True)
class Known:
    """Votes on items whose class is known."""

    tables: NDArray[np.floating]
    """Share of each class's known items that get each vote, [columns, classes]."""
    n_items: NDArray[np.floating]
    """Known items of each class, [classes]."""

    @classmethod
    def of(cls, rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Known | None:
        """Counted tables, None where no class is known."""
        if gold is None or not (gold >= 0).any():
            return None
        known = gold >= 0
        labels = np.eye(rows.n_classes)[gold[known]] * weights[known, None]
        n_items = labels.sum(axis=0)
        counts = rows.rows(known).counts(labels).reshape(-1, rows.n_classes)
        return cls(counts / np.maximum(n_items, 1), n_items)

    def mixed_with(self, tables: NDArray[np.floating]) -> NDArray[np.floating]:
        """First tables with the counted ones mixed in, by how many items of the class are known.     Equation (ME.4)

            μ_k = ( n_k μ̂_k + 20 μ_k ) / ( n_k + 20 )

        A few dozen known items decide on which side of chance a source stands, whatever the majority says.
        """
        share = self.n_items / (self.n_items + WORTH)
        return np.asarray(share * self.tables.reshape(tables.shape) + (1 - share) * tables)

    def pull(self, prior: NDArray[np.floating], n_items: float) -> Pull:
        """Each class's tables are pulled to the counted ones, with the share of the class that is known as weight.

        Σ_k min(1, n_k / (n p_k)) ‖X_k − X̂_k‖²                                                    Equation (ME.11)
        """
        return Pull(np.minimum(self.n_items / (n_items * prior), 1), self.tables * np.sqrt(prior))


def misfit_anchor(moments: Moments, loss: Completion, free: dict[str, float]) -> float:
    """Strength of the anchor from how badly the free fit explains the sources' covariance.         Equation (ME.5)

        a = u / (1 − u),    u = ( loss − noise ) / ( ‖mask ∘ (O − oo')‖² − noise )   between 0 and 0.99

    `noise`, Σ mask O (1 − O) / n, is what sampling alone leaves.  Where votes follow the model, u goes to 0 as items
    grow, and the fit is left alone; sources that depend on each other leave much unexplained: the fit is not to be
    believed.
    """
    between, rates, n = loss.between, moments.rates, moments.n_items
    by_component = np.zeros(int(loss.components.max()) + 1)
    np.add.at(by_component, np.repeat(loss.components, moments.n_labels), rates**2)
    products = by_component.sum() ** 2 - float((by_component**2).sum())
    covariance = loss.squares - 2 * float(rates @ (between @ rates)) + products
    noise = (float(between.sum()) - loss.squares) / n
    unexplained = max(free["moments"] + free["marginals"] - noise, 0.0)
    share = unexplained / (covariance - noise) if covariance > noise else 1.0
    share = min(share, 0.99)
    return share / (1 - share)
