"""Data programming: accuracies, propensities and dependencies of sources, by maximum likelihood of their votes.

A. Ratner, C. De Sa, S. Wu, D. Selsam, C. Ré: Data Programming: Creating Large Training Sets, Quickly. NeurIPS 2016.
"""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from labelfable.errors import ModelError
from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import engine_of
from labelfable.inference.sweep import run_sweeps
from labelfable.models.class_prior import fixed_prior
from labelfable.models.confusion import class_probabilities, cut_for
from labelfable.models.data_programming.ascent import AscentSettings, ascend
from labelfable.models.data_programming.graph import MOST_STATES, Block, Dependency, FactorGraph, read_dependencies
from labelfable.models.data_programming.sweeps import FactorGlobals, FactorSweeps, vote_logits, with_dependency_votes
from labelfable.models.data_programming.weights import Penalty, expected_factors
from labelfable.models.protocol import AT_LEAST_ONE, CLASS_PRIOR, N_JOBS, NOT_NEGATIVE, POSITIVE, BaseLabelModel
from labelfable.models.report import Course
from labelfable.numerics.random import seed_of
from labelfable.votes.encode import short_list

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

ANY_NUMBER = [Interval(Real, None, None, closed="neither")]
PROPENSITY_PRECISION = 1e-4


class DataProgramming(BaseLabelModel):
    """A factor graph of votes and classes.                                              Equations (DP.1)-(DP.10), (C.1)

    Where a source votes it is right with probability e^θ / (e^θ + K − 1), whatever the class; how often it votes says
    nothing of the class.  `dependencies` name pairs of sources whose votes go together.

    The likelihood has a mirror image, in which sources are wrong and classes exchanged.  Three things keep the fit on
    the right side: it starts at majority vote, EM never goes downhill, and the prior on accuracies stands at
    `accuracy_weight`, above chance.  A single source may still turn out worse than chance.

    Parameters
    ----------
    dependencies : sequence of (source, source, kind), or None
        Pairwise factors; a source is a name or a number.  "similar": both say the same, silence included; "exclusive":
        they do not both vote; "reinforcing": the second seldom votes without the first, and both being right counts
        more; "fixing": the second seldom votes without the first, and being right where the first is wrong counts more.
    class_prior : "uniform", "votes", "learned", or one number a class
        Class proportions: held fixed, or learned with the rest.
    l2 : float
        Pull of the accuracies' weights to `accuracy_weight` and of the dependencies' to 0: a Gaussian prior of
        precision l2 an item.  It grows with the items, as in the authors' implementation, and so never fades: with
        sources that each vote for one class only, plain likelihood (l2 near 0) likes best that all items are of one
        class, and unanimous votes drive weights to infinity.  Where sources vote for all classes, 1e-6 recovers their
        accuracies.  Propensities, which no probability of a class depends on, get a fixed precision of 1e-4, so that
        the weight of a source that never or always votes stays finite.
    accuracy_weight : float
        Where accuracies are pulled to: log-odds of the true class against one given other class.
    gradient : "auto", "exact" or "gibbs"
        "exact" sums over all joint votes of connected sources, "gibbs" samples them, "auto" sums where they are few
        enough: up to nine connected sources with two classes, seven with more.
    n_chains : int
        Gibbs chains side by side.
    tol : float
        Stop when a sweep raises the objective by less than this per item.  With "gibbs" all steps are made, and the fit
        counts as converged where the last quarters of the steps agree to this per item or to sampling noise.
    max_iter : int
        Most sweeps; with "gibbs" the number of steps.
    n_jobs : int or None
        Threads; None means all cores.  The answer does not depend on it.
    random_state : int
        Seed of the chains and of the draws between tied classes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "dependencies": ["array-like", None],
        "class_prior": CLASS_PRIOR,
        "l2": POSITIVE,
        "accuracy_weight": ANY_NUMBER,
        "gradient": [StrOptions({"auto", "exact", "gibbs"})],
        "n_chains": AT_LEAST_ONE,
        "tol": NOT_NEGATIVE,
        "max_iter": AT_LEAST_ONE,
        "n_jobs": N_JOBS,
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        dependencies: Any = None,
        *,
        class_prior: Any = "uniform",
        l2: float = 0.1,
        accuracy_weight: float = 2.0,
        gradient: str = "auto",
        n_chains: int = 500,
        tol: float = 1e-6,
        max_iter: int = 500,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.dependencies = dependencies
        self.class_prior = class_prior
        self.l2 = l2
        self.accuracy_weight = accuracy_weight
        self.gradient = gradient
        self.n_chains = n_chains
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_rows(self, rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Course:
        rows = clear_votes(rows)
        dependencies = read_dependencies(self.dependencies, rows.sources)
        self.dependencies_: list[tuple[int, int, str]] = [(d.first, d.second, d.kind) for d in dependencies]
        graph = FactorGraph(rows.n_sources, rows.n_classes, dependencies)
        sampled = self._is_sampled(graph, rows)
        augmented, constants = with_dependency_votes(rows, weights, dependencies)
        proportions, n_items = fixed_prior(self.class_prior, rows, weights, gold), float(weights.sum())
        sweeps = FactorSweeps(augmented.layout, graph, self._penalty(graph, n_items), constants, n_items, proportions)
        shards, engine = cut_for(augmented, weights, gold, rows.n_classes), engine_of(self.n_jobs)
        if sampled:
            settings = AscentSettings(self.n_chains, self.max_iter, self.tol, seed_of(self.random_state))
            ascent = ascend(sweeps, shards, engine, settings)
            self._keep(graph, ascent.global_, ascent.expected)
            return Course(
                ascent.history, ascent.converged, ["gradient by Gibbs sampling: the objective is an estimate"]
            )
        fit = run_sweeps(sweeps, shards, engine, Stopping(self.tol, self.max_iter, n_items))
        self._keep(graph, fit.global_, expected_factors(graph, fit.global_.factor_weights))
        return Course(fit.history, fit.converged)

    def _is_sampled(self, graph: FactorGraph, rows: VoteTable) -> bool:
        """Whether the gradient is estimated by Gibbs sampling."""
        too_large = [block for block in graph.blocks if block.n_states > MOST_STATES]
        if too_large and self.gradient == "exact":
            raise _too_large(rows, too_large[0])
        return bool(too_large) or self.gradient == "gibbs"

    def _penalty(self, graph: FactorGraph, n_items: float) -> Penalty:
        """−½ Σ_p precision_p (θ_p − centre_p)², in nats over all items.                          Equation (DP.7)"""
        precision = np.full(graph.n_weights, self.l2 * n_items)
        precision[graph.propensity] = PROPENSITY_PRECISION
        centre = np.zeros(graph.n_weights)
        centre[graph.accuracy] = self.accuracy_weight
        return Penalty(precision, centre)

    def _keep(self, graph: FactorGraph, global_: FactorGlobals, expected: NDArray[np.floating]) -> None:
        self.accuracy_weights_ = global_.factor_weights[graph.accuracy]
        self.propensity_weights_ = global_.factor_weights[graph.propensity]
        self.dependency_weights_ = global_.factor_weights[graph.dependency]
        self.propensities_ = expected[graph.propensity]
        self.accuracies_ = expected[graph.accuracy] / np.maximum(self.propensities_, np.finfo(np.float64).tiny)
        self.class_prior_ = np.exp(global_.logs.components)

    def _row_probabilities(self, rows: VoteTable) -> NDArray[np.floating]:
        rows = clear_votes(rows)
        dependencies = tuple(Dependency(*parts) for parts in self.dependencies_)
        graph = FactorGraph(rows.n_sources, rows.n_classes, dependencies)
        augmented, _ = with_dependency_votes(rows, np.ones(rows.n_items), dependencies)
        weights = np.concatenate((self.accuracy_weights_, self.propensity_weights_, self.dependency_weights_))
        logits = vote_logits(graph, weights)
        return np.asarray(class_probabilities(augmented, logits, np.log(self.class_prior_), self.n_jobs))


def clear_votes(rows: VoteTable) -> VoteTable:
    """The votes as the factors need them: each names one class, so that it is right or wrong; silence is no label."""
    if not rows.is_plain:
        raise ModelError(
            "DataProgramming cannot use exclusion votes: its factors need each vote to name one class",
            hint="Use DawidSkene, IBCC or EBCC, or read the votes without exclusions",
        )
    if not rows.is_hard:
        raise ModelError(
            "DataProgramming cannot use soft votes: its factors need each vote to name one class",
            hint="Use DawidSkene, IBCC or EBCC, or turn each soft vote into its most probable class",
        )
    return rows.without_abstain_label()


def _too_large(rows: VoteTable, block: Block) -> ModelError:
    names = [rows.sources[j] for j in block.parameters[0, : block.n_sources]]
    return ModelError(
        f"gradient='exact' would have to sum over {block.n_states:,} joint votes of sources that depend on each other",
        where=f"{block.n_sources} sources: {short_list(names)}",
        hint="Use gradient='auto' or 'gibbs', or drop the dependency that connects two smaller groups",
    )
