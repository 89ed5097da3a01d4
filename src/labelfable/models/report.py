"""What a fit has to say of itself, above all against majority vote."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import NotConvergedWarning, VanishedClassWarning
from labelfable.inference.execution import sum_over
from labelfable.inference.shards import FEWEST_ITEMS, cut
from labelfable.numerics.namespace import folded, row_maximum, row_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.inference.convergence import History
    from labelfable.inference.shards import Shard
    from labelfable.votes.table import VoteTable

TIE = 1e-9  # probabilities and vote totals closer than this are equal


@dataclass(frozen=True)
class FitReport:
    """The course of a fit and how its answer differs from majority vote."""

    model: str
    n_items: int
    n_covered: int
    n_distinct: int
    n_sources: int
    n_classes: int
    seconds: float
    converged: bool
    history: list[dict[str, float]] = field(default_factory=list)
    """The objective after each iteration, by term; empty for models in closed form."""
    changed_share: float = 0.0
    """Share of covered items whose label is not among majority vote's winners."""
    contradicted: int = 0
    """Items whose two or more votes all agree and whose label is another."""
    collapsed: list[Any] = field(default_factory=list)
    """Classes that majority vote gives to some item and the model to none."""
    notes: list[str] = field(default_factory=list)
    """What else the user should know: sources that never vote, settings that had to be bent."""
    stopped: str = ""
    """Why the fit broke off before its end, where it did."""

    @property
    def iterations(self) -> int:
        """Number of iterations."""
        return len(self.history)

    @property
    def objective(self) -> list[float]:
        """The objective after each iteration, summed over its terms."""
        return [sum(terms.values()) for terms in self.history]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """A few lines to read."""
        course = f"{self.iterations} iterations, " if self.history else ""
        ended = "broken off" if self.stopped else "converged" if self.converged else "not converged"
        items = f"{self.n_items:,} items ({self.n_covered:,} covered, {self.n_distinct:,} distinct)"
        differs = f"{self.changed_share:.1%} of covered items, contradicts {self.contradicted:,}"
        lines = [
            f"{self.model}: {items}, {self.n_sources} sources, {self.n_classes} classes",
            f"  {course}{ended} in {self.seconds:.2f} s",
            f"  differs from majority vote on {differs} unanimous ones",
        ]
        if self.objective:
            lines.insert(2, f"  objective {self.objective[-1]:,.3f} (first {self.objective[0]:,.3f})")
        if self.collapsed:
            lines.append(
                f"  no item got class {', '.join(map(str, self.collapsed))} although majority vote gives it some"
            )
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


@dataclass(frozen=True)
class Comparison:
    """A model's answers against majority vote's: sums over items, which add up."""

    covered: float
    """Items with a vote."""
    asked: float
    """Those of them whose class was not known to the fit."""
    changed: float
    contradicted: float
    given: NDArray[np.floating]
    """How often each source voted, [sources]."""
    majority_has: NDArray[np.bool_]
    """Classes that majority vote gives to some item, [classes]."""
    model_has: NDArray[np.bool_]

    def __add__(self, other: Comparison) -> Comparison:
        """The sums of both."""
        return Comparison(
            self.covered + other.covered,
            self.asked + other.asked,
            self.changed + other.changed,
            self.contradicted + other.contradicted,
            self.given + other.given,
            self.majority_has | other.majority_has,
            self.model_has | other.model_has,
        )

    @property
    def changed_share(self) -> float:
        """Share of covered items whose label is not among majority vote's winners."""
        return self.changed / self.asked if self.asked else 0.0

    def collapsed(self, classes: NDArray[Any]) -> list[Any]:
        """Classes that majority vote gives to some item and the model to none."""
        return [classes[k].item() for k in np.flatnonzero(self.majority_has & ~self.model_has)]


def compared(
    rows: VoteTable,
    weights: NDArray[np.floating],
    gold: NDArray[np.integer] | None,
    probabilities: NDArray[np.floating],
    n_jobs: int | None = None,
) -> Comparison:
    """Answers for these rows against majority vote's.  Items whose gold is known do not count as changed."""
    packed = rows.layout.pack(rows.vote_weights)

    def compare(shard: Shard) -> Comparison:
        own = probabilities[shard.start : shard.stop]
        asked = shard.weights if shard.gold is None else shard.weights * (shard.gold < 0)
        totals = shard.maps.evidence(packed)
        top, n_votes = row_maximum(totals)[:, 0], row_sum(totals)[:, 0]
        wins, best = totals >= top[:, None] - TIE, own >= row_maximum(own) - TIE
        covered = n_votes > 0
        changed = covered & ~row_maximum(wins & best)[:, 0]
        unanimous = (n_votes > 1) & (np.abs(top - n_votes) < TIE)
        counted = covered & (asked > 0)
        clear = counted & (row_sum(wins.astype(np.int32))[:, 0] == 1)
        given = rows.layout.unpack(shard.maps.counts(shard.weights[:, None]))
        return Comparison(
            float(shard.weights[covered].sum()),
            float(asked[covered].sum()),
            float(asked[changed].sum()),
            float(asked[changed & unanimous].sum()),
            given[:, : rows.n_spoken, 0].sum(axis=1),
            _any_row(wins & clear[:, None]),
            _any_row(best & counted[:, None]),
        )

    return sum_over(cut(rows, weights, gold, FEWEST_ITEMS), compare, n_jobs)


def _any_row(marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Columns with a mark in some row.  [n, classes] -> [classes]."""
    return np.asarray(folded(marks).any(axis=0).reshape(-1, marks.shape[1]).any(axis=0))


@dataclass(frozen=True)
class Course:
    """How a fit went: what the report needs and the shared plumbing cannot know."""

    history: History | None = None
    converged: bool = True
    notes: list[str] = field(default_factory=list)
    stopped: str = ""
    """Why the fit broke off before its end, where it did; whoever sets it has warned."""


@dataclass(frozen=True)
class Answer:
    """What a fit says of the items that it saw."""

    n_rows: int
    """Rows that were fitted; each may stand for several items."""
    comparison: Comparison

    @classmethod
    def of(
        cls,
        rows: VoteTable,
        weights: NDArray[np.floating],
        gold: NDArray[np.integer] | None,
        probabilities: NDArray[np.floating],
        n_jobs: int | None = None,
    ) -> Answer:
        """The answer for rows that each stand for `weights` items."""
        return cls(rows.n_items, compared(rows, weights, gold, probabilities, n_jobs))


def warn_of(report: FitReport) -> None:
    """Say aloud what should not be overlooked."""
    if report.collapsed:
        names = ", ".join(map(str, report.collapsed))
        warnings.warn(
            f"{report.model}: class {names} has vanished: majority vote gives it to some items, the model to none. "
            "Compare with MajorityVote before you use these labels; a stronger prior may help.",
            VanishedClassWarning,
            stacklevel=3,
        )
    if not report.converged and not report.stopped:
        warnings.warn(
            f"{report.model} stopped after {report.iterations} iterations without meeting its tolerance; "
            "raise max_iter, or tol if the last gains in report_.objective are small enough for you.",
            NotConvergedWarning,
            stacklevel=3,
        )
