"""FABLE: settings in, fitted attributes out.

J. Zhang, L. Song, A. Ratner: Leveraging Instance Features for Label Aggregation in Programmatic Weak Supervision.
AISTATS 2023.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import engine_of
from labelfable.models.class_prior import fixed_prior
from labelfable.models.fable.augmentation import NormaliserName
from labelfable.models.fable.committee import Committee, Member, convene
from labelfable.models.fable.copies import copied_sources, without_votes_of
from labelfable.models.fable.emission import Emission, EmissionName, VoteFactor, VotePrior
from labelfable.models.fable.emission_prior import PriorSettings, ScaleName, SharingName, vote_prior
from labelfable.models.fable.factors import GlobalFactors
from labelfable.models.fable.items import cut_items, rows_of
from labelfable.models.fable.process import WeightFactor
from labelfable.models.fable.projection import STORED_TYPES, Projected, Projection, build_projection
from labelfable.models.fable.published import PublishedFit, fit_published, predict_published
from labelfable.models.fable.published_settings import PublishedSettings
from labelfable.models.fable.published_steps import Held
from labelfable.models.fable.reading import Reading, ReadingName
from labelfable.models.fable.search import Peak, Start, climb_best
from labelfable.models.fable.starts import subtype_starts
from labelfable.models.fable.steps import FableShard, FableSweeps
from labelfable.models.protocol import (
    AT_LEAST_ONE,
    CLASS_PRIOR,
    N_JOBS,
    NOT_NEGATIVE,
    POSITIVE,
    Answer,
    BaseLabelModel,
    Course,
)
from labelfable.numerics.random import seed_of
from labelfable.votes.encode import short_list
from labelfable.votes.maps import Layout

HELD_CONSTANT = 1e-3  # prior variance of the constants where no feature says which class grows
MEMBER_TOLERANCE = 1e-4  # of the fits that are averaged: they need not be as exact as the one that is reported

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable


class FABLE(BaseLabelModel):
    """Votes and features together: a mixture label model whose coefficients are Gaussian processes of the features.

    Equations (A)-(H), (T).

    Parameters
    ----------
    inference : "variational" or "published"
        The derivation that raises its bound, or the paper's rules as printed, which stop with a warning where they
        break down and take their settings from `published` alone.
    n_subtypes : int
        Most subtypes of each class, M.  Fewer are used where the bound is higher without them.
    kernel : "linear", "rbf", "matern12", "matern32", "matern52" or "cosine"
        How alike two items' labels are, given their features.
    method : "inducing", "exact" or "lanczos"
        How the processes are held for kernels other than the linear one, which is exact in its weights.
    n_inducing : int
        Inducing points, or rank of the Lanczos approximation.
    inducing : "kmeans" or "pivoted"
        How inducing points are chosen: centres of the items, or items by pivoted Cholesky.
    lengthscale : None, float, or one number a feature
        In units of the scaled features; None takes the median distance between items.
    variance, constant : float
        Prior variance of each process, and of its constant.  Where no feature varies the constants are held near
        the class proportions, unless those are to be learned: freed, they let rare classes die.
    scaling : "standardise", "normalise", "whiten" or "none"
        What is done to the features first; `projection_` records it.
    max_components : int
        Principal components of the features that the linear kernel keeps.
    missing : "error" or "ignore"
        Items with NaN among their features: refuse, or use their votes alone.
    emission : "pattern", "fired", "silence" or "rates"
        How votes depend on the class: see `emission.py`.
    tables : "point" or "posterior"
        Whether vote tables are kept as their mode or as a posterior.
    strength, accuracy, scale, sharing, flat, rarity : float, float, str, str, float, float
        The prior of the votes: see `emission_prior.py`.
    evidence_weight : float
        Weight of the votes in the likelihood; less than one where sources err together.
    normaliser : "collapsed" or "factored"
        The normaliser with its rate integrated out (a tighter bound), or with a Gamma factor for it, as in the paper.
    reading : "joint", "base" or "conditional"
        Where the class proportions stand: see `reading.py`.
    tilt : "mean" or "posterior"
        Processes as points, or as posteriors: whether their uncertainty raises the tilt t.
    uncovered : "out" or "in"
        Whether items without votes take part in the fit.  They are predicted either way.
    calibration : "votes" or "none"
        Average over fits that hear silence or not and that see half of the sources, views trusted as far as votes that
        they did not see bear them out (see `committee.py`); or the one fit as it is.
    class_prior : "votes", "uniform", "learned", or one number a class
        Class proportions: majority vote's, equal, given, or left to the processes' constants (to τ where it exists).
    published : dict or None
        Settings of inference="published": see `PublishedSettings`.
    n_init : int
        Starts of the subtypes; the one with the highest bound is kept.
    tol : float
        Stop when a sweep raises the bound by less than this per item.
    max_iter : int
        Most sweeps of each start.
    n_jobs : int or None
        Threads; None means all cores.  The answer does not depend on it.
    random_state : int
        Seed of inducing points, starts, and draws between tied classes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_subtypes": AT_LEAST_ONE,
        "inference": [StrOptions({"variational", "published"})],
        "kernel": [StrOptions({"linear", "rbf", "matern12", "matern32", "matern52", "cosine"})],
        "method": [StrOptions({"inducing", "exact", "lanczos"})],
        "n_inducing": AT_LEAST_ONE,
        "inducing": [StrOptions({"kmeans", "pivoted"})],
        "lengthscale": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "variance": POSITIVE,
        "constant": POSITIVE,
        "scaling": [StrOptions({"standardise", "normalise", "whiten", "none"})],
        "max_components": AT_LEAST_ONE,
        "missing": [StrOptions({"error", "ignore"})],
        "emission": [StrOptions({"pattern", "fired", "silence", "rates"})],
        "tables": [StrOptions({"point", "posterior"})],
        "strength": NOT_NEGATIVE,
        "accuracy": [Interval(Real, 0, 1, closed="neither")],
        "scale": [StrOptions({"proportional", "counts"})],
        "sharing": [StrOptions({"source", "shared"})],
        "flat": POSITIVE,
        "rarity": [Interval(Real, 0, 1, closed="both")],
        "evidence_weight": POSITIVE,
        "normaliser": [StrOptions({"collapsed", "factored"})],
        "reading": [StrOptions({"joint", "base", "conditional"})],
        "tilt": [StrOptions({"mean", "posterior"})],
        "uncovered": [StrOptions({"out", "in"})],
        "calibration": [StrOptions({"votes", "none"})],
        "class_prior": CLASS_PRIOR,
        "published": [dict, None],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": NOT_NEGATIVE,
        "max_iter": AT_LEAST_ONE,
        "n_jobs": N_JOBS,
        "random_state": ["random_state"],
    }
    _stored_types = (
        *(GlobalFactors, WeightFactor, VoteFactor),
        *(FableSweeps, Reading, Emission, Layout, VotePrior),
        *(Committee, Member),
        *(PublishedFit, Held),
        *STORED_TYPES,
    )

    def __init__(
        self,
        n_subtypes: int = 1,
        *,
        inference: str = "variational",
        kernel: str = "linear",
        method: str = "inducing",
        n_inducing: int = 100,
        inducing: str = "kmeans",
        lengthscale: Any = None,
        variance: float = 2.0,
        constant: float = 4.0,
        scaling: str = "standardise",
        max_components: int = 128,
        missing: str = "error",
        emission: EmissionName = "pattern",
        tables: str = "point",
        strength: float = 1.0,
        accuracy: float = 0.85,
        scale: ScaleName = "proportional",
        sharing: SharingName = "source",
        flat: float = 0.01,
        rarity: float = 0.6,
        evidence_weight: float = 0.6,
        normaliser: NormaliserName = "collapsed",
        reading: ReadingName = "joint",
        tilt: str = "mean",
        uncovered: str = "out",
        calibration: str = "votes",
        class_prior: Any = "votes",
        published: Any = None,
        n_init: int = 3,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_subtypes = n_subtypes
        self.inference = inference
        self.kernel = kernel
        self.method = method
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.lengthscale = lengthscale
        self.variance = variance
        self.constant = constant
        self.scaling = scaling
        self.max_components = max_components
        self.missing = missing
        self.emission = emission
        self.tables = tables
        self.strength = strength
        self.accuracy = accuracy
        self.scale = scale
        self.sharing = sharing
        self.flat = flat
        self.rarity = rarity
        self.evidence_weight = evidence_weight
        self.normaliser = normaliser
        self.reading = reading
        self.tilt = tilt
        self.uncovered = uncovered
        self.calibration = calibration
        self.class_prior = class_prior
        self.published = published
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_table(self, table: VoteTable, gold: NDArray[np.integer] | None, features: Any) -> tuple[Course, Answer]:
        if self.inference == "published":
            return self._fit_published(table, gold, features)
        notes = [] if features is not None else ["no features were given: the votes alone decide"]
        whole, table = table, self._heard_once(table, notes)
        seed = seed_of(self.random_state)
        self.projection_ = self._build_projection(table, features, seed)
        known = _features_or_none(features, table.n_items)
        projected = self.projection_.project(known, table.n_items)
        if not (self._is_learned() or projected.phi[:, : self.projection_.n_kernel_columns].any()):
            self.projection_ = self.projection_.with_parameters(constant=min(self.constant, HELD_CONSTANT))
            projected = self.projection_.project(known, table.n_items)
        best = self._climb(table, gold, projected)
        self.sweeps_, self.globals_ = best.sweeps, best.factors
        self.committee_ = self._convene(table, gold, projected, best) if self.calibration == "votes" else None
        notes += [] if self.committee_ is None else self.committee_.remarks(self.classes_)
        probabilities = self._probabilities(table, projected)
        self.class_prior_ = np.exp(self.sweeps_.log_proportions)
        if self._is_learned():
            self.class_prior_ = probabilities[self._fitted_items(table, gold)].mean(axis=0)
        course = Course(best.history, best.converged, notes)
        return course, Answer(whole, np.ones(table.n_items), gold, probabilities)

    def _heard_once(self, table: VoteTable, notes: list[str]) -> VoteTable:
        """The votes without those of sources that copy another's."""
        self.copies_ = copied_sources(table) if self.calibration == "votes" else np.zeros(table.n_sources, dtype=bool)
        if self.copies_.any():
            names = short_list([table.sources[j] for j in np.flatnonzero(self.copies_)])
            notes.append(f"{int(self.copies_.sum())} sources repeat another's votes and were not heard again: {names}")
        return without_votes_of(table, self.copies_)

    def _climb(self, table: VoteTable, gold: NDArray[np.integer] | None, projected: Projected) -> Peak:
        """One fit of these votes and columns."""
        chosen = self._fitted_items(table, gold)
        rows, known = table.rows(chosen), None if gold is None else gold[chosen]
        inside = rows_of(projected, chosen)
        heard, asked = self._heard(rows), (self.n_subtypes, self.n_init, seed_of(self.random_state))
        starts = (
            Start(self._sweeps(heard, known, n_subtypes), cut_items(heard, known, inside, start))
            for n_subtypes, start in subtype_starts(rows, known, inside.phi, asked)
        )
        return climb_best(starts, engine_of(self.n_jobs), Stopping(self.tol, self.max_iter, rows.n_items))

    def _convene(
        self, table: VoteTable, gold: NDArray[np.integer] | None, projected: Projected, main: Peak
    ) -> Committee:
        """The fits that are averaged, this one among them."""
        settings = {key: getattr(self, key) for key in ("emission", "evidence_weight", "strength")}

        def fit(rows: VoteTable, changed: dict[str, Any]) -> Peak:
            other: FABLE = clone(self).set_params(**changed, tol=max(self.tol, MEMBER_TOLERANCE))
            return other._climb(rows, gold, projected)

        return convene(table, projected, main, settings=settings, fit=fit, engine=engine_of(self.n_jobs))

    def _fit_published(
        self, table: VoteTable, gold: NDArray[np.integer] | None, features: Any
    ) -> tuple[Course, Answer]:
        """The paper's rules as printed.                                                 Equations (FP.1)-(FP.8)"""
        settings, seed = PublishedSettings.of(self.published), seed_of(self.random_state)
        found = fit_published(table, features, settings, seed, gold=gold)
        self.published_ = found
        course = Course(converged=found.converged, notes=[found.outcome], stopped=found.stopped or "")
        return course, Answer(table, np.ones(table.n_items), gold, found.probabilities)

    def _build_projection(self, table: VoteTable, features: Any, seed: int) -> Projection:
        return build_projection(
            _features_or_none(features, table.n_items),
            kernel=self.kernel,
            method=self.method,
            n_inducing=self.n_inducing,
            inducing=self.inducing,
            lengthscale=self.lengthscale,
            variance=self.variance,
            constant=self.constant,
            scaling=self.scaling,
            max_components=self.max_components,
            missing=self.missing,
            seed=seed,
        )

    def _is_learned(self) -> bool:
        """Whether class proportions are to be learned."""
        return isinstance(self.class_prior, str) and self.class_prior == "learned"

    def _fitted_items(self, table: VoteTable, gold: NDArray[np.integer] | None) -> NDArray[np.integer]:
        """Numbers of the items that take part in the fit."""
        told = table.covered if gold is None else table.covered | (gold >= 0)
        if self.uncovered == "in" or not told.any():
            told = np.ones(table.n_items, dtype=bool)
        return np.flatnonzero(told)

    def _heard(self, table: VoteTable) -> VoteTable:
        """The votes as the emission hears them: silence is a label for one of the four alone."""
        return table.with_abstain_as_label() if self.emission == "silence" else table.without_abstain_label()

    def _sweeps(self, rows: VoteTable, gold: NDArray[np.integer] | None, n_subtypes: int) -> FableSweeps:
        """The sweep model for these votes."""
        n_classes = rows.n_classes
        reading = Reading(self.reading, n_classes, n_subtypes)
        fixed = fixed_prior(self.class_prior, rows, np.ones(rows.n_items), gold)
        shares = np.full(n_classes, 1 / n_classes) if fixed is None else fixed
        log_shares = np.log(shares)
        lean = log_shares - log_shares.mean()
        in_process = not reading.has_proportions
        settings = PriorSettings(self.strength, self.accuracy, self.scale, self.sharing, self.flat, self.rarity)
        return FableSweeps(
            reading=reading,
            emission=Emission(self.emission, is_point=self.tables == "point"),
            layout=rows.layout,
            vote_prior=vote_prior(rows, self.emission, settings, n_subtypes),
            process_mean=np.repeat(lean if in_process else np.zeros(n_classes), n_subtypes),
            class_prior=np.ones(n_classes) if reading.has_proportions and fixed is None else None,
            log_proportions=log_shares,
            evidence_weight=self.evidence_weight,
            is_point=self.tilt == "mean",
            normaliser=self.normaliser,
        )

    def _table_probabilities(self, table: VoteTable, features: Any) -> NDArray[np.floating]:
        if self.inference == "published":
            settings, seed = PublishedSettings.of(self.published), seed_of(self.random_state)
            return predict_published(self.published_, table, features, settings, seed)
        known = _features_or_none(features, table.n_items)
        heard = without_votes_of(table, self.copies_)
        return self._probabilities(heard, self.projection_.project(known, table.n_items))

    def _probabilities(self, table: VoteTable, projected: Projected) -> NDArray[np.floating]:
        """The local step with the globals held, summed over subtypes.                      Equations (A)-(D)"""
        if self.committee_ is not None:
            return self.committee_.probabilities(table, projected, engine_of(self.n_jobs))
        rows = self._heard(table)
        sweeps = replace(self.sweeps_, layout=rows.layout)  # dense and sparse votes lie differently along the columns
        global_ = replace(self.globals_, packed_votes=rows.layout.pack(self.globals_.votes.logs))
        answer = np.empty((table.n_items, table.n_classes))

        def fill(shard: FableShard) -> None:
            items, _ = sweeps.item_factors(shard, global_)
            answer[shard.votes.start : shard.votes.stop] = sweeps.reading.class_sum(items.responsibilities)

        for _ in engine_of(self.n_jobs).map(fill, cut_items(rows, None, projected, None)):
            pass
        return answer


def _features_or_none(features: Any, n_items: int) -> Any:
    """No features are features without a column: only the constant is left of each process."""
    return np.zeros((n_items, 0)) if features is None else features
