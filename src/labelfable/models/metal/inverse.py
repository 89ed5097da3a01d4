"""MeTaL as published for a graph of sources: a low-rank completion of the inverse covariance of the votes.

Let Σ = O − oo' (o = diag O) be the covariance of the votes and H the class as K − 1 uncorrelated variables of variance
1.  Where no two components of sources depend on each other given the class, the inverse of the joint covariance of
(Ψ, H) has no entry between components; its Ψ part is Σ⁻¹ + ZZ', so that

    Σ⁻¹ + Z Z' = 0 outside the components,    Z = Σ⁻¹ A C^½,    C = (I − A'Σ⁻¹A)⁻¹,    A = Cov(Ψ, H)  Equation (ME.6)

Given Z, the part of Σ that the class explains follows on all entries, inside components too:

    A A' = Σ Z (I + Z'ΣZ)⁻¹ Z'Σ                                                                       Equation (ME.7)

A is known up to a rotation of H: for two classes a sign, for more a rotation that second moments cannot tell.  The one
nearest to the start is taken.  X = o√p' + A B' with B an orthonormal basis of what is orthogonal to √p.

Columns are scaled to variance 1 first.  The entries of a correlation matrix are about equally noisy, those of a
covariance are not; the zero pattern and the rank are the same.  Columns that others determine (the last label of a
source that never abstains, a source that repeats another) are left out and get their tables from the same linear
relation afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from labelfable.inference.convergence import History
from labelfable.models.metal.completion import Completion, Pull
from labelfable.models.metal.descent import Descent, descend, onto_tables
from labelfable.models.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_VARIANCE = 1e-6  # share of a column's variance that the columns before it must leave unexplained
MOST_EXPLAINED = 0.95  # share of any combination's variance that the start's classes may explain: C must exist


@dataclass(frozen=True)
class Correlation:
    """The correlation matrix of the votes, and which of its columns are independent."""

    matrix: NDArray[np.floating]
    """R, of all columns; zero for columns that do not vary."""
    deviations: NDArray[np.floating]
    """Standard deviation of each column."""
    kept: NDArray[np.integer]
    """Linearly independent columns, ascending."""

    @classmethod
    def of(cls, moments: Moments) -> Correlation:
        """From O, which must be dense."""
        rates = moments.rates
        covariance = np.asarray(moments.products) - np.outer(rates, rates)
        deviations = np.sqrt(np.maximum(np.diag(covariance), 0))
        varies = deviations > np.sqrt(np.finfo(np.float64).eps)
        inverse = np.where(varies, 1 / np.where(varies, deviations, 1), 0)
        matrix = covariance * inverse[:, None] * inverse
        return cls(matrix, deviations * varies, independent_columns(matrix))

    @property
    def inner(self) -> NDArray[np.floating]:
        """R of the independent columns."""
        return np.asarray(self.matrix[np.ix_(self.kept, self.kept)])

    def spread(self, kept_part: NDArray[np.floating]) -> NDArray[np.floating]:
        """Covariances with H of all columns from those of the independent ones: R_·k R_kk⁻¹ of them."""
        return np.asarray(self.matrix[:, self.kept] @ scipy.linalg.solve(self.inner, kept_part, assume_a="pos"))


def independent_columns(matrix: NDArray[np.floating]) -> NDArray[np.integer]:
    """Columns by Cholesky's method with pivots, until the rest is explained.  Shapes: [d, d] -> [kept]."""
    _, order, rank, _ = scipy.linalg.lapack.dpstrf(matrix, tol=LEAST_VARIANCE, lower=1)
    return np.sort(order[:rank] - 1)  # LAPACK counts from 1


def class_basis(root_prior: NDArray[np.floating]) -> NDArray[np.floating]:
    """Orthonormal columns orthogonal to √p.  Shapes: [K] -> [K, K − 1]."""
    return np.asarray(scipy.linalg.null_space(root_prior[None, :]))


@dataclass(frozen=True)
class InverseFit:
    """Completion of the inverse covariance, from a start's tables to fitted ones."""

    moments: Moments
    components: NDArray[np.integer]
    tol: float
    max_iter: int

    def run(self, start: NDArray[np.floating], prior: NDArray[np.floating], anchor: float) -> Descent:
        """X fitted to the graph.  Shapes: [columns, K], [K] -> [columns, K].

        `anchor` holds Z near that of the start, in units of the mean curvature there.
        """
        roots = np.sqrt(prior)
        correlation, basis = Correlation.of(self.moments), class_basis(roots)
        if basis.shape[1] == 0 or len(correlation.kept) == 0:
            return Descent(
                onto_tables(start, self.moments.n_sources, roots), {"moments": 0.0}, History(), converged=True
            )
        first = self._covariances(start, correlation, basis)
        found = self._complete(correlation, first, anchor)
        z = found.point[correlation.kept]
        explained = _explained(correlation.inner, z)
        turned = correlation.spread(explained @ nearest_rotation(explained, first))
        tables = self.moments.rates[:, None] * roots + (correlation.deviations[:, None] * turned) @ basis.T
        tables = onto_tables(tables, self.moments.n_sources, roots)
        return Descent(tables, found.terms, found.history, found.converged)

    def _covariances(
        self, start: NDArray[np.floating], correlation: Correlation, basis: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """A of the start's tables, in units of the columns' deviations, shrunk until C exists.  [kept, K − 1]."""
        kept = correlation.kept
        covariances = (start @ basis)[kept] / correlation.deviations[kept, None]
        share = covariances.T @ scipy.linalg.solve(correlation.inner, covariances, assume_a="pos")
        most = float(np.linalg.eigvalsh(share).max())
        return np.asarray(covariances * np.sqrt(min(1.0, MOST_EXPLAINED / most) if most > 0 else 1.0))

    def _complete(self, correlation: Correlation, covariances: NDArray[np.floating], anchor: float) -> Descent:
        """Z of least ‖mask ∘ (R⁻¹ + ZZ')‖², started at that of the start's A.                     Equation (ME.6)"""
        inverse = scipy.linalg.inv(correlation.inner)
        regression = inverse @ covariances
        c = np.linalg.inv(np.eye(covariances.shape[1]) - covariances.T @ regression)
        start = np.zeros((len(correlation.matrix), covariances.shape[1]))
        start[correlation.kept] = regression @ np.linalg.cholesky(c)
        target = np.zeros_like(correlation.matrix)
        target[np.ix_(correlation.kept, correlation.kept)] = -inverse
        masked = Moments(target, 1.0, self.moments.n_sources, self.moments.n_labels).between(self.components)
        strength = anchor * 2 * float(np.vdot(start, start)) / start.shape[1]
        pulls = {"anchor": Pull(np.full(start.shape[1], strength), start)} if strength > 0 else {}
        loss = Completion(masked, self.components, pulls=pulls)
        return descend(loss, start, loss.scale, None, tol=self.tol, max_iter=self.max_iter)


def _explained(correlation: NDArray[np.floating], z: NDArray[np.floating]) -> NDArray[np.floating]:
    """A with A A' = R Z (I + Z'RZ)⁻¹ Z'R.  Shapes: [kept, kept], [kept, K − 1] -> [kept, K − 1].   Equation (ME.7)"""
    seen = correlation @ z
    factor = np.linalg.cholesky(np.eye(z.shape[1]) + z.T @ seen)
    return np.asarray(scipy.linalg.solve_triangular(factor, seen.T, lower=True).T)


def nearest_rotation(point: NDArray[np.floating], target: NDArray[np.floating]) -> NDArray[np.floating]:
    """The orthogonal U of least ‖point · U − target‖.  Shapes: [d, r], [d, r] -> [r, r]."""
    left, _, right = np.linalg.svd(point.T @ target)
    return np.asarray(left @ right)
