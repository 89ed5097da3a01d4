"""Several fits, one answer: what the votes cannot settle is averaged over instead of being decided once.

- Whether a source's silence says anything is not known: one fit hears it, one does not.
- The sources are a sample: others would have erred elsewhere.  Fits on complementary halves of them, each vote counted
  twice so that it is worth as much as in the whole, show how far the answer hangs on who was asked.
- How far votes and features together, features alone and votes alone can be trusted is told by the votes of the other
  half (`calibration.py`).

    p_i = Σ_m s_m Σ_u w_u p_imu        members m, of whose shares s the whole fits have WHOLE_SHARE; views u
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.models.fable.calibration import held_out_votes, view_weights, vote_accuracy, vote_meanings
from labelfable.models.fable.factors import GlobalFactors
from labelfable.models.fable.guard import held_to_unanimous, lost_classes
from labelfable.models.fable.halves import two_halves
from labelfable.models.fable.items import cut_items
from labelfable.models.fable.search import Peak
from labelfable.models.fable.steps import FableShard, FableSweeps
from labelfable.numerics.special import softmax
from labelfable.votes.encode import short_list

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.inference.execution import Engine
    from labelfable.models.fable.projection import Projected
    from labelfable.votes.table import VoteTable

VIEW_PRIOR = (8.0, 1.0, 1.0)  # votes that speak beforehand for both together, for features alone, for votes alone
MOST_VOTES = 50.0  # that one source can tell of the views, however many it gives
WHOLE_SHARE = 2 / 3  # of the fits that saw all sources
TWICE = 2.0  # what a vote counts for in half of the sources

FitRows = Callable[["VoteTable", dict[str, Any]], Peak]
"""A fit of some sources' votes under changed settings."""


@dataclass(frozen=True, eq=False)
class Member:
    """One fit, of all sources or of a half."""

    sources: tuple[str, ...]
    whole: bool
    sweeps: FableSweeps
    factors: GlobalFactors

    def heard(self, table: VoteTable) -> VoteTable:
        """The votes of its sources, silence as it hears it."""
        part = table if self.whole else table.with_sources(self.sources)
        return part.with_abstain_as_label() if self.sweeps.emission.name == "silence" else part.without_abstain_label()

    def over(
        self, table: VoteTable, projected: Projected, engine: Engine, use: Callable[[slice, NDArray[np.floating]], Any]
    ) -> list[Any]:
        """What `use` makes of each shard's items and their probabilities by view [views, n, K], in the items' order."""
        rows = self.heard(table)
        sweeps = replace(self.sweeps, layout=rows.layout)  # dense and sparse votes lie differently along the columns
        factors = replace(self.factors, packed_votes=rows.layout.pack(self.factors.votes.logs))

        def work(shard: FableShard) -> Any:
            return use(slice(shard.votes.start, shard.votes.stop), shard_views(sweeps, factors, shard))

        return list(engine.map(work, cut_items(rows, None, projected, None)))


def shard_views(sweeps: FableSweeps, factors: GlobalFactors, shard: FableShard) -> NDArray[np.floating]:
    """Class probabilities of a shard's items by votes and features, by features alone, by votes alone.  [3, n, K].

    The features alone: the local step without the votes' evidence.  The votes alone: class proportions and evidence.
    """
    silent = replace(factors.votes, constant=np.zeros_like(factors.votes.constant))
    deaf = replace(factors, packed_votes=np.zeros_like(factors.packed_votes), votes=silent)
    both, features = (sweeps.item_factors(shard, known)[0].responsibilities for known in (factors, deaf))
    shares = np.repeat(sweeps.log_proportions, sweeps.reading.n_subtypes)
    votes, _ = softmax(sweeps.evidence(shard, factors) + shares)
    return np.stack([sweeps.reading.class_sum(view) for view in (both, features, votes)])


@dataclass(frozen=True, eq=False)
class Committee:
    """The members, how far each view is trusted, and the classes that the guard watches over."""

    members: tuple[Member, ...]
    view_weights: NDArray[np.floating]
    """Of votes and features together, features alone, votes alone."""
    vote_accuracy: float
    """How often a vote is taken to name the class."""
    lost: NDArray[np.integer]
    """Classes of which most unanimous items would have got another label."""

    def probabilities(self, table: VoteTable, projected: Projected, engine: Engine) -> NDArray[np.floating]:
        """Class probabilities, [items, classes]."""
        answer = self.pooled(table, projected, engine)
        return held_to_unanimous(answer, table, self.lost) if len(self.lost) else answer

    def remarks(self, classes: NDArray[Any]) -> list[str]:
        """What the user should know of how the answer was come by."""
        if not len(self.lost):
            return []
        names = short_list(classes[self.lost].tolist())
        return [f"most unanimous items of class {names} would have got another label: they were held to their votes"]

    def pooled(self, table: VoteTable, projected: Projected, engine: Engine) -> NDArray[np.floating]:
        """The mean over members and views, before the guard.  [items, classes].                   Equation (CA.4)

        p_i = Σ_m s_m Σ_u w_u p_imu
        """
        answer = np.zeros((table.n_items, table.n_classes))
        for member, share in zip(self.members, member_shares(self.members), strict=True):
            weights = share * self.view_weights

            def add(here: slice, views: NDArray[np.floating], weights: Any = weights) -> None:
                answer[here] += np.tensordot(weights, views, axes=1)

            member.over(table, projected, engine, add)
        return answer


def member_shares(members: tuple[Member, ...]) -> list[float]:
    """s_m: the whole fits have WHOLE_SHARE together, the halves the rest.  They sum to 1."""
    n_whole = sum(member.whole for member in members)
    n_halves = len(members) - n_whole
    of_whole = WHOLE_SHARE if n_halves else 1.0
    return [of_whole / n_whole if member.whole else (1 - of_whole) / n_halves for member in members]


def hearings_of(emission: str) -> tuple[str, str]:
    """The emission itself, and one that hears silence where it does not, or the other way round."""
    return emission, "pattern" if emission == "silence" else "silence"


def convene(
    table: VoteTable, projected: Projected, main: Peak, *, settings: dict[str, Any], fit: FitRows, engine: Engine
) -> Committee:
    """The committee around a fit of all sources, given its emission, evidence_weight and strength, and how to fit."""
    hearings = hearings_of(settings["emission"])
    whole = [_member(table, peak, main, whole=True) for peak in (main, fit(table, {"emission": hearings[1]}))]
    twice = {key: TWICE * settings[key] for key in ("evidence_weight", "strength")}
    halves = []
    for split, emission in enumerate(hearings):
        for names in two_halves(table, split):
            part = table.with_sources(names)
            halves.append(_member(part, fit(part, twice | {"emission": emission}), main, whole=False))
    accuracy = vote_accuracy(table)
    weights = trust(table, projected, halves, accuracy, engine)
    committee = Committee((*whole, *halves), weights, accuracy, np.zeros(0, dtype=np.int64))
    return replace(committee, lost=lost_classes(committee.pooled(table, projected, engine), table))


def _member(part: VoteTable, peak: Peak, main: Peak, *, whole: bool) -> Member:
    """A fit with the class proportions of the whole, which its votes alone are weighed against."""
    return Member(part.sources, whole, replace(peak.sweeps, log_proportions=main.sweeps.log_proportions), peak.factors)


def trust(
    table: VoteTable, projected: Projected, halves: list[Member], accuracy: float, engine: Engine
) -> NDArray[np.floating]:
    """Weights of the views by how well the halves' views predict the votes that they did not see.  [views]."""
    prior = np.array(VIEW_PRIOR)
    meanings = vote_meanings(table, accuracy)
    likelihoods, counts = [np.ones((0, len(prior)))], [np.zeros(0)]
    for half in halves:
        item, label, weight = held_out_votes(table, np.isin(table.sources, half.sources), MOST_VOTES)

        def judge(here: slice, views: NDArray[np.floating], item: Any = item, label: Any = label) -> Any:
            votes = slice(*np.searchsorted(item, (here.start, here.stop)))
            return np.einsum("uvk,kv->vu", views[:, item[votes] - here.start], meanings[:, label[votes]])

        likelihoods += half.over(table, projected, engine, judge)
        counts.append(weight * 2 / len(halves))  # a vote judges once for each way to cut
    return view_weights(np.concatenate(likelihoods), np.concatenate(counts), prior)
