"""Slips in A to D, published and plausible: the checks of `test_steps.py` must catch every one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.special import psi

from labelfable.models.fable import steps as steps_module
from labelfable.models.fable.reading import Reading
from labelfable.numerics.special import log_two_cosh
from tests.fable_slips import (
    BASE,
    CASES,
    COLLAPSED,
    COLLAPSED_BASE,
    COLLAPSED_CONDITIONAL,
    CONDITIONAL,
    FIXED_BASE,
    JOINT,
    Slip,
    assert_caught,
    check,
    instead,
    poisson,
    true_responsibilities,
    true_shape,
    with_sigmoid,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Callable

true_process = steps_module.expected_process
true_normaliser = Reading.normaliser
SOLVED = {"": False, ", and a to match": True}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_is_caught_where_nothing_was_planted(case):
    check(case)


# -- A: the tilt, and the processes that it is made from --------------------------------------------------------------


def without_residual(phi: Any, residual: Any, *rest: Any) -> Any:
    return true_process(phi, 0 * residual, *rest)


def without_mean(phi: Any, residual: Any, weights: Any, mean: Any) -> Any:
    return true_process(phi, residual, weights, 0 * mean)


TILT = {
    "t² = s²": Slip("t", JOINT, instead("update_tilt", lambda _m, variance: np.sqrt(variance))),
    "t = |m| of an uncertain process": Slip("t", JOINT, instead("update_tilt", lambda m, _variance: np.abs(m))),
    "t = |m| + s": Slip("t", JOINT, instead("update_tilt", lambda m, variance: np.abs(m) + np.sqrt(variance))),
    "t = m² + s²": Slip("t", JOINT, instead("update_tilt", lambda m, variance: m * m + variance)),
    "residual variance forgotten": Slip("t", JOINT, instead("expected_process", without_residual)),
    "process mean forgotten": Slip("t", JOINT, instead("expected_process", without_mean)),
}

# -- B and C: Poisson and Gamma factors -------------------------------------------------------------------------------

GAMMA: dict[str, Callable[..., Any]] = {
    "γ with ½ missing (the paper)": lambda e, _, m, t: e - m / 2 - log_two_cosh(t / 2) + np.log(2),
    "γ with cosh(c) and ½ missing (the published code)": lambda e, _, m, t: e - m / 2 - log_two_cosh(t) + np.log(2),
    "γ with cosh(c)": lambda e, _, m, t: e - m / 2 - log_two_cosh(t),
    "γ with the sign of m/2": lambda e, _, m, t: e + m / 2 - log_two_cosh(t / 2),
    "γ with m for m/2": lambda e, _, m, t: e - m - log_two_cosh(t / 2),
    "γ with log E λ for E log λ": lambda _, e, m, t: e - m / 2 - log_two_cosh(t / 2),
    "γ with m for the tilt": lambda e, _, m, _t: e - m / 2 - log_two_cosh(m / 2),
}


def mass(number: str) -> Any:
    return instead("mass", property(lambda self: float(getattr(self, number))), Reading)


def without_mass(self: Reading, _logs: Any) -> Any:
    return np.zeros(self.n_components)


NORMALISER = {
    "b = K (the published code)": Slip("a", JOINT, mass("n_classes")),
    "b = C in the conditional reading": Slip("a", CONDITIONAL, mass("n_components")),
    "b = C in the base reading": Slip("a", BASE, mass("n_components")),
    "a with + 1 + 1 (the paper)": Slip("a", JOINT, instead("solve_normaliser", lambda share: true_shape(share) + 1)),
    "a without + 1": Slip("a", JOINT, instead("solve_normaliser", lambda share: true_shape(share) - 1 + 1e-3)),
    "a after one step only": Slip("a", JOINT, instead("solve_normaliser", lambda share: 1 + share * np.exp(psi(1.0)))),
    "τ not in γ": Slip("γ", BASE, instead("log_mass", without_mass, Reading)),
    "given τ not in γ": Slip("γ", FIXED_BASE, instead("log_mass", without_mass, Reading)),
}

# -- B': λ integrated out ---------------------------------------------------------------------------------------------


def collapsed(formula: Callable[..., Any]) -> Any:
    """γ of log κ_ic + log b, log mass_c and S."""
    return instead("update_collapsed_mean", formula)


def one_for_all(self: Reading, log_complement: Any, log_mass: Any) -> Any:
    found = true_normaliser(self, log_complement, log_mass)
    return np.broadcast_to(found.mean(axis=1, keepdims=True), found.shape)


def spent(self: Reading, log_complement: Any, log_mass: Any) -> Any:
    """S as if Σ_c mass_c were b, which it is not where mass_c = exp E log τ_k."""
    return self.group_sum(-np.exp(log_mass) * np.expm1(log_complement))


COLLAPSED_MEAN = {
    "γ = κ": Slip("γ", COLLAPSED, collapsed(lambda absent, _mass, S: np.exp(absent) / S.shape[1])),
    "γ = κ/S": Slip("γ", COLLAPSED, collapsed(lambda absent, _mass, S: np.exp(absent) / S / S.shape[1])),
    "γ/S": Slip("γ", COLLAPSED, collapsed(lambda absent, _mass, S: np.exp(absent) / S**2)),
    "γ without τ": Slip("γ", COLLAPSED_BASE, collapsed(lambda absent, _mass, S: np.exp(absent) / S)),
    "b = C in the conditional reading": Slip("γ", COLLAPSED_CONDITIONAL, mass("n_components")),
    "one normaliser for all classes": Slip("γ", COLLAPSED_CONDITIONAL, instead("normaliser", one_for_all, Reading)),
    "what E log τ leaves of the mass forgotten": Slip("γ", COLLAPSED_BASE, instead("normaliser", spent, Reading)),
    "the class's normaliser forgotten": Slip("ρ", COLLAPSED_CONDITIONAL, without("normaliser")),
}

# -- D: responsibilities ----------------------------------------------------------------------------------------------


def published(log_sigmoid: Any, log_prior: Any, evidence: Any, own: Any) -> Any:
    """E log π = ψ(φ) − log ξ,  φ = ρ + 1,  ξ = log 2 − m̂/2, held positive so that the rule has a value at all."""
    ρ, normaliser = true_responsibilities(log_sigmoid, log_prior, evidence, own)
    ξ = np.maximum(np.log(2) - log_sigmoid, 1e-2)
    return true_responsibilities(psi(ρ + 1) - np.log(ξ), log_prior, evidence, own)[0], normaliser


def proportions_again(self: Reading, _logs: Any) -> Any:
    return np.linspace(-1, 0, self.n_components)


RESPONSIBILITIES = {
    "ξ and φ (the paper)": Slip("ρ", JOINT, instead("update_responsibilities", published)),
    "features forgotten": Slip("ρ", JOINT, without("sigmoid")),
    "votes forgotten": Slip("ρ", JOINT, without("votes")),
    "E log τ forgotten, base": Slip("ρ", BASE, without("prior")),
    "E log τ forgotten, conditional": Slip("ρ", CONDITIONAL, without("prior")),
    "the class's normaliser forgotten": Slip("ρ", CONDITIONAL, without("normaliser")),
    "the class prior twice (the paper)": Slip("ρ", JOINT, instead("log_prior", proportions_again, Reading)),
    "the sign of m/2": Slip("ρ", JOINT, with_sigmoid(lambda m, t: -m / 2 - log_two_cosh(t / 2))),
    "t for t/2": Slip("ρ", JOINT, with_sigmoid(lambda m, t: m / 2 - log_two_cosh(t))),
    "m for m/2": Slip("ρ", JOINT, with_sigmoid(lambda m, t: m - log_two_cosh(t / 2))),
    "σ at the mean": Slip("ρ", JOINT, with_sigmoid(lambda m, _t: m / 2 - log_two_cosh(m / 2))),
}

SLIPS = (
    TILT
    | {name + end: Slip("γ", JOINT, poisson(γ, solved=s)) for name, γ in GAMMA.items() for end, s in SOLVED.items()}
    | NORMALISER
    | {f"collapsed: {name}": slip for name, slip in COLLAPSED_MEAN.items()}
    | {f"ρ: {name}": slip for name, slip in RESPONSIBILITIES.items()}
)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_planted_slip_is_caught(slip, monkeypatch):
    assert_caught(SLIPS[slip], monkeypatch)
