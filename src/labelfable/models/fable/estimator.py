"""FABLE: settings in, fitted attributes out.

J. Zhang, L. Song, A. Ratner: Leveraging Instance Features for Label Aggregation in Programmatic Weak Supervision.
AISTATS 2023.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from labelfable.errors import InputError, ModelError
from labelfable.inference.convergence import Stopping
from labelfable.inference.device_engine import PRECISIONS
from labelfable.inference.execution import engine_of
from labelfable.models.checkpoint import keeper_of
from labelfable.models.class_prior import fixed_prior
from labelfable.models.fable.augmentation import NormaliserName
from labelfable.models.fable.device import device_for, fit_on_device, probabilities_on, seen_features
from labelfable.models.fable.emission import Emission, EmissionName, VoteFactor, VotePrior
from labelfable.models.fable.emission_hierarchy import Hierarchy
from labelfable.models.fable.emission_prior import PriorSettings, ScaleName, SharingName, vote_prior
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
from labelfable.models.fable.items import cut_items, features_or_none, rows_of
from labelfable.models.fable.light import SWEEP_TYPES, Curvature
from labelfable.models.fable.process import WeightFactor
from labelfable.models.fable.projection import STORED_TYPES, Projected, Projection, build_projection
from labelfable.models.fable.published import PublishedFit, fit_published, predict_published
from labelfable.models.fable.published_settings import PublishedSettings
from labelfable.models.fable.published_steps import Held
from labelfable.models.fable.reading import Reading, ReadingName
from labelfable.models.fable.search import Start, climb_best, sampled
from labelfable.models.fable.starts import subtype_starts
from labelfable.models.fable.steps import FableShard, FableSweeps
from labelfable.models.fable.streaming import Stream, grown, stream_of
from labelfable.models.protocol import (
    AT_LEAST_ONE,
    CHECKPOINT,
    CLASS_PRIOR,
    DEVICE,
    ENGINE,
    N_JOBS,
    NOT_NEGATIVE,
    POSITIVE,
    Answer,
    BaseLabelModel,
    Course,
)
from labelfable.numerics.random import seed_of
from labelfable.votes.maps import Layout
from labelfable.votes.read import read_gold, read_votes
from labelfable.votes.stored import StoredVotes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

ON_DISK = "these votes stay on disk"


class FABLE(BaseLabelModel):
    """Votes and features together: a mixture label model whose coefficients are Gaussian processes of the features.

    Equations (A)-(H), (P), (T).

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
    lengthscale : None, float, one number a feature, or "ard"
        In units of the scaled features; None takes the median distance between items, "ard" one a feature.
    variance, constant : float
        Prior variance of each process, and of its constant.
    learn : tuple of "variance", "lengthscale", "constant"
        Hyperparameters of the kernel that are moved to where the bound is highest before the fit.
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
    strength, accuracy, scale, sharing, flat, rarity, firmness : float, float, str, str, float, float, float
        The prior of the votes: see `emission_prior.py`.
    silence_weight : float
        Of whether a source speaks, with emission="silence": from 1 (that of what it says) to 0 (none, as in "fired").
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
    class_prior : "votes", "uniform", "learned", or one number a class
        Class proportions: majority vote's, equal, given, or left to the processes' constants (to τ where it exists).
    decay : float
        How fast old items fade in `partial_fit`: 1 keeps them for ever, less follows what changes.
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
    engine : None, "dask", a scheduler's address, or a Dask client
        Where the work is done: threads of this process, a cluster of this machine's cores, or one that runs already.
        The answer does not depend on it.
    device : None, "cuda", "cuda:1" or "cpu"
        Where the sweeps run by PyTorch; None stays with NumPy, except where the features lie on a GPU already.
    device_memory : None, int or str
        Bytes of the device that a fit may use, such as "16GB"; None takes what is free.  What does not fit is streamed.
    precision : "fp32" or "tf32"
        Of products on a GPU.
    checkpoint : path or None
        Folder that keeps the state after each sweep; a fit that was killed goes on from there to the same answer.
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
        "lengthscale": [None, Interval(Real, 0, None, closed="neither"), "array-like", StrOptions({"ard"})],
        "variance": POSITIVE,
        "constant": POSITIVE,
        "learn": ["array-like", StrOptions({"variance", "lengthscale", "constant"})],
        "scaling": [StrOptions({"standardise", "normalise", "whiten", "none"})],
        "max_components": AT_LEAST_ONE,
        "missing": [StrOptions({"error", "ignore"})],
        "emission": [StrOptions({"pattern", "fired", "silence", "rates"})],
        "tables": [StrOptions({"point", "posterior"})],
        "strength": NOT_NEGATIVE,
        "accuracy": [Interval(Real, 0, 1, closed="neither")],
        "scale": [StrOptions({"proportional", "counts"})],
        "sharing": [StrOptions({"source", "shared", "hierarchical", "hierarchical_strength"})],
        "firmness": POSITIVE,
        "silence_weight": [Interval(Real, 0, 1, closed="both")],
        "flat": POSITIVE,
        "rarity": [Interval(Real, 0, 1, closed="both")],
        "evidence_weight": POSITIVE,
        "normaliser": [StrOptions({"collapsed", "factored"})],
        "reading": [StrOptions({"joint", "base", "conditional"})],
        "tilt": [StrOptions({"mean", "posterior"})],
        "uncovered": [StrOptions({"out", "in"})],
        "class_prior": CLASS_PRIOR,
        "decay": [Interval(Real, 0, 1, closed="right")],
        "published": [dict, None],
        "n_init": AT_LEAST_ONE,
        "tol": NOT_NEGATIVE,
        "max_iter": AT_LEAST_ONE,
        "n_jobs": N_JOBS,
        "engine": ENGINE,
        "device": DEVICE,
        "device_memory": [Interval(Real, 0, None, closed="neither"), str, None],
        "precision": [StrOptions(set(PRECISIONS))],
        "checkpoint": CHECKPOINT,
        "random_state": ["random_state"],
    }
    _sweep_types = SWEEP_TYPES
    _stored_types = (
        *(GlobalFactors, WeightFactor, VoteFactor),
        *(FableSweeps, Reading, Emission, Layout, VotePrior, Hierarchy),
        *(PublishedFit, Held),
        *(Curvature, Stream, SufficientStatistics),
        *STORED_TYPES,
    )
    sweeps_: FableSweeps
    globals_: GlobalFactors
    stream_: Stream | None

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
        learn: Any = (),
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
        firmness: float = 100.0,
        silence_weight: float = 1.0,
        evidence_weight: float = 0.6,
        normaliser: NormaliserName = "collapsed",
        reading: ReadingName = "joint",
        tilt: str = "mean",
        uncovered: str = "out",
        class_prior: Any = "votes",
        decay: float = 0.7,
        published: Any = None,
        n_init: int = 3,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        engine: Any = None,
        device: Any = None,
        device_memory: Any = None,
        precision: str = "fp32",
        checkpoint: Any = None,
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
        self.learn = learn
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
        self.firmness = firmness
        self.silence_weight = silence_weight
        self.evidence_weight = evidence_weight
        self.normaliser = normaliser
        self.reading = reading
        self.tilt = tilt
        self.uncovered = uncovered
        self.class_prior = class_prior
        self.decay = decay
        self.published = published
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.device_memory = device_memory
        self.precision = precision
        self.checkpoint = checkpoint
        self.random_state = random_state

    def explain(self, items: Any, votes: Any, *, features: Any = None) -> Explanation | list[Explanation]:
        """Why items get their labels: the log-odds that each vote, the features and the class prior contribute.

        `items` is a row number of `votes`, or several or a mask for a list of explanations.  The parts of an
        `Explanation` add up to the difference of the log probabilities that `predict_proba` gives.
        """
        table = self._read_like_fit(votes)
        if isinstance(table, StoredVotes):
            raise InputError(ON_DISK, hint="Read the items to explain: votes.read(start, stop)")
        if self.inference == "published":
            raise ModelError("the paper's rules as printed explain nothing", hint="Fit with inference='variational'")
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
        gold = read_gold(y, table)[1]
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
        answer = Answer.of(table, np.ones(table.n_items), gold, self._probabilities(table, projected))
        self._report(table, answer, Course(), time.perf_counter() - began)
        return self

    def _fit_table(self, table: VoteTable, gold: NDArray[np.integer] | None, features: Any) -> tuple[Course, Answer]:
        if device_for(self, features) is not None:
            return fit_on_device(self, table, gold, features)
        if self.inference == "published":
            return self._fit_published(table, gold, features)
        notes = [] if features is not None else ["no features were given: the votes alone decide"]
        seed = seed_of(self.random_state)
        self.projection_ = self._build_projection(features_or_none(features, table.n_items), seed)
        if self.learn:
            notes.append(self._learn(table, gold, features_or_none(features, table.n_items), seed))
        projected = self.projection_.project(features_or_none(features, table.n_items), table.n_items)
        chosen = self._fitted_items(table, gold)
        rows, known = table.rows(chosen), None if gold is None else gold[chosen]
        inside = rows_of(projected, chosen)
        heard = self._heard(rows)
        sample = sampled(rows.n_items, inside.phi.shape[1], seed)
        some = np.arange(rows.n_items) if sample is None else sample
        scene = rows.rows(some), None if known is None else known[some], rows_of(inside, some)
        starts = (
            Start(
                replace(self._sweeps(heard, known, n_subtypes), copies=rows.n_items / len(some)),
                cut_items(self._heard(scene[0]), *scene[1:], start),
            )
            for n_subtypes, start in subtype_starts(*scene[:2], scene[2].phi, (self.n_subtypes, self.n_init, seed))
        )
        whole = None if sample is None else cut_items(heard, known, inside, None)
        stopping = Stopping(self.tol, self.max_iter, rows.n_items)
        keep = keeper_of(self, rows, known, inside.phi)
        best = climb_best(starts, engine_of(self.n_jobs, self.engine), stopping, whole, keep)
        self.sweeps_, self.globals_ = best.sweeps, best.factors
        self.curvature_, self.n_fitted_, self.stream_ = best.curvature, rows.n_items, None
        probabilities = self._probabilities(table, projected)
        self.class_prior_ = np.exp(self.sweeps_.log_proportions)
        if isinstance(self.class_prior, str) and self.class_prior == "learned":
            self.class_prior_ = probabilities[chosen].mean(axis=0)
        course = Course(best.fit.history, best.fit.converged, notes)
        return course, Answer.of(table, np.ones(table.n_items), gold, probabilities)

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
        if device_for(self, features) is not None:
            return probabilities_on(self, table, features)
        if self.inference == "published":
            settings, seed = PublishedSettings.of(self.published), seed_of(self.random_state)
            return predict_published(self.published_, table, features, settings, seed)
        known = features_or_none(features, table.n_items)
        return self._probabilities(table, self.projection_.project(known, table.n_items))

    def _probabilities(self, table: VoteTable, projected: Projected) -> NDArray[np.floating]:
        """The local step with the globals held, summed over subtypes.                      Equations (A)-(D)"""
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
