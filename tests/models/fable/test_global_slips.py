"""Slips in E to H and T, published and plausible: the checks of `test_steps.py` must catch every one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from labelfable.models.fable import emission as emission_module
from labelfable.models.fable.emission import Emission
from labelfable.models.fable.reading import Reading
from labelfable.numerics.special import polya_gamma_mean
from tests.fable_slips import (
    BASE,
    CONDITIONAL,
    JOINT,
    LEARNED,
    LEARNED_POINTS,
    LEARNED_RATES,
    POINTS,
    QUIET,
    RATES,
    Slip,
    assert_caught,
    curved,
    instead,
    pulled,
    sums,
    true_weights,
    unweighted,
    weighed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fable_slips import Plant

true_factor = Emission.factor
true_speech = emission_module.update_speech
true_strengths = emission_module.update_strengths

# -- E and F: curvature and processes ---------------------------------------------------------------------------------


def without_weight(self: Reading, responsibilities: Any) -> Any:
    return np.ones((len(responsibilities), self.n_classes if self.name == "conditional" else 1))


def unweighted_curvature(ρ: Any, γ: Any, raw: Any, t: Any, mean: Any) -> tuple[Any, Any]:
    θ = (ρ + raw) * polya_gamma_mean(t)
    return θ, (ρ - γ) / 2 - θ * mean


def half_covariance(gram: Any, potential: Any, *, is_point: bool) -> Any:
    found = true_weights(gram, potential, is_point=is_point)
    return replace(found, covariance=found.covariance / 2)


def one(gram: Any) -> Any:
    return np.eye(gram.shape[1])


PROCESSES = {
    "θ without ρ": Slip("m", JOINT, curved(lambda _ρ, γ, t: γ * polya_gamma_mean(t))),
    "θ without γ": Slip("m", JOINT, curved(lambda ρ, _γ, t: ρ * polya_gamma_mean(t))),
    "θ with φ = ρ + 1 (the paper)": Slip("m", JOINT, curved(lambda ρ, γ, t: (ρ + 1 + γ) * polya_gamma_mean(t))),
    "θ with t for t/2": Slip("m", JOINT, curved(lambda ρ, γ, t: (ρ + γ) * np.tanh(t) / (2 * t))),
    "θ twice": Slip("m", JOINT, curved(lambda ρ, γ, t: (ρ + γ) * np.tanh(t / 2) / t)),
    "θ of points twice": Slip("m", RATES, curved(lambda ρ, γ, t: 2 * (ρ + γ) * polya_gamma_mean(t))),
    "θ at its limit 1/4": Slip("m", JOINT, curved(lambda ρ, γ, _t: (ρ + γ) / 4)),
    "½(φ − γ) with φ = ρ + 1 (the paper)": Slip(
        "m", JOINT, pulled(lambda ρ, γ, _raw, θ, mean: (ρ + 1 - γ) / 2 - θ * mean)
    ),
    "ρ − γ without ½": Slip("m", JOINT, pulled(lambda ρ, γ, _raw, θ, mean: ρ - γ - θ * mean)),
    "½(ρ + γ)": Slip("m", JOINT, pulled(lambda ρ, γ, _raw, θ, mean: (ρ + γ) / 2 - θ * mean)),
    "potential without the mean": Slip("m", JOINT, pulled(lambda ρ, γ, _raw, _θ, _mean: (ρ - γ) / 2)),
    "potential with the mean's sign": Slip("m", JOINT, pulled(lambda ρ, γ, _raw, θ, mean: (ρ - γ) / 2 + θ * mean)),
    "r missing in the potential": Slip("m", CONDITIONAL, pulled(lambda ρ, _γ, raw, θ, mean: (ρ - raw) / 2 - θ * mean)),
    "r missing in θ": Slip("m", CONDITIONAL, sums(unweighted_curvature)),
    "r missing everywhere": Slip("m", CONDITIONAL, instead("group_weight", without_weight, Reading)),
    "r missing everywhere, points": Slip("m", POINTS, instead("group_weight", without_weight, Reading)),
    "prior precision left out": Slip("m", JOINT, weighed(lambda gram, pull: (gram - (1 - 1e-6) * one(gram), pull))),
    "prior precision twice": Slip("m", JOINT, weighed(lambda gram, pull: (gram + one(gram), pull))),
    "the precision's diagonal alone": Slip("m", BASE, weighed(lambda gram, pull: (gram * one(gram), pull))),
    "components mixed up": Slip("m", JOINT, weighed(lambda gram, pull: (gram[::-1], pull))),
    "covariance off by ½": Slip("S", JOINT, instead("update_weights", half_covariance)),
    "potential's sign": Slip("m", POINTS, weighed(lambda gram, pull: (gram, -pull))),
}

# -- G, H and T: tables, rates, proportions ---------------------------------------------------------------------------


def in_emission(name: str, replacement: Any) -> Plant:
    return instead(name, replacement, emission_module)


def without_constant(self: Emission, *rest: Any) -> Any:
    found = true_factor(self, *rest)
    return replace(found, constant=0 * found.constant)


def patterns_by_source(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Emission, "_by_event", lambda _self, table: np.moveaxis(table, 1, 2))
    patch.setattr(Emission, "_from_event", lambda _self, table, _shape: np.moveaxis(table, 1, 2))


def log_of_mean(concentration: Any) -> Any:
    return np.log(concentration / concentration.sum(axis=-1, keepdims=True))


def responsibilities_alone(self: Reading, responsibilities: Any, _poisson: Any) -> Any:
    return self.class_sum(responsibilities)


def with_poisson(self: Reading, responsibilities: Any, poisson: Any) -> Any:
    return self.class_sum(responsibilities + poisson)


def full_silence(prior: Any, counts: Any, _weight: float) -> Any:
    return true_speech(prior, counts, 1.0)


def silence_alone(prior: Any, counts: Any, weight: float) -> Any:
    """The weight on items that hear nothing, and not on those that hear something."""
    μ, speech = true_speech(prior, counts, weight)
    return μ, speech + (1 - weight) * counts[:, :-1].sum(axis=1)


def said_too(prior: Any, counts: Any, weight: float) -> Any:
    return true_speech(prior, weight * counts, 1.0)


def in_hierarchy(change: Callable[..., Any]) -> Plant:
    """Newton steps on other slopes."""

    def slipped(hierarchy: Any, strengths: Any, slopes: Any, *, is_point: bool) -> Any:
        return true_strengths(hierarchy, strengths, lambda at: change(slopes(at), at), is_point=is_point)

    return in_emission("update_strengths", slipped)


def unheld(hierarchy: Any, strengths: Any, slopes: Any, *, is_point: bool) -> Any:
    return true_strengths(replace(hierarchy, firmness=1e-9), strengths, slopes, is_point=is_point)


def tilted(by: Any) -> Callable[..., Any]:
    """One part of the gradient off."""
    return lambda found, at: found._replace(
        value=found.value + float(np.dot(by, at)), gradient=found.gradient + np.array(by)
    )


VOTES = {
    "silence: the weight forgotten in the counts": Slip("μ", QUIET, in_emission("update_speech", full_silence)),
    "silence: the weight on the silent alone": Slip("μ", QUIET, in_emission("update_speech", silence_alone)),
    "silence: the weight on what is said too": Slip("μ", QUIET, in_emission("update_speech", said_too)),
    "strengths: their own prior forgotten": Slip("strengths", LEARNED, in_emission("update_strengths", unheld)),
    "strengths: right and wrong weighed alike": Slip("strengths", LEARNED, in_hierarchy(tilted((1.0, -1.0)))),
    "strengths: off together": Slip("strengths", LEARNED_RATES, in_hierarchy(tilted((0.5, 0.5)))),
    "strengths of points: the accuracy off": Slip("accuracy", LEARNED_POINTS, in_hierarchy(tilted((0.5, 0.0)))),
    "strengths: not learned, but their prior moved": Slip(
        "strengths", LEARNED, in_emission("update_strengths", lambda _h, at, _slopes, **_: (at[0] * 1.1, at[1]))
    ),
    "counts without w": Slip("μ", JOINT, unweighted("counts")),
    "counts without w, points": Slip("μ", POINTS, unweighted("counts")),
    "prior forgotten": Slip("μ", JOINT, in_emission("update_tables", lambda _β, counts: counts + 1e-3)),
    "prior off by one": Slip("μ", JOINT, in_emission("update_tables", lambda β, counts: β + counts + 1)),
    "prior off by one, points": Slip("μ", POINTS, in_emission("update_tables", lambda β, counts: β + counts + 1)),
    "log of the mean for E log v": Slip("ρ", JOINT, in_emission("dirichlet_mean_log", log_of_mean)),
    "patterns drawn source by source": Slip("ρ", BASE, patterns_by_source),
    "rates: totals without w": Slip("μ", RATES, unweighted("totals")),
    "rates: counts and totals without w": Slip("μ", RATES, unweighted("counts", "totals")),
    "rates: totals forgotten": Slip("μ", RATES, in_emission("update_rates", lambda a, b, counts, _n: (a + counts, b))),
    "rates: prior forgotten": Slip(
        "μ", RATES, in_emission("update_rates", lambda _a, b, counts, totals: (counts + 1e-3, b + totals))
    ),
    "rates: silence costs nothing": Slip("ρ", RATES, instead("factor", without_constant, Emission)),
    "rates: log of the mean for E log λ": Slip("ρ", RATES, in_emission("digamma", np.log)),
}
PROPORTIONS = {
    "γ forgotten in the base reading": Slip("ν", BASE, instead("proportion_counts", responsibilities_alone, Reading)),
    "γ counted in the conditional reading": Slip("ν", CONDITIONAL, instead("proportion_counts", with_poisson, Reading)),
    "prior forgotten": Slip("ν", BASE, instead("update_proportions", lambda _prior, counts: counts)),
    "log of the mean for E log τ": Slip("γ", BASE, instead("dirichlet_mean_log", log_of_mean)),
}
SLIPS = (
    PROCESSES
    | {f"votes: {name}": slip for name, slip in VOTES.items()}
    | {f"τ: {name}": slip for name, slip in PROPORTIONS.items()}
)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_planted_slip_is_caught(slip, monkeypatch):
    assert_caught(SLIPS[slip], monkeypatch)
