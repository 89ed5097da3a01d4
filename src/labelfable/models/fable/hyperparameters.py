"""Kernel hyperparameters by the bound: its peak over all factors, climbed in their logarithms.

    P(h) = max_q B(q, h),    dP/dh = ∂B/∂h at the peak (the factors' own slopes are 0 there)

The processes enter B through φ and d alone, and at the items' optimum as

    Σ_ic ( ½(ρ_ic − r_ic γ_ic) f̄_ic − ½ θ_ic (f̄²_ic + s²_ic) ),    f̄ = mean_c + φ_i·m_c,    s² = φ_i' S_c φ_i + d_i

so that  ∂B/∂φ_i = Σ_c ( (½(ρ − rγ) − θ f̄) m_c − θ S_c φ_i ),   ∂B/∂d_i = −½ Σ_c θ_ic.                         (GP.8)

It needs the processes as posteriors: the peak over points grows without end as their prior widens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import ModelError
from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Engine
from labelfable.models.fable.factors import GlobalFactors
from labelfable.models.fable.projection import Projected, Projection
from labelfable.models.fable.projection_gradient import projection_gradient
from labelfable.models.fable.search import Start, climb
from labelfable.models.fable.steps import FableSweeps

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEARNABLE = ("variance", "lengthscale", "constant")
LEARNT_ITEMS = 4096  # enough for a handful of numbers
FARTHEST = np.log(100.0)  # from where they start
EVALUATIONS = 20
SWEEPS = 100  # of each evaluation, from the responsibilities of the last
TOLERANCE = 1e-6
FIRST_STEP, LAST_STEP = 0.5, 0.02


@dataclass
class Profile:
    """P(h) and its slopes, from where the last evaluation ended."""

    projection: Projection
    features: Any
    names: Sequence[str]
    start: Callable[[Projected, NDArray[np.floating]], Start]
    """The items and the settings for these columns and responsibilities, with the processes as posteriors."""
    engine: Engine
    responsibilities: NDArray[np.floating]
    """Where the next climb begins: with responsibilities, not with processes, which other columns would stretch."""

    @property
    def logs(self) -> NDArray[np.floating]:
        """Logarithms of the hyperparameters, in the order of `names`."""
        values = {
            "variance": self.projection.kernel.variance,
            "lengthscale": self.projection.kernel.lengthscale,
            "constant": self.projection.constant,
        }
        return np.concatenate([np.log(np.atleast_1d(values[name])) for name in self.names])

    def moved(self, logs: NDArray[np.floating]) -> Projection:
        """The projection with these hyperparameters."""
        given: dict[str, Any] = {}
        rest = np.exp(logs)
        for name in self.names:
            size = np.size(self.projection.kernel.lengthscale) if name == "lengthscale" else 1
            given[name] = rest[:size] if np.ndim(self.projection.kernel.lengthscale) and size > 1 else float(rest[0])
            rest = rest[size:]
        return self.projection.with_parameters(**given)

    def __call__(self, logs: NDArray[np.floating]) -> tuple[float, NDArray[np.floating]]:
        """P(h) and its slopes."""
        projection = self.moved(logs)
        start = self.start(projection.project(self.features), self.responsibilities)
        n_items = start.sweeps.copies * len(self.responsibilities)
        peak = climb(start, self.engine, Stopping(TOLERANCE, SWEEPS, n_items))
        items = [start.sweeps.item_factors(shard, peak.factors)[0] for shard in start.shards]
        self.responsibilities = np.concatenate([part.responsibilities for part in items])
        slopes = parameter_slopes(start, peak.factors, projection, self.features)
        gradient = np.concatenate([np.atleast_1d(slopes[f"log {name}"]) for name in self.names])
        return peak.height, gradient


def learn_parameters(profile: Profile) -> Projection:
    """The projection whose hyperparameters have the highest P that was found, never below that of the first.

    Each logarithm moves by a step of its own that grows while its slope keeps its sign and shrinks where it turns, as
    in Rprop (Riedmiller and Braun 1993): P is known up to the tolerance of its climbs, and has kinks where a climb ends
    at another peak, which mislead a search that trusts differences of slopes.
    """
    logs = first = profile.logs
    value, slopes = profile(logs)
    steps = np.full(len(logs), FIRST_STEP)
    for _ in range(EVALUATIONS):
        tried = np.clip(logs + steps * np.sign(slopes), first - FARTHEST, first + FARTHEST)
        found, there = profile(tried)
        if found > value:
            steps = np.where(there * slopes > 0, 1.5 * steps, steps / 2)
            logs, value, slopes = tried, found, there
        else:
            steps = steps / 4
        if steps.max() < LAST_STEP:
            break
    return profile.moved(logs)


def parameter_slopes(start: Start, global_: GlobalFactors, projection: Projection, features: Any) -> dict[str, Any]:
    """Slopes of the bound in each hyperparameter's logarithm, all factors held.                Equation (GP.8)"""
    sweeps, weights = start.sweeps, global_.weights
    d_phi, d_residual = [], []
    for shard in start.shards:
        phi = shard.projected.phi
        items, _ = sweeps.item_factors(shard, global_)
        curvature, lean = sweeps.quadratic(items)
        pull = (lean - curvature * items.process) @ weights.mean.T
        if weights.covariance is not None:
            for c, covariance in enumerate(weights.covariance):
                pull -= curvature[:, c, None] * (phi @ covariance)
        d_phi.append(sweeps.copies * pull)
        d_residual.append(-0.5 * sweeps.copies * curvature.sum(axis=1))
    return projection_gradient(projection, features, np.concatenate(d_phi), np.concatenate(d_residual))


def chosen_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Which hyperparameters are to be learned; `given` may be one name."""
    names = (given,) if isinstance(given, str) else tuple(given)
    if len(set(names)) < len(names) or not set(names) <= set(LEARNABLE):
        raise ModelError(f"learn={given!r} is unknown", hint=f"Name each once: {', '.join(LEARNABLE)}")
    return names


def described(projection: Projection, names: Sequence[str]) -> str:
    """What was learned, in words."""
    kernel = projection.kernel
    lengthscale = np.atleast_1d(kernel.lengthscale)
    length = " to ".join(f"{end:.3g}" for end in dict.fromkeys((lengthscale.min(), lengthscale.max())))
    values = {"variance": f"{kernel.variance:.3g}", "lengthscale": length, "constant": f"{projection.constant:.3g}"}
    return "learned by the bound: " + ", ".join(f"{name} {values[name]}" for name in names)


def as_posteriors(sweeps: FableSweeps) -> FableSweeps:
    """The same model with its processes as posteriors."""
    return replace(sweeps, is_point=False)
