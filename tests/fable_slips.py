"""How slips are planted in FABLE's updates: each replaces one piece of src by a wrong one for the time of a test."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from scipy.special import psi

from labelfable.models.fable import steps as steps_module
from labelfable.models.fable.steps import FableSweeps
from labelfable.numerics.linear_algebra import weighted_gram
from labelfable.numerics.special import polya_gamma_mean
from tests.ascent import assert_ascent
from tests.fable_problems import Case

if TYPE_CHECKING:
    from collections.abc import Callable

    Plant = Callable[[pytest.MonkeyPatch], None]

JOINT = Case("joint", "fired", process="inducing", n_classes=3, weight=0.7)
BASE = Case("base", "pattern", process="exact")
FIXED_BASE = replace(BASE, learned=False)
CONDITIONAL = Case("conditional", "silence", process="exact", n_classes=3)
RATES = Case("joint", "rates", tilt="mean", weight=0.7)
POINTS = Case("conditional", "pattern", tilt="mean", tables="point", weight=0.7)
QUIET = replace(JOINT, emission="silence", silence_weight=0.4)
LEARNED = replace(JOINT, firmness=3.0)
LEARNED_RATES = replace(RATES, firmness=3.0)
LEARNED_POINTS = replace(POINTS, firmness=3.0)
COLLAPSED = replace(JOINT, normaliser="collapsed")
COLLAPSED_BASE = replace(BASE, normaliser="collapsed")
COLLAPSED_CONDITIONAL = replace(CONDITIONAL, normaliser="collapsed")
CASES = [JOINT, BASE, FIXED_BASE, CONDITIONAL, RATES, POINTS, COLLAPSED, COLLAPSED_BASE, COLLAPSED_CONDITIONAL]
CASES += [QUIET, LEARNED, LEARNED_RATES, LEARNED_POINTS]

true_tilt = steps_module.update_tilt
true_shape = steps_module.solve_normaliser
true_responsibilities = steps_module.update_responsibilities
true_weights = steps_module.update_weights
true_statistics = FableSweeps.statistics


class Slip(NamedTuple):
    """A wrong piece, where it matters, and the factor whose check must fail."""

    caught_at: str
    case: Case
    plant: Plant


def check(case: Case) -> None:
    """Stationarity and monotonicity of two sweeps."""
    problem = case.problem()
    assert_ascent(problem.objective, problem.updates(2), problem.event_axes)


def assert_caught(slip: Slip, patch: pytest.MonkeyPatch) -> None:
    """The check fails with the slip planted, and it names the factor that is wrong."""
    slip.plant(patch)
    with pytest.raises(AssertionError, match=rf"of {slip.caught_at}: (not stationary|the objective fell)"):
        check(slip.case)


def instead(name: str, replacement: Any, owner: Any = steps_module) -> Plant:
    """Another function, method or property in place of the one of that name."""
    return lambda patch: patch.setattr(owner, name, replacement)


def poisson(log_gamma_of: Callable[..., Any], *, solved: bool) -> Plant:
    """γ = exp( log_gamma_of(E log λ, log a/b, m, t) ); `solved`: with the shape a that this γ itself asks for."""
    seen: dict[str, Any] = {}

    def slipped(a: Any) -> Any:
        b = seen["m"].shape[1]
        return np.exp(log_gamma_of(psi(a) - np.log(b), np.log(a / b), seen["m"], seen["t"]))

    def shape(share: Any) -> Any:
        a = true_shape(share)
        if solved:
            for _ in range(100):  # some slips have no fixed point: then a grows until it is held
                a = np.minimum(1 + slipped(a).sum(axis=1, keepdims=True), 1e3)
        seen["a"] = a
        return a

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(steps_module, "update_tilt", remembering(seen))
        patch.setattr(steps_module, "solve_normaliser", shape)
        patch.setattr(steps_module, "update_poisson_mean", lambda *_: slipped(seen["a"]))

    return plant


def remembering(seen: dict[str, Any]) -> Callable[..., Any]:
    """The right tilt, which puts what it was made from aside."""

    def tilt(mean: Any, variance: Any) -> Any:
        seen.update(m=mean, t=true_tilt(mean, variance))
        return seen["t"]

    return tilt


def with_sigmoid(log_sigmoid_of: Callable[..., Any]) -> Plant:
    """D with another bound on log σ(f), of m and t."""
    seen: dict[str, Any] = {}

    def slipped(_log_sigmoid: Any, *rest: Any) -> Any:
        return true_responsibilities(log_sigmoid_of(seen["m"], seen["t"]), *rest)

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(steps_module, "update_tilt", remembering(seen))
        patch.setattr(steps_module, "update_responsibilities", slipped)

    return plant


def without(*left_out: str) -> Plant:
    """D without some of its parts."""

    def slipped(log_sigmoid: Any, log_prior: Any, evidence: Any, own: Any) -> Any:
        parts = {"sigmoid": log_sigmoid, "prior": log_prior, "votes": evidence, "normaliser": own}
        for name in left_out:
            parts[name] = np.where(np.isinf(parts[name]), parts[name], 0.0)
        return true_responsibilities(*parts.values())

    return instead("update_responsibilities", slipped)


def sums(change: Callable[..., tuple[Any, Any]]) -> Plant:
    """θ and the pull by another formula, of ρ, r γ, γ, t and the processes' prior means."""

    def statistics(self: FableSweeps, shard: Any, global_: Any, responsibilities: Any) -> Any:
        right = true_statistics(self, shard, global_, responsibilities)
        items, _ = self.item_factors(shard, global_, responsibilities)
        counted = self.reading.spread(items.group_weight) * items.poisson
        θ, pull = change(items.responsibilities, counted, items.poisson, items.tilt, self.process_mean)
        phi = shard.projected.phi
        return replace(right, gram=weighted_gram(phi, θ), potential=phi.T @ pull)

    return instead("statistics", statistics, FableSweeps)


def curved(change: Callable[..., Any]) -> Plant:
    """Another θ, in the precision and in the potential, of ρ, r γ and t."""
    return sums(lambda ρ, γ, _raw, t, mean: (change(ρ, γ, t), (ρ - γ) / 2 - change(ρ, γ, t) * mean))


def pulled(change: Callable[..., Any]) -> Plant:
    """Another potential, of ρ, r γ, γ, θ and the processes' prior means."""

    def both(ρ: Any, γ: Any, raw: Any, t: Any, mean: Any) -> tuple[Any, Any]:
        θ = (ρ + γ) * polya_gamma_mean(t)
        return θ, change(ρ, γ, raw, θ, mean)

    return sums(both)


def weighed(change: Callable[..., tuple[Any, Any]]) -> Plant:
    """F of other sums."""
    return instead("update_weights", lambda gram, potential, **kind: true_weights(*change(gram, potential), **kind))


def unweighted(*names: str) -> Plant:
    """Sums over the votes without w."""

    def statistics(self: FableSweeps, *rest: Any) -> Any:
        right = true_statistics(self, *rest)
        return replace(right, **{name: getattr(right, name) / self.evidence_weight for name in names})

    return instead("statistics", statistics, FableSweeps)
