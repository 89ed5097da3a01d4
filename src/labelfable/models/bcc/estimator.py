"""Bayesian classifier combination: independent (iBCC) and enhanced (EBCC) by mean-field variational inference.

H.-C. Kim, Z. Ghahramani: Bayesian Classifier Combination. AISTATS 2012.
Y. Li, B. Rubinstein, T. Cohn: Exploiting Worker Correlation for Label Aggregation in Crowdsourcing. ICML 2019.

    τ ~ Dirichlet(ν₀),   z_i ~ Categorical(τ),   π_k ~ Dirichlet(η₀),   g_i | z_i = k ~ Categorical(π_k)
    v_jc ~ Dirichlet(β_jc),   y_ij | (z_i, g_i) = c ~ Categorical(v_jc)

iBCC is the case of one subtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import engine_of
from labelfable.inference.sweep import Fit, run_sweeps
from labelfable.models.bcc.sweeps import BCCGlobals, BCCPrior, BCCSweeps, mean_log_votes, vote_concentration
from labelfable.models.checkpoint import checkpoint_of
from labelfable.models.class_prior import fixed_prior
from labelfable.models.confusion import (
    ConfusionLogs,
    class_probabilities,
    cut_for,
    heard,
    suits_single,
)
from labelfable.models.protocol import (
    ABSTAIN,
    AT_LEAST_ONE,
    CHECKPOINT,
    CLASS_PRIOR,
    DEVICE,
    ENGINE,
    N_JOBS,
    NOT_NEGATIVE,
    POSITIVE,
    BaseLabelModel,
)
from labelfable.models.report import Course
from labelfable.numerics.distributions import dirichlet_mean
from labelfable.numerics.random import seed_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable


class EBCC(BaseLabelModel):
    """Confusion matrices per class and subtype, so that sources may err together.     Equations (C.1), (B.1)-(B.4)

    Parameters
    ----------
    n_subtypes : int
        Subtypes of each class, M.
    right, wrong : float
        Prior counts of each source's votes: `right` where the label speaks for the class, `wrong` elsewhere.  They are
        small, because a rule that fires on few items has few votes to set against them.
    abstain : "auto", "missing" or "label"
        What silence means: nothing (as published, for crowds), or one more label that tells classes apart (for rules
        that look at every item).  "auto" decides by the sources that only ever give one label; `abstain_` says how.
    class_prior : "votes", "uniform", "learned", or one number a class
        Class proportions: majority vote's, or learned under a Dirichlet prior (as published): then rare classes tend to
        die out.
    class_concentration : float
        ν₀, prior count of each class where proportions are learned.
    subtype_concentration : float
        η₀, prior count of each subtype; small values leave subtypes empty that the data do not ask for.
    n_init : int
        Random starts of the subtypes; the one with the highest bound is kept.  With one subtype there is only one
        start.
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
        Where the sweeps run by PyTorch; None stays with NumPy.
    checkpoint : path or None
        Folder that keeps the state after each sweep; a fit that was killed goes on from there to the same answer.
    random_state : int
        Seed of the starts and of the draws between tied classes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_subtypes": AT_LEAST_ONE,
        "right": POSITIVE,
        "wrong": POSITIVE,
        "abstain": ABSTAIN,
        "class_prior": CLASS_PRIOR,
        "class_concentration": POSITIVE,
        "subtype_concentration": POSITIVE,
        "n_init": AT_LEAST_ONE,
        "tol": NOT_NEGATIVE,
        "max_iter": AT_LEAST_ONE,
        "n_jobs": N_JOBS,
        "engine": ENGINE,
        "device": DEVICE,
        "checkpoint": CHECKPOINT,
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_subtypes: int = 3,
        *,
        right: float = 0.2,
        wrong: float = 0.02,
        abstain: str = "auto",
        class_prior: Any = "votes",
        class_concentration: float = 1.0,
        subtype_concentration: float = 0.1,
        n_init: int = 5,
        tol: float = 1e-6,
        max_iter: int = 500,
        n_jobs: int | None = None,
        engine: Any = None,
        device: Any = None,
        checkpoint: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.n_subtypes = n_subtypes
        self.right = right
        self.wrong = wrong
        self.abstain = abstain
        self.class_prior = class_prior
        self.class_concentration = class_concentration
        self.subtype_concentration = subtype_concentration
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.checkpoint = checkpoint
        self.random_state = random_state

    _sweeps_shards = True

    @property
    def _sweep_types(self) -> tuple[type, ...]:
        return (BCCGlobals, ConfusionLogs)

    def _fit_rows(self, rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Course:
        return self._fit_subtypes(rows, weights, gold, self.n_subtypes, self.n_init)

    def _fit_subtypes(
        self,
        rows: VoteTable,
        weights: NDArray[np.floating],
        gold: NDArray[np.integer] | None,
        n_subtypes: int,
        n_init: int,
    ) -> Course:
        fixed = fixed_prior(self.class_prior, rows, weights, gold, self.n_jobs)  # first: it makes Ψ on all cores
        rows = heard(rows, weights, self.abstain)
        self.abstain_ = "label" if rows.silence else "missing"
        layout = rows.layout if self.device is None else rows.layout.single
        proportions = np.full(rows.n_classes, 1 / rows.n_classes) if fixed is None else fixed
        prior = BCCPrior(
            vote_concentration(rows, self.right, self.wrong, n_subtypes),
            np.full(rows.n_classes, self.class_concentration) if fixed is None else None,
            np.full((rows.n_classes, n_subtypes), self.subtype_concentration),
        )
        shards = cut_for(rows, weights, gold, rows.n_classes * n_subtypes, self.device)
        stopping = Stopping(self.tol, self.max_iter, weights.sum())
        single = suits_single(shards, rows.n_classes * n_subtypes)
        seed, best = seed_of(self.random_state), None
        engine = engine_of(self.n_jobs, self.engine, self.device)
        for attempt in range(n_init if n_subtypes > 1 else 1):
            sweeps = BCCSweeps(layout, rows.vote_weights, prior, proportions, seed + attempt, single)
            checkpoint = checkpoint_of(self, f"start-{attempt}", rows, weights, gold)
            fit = run_sweeps(sweeps, shards, engine, stopping, checkpoint=checkpoint)
            if best is None or fit.history.totals[-1] > best.history.totals[-1]:
                best = fit
        assert best is not None  # n_init is at least one  # noqa: S101
        self._keep(best, proportions)
        return Course(best.history, best.converged)

    def _keep(self, fit: Fit[BCCGlobals, None], fixed_proportions: NDArray[np.floating]) -> None:
        found = fit.global_
        self.vote_concentration_ = found.votes
        self.confusion_ = np.swapaxes(dirichlet_mean(np.swapaxes(found.votes, 1, 2)), 1, 2)
        self.log_confusion_ = mean_log_votes(found.votes)
        self.log_components_ = found.logs.components
        self.subtype_prior_ = dirichlet_mean(found.subtypes)
        self.class_prior_ = fixed_proportions if found.classes is None else dirichlet_mean(found.classes)

    def _row_probabilities(self, rows: VoteTable) -> NDArray[np.floating]:
        return np.asarray(
            class_probabilities(
                heard(rows, np.ones(rows.n_items), self.abstain_),
                self.log_confusion_,
                self.log_components_,
                self.n_jobs,
            )
        )


class IBCC(EBCC):
    """Confusion matrices per class, their uncertainty kept: EBCC with one subtype.   Equations (C.1), (B.1), (B.2)

    Parameters
    ----------
    right, wrong : float
        Prior counts of each source's votes: `right` where the label speaks for the class, `wrong` elsewhere.  They are
        small, because a rule that fires on few items has few votes to set against them.
    abstain : "auto", "missing" or "label"
        What silence means: nothing (as published, for crowds), or one more label that tells classes apart (for rules
        that look at every item).  "auto" decides by the sources that only ever give one label; `abstain_` says how.
    class_prior : "votes", "uniform", "learned", or one number a class
        Class proportions: majority vote's, or learned under a Dirichlet prior (as published): then rare classes tend to
        die out.
    class_concentration : float
        ν₀, prior count of each class where proportions are learned.
    tol : float
        Stop when a sweep raises the bound by less than this per item.
    max_iter : int
        Most sweeps.
    n_jobs : int or None
        Threads; None means all cores.  The answer does not depend on it.
    engine : None, "dask", a scheduler's address, or a Dask client
        Where the work is done: threads of this process, a cluster of this machine's cores, or one that runs already.
        The answer does not depend on it.
    device : None, "cuda", "cuda:1" or "cpu"
        Where the sweeps run by PyTorch; None stays with NumPy.
    checkpoint : path or None
        Folder that keeps the state after each sweep; a fit that was killed goes on from there to the same answer.
    random_state : int
        Seed of the draws between tied classes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: limits
        for name, limits in EBCC._parameter_constraints.items()  # noqa: SLF001 (its own base)
        if name not in {"n_subtypes", "subtype_concentration", "n_init"}
    }

    def __init__(
        self,
        *,
        right: float = 0.2,
        wrong: float = 0.02,
        abstain: str = "auto",
        class_prior: Any = "votes",
        class_concentration: float = 1.0,
        tol: float = 1e-6,
        max_iter: int = 500,
        n_jobs: int | None = None,
        engine: Any = None,
        device: Any = None,
        checkpoint: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.right = right
        self.wrong = wrong
        self.abstain = abstain
        self.class_prior = class_prior
        self.class_concentration = class_concentration
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.checkpoint = checkpoint
        self.random_state = random_state

    subtype_concentration = 1.0

    def _fit_rows(self, rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Course:
        return self._fit_subtypes(rows, weights, gold, n_subtypes=1, n_init=1)
