"""FABLE: settings in, fitted attributes out.

J. Zhang, L. Song, A. Ratner: Leveraging Instance Features for Label Aggregation in Programmatic Weak Supervision.
AISTATS 2023.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone

from labelfable.errors import InputError, ModelError
from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import engine_of
from labelfable.models.checkpoint import keeper_of
from labelfable.models.class_prior import fixed_prior
from labelfable.models.fable.committee import Committee, Member, convene
from labelfable.models.fable.copies import copied_sources, without_votes_of
from labelfable.models.fable.device import device_for, fit_on_device, probabilities_on, seen_features
from labelfable.models.fable.emission import Emission, VoteFactor, VotePrior
from labelfable.models.fable.emission_hierarchy import Hierarchy
from labelfable.models.fable.emission_prior import PriorSettings, vote_prior
from labelfable.models.fable.explain import Explanation, explain_items
from labelfable.models.fable.factors import GlobalFactors, SufficientStatistics
from labelfable.models.fable.hyperparameters import (
    LEARNT_ITEMS,
    Profile,
    as_posteriors,
    chosen_names,
    described,
    learn_parameters,
)
from labelfable.models.fable.items import cut_items, features_or_none, part_of, rows_of
from labelfable.models.fable.light import SWEEP_TYPES, Curvature
from labelfable.models.fable.process import WeightFactor
from labelfable.models.fable.projection import STORED_TYPES, Projected, Projection, build_projection
from labelfable.models.fable.published import PublishedFit, fit_published, predict_published
from labelfable.models.fable.published_settings import PublishedSettings
from labelfable.models.fable.published_steps import Held
from labelfable.models.fable.reading import Reading
from labelfable.models.fable.search import Peak, Start, climb_best, sampled
from labelfable.models.fable.settings import FableSettings
from labelfable.models.fable.starts import subtype_starts
from labelfable.models.fable.steps import FableShard, FableSweeps
from labelfable.models.fable.streaming import Stream, grown, stream_of
from labelfable.models.report import Answer, Course
from labelfable.numerics.random import seed_of
from labelfable.votes.encode import short_list
from labelfable.votes.maps import Layout
from labelfable.votes.read import read_gold, read_votes
from labelfable.votes.stored import StoredVotes

HELD_CONSTANT = 1e-3  # prior variance of the constants where no feature says which class grows
MEMBER_TOLERANCE = 1e-4  # of the fits that are averaged: they need not be as exact as the one that is reported

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

ON_DISK = "these votes stay on disk"


class FABLE(FableSettings):  # noqa: D101 (users read what the settings mean)
    __doc__ = FableSettings.__doc__

    _sweep_types = SWEEP_TYPES
    _stored_types = (
        *(GlobalFactors, WeightFactor, VoteFactor),
        *(FableSweeps, Reading, Emission, Layout, VotePrior, Hierarchy),
        *(Committee, Member),
        *(PublishedFit, Held),
        *(Curvature, Stream, SufficientStatistics),
        *STORED_TYPES,
    )
    sweeps_: FableSweeps
    globals_: GlobalFactors
    stream_: Stream | None
    committee_: Committee | None

    def explain(self, items: Any, votes: Any, *, features: Any = None) -> Explanation | list[Explanation]:
        """Why items get their labels: the log-odds that each vote, the features and the class prior contribute.

        `items` is a row number of `votes`, or several or a mask for a list of explanations.  The parts of an
        `Explanation` add up to the difference of the log probabilities that the one fit gives; with calibration="votes"
        `predict_proba` averages over others too.
        """
        table = self._read_like_fit(votes)
        if isinstance(table, StoredVotes):
            raise InputError(ON_DISK, hint="Read the items to explain: votes.read(start, stop)")
        if self.inference == "published":
            raise ModelError("the paper's rules as printed explain nothing", hint="Fit with inference='variational'")
        table = without_votes_of(table, self.copies_)
        fit = (self.projection_, self.sweeps_, self.globals_)
        return explain_items(items, self._heard(table), features_or_none(features, table.n_items), fit)

    def partial_fit(
        self, votes: Any, y: Any = None, *, features: Any = None, classes: Sequence[Any] | None = None
    ) -> Self:
        """Go on with further items: the first call is a fit, each later one moves what was fitted towards its items.

        Give `classes` to the first call where its votes may not name them all.  How the features are scaled and
        projected is settled by the first call.  `decay` says how fast old items fade.                   Equation (S)
        """
        self._validate_params()
        if self.inference == "published" or (self.emission == "silence" and self.silence_weight < 1):
            setting = "silence_weight below 1" if self.inference == "variational" else "inference='published'"
            raise ModelError(f"partial_fit does not go with {setting}", hint="Fit all items at once")
        if not hasattr(self, "globals_"):
            return self.fit(votes if classes is None else read_votes(votes, classes=classes), y, features=features)
        began = time.perf_counter()
        table = self._read_like_fit(votes)
        if isinstance(table, StoredVotes):
            raise InputError(ON_DISK, hint="Give them in batches: votes.read(start, stop)")
        table, gold = without_votes_of(table, self.copies_), read_gold(y, table)[1]
        features = seen_features(features, 0, whole=True)
        projected = self.projection_.project(features_or_none(features, table.n_items), table.n_items)
        chosen = self._fitted_items(table, gold)
        rows, known = self._heard(table.rows(chosen)), None if gold is None else gold[chosen]
        if self.stream_ is None:
            self.stream_ = stream_of(self.sweeps_, self.globals_, self.curvature_, self.n_fitted_)
        growth = 1 + rows.n_items / self.stream_.n_items if self.scale == "proportional" else 1.0
        sweeps = replace(self.sweeps_, layout=rows.layout, vote_prior=grown(self.sweeps_.vote_prior, growth))
        shards = cut_items(rows, known, rows_of(projected, chosen), None)
        engine = engine_of(self.n_jobs)
        self.stream_, self.globals_ = self.stream_.absorb(sweeps, shards, self.globals_, engine, self.decay)
        self.sweeps_ = sweeps
        left = self.committee_ is not None
        notes = ["the fits that were averaged are left behind: the one fit goes on"] if left else []
        self.committee_ = None
        answer = Answer.of(table, np.ones(table.n_items), gold, self._probabilities(table, projected))
        self._report(table, answer, Course(notes=notes), time.perf_counter() - began)
        return self

    def _fit_table(self, table: VoteTable, gold: NDArray[np.integer] | None, features: Any) -> tuple[Course, Answer]:
        if device_for(self, features) is not None:
            return fit_on_device(self, table, gold, features)
        if self.inference == "published":
            return self._fit_published(table, gold, features)
        notes = [] if features is not None else ["no features were given: the votes alone decide"]
        whole, table = table, self._heard_once(table, notes)
        seed = seed_of(self.random_state)
        self.projection_ = self._build_projection(features_or_none(features, table.n_items), seed)
        known = features_or_none(features, table.n_items)
        if self.learn:
            notes.append(self._learn(table, gold, known, seed))
        projected = self.projection_.project(known, table.n_items)
        if not (self._is_learned() or projected.phi[:, : self.projection_.n_kernel_columns].any()):
            self._hold_constants()
            projected = self.projection_.project(known, table.n_items)
        best = self._climb(table, gold, projected)
        chosen = self._fitted_items(table, gold)
        self._keep(best, len(chosen))
        if self.calibration == "votes":
            self.committee_ = self._convene(table, gold, projected, best)
            notes += self.committee_.remarks(self.classes_)
        probabilities = self._probabilities(table, projected)
        if self._is_learned():
            self.class_prior_ = probabilities[chosen].mean(axis=0)
        course = Course(best.fit.history, best.fit.converged, notes)
        return course, Answer.of(whole, np.ones(table.n_items), gold, probabilities)

    def _keep(self, best: Peak, n_items: int) -> None:
        """What one fit of so many items leaves behind; class proportions that are learned follow from the answers."""
        self.sweeps_, self.globals_ = best.sweeps, best.factors
        self.curvature_, self.n_fitted_, self.stream_ = best.curvature, n_items, None
        self.committee_ = None
        self.class_prior_ = np.exp(self.sweeps_.log_proportions)

    def _keep_alone(self, best: Peak, n_items: int, notes: list[str], where: str) -> None:
        """The same where nothing is averaged, and why."""
        self._keep(best, n_items)
        self.copies_ = np.zeros(len(self.sources_), dtype=bool)
        if self.calibration == "votes":
            notes.append(f"{where}: calibration='votes' averages over fits in memory, without a device")

    def _hold_constants(self) -> None:
        """Keep each process's constant at the class proportions: no feature says which class grows."""
        self.projection_ = self.projection_.with_parameters(constant=min(self.constant, HELD_CONSTANT))

    def _heard_once(self, table: VoteTable, notes: list[str]) -> VoteTable:
        """The votes without those of sources that copy another's."""
        self.copies_ = copied_sources(table) if self.calibration == "votes" else np.zeros(table.n_sources, dtype=bool)
        if self.copies_.any():
            names = short_list([table.sources[j] for j in np.flatnonzero(self.copies_)])
            notes.append(f"{int(self.copies_.sum())} sources repeat another's votes and were not heard again: {names}")
        return without_votes_of(table, self.copies_)

    def _climb(self, table: VoteTable, gold: NDArray[np.integer] | None, projected: Projected) -> Peak:
        """One fit of these votes and columns."""
        seed, chosen = seed_of(self.random_state), self._fitted_items(table, gold)
        rows, known, inside = scene = part_of((table, gold, projected), chosen)
        heard = self._heard(rows)
        sample = sampled(rows.n_items, inside.phi.shape[1], seed)
        if sample is not None:
            scene = part_of(scene, sample)
        starts = (
            Start(
                replace(self._sweeps(heard, known, n_subtypes), copies=rows.n_items / scene[0].n_items),
                cut_items(self._heard(scene[0]), *scene[1:], start),
            )
            for n_subtypes, start in subtype_starts(*scene[:2], scene[2].phi, (self.n_subtypes, self.n_init, seed))
        )
        whole = None if sample is None else cut_items(heard, known, inside, None)
        stopping = Stopping(self.tol, self.max_iter, rows.n_items)
        keep = keeper_of(self, rows, known, inside.phi)
        return climb_best(starts, engine_of(self.n_jobs, self.engine), stopping, whole, keep)

    def _convene(
        self, table: VoteTable, gold: NDArray[np.integer] | None, projected: Projected, main: Peak
    ) -> Committee:
        """The fits that are averaged, this one among them."""
        settings = {key: getattr(self, key) for key in ("emission", "evidence_weight", "strength")}

        def fit(rows: VoteTable, changed: dict[str, Any]) -> Peak:
            other: FABLE = clone(self).set_params(**changed, tol=max(self.tol, MEMBER_TOLERANCE), checkpoint=None)
            return other._climb(rows, gold, projected)

        return convene(table, projected, main, settings=settings, fit=fit, engine=engine_of(self.n_jobs))

    def _learn(self, table: VoteTable, gold: NDArray[np.integer] | None, features: Any, seed: int) -> str:
        """The note of `_learn_from`, for some of the items."""
        from sklearn.utils import _safe_indexing

        chosen = self._fitted_items(table, gold)
        some = np.sort(np.random.default_rng(seed).permutation(chosen)[:LEARNT_ITEMS])
        rows, known = table.rows(some), None if gold is None else gold[some]
        numbers = features.some(some) if hasattr(features, "some") else _safe_indexing(features, some)
        return self._learn_from(rows, known, numbers, self._heard(table.rows(chosen)), seed)

    def _learn_from(
        self, rows: VoteTable, gold: NDArray[np.integer] | None, features: Any, whole: VoteTable, seed: int
    ) -> str:
        """Move the projection's hyperparameters to where the bound of these items is highest.   Equation (GP.8)"""
        shares = next(subtype_starts(rows, gold, np.zeros((rows.n_items, 0)), (1, 1, seed)))[1]
        sweeps = as_posteriors(self._sweeps(whole, gold, 1))
        sweeps = replace(sweeps, copies=whole.n_items / rows.n_items)

        def start(projected: Projected, responsibilities: NDArray[np.floating]) -> Start:
            return Start(sweeps, cut_items(self._heard(rows), gold, projected, responsibilities))

        names = chosen_names(self.learn)
        profile = Profile(self.projection_, features, names, start, engine_of(self.n_jobs), shares)
        self.projection_ = learn_parameters(profile)
        return described(self.projection_, names)

    def _fit_published(
        self, table: VoteTable, gold: NDArray[np.integer] | None, features: Any
    ) -> tuple[Course, Answer]:
        """The paper's rules as printed.                                                 Equations (FP.1)-(FP.8)"""
        settings, seed = PublishedSettings.of(self.published), seed_of(self.random_state)
        found = fit_published(table, features, settings, seed, gold=gold)
        self.published_ = found
        course = Course(converged=found.converged, notes=[found.outcome], stopped=found.stopped or "")
        return course, Answer.of(table, np.ones(table.n_items), gold, found.probabilities)

    def _fit_stored(self, votes: StoredVotes, gold: NDArray[np.integer] | None, features: Any) -> tuple[Course, Answer]:
        from labelfable.models.fable.stored import fit_stored

        return fit_stored(self, votes, gold, features)

    def _build_projection(self, features: Any, seed: int) -> Projection:
        return build_projection(
            features,
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
        fixed = fixed_prior(self.class_prior, rows, np.broadcast_to(1.0, rows.n_items), gold)
        shares = np.full(n_classes, 1 / n_classes) if fixed is None else fixed
        log_shares = np.log(shares)
        lean = log_shares - log_shares.mean()
        in_process = not reading.has_proportions
        settings = PriorSettings(**{part.name: getattr(self, part.name) for part in fields(PriorSettings)})
        return FableSweeps(
            reading=reading,
            emission=Emission(self.emission, self.tables == "point", self.silence_weight),
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
        if device_for(self, features) is not None and self.committee_ is None:
            return probabilities_on(self, without_votes_of(table, self.copies_), features)
        if self.inference == "published":
            settings, seed = PublishedSettings.of(self.published), seed_of(self.random_state)
            return predict_published(self.published_, table, features, settings, seed)
        known = features_or_none(seen_features(features, 0, whole=True), table.n_items)  # those of a GPU come here
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
