"""Whether features should help, without gold: do they know anything of what the votes say, and is there room for it?

Features that are independent of the votes cannot improve a label model of both.  Those that depend on them may, most of
all where the votes leave items open.  How much they do is another matter: on synthetic sets a closer dependence did not
go with a larger gain (`labelfable bench-gain`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError
from labelfable.evaluation.correlation import LEAST_ITEMS, dependence
from labelfable.evaluation.peers import dense_numbers
from labelfable.models.class_prior import vote_totals
from labelfable.votes.features import read_features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

N_SAMPLED = 2000  # items whose pairs are compared: seconds, and a correlation of 0.1 is seen beyond doubt
CHANCE = 0.001  # a p-value below this is no accident
WEAK, STRONG = 0.1, 0.3  # of the correlation freed of chance; the usual words for a correlation's size


@dataclass(frozen=True)
class Advice:
    """What was found, in numbers and in words."""

    n_items: int
    n_compared: int
    """Items with votes and features among which the two were compared."""
    correlation: float
    """Distance correlation of features and votes, chance taken off: 0 none, 1 complete."""
    raw_correlation: float
    """The same as the sample has it; above 0 by chance alone."""
    p_value: float
    uncovered: float
    """Share of the items without a vote: there features alone can decide."""
    disputed: float
    """Share of the items whose votes disagree: there features can tip the balance."""
    single: float
    """Share of the items with one vote, which nothing confirms."""
    verdict: str
    """"no", "weak", "moderate" or "strong" dependence."""
    words: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def advise(table: VoteTable, features: Any, *, seed: int = 0) -> Advice:
    """Compare votes and features on a sample of the covered items."""
    given = read_features(features, table.n_items)
    covered = np.flatnonzero(table.covered & ~given.missing)
    if len(covered) < LEAST_ITEMS:
        hint = f"At least {LEAST_ITEMS} are needed"
        raise InputError(f"{len(covered)} items have a vote and features: too few to compare", hint=hint)
    generator = np.random.default_rng(seed)
    sample = np.sort(generator.choice(covered, min(N_SAMPLED, len(covered)), replace=False))
    numbers = standardised(dense_numbers(given.numbers[sample]))
    found = dependence(numbers, vote_indicators(table.rows(sample)))
    corrected = float(np.sqrt(max(found.unbiased, 0.0)))
    verdict = _verdict(corrected, found.p_value)
    votes = table.votes_per_item
    shares = {
        "uncovered": float(np.mean(votes == 0)),
        "disputed": float(np.mean((vote_totals(table) > 0).sum(axis=1) > 1)),
        "single": float(np.mean((votes > 0) & (votes <= 1))),
    }
    return Advice(
        n_items=table.n_items,
        n_compared=len(sample),
        correlation=corrected,
        raw_correlation=found.correlation,
        p_value=found.p_value,
        **shares,
        verdict=verdict,
        words=_words(verdict, **shares),
    )


def vote_indicators(table: VoteTable) -> NDArray[np.float64]:
    """Who said what, as zeros and ones (weights of soft votes), without what nobody said.  [items, pairs]."""
    said = table.plain_incidence
    used = np.flatnonzero(np.asarray(said.sum(axis=0)).ravel())
    return np.asarray(said[:, used].toarray(), dtype=np.float64)


def standardised(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns of mean 0 and variance 1, so that none speaks louder for its unit; constant ones are 0."""
    spread = features.std(axis=0)
    return np.asarray((features - features.mean(axis=0)) / np.where(spread > 0, spread, 1))


def _verdict(correlation: float, p_value: float) -> str:
    if p_value >= CHANCE:
        return "no"
    return "strong" if correlation >= STRONG else "moderate" if correlation >= WEAK else "weak"


def _words(verdict: str, *, uncovered: float, disputed: float, single: float) -> str:
    """What a person should make of it."""
    if verdict == "no":
        return (
            "Features should not help: they are not seen to know anything of what the votes say. Choose a model of"
            " votes alone, such as EBCC or Dawid-Skene."
        )
    room = (
        f"The votes leave room for them: {uncovered:.0%} of the items have no vote, {single:.0%} a single one, on"
        f" {disputed:.0%} the votes disagree."
    )
    if max(uncovered, disputed, single) < WEAK:
        room = (
            f"But the votes leave little room for them: {uncovered:.0%} of the items have no vote, {single:.0%} a"
            f" single one, and on {disputed:.0%} the votes disagree."
        )
    begin = {
        "weak": "Features may help, but expect little: they know little of what the votes say.",
        "moderate": "Features can help: they clearly know something of what the votes say.",
        "strong": "Features can help: they know much of what the votes say.",
    }[verdict]
    rest = "How much they help cannot be told from this: compare FABLE with a model of votes alone on items you label."
    return f"{begin} {room} {rest}"
