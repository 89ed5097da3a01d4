"""One iteration of the published method: the order of its updates, and the check that each stays in its domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.errors import ModelError
from labelfable.models.class_prior import vote_totals
from labelfable.models.confusion import clamp, clamp_logits
from labelfable.models.fable import published_rules as rules
from labelfable.models.fable.augmentation import update_curvature, update_rate_shape, update_tilt
from labelfable.models.fable.emission import update_tables
from labelfable.models.fable.steps import update_proportions
from labelfable.numerics.distributions import dirichlet_mean_log

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.models.fable.published_settings import PublishedSettings
    from labelfable.votes.features import Features
    from labelfable.votes.table import VoteTable

# numbers of the published program
JITTER = 1e-3  # added to the kernel's diagonal
LEAST_VOTES = 1e-5  # added to each item's votes for each class before their shares are taken
LEAST_SHAPE = 1e-3  # a starts between this and 1 + this


class BrokenDownError(Exception):
    """A quantity has left its domain: its message says which, where and why."""


@dataclass(frozen=True)
class Held:
    """The factors that items share."""

    classes: NDArray[np.floating]
    """ν of q(τ), [K]."""
    tables: NDArray[np.floating]
    """μ of q(v), [sources, labels, C]; abstaining is the last label, unless nobody abstained."""


@dataclass(frozen=True)
class PublishedState:
    """What one iteration hands to the next."""

    responsibilities: NDArray[np.floating]
    """ρ, [n, C]."""
    mean: NDArray[np.floating]
    """m̂, [n, C]."""
    variance: NDArray[np.floating]
    """diag Σ̂_c, [n, C]."""
    rate_shape: NDArray[np.floating]
    """a, [n, 1]."""


class PublishedSteps:
    """The printed updates on one set of items."""

    def __init__(
        self,
        rows: VoteTable,
        features: Features | None,
        settings: PublishedSettings,
        seed: int,
        *,
        gold: NDArray[np.integer] | None = None,
        held: Held | None = None,
    ) -> None:
        if not rows.is_plain:
            raise ModelError(
                "the published rules know votes for a class only, and some of these speak against one",
                hint="inference='variational' takes both",
            )
        self.settings, self.gold, self.held = settings, gold, held
        n_silent = rows.n_items * rows.n_sources - rows.votes_per_item.sum()
        hears_silence = n_silent > 0 if held is None else held.tables.shape[1] > rows.n_classes
        self.rows = rows.with_abstain_as_label() if hears_silence else rows
        self.maps, self.layout = self.rows.maps(), self.rows.layout
        self.table_prior = self._table_prior(n_silent)
        self.start_shares = clamp(_start_shares(rows), gold)
        by_votes = settings.class_prior == "votes"
        self.class_prior = self.start_shares.sum(axis=0) if by_votes else np.ones(rows.n_classes)
        self.generator = np.random.default_rng(seed)
        kernel = np.eye(rows.n_items) if features is None else item_kernel(features, settings.kernel)
        kernel[np.diag_indices_from(kernel)] += JITTER
        self.start_variance = kernel.diagonal().copy()
        self.precision = np.linalg.inv(kernel)

    @property
    def n_components(self) -> int:
        """C = K·M."""
        return self.rows.n_classes * self.settings.n_subtypes

    def start(self) -> PublishedState:
        """ρ = shares of the votes × random shares of subtypes; m̂ and a at random; Σ̂ at the prior."""
        n_items, n_subtypes = self.rows.n_items, self.settings.n_subtypes
        rate_shape = self.generator.random((n_items, 1)) + LEAST_SHAPE
        mean = self.generator.random((n_items, self.n_components)) - 0.5
        subtypes = self.generator.dirichlet(np.ones(n_subtypes), self.start_shares.shape)
        responsibilities = (self.start_shares[:, :, None] * subtypes).reshape(n_items, -1)
        variance = np.repeat(self.start_variance[:, None], self.n_components, axis=1)
        return PublishedState(responsibilities, mean, variance, rate_shape)

    def class_sum(self, responsibilities: NDArray[np.floating]) -> NDArray[np.floating]:
        """Probability of each class.  [n, C] -> [n, K]."""
        return np.asarray(responsibilities.reshape(len(responsibilities), self.rows.n_classes, -1).sum(axis=2))

    def iterate(self, state: PublishedState, shared: Held) -> tuple[PublishedState, dict[str, float]]:
        """A, (FP.2)-(FP.8), in the published program's order: ρ sees the m̂ of the iteration before, through ξ."""
        tilt = update_tilt(state.mean, np.maximum(state.variance, 0))  # rounding may leave a hair below 0
        log_rate = rules.expected_log_rate(state.rate_shape, self.rows.n_classes)
        poisson = rules.update_poisson_mean(log_rate, state.mean, tilt, self.settings.variant)
        self._require("γ", poisson, np.isfinite(poisson), "Equation (FP.3): it must be a finite number")
        shape, rate = rules.update_coefficients(state.responsibilities, state.mean)
        self._require("ξ = log 2 − m̂/2", rate, rate > 0, "Equation (FP.5) takes its logarithm")
        curvature = update_curvature(shape / rate + poisson, tilt)
        self._require("θ", curvature, np.isfinite(curvature), "Equation (FP.6): it must be a finite number")
        mean, variance = self._process(curvature, shape / rate - poisson)
        responsibilities = self._responsibilities(shape, rate, shared)
        measured = {"smallest ξ": float(rate.min()), "largest |m̂|": float(np.abs(mean).max())}
        rate_shape = update_rate_shape(poisson.sum(axis=1, keepdims=True))
        return PublishedState(responsibilities, mean, variance, rate_shape), measured

    def shared_factors(self, responsibilities: NDArray[np.floating]) -> Held:
        """Those that are held, else ν and μ.                                                  Equations (T), (G)"""
        if self.held is not None:
            return self.held
        counts = self.layout.unpack(self.maps.counts(responsibilities))
        classes = update_proportions(self.class_prior, self.class_sum(responsibilities).sum(axis=0))
        return Held(classes, update_tables(self.table_prior, counts))

    def _process(
        self, curvature: NDArray[np.floating], pull: NDArray[np.floating]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        if self.settings.rank is None:
            mean, variance = rules.exact_process(self.precision, curvature, pull)
        else:
            probe = self.generator.standard_normal(curvature.shape)
            mean, variance = rules.krylov_process(self.precision, curvature, pull, probe, self.settings.rank)
        self._require("m̂", mean, np.isfinite(mean), "Equation (FP.6): it must be a finite number")
        self._require("Σ̂'s diagonal", variance, np.isfinite(variance), "Equation (FP.6): it must be a finite number")
        return mean, variance

    def _responsibilities(
        self, shape: NDArray[np.floating], rate: NDArray[np.floating], shared: Held
    ) -> NDArray[np.floating]:
        table_logs = np.moveaxis(dirichlet_mean_log(np.moveaxis(shared.tables, 1, 2)), 2, 1)
        evidence = clamp_logits(self.maps.evidence(self.layout.pack(table_logs)), self.gold, self.rows.n_classes)
        class_logs = np.repeat(dirichlet_mean_log(shared.classes), self.settings.n_subtypes)
        coefficients = rules.expected_log_coefficients(shape, rate)
        responsibilities: NDArray[np.floating] = rules.update_responsibilities(coefficients, class_logs, evidence)
        sound = np.isfinite(responsibilities)
        self._require("ρ", responsibilities, sound, "Equation (FP.8): it must be a probability")
        return responsibilities

    def _table_prior(self, n_silent: float) -> NDArray[np.floating]:
        """β.  [sources, labels, C].                                                             Equation (FP.1)"""
        rows, settings = self.rows, self.settings
        n_classes = rows.n_classes
        table = np.ones((rows.n_labels, n_classes))
        table[np.arange(n_classes), np.arange(n_classes)] = rules.correct_prior(
            rows.n_items, n_classes, settings.n_subtypes, settings.correct_votes, settings.variant
        )
        table[n_classes:] = n_silent
        by_component = np.repeat(table, settings.n_subtypes, axis=1)
        return np.broadcast_to(by_component, (rows.n_sources, *by_component.shape))

    def _require(self, quantity: str, values: NDArray[Any], sound: NDArray[np.bool_], why: str) -> None:
        """Stop with the first item and component where a quantity is not sound."""
        if sound.all():
            return
        item, component = (int(place) for place in np.argwhere(~sound)[0])
        class_number, subtype = divmod(component, self.settings.n_subtypes)
        raise BrokenDownError(
            f"{quantity} is {values[item, component]:.4g} at item {item}, class "
            f"{self.rows.classes[class_number].item()!r}, subtype {subtype} "
            f"(and at {np.count_nonzero(~sound) - 1:,} more of {sound.size:,} places), and {why}"
        )


def item_kernel(features: Features, kind: str) -> NDArray[np.floating]:
    """K_ij = x_i·x_j, for "cosine" over |x_i| |x_j|, in float64; 0 for items without features.  [n, n]."""
    known = np.flatnonzero(~features.missing)
    numbers = features.take(known).numbers.astype(np.float64)
    if kind == "cosine":
        sizes = np.sqrt(np.asarray((numbers * numbers).sum(axis=1)))
        numbers = sp.diags_array(1 / np.where(sizes > 0, sizes, 1)) @ numbers
    products = numbers @ numbers.T
    values = products.toarray() if features.is_sparse else np.asarray(products)
    if len(known) == features.n_items:
        return np.asarray(values)
    kernel = np.zeros((features.n_items, features.n_items))
    kernel[np.ix_(known, known)] = values
    return kernel


def _start_shares(rows: VoteTable) -> NDArray[np.floating]:
    """Shares of each item's votes, nearly; equal where there are none.  [n, K]."""
    totals = vote_totals(rows) + LEAST_VOTES
    return np.asarray(totals / totals.sum(axis=1, keepdims=True))
