"""The normaliser's augmentation, rule by rule: bounds that hold, updates that are optima, roots that are roots."""

from __future__ import annotations

import math

import array_api_strict as strict
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import logsumexp, psi

from labelfable.models.fable.augmentation import (
    collapsed_bound,
    expected_log_sigmoid,
    normaliser_bound,
    solve_normaliser,
    update_collapsed_mean,
    update_curvature,
    update_poisson_mean,
    update_rate_shape,
    update_tilt,
)
from labelfable.models.fable.reading import Reading
from labelfable.numerics.special import x_log_x
from tests.ascent import REAL, Update, assert_rising, assert_stationary
from tests.fable_problems import READINGS
from tests.oracles import fable as oracle
from tests.tolerances import TOLERANCE, assert_close

MEANS = [-30.0, -3.0, -0.4, 0.0, 0.7, 2.0, 30.0]
VARIANCES = [0.0, 1e-4, 0.3, 2.0, 9.0]

# -- A: the Pólya-Gamma bound -----------------------------------------------------------------------------------------


def expected(function, mean, variance):
    """E function(f) under N(mean, variance)."""
    if variance == 0:
        return function(mean)
    s = math.sqrt(variance)
    density = lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi)  # noqa: E731 (an integrand, used once)
    return quad(lambda x: density(x) * function(mean + s * x), -12, 12, limit=400, epsabs=0)[0]


def log_sigmoid(f):
    return min(f, 0.0) - math.log1p(math.exp(-abs(f)))


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("mean", MEANS)
def test_the_bound_on_the_log_sigmoid_holds_and_touches_where_f_is_known(mean, variance):
    tilt = update_tilt(np.array([[mean]]), np.array([[variance]]))
    assert_close(tilt, np.array([[math.hypot(mean, math.sqrt(variance))]]))
    for sign in (1, -1):
        bound = float(expected_log_sigmoid(sign * np.array([[mean]]), tilt)[0, 0])
        truth = expected(lambda f, sign=sign: log_sigmoid(sign * f), mean, variance)
        if variance == 0:
            assert_close(bound, truth)
        else:
            assert bound <= truth + TOLERANCE["float64"].quadrature * abs(truth)
    if variance == 9.0 and abs(mean) < 3:
        assert bound < truth - 0.01


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("mean", MEANS)
def test_the_tilt_is_the_best_one(mean, variance):
    """No other t gives a higher bound, for σ(f) or for σ(−f)."""
    square = mean * mean + variance
    best = float(update_tilt(np.array(mean), np.array(variance)))
    for sign in (1, -1):
        top = oracle.log_sigmoid_bound(sign * mean, square, best)
        assert_close(top, float(expected_log_sigmoid(np.array(sign * mean), np.array(best))))
        for factor in (0.5, 0.9, 1.1, 2.0):
            other = best * factor if best > 0 else factor
            assert oracle.log_sigmoid_bound(sign * mean, square, other) <= top + TOLERANCE["float64"].rounding * abs(
                top
            )


# -- B and C: Poisson and Gamma factors, one at a time ----------------------------------------------------------------

DRAWS = np.random.default_rng(0)
M, S2 = DRAWS.normal(scale=2, size=(5, 4)), DRAWS.uniform(0, 2, size=(5, 4))
LOG_MASS = np.log(np.array([0.2, 0.2, 0.8, 0.8]))
MASS = 2.0


def one_normaliser(γ, a, b):
    """The normaliser's line of the bound, five items, the oracle's."""
    tilt = update_tilt(M, S2)
    value = 0.0
    for i in range(5):
        complements = [oracle.log_sigmoid_bound(-M[i, c], M[i, c] ** 2 + S2[i, c], tilt[i, c]) for c in range(4)]
        gamma = {"γ": γ[i], "a": float(a[i, 0]), "b": float(b[i, 0])}
        value += oracle.normaliser_bound(
            [0, 1, 2, 3], **gamma, complements=complements, log_mass=LOG_MASS.tolist(), mass=MASS
        )
    return value


def test_poisson_and_gamma_updates_are_stationary_and_climb_to_where_both_hold():
    absent = expected_log_sigmoid(-M, update_tilt(M, S2))
    a, b = DRAWS.uniform(1, 3, size=(5, 1)), np.full((5, 1), MASS)
    updates = []
    for _ in range(300):  # one at a time they come near each other slowly
        γ = update_poisson_mean(np.broadcast_to(psi(a) - np.log(b), M.shape), absent, LOG_MASS)
        updates.append(Update("γ", {"γ": γ, "a": a, "b": b}))
        a = update_rate_shape(γ.sum(axis=1, keepdims=True))
        updates += [Update(name, {"γ": γ, "a": a, "b": b}) for name in ("a", "b")]
    assert_stationary(one_normaliser, updates[:6], {"γ": None, "a": None, "b": None})
    assert_rising(one_normaliser, updates)
    share = np.exp(absent + LOG_MASS).sum(axis=1, keepdims=True) / MASS
    assert_close(solve_normaliser(share), a, "sums")


def root(share):
    """a = 1 + κ exp ψ(a), by SciPy; near κ = 1, where large numbers cancel, by the series of exp ψ."""
    rest = 1 - share
    if rest > 0.01:
        return brentq(lambda a: a - 1 - share * math.exp(psi(a)), 1, 1 + 1 / rest, xtol=1e-15, rtol=1e-14)
    a = (1 - share / 2) / rest
    for _ in range(50):
        x = a - 0.5
        a = 1 - 0.5 * share + share * (1 / (24 * x) - 37 / (5760 * x**3) + 10313 / (2903040 * x**5))
        a /= rest
    return a


SHARES = [
    0.0,
    1e-300,
    1e-12,
    0.001,
    0.1,
    0.37,
    0.5,
    0.8,
    0.94,
    0.951,
    0.96,
    0.975,
    0.98,
    0.99,
    *(1 - 0.1**e for e in range(3, 13)),
]


@pytest.mark.parametrize("share", SHARES)
def test_the_normalisers_shape_is_the_root(share):
    found = float(solve_normaliser(np.array([[share]]))[0, 0])
    assert_close(found / root(share), 1.0)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99, 0.9999, 0.999999])
def test_the_normalisers_shape_in_float32(share):
    given = np.array([[share]], dtype=np.float32)
    found = solve_normaliser(given)
    assert found.dtype == np.float32
    assert_close(np.float32(found[0, 0] / root(float(given[0, 0]))), np.float32(1.0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_share_of_one_has_a_finite_shape(dtype):
    """Rounding may give it; the exact root would be infinite."""
    found = solve_normaliser(np.array([[1.0, np.nextafter(1.0, 2.0)]], dtype=dtype))
    assert np.all(np.isfinite(found))
    assert np.all(found > 1e5)
    assert found.dtype == dtype


def test_the_shape_rises_with_the_share():
    shares = np.linspace(0, 1 - 1e-6, 20_001)[:, None]
    assert np.all(np.diff(solve_normaliser(shares), axis=0) > 0)


# -- the normaliser's bound -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [-8.0, -2.0, 0.0, 3.0, 40.0])
def test_the_normaliser_bound_is_below_the_normaliser_and_meets_it_where_nothing_is_left(level):
    """f known: the bound on −log Σ_c σ(f_c) is the oracle's, holds, and is exact where all σ are 1."""
    f = level + np.array([[0.3, -0.2, 0.0, 0.9]])
    absent = expected_log_sigmoid(-f, np.abs(f))
    share = np.exp(absent).mean(axis=1, keepdims=True)
    a = solve_normaliser(share)
    γ = update_poisson_mean(np.broadcast_to(psi(a) - np.log(4.0), f.shape), absent, np.zeros(4))
    sums = [x.sum(axis=1, keepdims=True) for x in (γ, γ * absent, x_log_x(γ))]
    found = float(normaliser_bound(a, np.array(4.0), *sums)[0, 0])
    by_loops = oracle.normaliser_bound(
        [0, 1, 2, 3],
        γ=γ[0],
        a=float(a[0, 0]),
        b=4.0,
        complements=absent[0],
        log_mass=[0.0] * 4,
        mass=4.0,
    )
    assert_close(found, by_loops, "sums")
    truth = -math.log(np.exp([log_sigmoid(x) for x in f[0]]).sum())
    if level == 40.0:
        assert_close(found, truth)
    else:
        assert found < truth


@pytest.mark.parametrize("level", [-60.0, -8.0, 0.0, 3.0, 40.0])
@pytest.mark.parametrize("name", READINGS)
def test_collapsed_the_normaliser_bound_is_the_normaliser_where_f_is_known(name, level):
    """−log Σ_c mass_c σ(f_c) of every group, at every size of f."""
    f = level + np.array([[0.3, -0.2, 0.0, 0.9]])
    absent = expected_log_sigmoid(-f, np.abs(f))
    reading = Reading(name, 2, 2)
    log_mass = reading.log_mass(np.log(np.array([0.2, 0.8])))
    found = collapsed_bound(reading.normaliser(absent, log_mass))
    for g, members in enumerate([[0, 1], [2, 3]] if name == "conditional" else [[0, 1, 2, 3]]):
        assert_close(found[0, g], -logsumexp([log_mass[c] + log_sigmoid(f[0, c]) for c in members]), "sums")


def test_collapsed_a_normaliser_that_vanishes_is_still_finite():
    f = np.full((1, 4), -1000.0)
    reading = Reading("joint", 2, 2)
    absent = expected_log_sigmoid(-f, np.abs(f))
    whole = reading.normaliser(absent, np.zeros(4))
    γ = update_collapsed_mean(absent, np.zeros(4), reading.spread(whole))
    assert np.all(np.isfinite(collapsed_bound(whole)))
    assert np.all(np.isfinite(γ))


def test_collapsed_the_mean_is_the_best_one():
    absent = expected_log_sigmoid(-M, update_tilt(M, S2))
    reading = Reading("base", 2, 2)
    whole = reading.normaliser(absent, LOG_MASS)
    known = {"log_mass": LOG_MASS.tolist(), "mass": MASS}

    def bound(γ):
        return sum(oracle.collapsed_bound([0, 1, 2, 3], γ=γ[i], complements=absent[i], **known) for i in range(5))

    γ = update_collapsed_mean(absent, LOG_MASS, reading.spread(whole))
    assert_stationary(bound, [Update("γ", {"γ": γ})], {"γ": None})
    assert_close(float(collapsed_bound(whole).sum()), bound(γ))


def test_the_collapsed_mean_is_that_of_its_negative_multinomial():
    """Summed over υ of two components, one by one."""
    κ = [0.35, 0.2]
    found = update_collapsed_mean(np.log(np.array([κ])), np.zeros(2), np.array([[1 - sum(κ)] * 2]))
    weights = {
        (n, k): math.exp(math.lgamma(n + k + 1) - math.lgamma(n + 1) - math.lgamma(k + 1)) * κ[0] ** n * κ[1] ** k
        for n in range(150)
        for k in range(150)
    }
    whole = math.fsum(weights.values())
    assert_close(whole, 1 / (1 - sum(κ)))
    assert_close(found[0, 0], math.fsum(n * p for (n, _), p in weights.items()) / whole)
    assert_close(found[0, 1], math.fsum(k * p for (_, k), p in weights.items()) / whole)


def test_curvature_is_the_weight_of_f_squared():
    """−2 ∂/∂f² of the bound on ρ log σ(f) + γ log σ(−f)"""
    ρ, γ = 0.3, 1.7
    for t in (1e-9, 1e-3, 0.5, 4.0, 80.0):
        found = float(update_curvature(np.array(ρ + γ), np.array(t)))
        pieces = [
            ρ * oracle.log_sigmoid_bound(0.4, square, t) + γ * oracle.log_sigmoid_bound(-0.4, square, t)
            for square in (0.0, 1.0)
        ]
        assert_close(found, -2 * (pieces[1] - pieces[0]))


# -- any array library ------------------------------------------------------------------------------------------------

RULES = {
    "update_tilt": (update_tilt, [M, S2]),
    "expected_log_sigmoid": (expected_log_sigmoid, [M, np.abs(M)]),
    "update_poisson_mean": (update_poisson_mean, [S2, -S2, LOG_MASS]),
    "update_rate_shape": (update_rate_shape, [S2]),
    "solve_normaliser": (solve_normaliser, [S2 / 2.001]),
    "update_collapsed_mean": (update_collapsed_mean, [-S2, LOG_MASS, S2 / 4 + 0.1]),
    "collapsed_bound": (collapsed_bound, [S2 / 4 + 0.1]),
    "update_curvature": (update_curvature, [S2, np.abs(M)]),
    "normaliser_bound": (normaliser_bound, [S2 + 1, np.full((5, 4), 4.0), S2, -S2, x_log_x(S2)]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", RULES)
def test_rules_stay_in_the_array_library_and_dtype_of_their_arguments(rule, dtype):
    function, arguments = RULES[rule]
    arguments = [argument.astype(dtype) for argument in arguments]
    told = function(*arguments)
    found = function(*(strict.asarray(argument) for argument in arguments))
    assert type(found) is type(strict.asarray(told))
    assert str(told.dtype) == dtype
    assert found.dtype == getattr(strict, dtype)
    assert_close(found, told)
    assert_close(told, function(*(argument.astype(np.float64) for argument in arguments)).astype(dtype), "sums")


def test_a_tilt_of_zero_is_the_limit():
    zero = np.zeros((1, 2))
    assert np.array_equal(update_tilt(zero, zero), zero)
    assert_close(update_curvature(np.ones((1, 2)), zero), np.full((1, 2), 0.25))
    assert_close(expected_log_sigmoid(zero, zero), np.full((1, 2), -math.log(2)))


def test_the_mean_moves_freely():
    """The checks of `tests/ascent.py` move a REAL factor in both directions, and see a slope."""
    flat = Update("x", {"x": np.array([0.0, -1.0])})
    assert_stationary(lambda x: -float(np.sum((x - [0.0, -1.0]) ** 2)), [flat], {"x": REAL})
    with pytest.raises(AssertionError, match="not stationary"):
        assert_stationary(lambda x: float(x.sum()), [flat], {"x": REAL})
