"""The printed rules against their loop oracle, and what they do to the bound of their own model."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
from scipy.special import psi

from labelfable.models.fable import published_rules as rules
from labelfable.models.fable.augmentation import update_curvature
from labelfable.numerics.special import log_two_cosh, polya_gamma_mean, softmax
from tests.ascent import Update, assert_rising, assert_stationary
from tests.oracles import fable as bound_oracle
from tests.oracles import published as oracle
from tests.oracles.confusion import spoken_of
from tests.tolerances import assert_close

DRAWS = np.random.default_rng(5)
N, K, M, L = 8, 2, 2, 3
C = K * M
MEAN = DRAWS.uniform(-2, 1.3, (N, C))
TILT = np.abs(MEAN) + DRAWS.random((N, C))
SHAPE = 0.3 + 3 * DRAWS.random((N, 1))
ρ = DRAWS.dirichlet(np.ones(C), N)
POISSON = DRAWS.random((N, C))
VOTES = DRAWS.integers(-1, K, (N, L))
KERNEL = np.exp(-0.1 * (np.arange(N)[:, None] - np.arange(N)) ** 2) + oracle.JITTER * np.eye(N)
PRECISION = np.linalg.inv(KERNEL)
SLOPES = {"t": None, "γ": None, "a": None, "b": None, "ρ": 1, "m": None, "S": None, "μ": None}


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_poisson_mean_is_the_printed_one(variant):
    told = np.zeros((N, C))
    for i, c in np.ndindex(told.shape):
        told[i, c] = oracle.poisson_mean(float(SHAPE[i, 0]), float(MEAN[i, c]), float(TILT[i, c]), K, variant)
    log_rate = rules.expected_log_rate(SHAPE, K)
    assert_close(rules.update_poisson_mean(log_rate, MEAN, TILT, variant), told)


def test_coefficients_and_curvature_are_the_printed_ones():
    shape, rate = rules.update_coefficients(ρ, MEAN)
    logs, curvature = rules.expected_log_coefficients(shape, rate), update_curvature(shape / rate + POISSON, TILT)
    for i, c in np.ndindex(ρ.shape):
        φ, ξ = oracle.coefficients(float(ρ[i, c]), float(MEAN[i, c]))
        assert_close(shape[i, c], φ)
        assert_close(rate[i, c], ξ)
        assert_close(logs[i, c], float(psi(φ)) - np.log(ξ))
        assert_close(curvature[i, c], oracle.curvature(φ, ξ, float(POISSON[i, c]), float(TILT[i, c])))


def test_rate_leaves_its_domain_where_the_mean_reaches_twice_log_two():
    edge = 2 * np.log(2)
    assert rules.update_coefficients(ρ[:1, :1], np.array([[edge + 1e-3]]))[1] < 0
    assert rules.update_coefficients(ρ[:1, :1], np.array([[edge - 1e-3]]))[1] > 0


@pytest.mark.parametrize(("variant", "expected"), [("paper", 60 * 3 * 1000), ("code", 4 * 3 * 1000 - 1)])
def test_prior_of_right_votes(variant, expected):
    assert rules.correct_prior(60, 4, 3, 1000, variant) == expected


def test_exact_process_is_the_printed_one():
    mean, variance = rules.exact_process(PRECISION, POISSON, MEAN)
    for c in range(C):
        told_mean, told_covariance = oracle.process(PRECISION, POISSON[:, c], MEAN[:, c])
        assert_close(mean[:, c], told_mean, "sums")
        assert_close(variance[:, c], np.diag(told_covariance), "sums")


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_krylov_process_is_the_printed_one(rank):
    probe = DRAWS.standard_normal((N, C))
    mean, variance = rules.krylov_process(PRECISION, POISSON, MEAN, probe, rank)
    for c in range(C):
        told_mean, told = oracle.krylov_process(PRECISION, POISSON[:, c], MEAN[:, c], probe[:, c], rank)
        assert_close(mean[:, c], told_mean, "sweeps")
        assert_close(variance[:, c], np.diag(told), "sweeps")


def test_krylov_process_of_full_rank_is_exact():
    found = rules.krylov_process(PRECISION, POISSON, MEAN, DRAWS.standard_normal((N, C)), 50)
    for mine, told in zip(found, rules.exact_process(PRECISION, POISSON, MEAN), strict=True):
        assert_close(mine, told, "sweeps")


def test_krylov_space_may_close_early():
    probe = DRAWS.standard_normal((N, C))
    flat = np.full((N, C), 0.5)  # (2 I + ½ I) v is v again: one direction is all there is
    mean, variance = rules.krylov_process(2 * np.eye(N), flat, MEAN, probe, 4)
    unit = probe / np.linalg.norm(probe, axis=0)
    assert_close(variance, unit**2 / 2.5)
    assert_close(mean, unit * (unit * MEAN).sum(axis=0) / 5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rules_follow_the_namespace_and_dtype_of_their_arrays(dtype):
    def agree(function, *arguments):
        arrays = [x.astype(dtype) for x in arguments if isinstance(x, np.ndarray)]
        rest = [x for x in arguments if not isinstance(x, np.ndarray)]
        told, found = function(*arrays, *rest), function(*map(strict.asarray, arrays), *rest)
        for mine, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, told)), strict=True):
            assert type(mine) is type(strict.asarray(0.0))
            assert mine.dtype == getattr(strict, dtype)
            assert_close(np.asarray(mine), theirs)

    agree(rules.expected_log_rate, SHAPE, K)
    agree(rules.update_poisson_mean, SHAPE, MEAN, TILT, "paper")
    agree(rules.update_coefficients, ρ, MEAN)
    agree(rules.expected_log_coefficients, ρ + 1, TILT)
    agree(rules.exact_process, PRECISION, POISSON, MEAN)
    agree(rules.krylov_process, np.eye(N), POISSON, MEAN, TILT, 2)
    agree(rules.update_responsibilities, MEAN, MEAN[0], TILT)


# -- what the printed rules do to the bound ---------------------------------------------------------------------------


def model():
    β = np.ones((L, K + 1, C))
    for c in range(C):
        β[:, c // M, c] = 4.0
    return bound_oracle.Model(
        "joint", K, M, "silence", spoken_of(VOTES, K), np.linalg.cholesky(KERNEL), np.zeros(N), np.zeros(C), β
    )


def objective(**factors):
    return bound_oracle.bound(model(), **factors, rate=None, ν=None)


class Sweep:
    """A sweep of one set of rules on f; its factors as the oracle of the bound wants them, after every update."""

    def __init__(self, printed: str | None) -> None:
        self.printed = printed
        self.root = np.linalg.inv(np.linalg.cholesky(KERNEL))
        self.mean, self.covariance = 0.2 * MEAN, np.stack([KERNEL] * C)
        self.factors = {"t": TILT, "γ": POISSON, "a": SHAPE, "b": np.full((N, 1), float(C)), "ρ": ρ}
        self.factors |= self.weights() | {"μ": self.tables()}
        self.updates: list[Update] = []

    def weights(self):
        """q(f) = N(m̂, Σ̂) in the whitened weights of the model."""
        return {"m": self.root @ self.mean, "S": self.root @ self.covariance @ self.root.T}

    def tables(self):
        return oracle.tables(VOTES, self.factors["ρ"], model().concentration[0])

    def set(self, name, value):
        self.factors = {**self.factors, name: value}
        self.updates.append(Update(name, self.factors))

    def run(self, which=("t", "γ", "a", "b", "ρ", "process", "μ")):
        for name in which:
            getattr(self, f"update_{name}")()
        return self.updates

    def update_t(self):
        self.set("t", np.sqrt(self.mean**2 + np.diagonal(self.covariance, axis1=1, axis2=2).T))

    def update_γ(self):
        a, b, t = (self.factors[name] for name in "abt")
        if self.printed:
            self.set("γ", rules.update_poisson_mean(psi(a) - np.log(b), self.mean, t, self.printed))
        else:
            self.set("γ", np.exp(psi(a) - np.log(b) - self.mean / 2 - log_two_cosh(t / 2)))

    def update_a(self):
        self.set("a", 1 + self.factors["γ"].sum(axis=1, keepdims=True))

    def update_b(self):
        self.set("b", np.full((N, 1), float(K if self.printed else C)))

    def update_ρ(self):
        μ, t = self.factors["μ"], self.factors["t"]
        logs = psi(μ) - psi(μ.sum(axis=1, keepdims=True))
        evidence = np.array([[logs[np.arange(L), row, c].sum() for c in range(C)] for row in VOTES])
        if self.printed:
            coefficients = rules.expected_log_coefficients(*rules.update_coefficients(self.factors["ρ"], self.mean))
            self.set("ρ", rules.update_responsibilities(coefficients, np.zeros(C), evidence))
        else:
            self.set("ρ", softmax(self.mean / 2 - log_two_cosh(t / 2) + evidence)[0])

    def update_process(self):
        present, γ = self.factors["ρ"], self.factors["γ"]
        if self.printed:
            shape, rate = rules.update_coefficients(present, self.mean)
            present = shape / rate
        θ = (present + γ) * polya_gamma_mean(self.factors["t"])
        self.covariance = np.stack([np.linalg.inv(PRECISION + np.diag(θ[:, c])) for c in range(C)])
        self.mean = (self.covariance @ (present - γ).T[:, :, None])[:, :, 0].T / 2
        self.factors = {**self.factors, "S": self.weights()["S"]}
        self.set("m", self.weights()["m"])

    def update_μ(self):
        self.set("μ", self.tables())


def test_rules_of_the_derivation_climb_and_end_where_the_bound_is_flat():
    sweep = Sweep(None)
    sweep.run()
    updates = sweep.run()
    assert_stationary(objective, updates, SLOPES)
    assert_rising(objective, updates)


@pytest.mark.parametrize("variant", ["paper", "code"])
@pytest.mark.parametrize(("before", "of"), [(("t",), "γ"), (("t", "γ", "a"), "b"), (("t",), "ρ"), (("t",), "m")])
def test_printed_rules_do_not_end_where_the_bound_is_flat(variant, before, of):
    update = {"m": "process"}.get(of, of)
    for printed in (None, variant):
        sweep = Sweep(None)
        sweep.run(before)
        sweep.printed = printed
        last = sweep.run((update,))[-1:]
        if printed is None:
            assert_stationary(objective, last, SLOPES)
        else:
            with pytest.raises(AssertionError, match=f"of {of}: not stationary"):
                assert_stationary(objective, last, SLOPES)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_printed_sweep_lowers_the_bound(variant):
    with pytest.raises(AssertionError, match="the objective fell"):
        assert_rising(objective, Sweep(variant).run())
