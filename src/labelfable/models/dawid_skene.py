"""Dawid and Skene's model: a confusion matrix per source, by expectation-maximisation.

A. P. Dawid, A. M. Skene: Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm. Applied
Statistics 28 (1979).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import engine_of
from labelfable.inference.sweep import run_sweeps
from labelfable.models.checkpoint import checkpoint_of
from labelfable.models.class_prior import fixed_prior
from labelfable.models.confusion import (
    ConfusionLogs,
    ConfusionStatistics,
    class_probabilities,
    cut_for,
    heard,
    items_bound,
    local_statistics,
    start_statistics,
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
    BaseLabelModel,
)
from labelfable.models.report import Course

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.inference.shards import Shard
    from labelfable.votes.maps import Layout
    from labelfable.votes.table import VoteTable

LEAST_PROBABILITY = 1e-300  # the log of a probability that EM drives to zero stays finite


class DawidSkene(BaseLabelModel):
    """Confusion matrices and class proportions of highest likelihood.              Equations (C.1), (DS.1)-(DS.3)

    Parameters
    ----------
    abstain : "auto", "missing" or "label"
        What silence means: nothing (as published, for crowds), or one more label that tells classes apart (for rules
        that look at every item).  "auto" decides by the sources that only ever give one label; `abstain_` says how.
    class_prior : "votes", "uniform", "learned", or one number a class
        Class proportions: majority vote's, or learned with the rest (as published): then rare classes tend to die out.
    smoothing : float
        Added to every count of the confusion matrices: the mode under a Dirichlet(1 + smoothing) prior.  0 is the
        published rule, under which a source that never made a mistake can never be contradicted.
    tol : float
        Stop when a sweep raises the log-likelihood by less than this per item.
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
        "abstain": ABSTAIN,
        "class_prior": CLASS_PRIOR,
        "smoothing": NOT_NEGATIVE,
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
        *,
        abstain: str = "auto",
        class_prior: Any = "votes",
        smoothing: float = 0.01,
        tol: float = 1e-6,
        max_iter: int = 500,
        n_jobs: int | None = None,
        engine: Any = None,
        device: Any = None,
        checkpoint: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.abstain = abstain
        self.class_prior = class_prior
        self.smoothing = smoothing
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
        return (DawidSkeneGlobals, ConfusionLogs)

    def _fit_rows(self, rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Course:
        fixed = fixed_prior(self.class_prior, rows, weights, gold, self.n_jobs)  # first: it makes Ψ on all cores
        rows = heard(rows, weights, self.abstain)
        self.abstain_ = "label" if rows.silence else "missing"
        shards = cut_for(rows, weights, gold, rows.n_classes, self.device)
        sweeps = DawidSkeneSweeps(
            rows.layout if self.device is None else rows.layout.single,
            rows.n_classes,
            rows.vote_weights,
            self.smoothing,
            fixed,
            suits_single(shards, rows.n_classes),
        )
        stopping = Stopping(self.tol, self.max_iter, weights.sum())
        checkpoint = checkpoint_of(self, "sweeps", rows, weights, gold)
        engine = engine_of(self.n_jobs, self.engine, self.device)
        fit = run_sweeps(sweeps, shards, engine, stopping, checkpoint=checkpoint)
        self.confusion_ = np.exp(fit.global_.log_confusion)
        self.log_confusion_ = fit.global_.log_confusion
        self.class_prior_ = np.exp(fit.global_.logs.components)
        return Course(fit.history, fit.converged)

    def _row_probabilities(self, rows: VoteTable) -> NDArray[np.floating]:
        return np.asarray(
            class_probabilities(
                heard(rows, np.ones(rows.n_items), self.abstain_),
                self.log_confusion_,
                np.log(self.class_prior_),
                self.n_jobs,
            )
        )


@dataclass(frozen=True)
class DawidSkeneGlobals:
    """Confusion matrices and proportions, as the local step needs them and as they are read."""

    logs: ConfusionLogs
    log_confusion: NDArray[np.floating]
    """Log v_jlk, [sources, labels, classes]."""


@dataclass(frozen=True)
class DawidSkeneSweeps:
    """EM as a sweep: the local step is E, the global step M."""

    layout: Layout
    n_classes: int
    start_weights: NDArray[np.floating]
    smoothing: float
    fixed_proportions: NDArray[np.floating] | None
    single: bool = False
    """Whether what is made of each item is in single precision."""

    def start(self, shard: Shard) -> tuple[None, ConfusionStatistics]:
        """Statistics of majority vote's soft labels."""
        return None, start_statistics(shard, self.layout.pack(self.start_weights))

    def local_step(self, shard: Shard, local: None, global_: DawidSkeneGlobals) -> tuple[None, ConfusionStatistics]:
        """Responsibilities at the present tables.                                                Equation (C.1)"""
        return local, local_statistics(shard, global_.logs, self.n_classes)

    def global_step(self, statistics: ConfusionStatistics) -> DawidSkeneGlobals:
        """Tables and proportions of highest likelihood given the responsibilities."""
        log_confusion = update_confusion(self.layout.unpack(statistics.counts), self.smoothing)
        proportions = self.fixed_proportions
        if proportions is None:
            proportions = update_proportions(statistics.totals, self.smoothing)
        logs = ConfusionLogs(self.layout.pack(log_confusion), np.log(proportions), self.single)
        return DawidSkeneGlobals(logs, log_confusion)

    def bound(self, statistics: ConfusionStatistics, global_: DawidSkeneGlobals) -> dict[str, float]:
        """The log-likelihood (right after an E step the items' bound is just that), and the smoothing's log prior.

        Σ_i log Σ_k π_k Π_j v_{jk y_ij}  +  smoothing · ( Σ_jlk log v_jlk + Σ_k log π_k )     Equation (DS.3)
        """
        prior = self.smoothing * global_.log_confusion.sum() if self.smoothing else 0.0
        if self.fixed_proportions is None and self.smoothing:
            prior += self.smoothing * global_.logs.components.sum()
        return {"log-likelihood": sum(items_bound(statistics, global_.logs).values()), "log prior": float(prior)}


def update_confusion(counts: NDArray[np.floating], smoothing: float) -> NDArray[np.floating]:
    """Confusion matrices of highest (smoothed) likelihood, as logarithms.                       Equation (DS.1)

        v_jlk = ( n_jlk + smoothing ) / Σ_l ( n_jlk + smoothing )

    Shapes: [sources, labels, classes] -> the same.  A source without votes for a class gets even rows there.
    """
    raised = counts + smoothing
    whole = raised.sum(axis=1, keepdims=True)
    shares = np.where(whole > 0, raised / np.where(whole > 0, whole, 1), 1 / counts.shape[1])
    return np.log(np.maximum(shares, LEAST_PROBABILITY))


def update_proportions(totals: NDArray[np.floating], smoothing: float) -> NDArray[np.floating]:
    """Class proportions of highest (smoothed) likelihood.  [classes].                           Equation (DS.2)

    π_k = ( Σ_i ρ_ik + smoothing ) / Σ_k ( Σ_i ρ_ik + smoothing )
    """
    shares = (totals + smoothing) / (totals + smoothing).sum()
    return np.asarray(np.maximum(shares, LEAST_PROBABILITY))
