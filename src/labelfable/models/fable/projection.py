"""Items × columns: the Gaussian process in whitened weights.

    f_ic = mean_c + φ_i·w_c + residual,    w_c ~ N(0, I),    residual ~ N(0, d_i),    d_i = k(x_i, x_i) − |φ_i|² ≥ 0

    linear kernel      φ = √v x/ℓ (times principal axes where there are many features),            d = 0
    inducing points    φ = k(x, Z) L⁻ᵀ,      L L' = k(Z, Z) + jitter
    exact              the same with all items as Z
    Lanczos            φ = k(x, X) Q L⁻ᵀ,    L L' = Q' k(X, X) Q + jitter,    Q from a Krylov space of k(X, X)

A constant of its own for each component is one more column, √constant everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError, ModelError
from labelfable.models.fable.anchors import Anchors, whitened
from labelfable.models.fable.inducing import (
    EXACT_ITEMS,
    LANCZOS_ITEMS,
    all_points,
    choose_points,
    krylov_basis,
    median_lengthscale,
)
from labelfable.numerics.kernels import KERNELS, RBF, Cosine, Kernel, Linear, Matern
from labelfable.numerics.scaling import SCALINGS, Rows, Scaling, fit_scaling, principal_axes
from labelfable.votes.features import Features, read_features

if TYPE_CHECKING:
    from numpy.typing import NDArray

METHODS = ("inducing", "exact", "lanczos")
INDUCING = ("kmeans", "pivoted")
MISSING = ("error", "ignore")


@dataclass(frozen=True, eq=False)
class Projected:
    """What the Gaussian processes need to know of some items."""

    phi: NDArray[np.floating]
    """φ, [n, R], in the dtype of the features; the constant's column is the last."""
    residual: NDArray[np.floating]
    """d, the variance that the columns leave out, [n]."""


@dataclass(frozen=True, eq=False)
class Projection:
    """How features become columns: arrays and plain values, nothing that cannot be stored."""

    kernel: Kernel
    scaling: Scaling
    constant: float
    """Prior variance of each component's constant; 0 for none."""
    missing: str
    """What becomes of items without features: "error" or "ignore"."""
    names: tuple[str, ...] | None
    """Columns of the features, where they came as a table."""
    points: NDArray[np.floating] | None = None
    """Z, in scaled coordinates, [P, d]; None where the kernel is linear."""
    basis: NDArray[np.floating] | None = None
    """Q, [P, R]; None is the identity."""
    weights: NDArray[np.floating] | None = None
    """Q L⁻ᵀ, [P, R]; for a linear kernel the principal axes, [d, R], or None for the features themselves."""

    @property
    def is_linear(self) -> bool:
        """Whether the process is exact in its weights."""
        return self.points is None

    @property
    def n_kernel_columns(self) -> int:
        """Columns of φ but for the constant's."""
        return self.scaling.n_outputs if self.weights is None else int(self.weights.shape[1])

    @property
    def n_columns(self) -> int:
        """R, columns of φ."""
        return self.n_kernel_columns + (self.constant > 0)

    def read(self, features: Any, n_items: int | None = None) -> Features:
        """Features of new items, with the columns of the fit."""
        found = read_features(features, n_items).named_like(self.names, self.scaling.n_columns)
        if self.missing == "error":
            found.refuse_missing()
        return found

    def project(self, features: Any, n_items: int | None = None) -> Projected:
        """φ and d of items, which need not be those of the fit.                               Equation (GP.5)"""
        known = self.read(features, n_items)
        inner = self.n_kernel_columns
        phi = np.zeros((known.n_items, self.n_columns), dtype=known.dtype)
        residual = np.zeros(known.n_items, dtype=known.dtype)
        if not self.is_linear:
            residual[known.missing] = self.kernel.variance
        anchors = None if self.points is None else Anchors(self.kernel, self.points)
        for here, block in known.blocks(self._widest):
            rows = self.scaling.rows(block)
            if anchors is None or self.weights is None:
                phi[here, :inner] = self.linear_columns(rows)
            else:
                values, diagonal = anchors.values(rows)
                columns = values @ self.weights
                phi[here, :inner] = columns
                residual[here] = np.maximum(diagonal - np.vecdot(columns, columns), 0.0)
        phi[:, inner:] = np.sqrt(self.constant)
        return Projected(phi, residual)

    def project_missing(self, n_items: int, dtype: Any = np.float64) -> Projected:
        """φ and d of items of which only votes are known."""
        phi = np.zeros((n_items, self.n_columns), dtype=dtype)
        phi[:, self.n_kernel_columns :] = np.sqrt(self.constant)
        return Projected(phi, np.full(n_items, 0.0 if self.is_linear else self.kernel.variance, dtype=dtype))

    def linear_columns(self, rows: Rows) -> NDArray[np.floating]:
        """√v x / ℓ, times the principal axes where there are any.  [n, R]."""
        embedded = rows.scaled(np.sqrt(self.kernel.variance) / np.asarray(self.kernel.lengthscale))
        return embedded.dense() if self.weights is None else embedded.times(self.weights)

    def with_parameters(
        self, *, variance: float | None = None, lengthscale: Any = None, constant: float | None = None
    ) -> Projection:
        """The same points, axes and scaling under other hyperparameters."""
        kernel = replace(
            self.kernel,
            variance=self.kernel.variance if variance is None else float(variance),
            lengthscale=self.kernel.lengthscale if lengthscale is None else lengthscale,
        )
        moved = replace(self, kernel=kernel, constant=self.constant if constant is None else float(constant))
        return moved if moved.points is None else replace(moved, weights=whitened(kernel, moved.points, moved.basis))

    @property
    def _widest(self) -> int:
        """The most numbers that are made from one item."""
        return max(self.n_columns, 0 if self.points is None else len(self.points))


STORED_TYPES = (Projection, Scaling, Linear, Cosine, RBF, Matern)
"""Data classes that a stored projection consists of."""


def build_projection(
    features: Any,
    *,
    kernel: str = "linear",
    method: str = "inducing",
    n_inducing: int = 100,
    inducing: str = "kmeans",
    lengthscale: Any = None,
    variance: float = 1.0,
    constant: float = 0.0,
    scaling: str = "standardise",
    max_components: int = 128,
    missing: str = "error",
    seed: int = 0,
) -> Projection:
    """A projection for these features, which may be anything that `read_features` takes.

    Parameters
    ----------
    kernel : one of KERNELS
        The linear kernel is exact in its weights, whatever the method: its columns are the features themselves, or
        `max_components` principal components of them.
    method : "inducing", "exact" or "lanczos"
        `n_inducing` points chosen amid the items by `inducing`, all items (at most EXACT_ITEMS), or `n_inducing`
        directions from a Krylov space of the kernel over all items (at most LANCZOS_ITEMS).
    lengthscale : None, a number, one number a dimension, or "ard"
        In units of the scaled features.  None is the median distance of a sample (√features for the linear kernel, so
        that a typical item has length 1); "ard" starts one a dimension, in proportion to its spread.
    variance, constant : float
        Prior variances of the process and of each component's constant.
    scaling : "standardise", "normalise", "whiten" or "none"
        See `scaling.py`.
    missing : "error" or "ignore"
        Whether items without features are refused, or left to the constant and their votes.

    """
    _check_names(kernel, method, inducing, scaling, missing)
    _check_numbers(variance, constant, n_inducing, max_components)
    found = read_features(features)
    if missing == "error":
        found.refuse_missing()
    if found.missing.all():
        raise InputError("no item has features", hint="Leave features out, or fill some of them in")
    kernel = kernel if found.n_columns else "linear"  # without a column only the constant is left
    scaled = fit_scaling(found, scaling, max_components, seed)
    chosen = KERNELS[kernel](variance=float(variance), lengthscale=1.0)
    chosen = replace(chosen, lengthscale=_lengthscale(lengthscale, chosen, found, scaled, seed))
    whole = Projection(chosen, scaled, float(constant), missing, found.names)
    if kernel == "linear":
        axes = None
        if scaled.n_outputs > max_components:
            _, axes = principal_axes(found, scaled, 1 / np.asarray(chosen.lengthscale), max_components, seed)
        return replace(whole, weights=axes)
    basis = None
    if method == "inducing":
        points = choose_points(found, scaled, chosen, n_inducing, how=inducing, seed=seed)
    else:
        points = all_points(found, scaled, EXACT_ITEMS if method == "exact" else LANCZOS_ITEMS, method)
    if method == "lanczos":
        basis = krylov_basis(points, chosen, n_inducing, seed)
    return replace(whole, points=points, basis=basis, weights=whitened(chosen, points, basis))


def _lengthscale(given: Any, kernel: Kernel, features: Features, scaling: Scaling, seed: int) -> Any:
    """The lengthscale to start from: a number, or [d]."""
    if given is None or (isinstance(given, str) and given == "ard"):
        ard = given is not None
        if kernel.is_stationary:
            return median_lengthscale(features, scaling, seed, ard=ard)
        typical = scaling.typical_length if isinstance(kernel, Linear) else 1.0
        return np.full(scaling.n_outputs, typical) if ard else typical
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    if not np.all(np.isfinite(numbers)) or numbers.size == 0 or numbers.min() <= 0 or numbers.ndim > 1:
        raise ModelError(
            f"lengthscale={given!r} is no positive number",
            hint="Give one number, one for each feature, 'ard', or None for the median distance",
        )
    if numbers.ndim == 1 and len(numbers) != scaling.n_outputs:
        raise ModelError(
            f"there are {len(numbers)} lengthscales for {scaling.n_outputs} scaled features",
            hint="Give one number, or one for each feature",
        )
    return numbers if numbers.ndim else float(numbers)


def _check_names(kernel: str, method: str, inducing: str, scaling: str, missing: str) -> None:
    for setting, given, known in (
        ("kernel", kernel, tuple(KERNELS)),
        ("method", method, METHODS),
        ("inducing", inducing, INDUCING),
        ("scaling", scaling, SCALINGS),
        ("missing", missing, MISSING),
    ):
        if given not in known:
            raise ModelError(f"{setting}={given!r} is unknown", hint=f"It is one of {', '.join(known)}")


def _check_numbers(variance: float, constant: float, n_inducing: int, max_components: int) -> None:
    if not (np.isfinite(variance) and variance > 0):
        raise ModelError(f"variance={variance!r} is not a positive number", hint="Prior variance of the process")
    if not (np.isfinite(constant) and constant >= 0):
        raise ModelError(f"constant={constant!r} is not a number from 0", hint="0 leaves the constant out")
    for setting, given in (("n_inducing", n_inducing), ("max_components", max_components)):
        if int(given) != given or given < 1:
            raise ModelError(f"{setting}={given!r} is not a whole number from 1")
