"""MeTaL: conditional vote tables from second moments of the votes.

A. Ratner, B. Hancock, J. Dunnmon, F. Sala, S. Pandey, C. Ré: Training Complex Models with Multi-Task Weak Supervision.
AAAI 2019.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from labelfable.errors import ModelError
from labelfable.models.class_prior import fixed_prior
from labelfable.models.confusion import class_probabilities, heard
from labelfable.models.metal.balance import balance_in_turn, binary_balance
from labelfable.models.metal.completion import Completion, Pull
from labelfable.models.metal.descent import Descent, descend, onto_tables
from labelfable.models.metal.inverse import InverseFit
from labelfable.models.metal.posterior import effective_votes, log_tables
from labelfable.models.metal.start import Known, Start, misfit_anchor, read_components
from labelfable.models.moments import Moments, vote_moments
from labelfable.models.protocol import ABSTAIN, AT_LEAST_ONE, CLASS_PRIOR, NOT_NEGATIVE, BaseLabelModel
from labelfable.models.report import Course

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

BINARY = 2
PRIOR_ANCHOR = 0.1  # while proportions are fitted in turn; measured: 1 holds them near the start's, 0 lets them stray
FEWEST_SOURCES = 3  # independent ones: with fewer, many tables have the same moments


class MeTaL(BaseLabelModel):
    """Tables P(vote | class) whose products match how often votes occur together.            Equations (ME.1)-(ME.11)

    The fit needs one pass over the votes for their second moments and one for majority vote's counts; its iterations do
    not see the items.  It starts at majority vote's tables, which says which class is which: moments alone cannot, as
    exchanging classes leaves them the same.  So sources are taken to be better than chance on the whole; a single one
    may turn out worse.  For two classes and three or more independent sources the moments then determine the tables.
    For more classes they do so only up to a rotation of the classes, which the limits of probabilities narrow but do
    not settle: which of these tables comes out depends on the start, and the anchor chooses those near it.  The same
    holds for one or two sources: their tables stay near the start, and `report_.notes` says so.

    Known classes (`y`) enter three times: in the start, in class_prior="votes", and, with completion="moments", as a
    term of the loss that pulls the tables to those counted on the known items.

    Parameters
    ----------
    dependencies : sequence of (source, source), or None
        Pairs of sources, by name or number, that depend on each other given the class.  Their joint votes are left out
        of the moments that are matched, and in prediction their votes count less, by how much they go together (ME.10).
    completion : "moments" or "inverse"
        What is matched: the moments themselves, outside the components of the graph of dependencies, or the inverse
        covariance there, as published for graphs.  "inverse" needs more items (with one repeated source among six it
        failed at 2,000 items, where "moments" did not, and was as good at 20,000), and dense moments: at most 4,096
        sources times labels.
    class_prior : "votes", "uniform", "learned", or one number a class
        Class proportions.  "learned" takes them from third moments for two classes and else fits them and the tables in
        turn; it trusts the sources' independence more than the rest of the fit does.
    anchor : "auto" or float
        How strongly tables are held near the start, in units of the mean curvature of the loss there.  0 is the
        published loss.  "auto": by how much of the sources' covariance the free fit leaves unexplained where the tables
        are determined (two classes, three independent sources), else 1.
    abstain : "missing", "label" or "auto"
        What silence says in prediction: nothing (as in snorkel), or its share under the class like any other vote;
        "auto" decides by the sources that only ever give one label.  The fit counts silence either way.
    tol : float
        Stop when an iteration of natural length would move the tables by less than this share of their size.
    max_iter : int
        Most iterations; with tol=0 all of them are made.
    random_state : int
        Seed of the draws between tied classes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "dependencies": ["array-like", None],
        "completion": [StrOptions({"moments", "inverse"})],
        "class_prior": CLASS_PRIOR,
        "anchor": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "abstain": ABSTAIN,
        "tol": NOT_NEGATIVE,
        "max_iter": AT_LEAST_ONE,
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        dependencies: Any = None,
        *,
        completion: str = "moments",
        class_prior: Any = "votes",
        anchor: Any = "auto",
        abstain: str = "missing",
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = 0,
    ) -> None:
        self.dependencies = dependencies
        self.completion = completion
        self.class_prior = class_prior
        self.anchor = anchor
        self.abstain = abstain
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit_rows(self, rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Course:
        rows = rows.without_abstain_label()
        components = read_components(self.dependencies, rows.sources)
        moments = vote_moments(rows, weights)
        known = Known.of(rows, weights, gold)
        fitter = self._fitter(moments, components, known)
        task = Task(fitter, Start.of(rows, weights, gold), known, moments, components, self.anchor)
        prior = fixed_prior(self.class_prior, rows, weights, gold)
        notes = task.notes
        if prior is None:
            prior, said = learned_prior(task, rows, weights, fixed_prior("votes", rows, weights, gold))
            notes = [*notes, said]
        found, self.anchor_ = task.fit(prior)
        self.class_prior_ = prior
        self.confusion_ = (found.point / np.sqrt(prior)).reshape(rows.n_sources, -1, rows.n_classes)
        self.source_weights_ = effective_votes(moments, found.point, components)
        self.abstain_ = "label" if heard(rows, weights, self.abstain).silence else "missing"
        rates = moments.rates.reshape(rows.n_sources, -1)
        self.log_votes_ = log_tables(self.confusion_, rates, self.source_weights_, silence=self.abstain_ == "label")
        if isinstance(self.anchor, str):
            notes = [*notes, f"anchor 'auto' came to {self.anchor_:.3g}"]
        return Course(found.history, found.converged, notes)

    def _row_probabilities(self, rows: VoteTable) -> NDArray[np.floating]:
        spoken = heard(rows, np.ones(rows.n_items), self.abstain_)
        return np.asarray(class_probabilities(spoken, self.log_votes_, np.log(self.class_prior_)))

    def _fitter(self, moments: Moments, components: NDArray[np.integer], known: Known | None) -> MomentFit | InverseFit:
        if self.completion == "moments":
            return MomentFit(moments, moments.between(components), components, known, self.tol, self.max_iter)
        if sp.issparse(moments.products):
            raise ModelError(
                f"completion='inverse' would have to invert a matrix of {len(moments.rates):,} votes' moments",
                hint="Use completion='moments', which takes dependencies too and keeps the moments sparse",
            )
        return InverseFit(moments, components, self.tol, self.max_iter)


@dataclass(frozen=True)
class MomentFit:
    """Completion of the moments themselves."""

    moments: Moments
    between: Any
    components: NDArray[np.integer]
    known: Known | None
    tol: float
    max_iter: int

    def run(self, start: NDArray[np.floating], prior: NDArray[np.floating], anchor: float) -> Descent:
        """X of least loss.  Shapes: [columns, K], [K] -> [columns, K].                             Equation (ME.2)

        The anchor's unit is the mean eigenvalue of 2 X'X + √p√p' at the start: half the curvature of the loss in one
        row of X, the others held.
        """
        roots = np.sqrt(prior)
        unit = (2 * float(np.vdot(start, start)) + 1) / len(prior)
        pulls = {"anchor": Pull(np.full(len(prior), anchor * unit), start)} if anchor > 0 else {}
        if self.known is not None:
            pulls["known items"] = self.known.pull(prior, self.moments.n_items)
        loss = Completion(self.between, self.components, self.moments.rates, roots, pulls)
        limits = np.where(self.moments.rates[:, None] > 0, roots, 0)
        found = descend(loss, start, loss.scale, limits, tol=self.tol, max_iter=self.max_iter)
        return replace(found, point=onto_tables(found.point, self.moments.n_sources, roots))


@dataclass(frozen=True)
class Task:
    """All of a fit but the class proportions."""

    fitter: MomentFit | InverseFit
    start: Start
    known: Known | None
    moments: Moments
    components: NDArray[np.integer]
    anchor: Any

    @property
    def n_voting(self) -> int:
        """Components of sources with a vote."""
        votes = self.moments.rates.reshape(self.moments.n_sources, -1).any(axis=1)
        return len(np.unique(self.components[votes]))

    @property
    def notes(self) -> list[str]:
        """What the user should know before the fit."""
        if 0 < self.n_voting < FEWEST_SOURCES:
            few = "one independent source votes" if self.n_voting == 1 else "two independent sources vote"
            return [f"only {few}: moments do not determine the tables, which stay near those of majority vote's labels"]
        return []

    def start_point(self, prior: NDArray[np.floating]) -> NDArray[np.floating]:
        """X of the start's tables.  [columns, classes]."""
        roots, tables = np.sqrt(prior), self.start.tables(prior)
        if self.known is not None:
            tables = self.known.mixed_with(tables)
        return onto_tables(tables.reshape(-1, len(prior)) * roots, self.moments.n_sources, roots)

    def fit(self, prior: NDArray[np.floating]) -> tuple[Descent, float]:
        """X at given class proportions, and the strength of the anchor."""
        start = self.start_point(prior)
        if not isinstance(self.anchor, str):
            return self.fitter.run(start, prior, float(self.anchor)), float(self.anchor)
        if len(prior) != BINARY or self.n_voting < FEWEST_SOURCES:
            return self.fitter.run(start, prior, 1.0), 1.0
        free = self.fitter.run(start, prior, 0.0)
        if isinstance(self.fitter, InverseFit):
            return free, 0.0
        loss = Completion(self.fitter.between, self.components, self.moments.rates, np.sqrt(prior))
        strength = misfit_anchor(self.moments, loss, free.terms)
        return self.fitter.run(start, prior, strength), strength


def learned_prior(
    task: Task, rows: VoteTable, weights: NDArray[np.floating], first: Any
) -> tuple[NDArray[np.floating], str]:
    """Class proportions from the votes, and how they were found.  `first` are majority vote's."""
    prior: NDArray[np.floating] = first
    if len(prior) == BINARY:
        free = task.fitter.run(task.start_point(prior), prior, 0.0)
        found = binary_balance(rows, weights, free.point, prior, task.components)
        if found is None:
            return prior, "class_prior='learned' needs three independent sources: majority vote's proportions are used"
        return found, f"class proportions from third moments: {', '.join(f'{share:.3g}' for share in found)}"
    rates = task.moments.rates.reshape(rows.n_sources, -1)
    loud = rows.with_abstain_as_label()

    def posterior(prior: NDArray[np.floating]) -> NDArray[np.floating]:
        point = task.fitter.run(task.start_point(prior), prior, PRIOR_ANCHOR).point
        tables = (point / np.sqrt(prior)).reshape(rows.n_sources, -1, len(prior))
        logs = log_tables(tables, rates, effective_votes(task.moments, point, task.components), silence=True)
        return np.asarray(weights @ class_probabilities(loud, logs, np.log(prior)) / weights.sum())

    prior, settled = balance_in_turn(posterior, prior)
    how = "settled" if settled else "still changing after the last round"
    return prior, f"class proportions fitted in turn with the tables, {how}"
