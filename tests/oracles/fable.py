"""FABLE's bound, item by item and component by component, from the equations at the top of each function.

Nothing here is optimal or fresh: the bound takes *all* factors as they are, so that its derivative in any one of them
can be asked for.  Votes are `spoken` as in `tests/oracles/confusion.py`.  Component c = (k, m) has number k·M + m.

    t γ a b ρ     item factors: tilt, mean of υ, shape and rate of the Gamma over λ, responsibilities
    m S           q(w_c) = N(m_c, S_c); S is None where processes are points
    μ, rate       Dirichlet concentrations, or shape and rate of the Gammas over vote rates (points: μ/Σμ, μ/rate)
    speech        where silence is a label: Beta concentration of speaking (that of silence is its μ)
    strengths     x and y of the votes' prior where these are learned; accuracy: (a, 1 − a) where x + y is held
    ν             Dirichlet concentration of the class proportions; None where they are given
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import psi

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.oracles.confusion import Spoken


@dataclass(frozen=True, eq=False)
class Learned:
    """A prior of the votes that is learned: β = x right + y wrong + flat, Gamma rate (x + y) unit."""

    right: NDArray[np.floating]
    wrong: NDArray[np.floating]
    flat: float
    unit: NDArray[np.floating] | None
    start: tuple[float, float]
    firmness: float
    is_held: bool = False


@dataclass(frozen=True, eq=False)
class Model:
    """Everything that is known before inference, and the data."""

    reading: str
    n_classes: int
    n_subtypes: int
    emission: str
    spoken: Spoken
    phi: NDArray[np.floating]
    residual: NDArray[np.floating]
    process_mean: NDArray[np.floating]
    concentration: NDArray[np.floating]
    """β_jlc."""
    rate: NDArray[np.floating] | None = None
    """Gamma rate of the vote rates, [C]."""
    class_prior: NDArray[np.floating] | None = None
    proportions: NDArray[np.floating] | None = None
    """τ where it is given; unused in the joint reading."""
    weight: float = 1.0
    """w."""
    point_tables: bool = False
    point_processes: bool = False
    gold: NDArray[np.integer] | None = None
    is_collapsed: bool = False
    """Whether λ is integrated out: υ is then negative multinomial, and there is no a and no b."""
    silence_weight: float = 1.0
    """s."""
    learned: Learned | None = None

    @property
    def n_components(self) -> int:
        return self.n_classes * self.n_subtypes

    @property
    def groups(self) -> list[list[int]]:
        """Components that one normaliser sums over."""
        if self.reading == "conditional":
            return [[k * self.n_subtypes + m for m in range(self.n_subtypes)] for k in range(self.n_classes)]
        return [list(range(self.n_components))]

    def class_of(self, component: int) -> int:
        return component // self.n_subtypes


def log_two_cosh(x: float) -> float:
    """Log(e^x + e^−x)."""
    return abs(x) + math.log1p(math.exp(-2 * abs(x)))


def curvature(t: float) -> float:
    """tanh(t/2) / (2t)."""
    return math.tanh(t / 2) / (2 * t) if t > 0 else 0.25


def log_sigmoid_bound(mean: float, square: float, t: float) -> float:
    """E log σ(f) ≥ E f/2 − log 2cosh(t/2) − ½ ω(t) (E f² − t²)"""
    return mean / 2 - log_two_cosh(t / 2) - 0.5 * curvature(t) * (square - t * t)


def process(model: Model, i: int, c: int, m: Any, S: Any) -> tuple[float, float]:
    """E f_ic and E f_ic²."""
    row = model.phi[i]
    mean = float(model.process_mean[c]) + float(row @ m[:, c])
    variance = 0.0 if S is None else float(row @ S[c] @ row) + float(model.residual[i])
    return mean, mean * mean + variance


def expected_proportions(model: Model, ν: Any) -> tuple[list[float], list[float]]:
    """E τ_k and E log τ_k."""
    if ν is None:
        if model.proportions is None:  # joint
            return [1.0] * model.n_classes, [0.0] * model.n_classes
        return model.proportions.tolist(), [math.log(share) for share in model.proportions]
    total = math.fsum(ν.tolist())
    return [x / total for x in ν.tolist()], [float(psi(x) - psi(total)) for x in ν.tolist()]


# -- the votes --------------------------------------------------------------------------------------------------------


def draws(model: Model, c: int, μ: Any, speech: Any = None) -> list[tuple[float, list[float], list[Any]]]:
    """The tables that component c's votes are drawn from: weight, concentrations, and each event's (source, label)s.

    Pattern: one table over all pairs.  Fired: a source's labels.  Silence: those that are spoken, and, with weight s,
    whether the source speaks (which every label tells) or is silent.
    """
    n_sources, n_labels = μ.shape[:2]
    if model.emission == "pattern":
        pairs = [(j, label) for j in range(n_sources) for label in range(n_labels)]
        return [(1.0, [float(μ[j, label, c]) for j, label in pairs], [[pair] for pair in pairs])]
    found: list[tuple[float, list[float], list[Any]]] = []
    n_spoken = n_labels - (model.emission == "silence")
    for j in range(n_sources):
        said = [float(μ[j, label, c]) for label in range(n_spoken)]
        pairs = [(j, label) for label in range(n_spoken)]
        found.append((1.0, said, [[pair] for pair in pairs]))
        if model.emission == "silence":
            speaks = math.fsum(said) if speech is None else float(speech[j, c])
            found.append((model.silence_weight, [speaks, float(μ[j, n_spoken, c])], [pairs, [(j, n_spoken)]]))
    return found


def vote_logs(model: Model, μ: Any, rate: Any, speech: Any = None) -> tuple[Any, list[float]]:
    """E log v_jlc, and what silence costs each component (rates: −Σ_jl E λ_jlc)."""
    logs, constant = np.zeros_like(μ), [0.0] * model.n_components
    for c in range(model.n_components):
        if model.emission == "rates":
            for j, label in np.ndindex(μ.shape[:2]):
                x = float(μ[j, label, c])
                logs[j, label, c] = (math.log(x) if model.point_tables else psi(x)) - math.log(rate[c])
                constant[c] -= x / float(rate[c])
            continue
        for weight, concentrations, events in draws(model, c, μ, speech):
            total = math.fsum(concentrations)
            for x, pairs in zip(concentrations, events, strict=True):
                value = math.log(x) - math.log(total) if model.point_tables else psi(x) - psi(total)
                for j, label in pairs:
                    logs[j, label, c] += weight * value
    return logs, constant


def prior_at(model: Model, strengths: Any) -> tuple[Any, Any]:
    """β_jlc and the Gamma rate under learned strengths, or as they are given."""
    learned = model.learned
    if learned is None:
        return model.concentration, model.rate
    x, y = (float(value) for value in strengths)
    β = np.zeros_like(learned.right)
    for place in np.ndindex(β.shape):
        β[place] = x * float(learned.right[place]) + y * float(learned.wrong[place]) + learned.flat
    return β, None if learned.unit is None else np.array([(x + y) * float(unit) for unit in learned.unit])


def strengths_fall(model: Model, strengths: Any) -> float:
    """How far the log of Gamma densities with their peaks at the start is below these peaks, h times."""
    value = 0.0
    for x, peak in zip(strengths, model.learned.start, strict=True):
        value += (math.log(peak) - peak / peak) - (math.log(x) - x / peak)
    return model.learned.firmness * value


def vote_divergence(model: Model, μ: Any, rate: Any, speech: Any = None, strengths: Any = None) -> float:
    """KL( q(v) ‖ p(v) ); for points how far the log prior, as a density of log v (or log λ), is below its peak."""
    β, rate_before = prior_at(model, strengths)
    total = 0.0
    for c in range(model.n_components):
        if model.emission == "rates":
            for j, label in np.ndindex(β.shape[:2]):
                pair = (float(μ[j, label, c]), float(rate[c])), (float(β[j, label, c]), float(rate_before[c]))
                total += gamma_fall(*pair) if model.point_tables else gamma_divergence(*pair)
            continue
        for (_, after, _), (_, before, _) in zip(draws(model, c, μ, speech), draws(model, c, β), strict=True):
            total += dirichlet_fall(after, before) if model.point_tables else dirichlet_divergence(after, before)
    return total


def vote_price(model: Model, μ: Any, rate: Any, *, speech: Any, strengths: Any, accuracy: Any) -> float:
    """The divergence, and what learned strengths pay; (a, 1 − a) are shares of the x + y that they started with."""
    if accuracy is not None:
        strengths = [sum(model.learned.start) * float(share) for share in accuracy]
    fall = 0.0 if strengths is None else strengths_fall(model, strengths)
    return vote_divergence(model, μ, rate, speech, strengths) + fall


def gamma_divergence(after: tuple[float, float], before: tuple[float, float]) -> float:
    """E_q log q(λ) − E_q log p(λ), with E λ = a/b and E log λ = ψ(a) − log b."""
    (a, b), (a0, b0) = after, before
    mean, mean_log = a / b, float(psi(a)) - math.log(b)
    own = a * math.log(b) - math.lgamma(a) + (a - 1) * mean_log - b * mean
    return own - (a0 * math.log(b0) - math.lgamma(a0) + (a0 - 1) * mean_log - b0 * mean)


def gamma_fall(after: tuple[float, float], before: tuple[float, float]) -> float:
    """g(λ₀) − g(λ) with g(λ) = a₀ log λ − b₀ λ, whose peak is λ₀ = a₀/b₀."""
    (a, b), (a0, b0) = after, before
    return (a0 * math.log(a0 / b0) - a0) - (a0 * math.log(a / b) - b0 * a / b)


def dirichlet_divergence(after: list[float], before: list[float]) -> float:
    """E_q log q(p) − E_q log p(p)."""
    total, value = math.fsum(after), 0.0
    for sign, concentration in ((1, after), (-1, before)):
        value += sign * (math.lgamma(math.fsum(concentration)) - math.fsum(map(math.lgamma, concentration)))
        for x, y in zip(concentration, after, strict=True):
            value += sign * (x - 1) * float(psi(y) - psi(total))
    return value


def dirichlet_fall(after: list[float], before: list[float]) -> float:
    """Σ_l β_l ( log β̄_l − log v_l ),  v = μ/Σμ."""
    whole_after, whole_before = math.fsum(after), math.fsum(before)
    peak = math.fsum(y * math.log(y / whole_before) for y in before)
    return peak - math.fsum(y * math.log(x / whole_after) for x, y in zip(after, before, strict=True))


# -- the bound --------------------------------------------------------------------------------------------------------


def normaliser_bound(
    group: list[int], *, γ: Any, a: float, b: float, complements: Any, log_mass: list[float], mass: float
) -> float:
    """Σ_c γ_c ( E log λ + log mass_c + E log σ(−f_c) − log γ_c + 1 )  −  Σ_c mass_c E λ  +  H[Gamma(a, b)]"""
    log_rate = float(psi(a)) - math.log(b)
    value = -mass * a / b + a - math.log(b) + math.lgamma(a) + (1 - a) * float(psi(a))
    for c in group:
        x = float(γ[c])
        if x > 0:
            value += x * (log_rate + log_mass[c] + complements[c] - math.log(x) + 1)
    return value


def collapsed_bound(group: list[int], *, γ: Any, complements: Any, log_mass: list[float], mass: float) -> float:
    """E log p(υ, f) + H[q(υ)] of q(υ) = (1 − p) |υ|!/Πυ! Π p_c^υ_c, negative multinomial of mean γ_c = p_c/(1 − p).

    1/S = (1/b) Σ_υ |υ|!/Πυ_c! Π ( mass_c σ(−f_c)/b )^υ_c
    """
    whole = 1 + math.fsum(float(γ[c]) for c in group)
    value = -math.log(mass) + math.log(whole)  # −log(1 − p) = log(1 + Σγ)
    for c in group:
        x = float(γ[c])
        if x > 0:
            value += x * (log_mass[c] - math.log(mass) + complements[c] - math.log(x / whole))
    return value


def bound(model: Model, **factors: Any) -> float:
    """The whole bound, mathematics.md section 3, for any factors: the sum of `terms`."""
    return math.fsum(terms(model, **factors).values())


def terms(
    model: Model,
    *,
    t: Any,
    γ: Any,
    a: Any,
    b: Any,
    ρ: Any,
    m: Any,
    S: Any,
    μ: Any,
    rate: Any,
    ν: Any,
    speech: Any = None,
    strengths: Any = None,
    accuracy: Any = None,
) -> dict[str, float]:
    """The bound by term, named as in src.

      Σ_i Σ_c ρ_ic E log σ(f_ic)  +  Σ_i Σ_g r_ig normaliser_ig  +  Σ_i Σ_c ρ_ic E log τ_k
    + w Σ_i Σ_c ρ_ic ( Σ_j E log v_{jc y_ij} + constant_c )  +  Σ_i H[ρ_i]
    − KL( q(v) ‖ p(v) ) − h Σ_s ( s/s₀ − 1 − log(s/s₀) ) − Σ_c KL( q(w_c) ‖ N(0, I) ) − KL( q(τ) ‖ p(τ) )
    """
    shares, log_shares = expected_proportions(model, ν)
    logs, constant = vote_logs(model, μ, rate, speech)
    found = dict.fromkeys(("sigmoid", "normaliser", "classes", "votes", "entropy"), 0.0)
    log_mass, mass_of = [], []
    for c in range(model.n_components):
        inside = model.reading == "base"
        log_mass.append(log_shares[model.class_of(c)] if inside else 0.0)
        mass_of.append(shares[model.class_of(c)] if inside else 1.0)
    for i, entries in enumerate(model.spoken):
        complements = []
        for c in range(model.n_components):
            chosen = float(ρ[i, c])
            if model.gold is not None and model.gold[i] >= 0 and chosen > 0 and model.class_of(c) != model.gold[i]:
                return {"impossible": -math.inf}
            mean, square = process(model, i, c, m, S)
            complements.append(log_sigmoid_bound(-mean, square, float(t[i, c])))
            if chosen <= 0:
                continue
            found["sigmoid"] += chosen * log_sigmoid_bound(mean, square, float(t[i, c]))
            if model.reading != "joint":
                found["classes"] += chosen * log_shares[model.class_of(c)]
            said = math.fsum(weight * float(logs[j, label, c]) for j, label, weight in entries)
            found["votes"] += model.weight * chosen * (said + constant[c])
            found["entropy"] -= chosen * math.log(chosen)
        for g, group in enumerate(model.groups):
            times = math.fsum(float(ρ[i, c]) for c in group) if model.reading == "conditional" else 1.0
            mass = math.fsum(mass_of[c] for c in group)
            known = {"γ": γ[i], "complements": complements, "log_mass": log_mass, "mass": mass}
            if model.is_collapsed:
                found["normaliser"] += times * collapsed_bound(group, **known)
            else:
                found["normaliser"] += times * normaliser_bound(group, a=float(a[i, g]), b=float(b[i, g]), **known)
    found["vote tables"] = -vote_price(model, μ, rate, speech=speech, strengths=strengths, accuracy=accuracy)
    found["processes"] = -weight_divergence(m, S)
    if ν is not None:
        found["class proportions"] = -dirichlet_divergence(ν.tolist(), model.class_prior.tolist())
    return found


def weight_divergence(m: Any, S: Any) -> float:
    """Σ_c ½ ( tr S_c + |m_c|² − R − log det S_c ); for points ½ Σ |m_c|²."""
    value = 0.5 * float(np.sum(np.asarray(m) ** 2))
    for covariance in () if S is None else S:
        sign, log_determinant = np.linalg.slogdet(covariance)
        if sign <= 0 and len(covariance):
            return math.inf
        value += 0.5 * (float(np.trace(covariance)) - len(covariance) - float(log_determinant))
    return value
