"""Why an item got its label: the log-odds that its votes, its features and the class prior contribute.

Log probabilities are sums (D), so what a part adds to the log-odds of the predicted class k* against a class k is a
difference of two of its numbers, and the parts add up:

    log p_k* − log p_k  =  [ class prior ] + [ features ] + Σ_j [ what source j says, or that it is silent ]

With subtypes each class is taken at its likeliest one, m: log p_k = log ρ_km − log( ρ_km / p_k ), and the last term is
the part of the other subtypes.  The sum is exact there too, but what a vote adds within the likeliest subtype is not
just what p_k would lose without it.  With tilt="posterior" the features' part is that of the bound, as in the
probabilities themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from labelfable.errors import InputError
from labelfable.inference.shards import Shard
from labelfable.models.fable.factors import GlobalFactors
from labelfable.models.fable.projection import Projected, Projection
from labelfable.models.fable.steps import FableShard, FableSweeps
from labelfable.numerics.special import softmax
from labelfable.votes.maps import VoteMaps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

Kind = Literal["class prior", "features", "vote", "silence", "other subtypes"]
MOST_CLASSES = 4  # columns of the printed table: the likeliest after the predicted one
LEAST_WIDTH = 8
MOST_SILENT = 5  # silent sources with a row of their own in the printed table


@dataclass(frozen=True, eq=False)
class Contribution:
    """What one part has to say of an item's class."""

    kind: Kind
    """A vote, or what stands beside the votes: "class prior" is what an item without features and votes would get."""
    log_odds: NDArray[np.floating]
    """Of the predicted class against each class, 0 against itself: positive speaks for the prediction.  [classes]."""
    source: str | None = None
    """Whose vote or silence it is; None for the silence of all together, where votes come at Poisson rates."""
    said: Any = None
    """The label that was voted for; of a soft vote each label with its weight, as text."""

    def __str__(self) -> str:
        """The part in words."""
        if self.source is None:
            return self.kind
        who = f"source {self.source}" if self.source.isdecimal() else self.source
        return f"{who} says {self.said}" if self.kind == "vote" else f"{who} is silent"


@dataclass(frozen=True, eq=False)
class Explanation:
    """How one item's probabilities come about; `print` shows it as a table."""

    item: Any
    """Name of the item, or its number where items have no names."""
    classes: list[Any]
    predicted: Any
    """The most probable class, the first of several."""
    probabilities: NDArray[np.floating]
    """[classes]."""
    subtypes: NDArray[np.floating]
    """Responsibility of each subtype; a class's add up to its probability.  [classes, subtypes]."""
    contributions: tuple[Contribution, ...]

    @property
    def log_odds(self) -> NDArray[np.floating]:
        """All contributions together: log p(predicted) − log p(class).  [classes]."""
        return np.asarray(np.sum([part.log_odds for part in self.contributions], axis=0))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        names = [str(name) for name in self.classes]

        def by_class(values: NDArray[np.floating]) -> dict[str, Any]:
            return dict(zip(names, values.tolist(), strict=True))

        return {
            "item": self.item,
            "predicted": self.predicted,
            "probabilities": by_class(self.probabilities),
            "subtypes": by_class(self.subtypes),
            "log_odds": by_class(self.log_odds),
            "contributions": [
                {"kind": part.kind, "source": part.source, "said": part.said, "log_odds": by_class(part.log_odds)}
                for part in self.contributions
            ],
        }

    def __str__(self) -> str:
        """A table: one row a part, the weightiest first; one column a class, the likeliest first."""
        order = np.argsort(-self.probabilities, kind="stable")[: MOST_CLASSES + 1].tolist()
        told = ", ".join(f"{self.classes[k]} {self.probabilities[k]:.1%}" for k in order)
        lines, against = [f"Item {self.item}: {told}"], [k for k in order if self.classes[k] != self.predicted]
        if against:
            rows = [*self._rows(against[0]), ("together", self.log_odds)]
            first = max(len(name) for name, _ in rows)
            widths = {k: max(len(str(self.classes[k])), LEAST_WIDTH) for k in against}
            heads = "".join(f"  {self.classes[k]!s:>{width}}" for k, width in widths.items())
            lines += [f"Log-odds of {self.predicted} against", " " * (first + 2) + heads]
            for name, values in rows:
                cells = "".join(f"  {values[k]:>+{width}.3f}" for k, width in widths.items())
                lines.append(f"  {name:<{first}}{cells}")
        if self.subtypes.shape[1] > 1:
            shares = (f"{self.classes[k]} " + " + ".join(f"{x:.1%}" for x in self.subtypes[k]) for k in order)
            lines.append(f"Subtypes: {', '.join(shares)}")
        return "\n".join(lines)

    def _rows(self, rival: int) -> Iterator[tuple[str, NDArray[np.floating]]]:
        """Rows of the table; most of the silent sources in one."""
        by_size = sorted(self.contributions, key=lambda part: -abs(part.log_odds[rival]))
        for kinds in (("class prior", "features"), ("vote",)):
            yield from ((str(part), part.log_odds) for part in by_size if part.kind in kinds)
        silent = [part for part in by_size if part.kind == "silence"]
        shown = len(silent) if len(silent) == MOST_SILENT + 1 else MOST_SILENT
        yield from ((str(part), part.log_odds) for part in silent[:shown])
        if silent[shown:]:
            yield f"{len(silent) - shown} more are silent", np.sum([part.log_odds for part in silent[shown:]], axis=0)
        yield from ((str(part), part.log_odds) for part in by_size if part.kind == "other subtypes")


def explain_items(
    items: Any, table: VoteTable, features: Any, fit: tuple[Projection, FableSweeps, GlobalFactors]
) -> Explanation | list[Explanation]:
    """Explanations of one item or of several, from their votes as the emission hears them, and the fit."""
    (projection, sweeps, global_), numbers = fit, asked_rows(items, table.n_items)
    known, rows = projection.read(features, table.n_items).take(numbers), table.rows(numbers)
    processes, bare = (
        without_votes(columns, sweeps, global_)
        for columns in (projection.project(known), projection.project_missing(1))
    )
    names, spoken = (numbers if rows.items is None else rows.items).tolist(), rows.plain_incidence
    found = []
    for number, name in enumerate(names):
        said = spoken[[number]].toarray().reshape(rows.n_sources, rows.n_spoken)
        parts: list[tuple[dict[str, Any], NDArray[np.floating]]] = [
            ({"kind": "class prior"}, bare[0]),
            ({"kind": "features"}, processes[number] - bare[0]),
            *_vote_parts(rows, said, sweeps, global_),
        ]
        found.append(_explanation(name, rows.classes.tolist(), parts, sweeps.reading.n_subtypes))
    return found if np.ndim(items) else found[0]


def asked_rows(items: Any, n_items: int) -> NDArray[np.integer]:
    """Row numbers from one number, several, or a mask."""
    asked = np.atleast_1d(np.asarray(items))
    if asked.dtype == bool and asked.shape == (n_items,):
        return np.flatnonzero(asked)
    if asked.ndim != 1 or (asked.dtype.kind not in "iu" and len(asked)):
        raise InputError(f"items={items!r} names no rows", hint="Give a row number of the votes, several, or a mask")
    outside = asked[(asked < 0) | (asked >= n_items)]
    if len(outside):
        raise InputError(f"there is no item {outside[0]}", hint=f"The votes have items 0 to {n_items - 1}")
    return asked.astype(np.int64)


def without_votes(projected: Projected, sweeps: FableSweeps, global_: GlobalFactors) -> NDArray[np.floating]:
    """Log responsibilities where no source is heard, neither its votes nor its silence.  [n, C].

    By the local step itself, so that what is explained is what is predicted; in float64, where no logarithm is lost.
    """
    n_items = len(projected.phi)
    projected = Projected(projected.phi.astype(np.float64), projected.residual.astype(np.float64))
    unheard = VoteMaps(sweeps.layout, sp.csr_array((n_items, sweeps.layout.n_columns)))
    free = replace(global_, votes=replace(global_.votes, constant=np.zeros_like(global_.votes.constant)))
    items, _ = sweeps.item_factors(FableShard(Shard(0, unheard, np.ones(n_items), None), projected), free)
    return np.asarray(np.log(np.maximum(items.responsibilities, np.finfo(np.float64).tiny)))


def _vote_parts(
    rows: VoteTable, said: NDArray[np.floating], sweeps: FableSweeps, global_: GlobalFactors
) -> Iterator[tuple[dict[str, Any], NDArray[np.floating]]]:
    """What each source says of the components, [C]; `said` are the weights of its labels, [sources, labels]."""
    weight, logs = sweeps.evidence_weight, global_.votes.logs
    for j, source in enumerate(rows.sources):
        given = np.flatnonzero(said[j])
        value = weight * (said[j] @ logs[j, : rows.n_spoken])
        if rows.silence:
            value = value + weight * (1 - said[j].sum()) * logs[j, -1]
        if len(given) or rows.silence:
            yield {"kind": "vote" if len(given) else "silence", "source": source, "said": _label(rows, said[j])}, value
    if global_.votes.rate is not None:
        yield {"kind": "silence"}, weight * global_.votes.constant


def _label(rows: VoteTable, weights: NDArray[np.floating]) -> Any:
    """The label of a vote, as the votes name it; None for silence."""
    given = np.flatnonzero(weights)
    if len(given) == 1 and weights[given[0]] == 1:
        return rows.labels[given[0]]
    return ", ".join(f"{rows.labels[label]} {weights[label]:.2g}" for label in given) or None


def _explanation(
    name: Any, classes: list[Any], parts: list[tuple[dict[str, Any], NDArray[np.floating]]], n_subtypes: int
) -> Explanation:
    """From what each part says of the components."""
    shape = (len(classes), n_subtypes)
    logits = np.sum([value for _, value in parts], axis=0)
    ρ = softmax(logits)[0].reshape(shape)
    best = np.arange(shape[0]), logits.reshape(shape).argmax(axis=1)
    probabilities = ρ.sum(axis=1)
    predicted = int(probabilities.argmax())
    told = [(what, value.reshape(shape)[best]) for what, value in parts]
    if n_subtypes > 1:
        within = softmax(logits.reshape(shape))[0]
        told.append(({"kind": "other subtypes"}, -np.log(within[best])))
    contributions = tuple(Contribution(log_odds=value[predicted] - value, **what) for what, value in told)
    return Explanation(name, classes, classes[predicted], probabilities, ρ, contributions)
