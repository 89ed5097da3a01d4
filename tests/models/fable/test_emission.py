"""How votes depend on the component: the four emissions' updates, points and divergences."""

from __future__ import annotations

from dataclasses import replace

import array_api_strict as strict
import numpy as np
import pytest
from scipy import stats

from labelfable.models.fable.emission import (
    Emission,
    VotePrior,
    point_of_rates,
    point_of_tables,
    update_rates,
    update_speech,
    update_tables,
)
from tests.ascent import Update, assert_stationary
from tests.fable_problems import EMISSIONS
from tests.oracles import fable as oracle
from tests.tolerances import assert_close

L, LABELS, C = 2, 3, 2
DRAWS = np.random.default_rng(0)
BETA = DRAWS.uniform(0.2, 3, size=(L, LABELS, C))
RATE = DRAWS.uniform(0.5, 2, size=C)
COUNTS = DRAWS.uniform(0, 5, size=(L, LABELS, C))
TOTALS = DRAWS.uniform(2, 9, size=C)


def prior(emission: str) -> VotePrior:
    return VotePrior(BETA, RATE if emission == "rates" else None)


def model(emission: str, *, is_point: bool) -> oracle.Model:
    nothing = np.zeros(0)
    return oracle.Model(
        "joint", C, 1, emission, [], nothing, nothing, nothing, BETA, prior(emission).rate, point_tables=is_point
    )


@pytest.mark.parametrize("is_point", [False, True])
@pytest.mark.parametrize("emission", EMISSIONS)
def test_the_factor_is_the_oracles(emission, is_point):
    found = Emission(emission, is_point=is_point).factor(prior(emission), COUNTS, TOTALS)
    assert_close(found.concentration, BETA + COUNTS)
    if emission == "rates":
        assert_close(found.rate, RATE + TOTALS)
    else:
        assert found.rate is None
    known = model(emission, is_point=is_point)
    logs, constant = oracle.vote_logs(known, found.concentration, found.rate)
    assert_close(found.logs, logs)
    assert_close(found.constant, np.array(constant))
    assert_close(found.divergence, oracle.vote_divergence(known, found.concentration, found.rate))
    assert isinstance(found.divergence, float)


@pytest.mark.parametrize("is_point", [False, True])
@pytest.mark.parametrize("emission", EMISSIONS)
def test_without_counts_the_factor_is_the_prior(emission, is_point):
    found = Emission(emission, is_point=is_point).factor(prior(emission), 0 * COUNTS, 0 * TOTALS)
    assert np.array_equal(found.concentration, BETA)
    assert_close(found.divergence, 0.0)


def test_points_are_probabilities_of_what_a_draw_chooses_between():
    """All (source, label) pairs of a pattern; the labels of one source else."""
    pattern = Emission("pattern", is_point=True).factor(prior("pattern"), COUNTS, TOTALS)
    assert_close(np.exp(pattern.logs).sum(axis=(0, 1)), np.ones(C))
    for emission in ("fired", "silence"):
        tables = Emission(emission, is_point=True).factor(prior(emission), COUNTS, TOTALS)
        assert_close(np.exp(tables.logs).sum(axis=1), np.ones((L, C)))


def test_the_point_of_a_table_is_the_peak_of_likelihood_times_prior_in_log_v():
    """Σ_l n_l log v_l + log Dirichlet(v; β) + Σ_l log v_l: with the Jacobian of log v, the exponent is n + β."""
    β, n = BETA[0, :, 0], COUNTS[0, :, 0]

    def density(v):
        v = v / v.sum()  # the sum of a simplex is rounded
        return float(n @ np.log(v)) + stats.dirichlet(β).logpdf(v) + float(np.log(v).sum())

    logs, fall = point_of_tables(update_tables(β, n), β)
    assert_stationary(density, [Update("v", {"v": np.exp(logs)})], {"v": 0})
    peak = β / β.sum()
    below = [stats.dirichlet(β).logpdf(v) + float(np.log(v).sum()) for v in (peak, np.exp(logs) / np.exp(logs).sum())]
    assert_close(fall, below[0] - below[1])
    assert fall > 0


def test_the_point_of_a_rate_is_the_peak_of_likelihood_times_prior_in_log_λ():
    """Poisson counts of N items, and a Gamma prior with the Jacobian of log λ."""
    β, n = BETA[:, :, 0], np.floor(COUNTS[:, :, 0])
    before, items = RATE[0], 7.0

    def log_prior(λ):
        return float((stats.gamma(β, scale=1 / before).logpdf(λ) + np.log(λ)).sum())

    def density(λ):
        return log_prior(λ) + float((n * np.log(λ) - items * λ).sum())

    shape, rate = update_rates(β, before, n, items)
    logs, fall = point_of_rates(shape, rate, β, before)
    assert_stationary(density, [Update("λ", {"λ": np.exp(logs)})], {"λ": None})
    assert_close(fall, log_prior(β / before) - log_prior(np.exp(logs)))
    assert fall > 0


def test_rates_are_the_prototypes_formula():
    """mathematics.md 5.2: P(vote l | class k) = ( n_jkl + τ V_jl A_lk ) / ( n_k + τ N_cov / K ), as a mean rate."""
    found = Emission("rates").factor(prior("rates"), COUNTS, TOTALS)
    assert_close(found.concentration / found.rate, (COUNTS + BETA) / (TOTALS + RATE))
    assert_close(found.constant, -((COUNTS + BETA) / (TOTALS + RATE)).sum(axis=(0, 1)))


# -- silence with a weight --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_point", [False, True])
def test_at_full_weight_silence_is_one_more_label(is_point):
    """One Dirichlet over labels and silence is one over labels times a Beta."""
    found = Emission("silence", is_point=is_point).factor(prior("silence"), COUNTS, TOTALS)
    expected = Emission("fired", is_point=is_point).factor(prior("fired"), COUNTS, TOTALS)  # silence among the labels
    assert_close(found.logs, expected.logs)
    assert_close(found.divergence, expected.divergence)
    assert_close(found.speech, expected.concentration[:, :-1].sum(axis=1))


@pytest.mark.parametrize("is_point", [False, True])
def test_without_weight_only_what_is_said_counts(is_point):
    found = Emission("silence", is_point, 0.0).factor(prior("silence"), COUNTS, TOTALS)
    said = VotePrior(BETA[:, :-1])
    expected = Emission("fired", is_point=is_point).factor(said, COUNTS[:, :-1], TOTALS)
    assert_close(found.logs[:, :-1], expected.logs)
    assert np.array_equal(found.logs[:, -1], np.zeros((L, C)))
    assert_close(found.divergence, expected.divergence)


@pytest.mark.parametrize("is_point", [False, True])
def test_in_between_the_factor_is_the_oracles(is_point):
    found = Emission("silence", is_point, 0.3).factor(prior("silence"), COUNTS, TOTALS)
    concentration, speech = update_speech(BETA, COUNTS, 0.3)
    assert_close(concentration[:, :-1], (BETA + COUNTS)[:, :-1])
    assert_close(concentration[:, -1], BETA[:, -1] + 0.3 * COUNTS[:, -1])
    assert_close(speech, (BETA + 0.3 * COUNTS)[:, :-1].sum(axis=1))
    known = replace(model("silence", is_point=is_point), silence_weight=0.3)
    assert_close(found.logs, oracle.vote_logs(known, concentration, None, speech)[0])
    assert_close(found.divergence, oracle.vote_divergence(known, concentration, None, speech))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_point", [False, True])
@pytest.mark.parametrize("emission", EMISSIONS)
def test_emissions_stay_in_the_array_library_and_dtype_of_their_arguments(emission, is_point, dtype):
    def cast(values):
        return None if values is None else values.astype(dtype)

    def as_strict(values):
        return None if values is None else strict.asarray(values)

    rate = cast(prior(emission).rate)
    rule = Emission(emission, is_point=is_point)
    β, counts, totals = cast(BETA), cast(COUNTS), cast(TOTALS)
    expected = rule.factor(VotePrior(β, rate), counts, totals)
    found = rule.factor(VotePrior(as_strict(β), as_strict(rate)), as_strict(counts), as_strict(totals))
    for name in ("concentration", "logs", "constant"):
        mine, told = getattr(found, name), getattr(expected, name)
        assert type(mine) is type(strict.asarray(β))
        assert mine.dtype == getattr(strict, dtype)
        assert told.dtype == dtype
        assert_close(mine, told)
    assert_close(np.asarray(found.divergence, dtype=dtype), np.asarray(expected.divergence, dtype=dtype), "sums")
