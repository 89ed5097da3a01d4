"""The three readings: which components a normaliser sums over, and where the class proportions stand."""

from __future__ import annotations

from itertools import product

import array_api_strict as strict
import numpy as np
import pytest

from labelfable.models.fable.mixture import update_responsibilities
from labelfable.models.fable.reading import Reading
from tests.fable_problems import READINGS
from tests.oracles.fable import Model
from tests.tolerances import assert_close

K, M, N = 3, 2, 5
C = K * M
DRAWS = np.random.default_rng(0)
VALUES = DRAWS.uniform(size=(N, C))
LOGS = np.log(DRAWS.dirichlet(np.ones(K)))


def groups(name: str) -> list[list[int]]:
    nothing = np.zeros(0)
    return Model(name, K, M, "fired", [], nothing, nothing, nothing, nothing).groups


@pytest.mark.parametrize("name", READINGS)
def test_groups_are_the_oracles(name):
    reading = Reading(name, K, M)
    summed, spread = reading.group_sum(VALUES), reading.spread(reading.group_sum(VALUES))
    weight = reading.group_weight(VALUES)
    assert reading.n_components == C
    assert summed.shape == weight.shape == (N, len(groups(name)))
    assert spread.shape == (N, C)
    for i in range(N):
        for g, members in enumerate(groups(name)):
            total = sum(VALUES[i, c] for c in members)
            assert_close(summed[i, g], total)
            assert_close(weight[i, g], total if name == "conditional" else 1.0)
            for c in members:
                assert_close(spread[i, c], total)


@pytest.mark.parametrize(("name", "mass"), [("joint", C), ("base", M), ("conditional", M)])
def test_mass_is_what_the_normalisers_terms_add_up_to(name, mass):
    """Σ over a group of the largest that each term can be: τ_k in the base reading, else 1."""
    reading = Reading(name, K, M)
    assert reading.mass == mass
    for members in groups(name):
        assert_close(sum(np.exp(reading.log_mass(LOGS))[c] for c in members), float(mass))


@pytest.mark.parametrize("name", READINGS)
def test_the_normaliser_is_what_the_complements_leave_of_the_mass(name):
    """b − Σ mass exp(complement); with E log τ in place of log τ the masses themselves sum to less than b."""
    reading = Reading(name, K, M)
    for logs in (LOGS, LOGS - 0.3):
        log_mass = reading.log_mass(logs)
        found = reading.normaliser(-VALUES, log_mass)
        for i, (g, members) in product(range(N), enumerate(groups(name))):
            assert_close(found[i, g], reading.mass - sum(np.exp(log_mass[c] - VALUES[i, c]) for c in members))


def test_a_small_normaliser_keeps_its_digits():
    tiny = Reading("joint", K, M).normaliser(np.full((1, C), -1e-25), np.zeros(C))
    assert_close(tiny / (C * 1e-25), np.ones((1, 1)))


def test_proportions_stand_where_the_reading_says():
    spread = [LOGS[c // M] for c in range(C)]
    nothing = np.zeros(C)
    for name, inside, before in (
        ("joint", nothing, nothing),
        ("base", spread, spread),
        ("conditional", nothing, spread),
    ):
        reading = Reading(name, K, M)
        assert_close(reading.log_mass(LOGS), np.array(inside))
        assert_close(reading.log_prior(LOGS), np.array(before))
        assert reading.has_proportions == (name != "joint")


def test_proportion_counts_are_class_sums():
    ρ, γ = VALUES, 10 * VALUES[::-1]
    for name, counted in (("joint", 0 * ρ), ("base", ρ + γ), ("conditional", ρ)):
        found = Reading(name, K, M).proportion_counts(ρ, γ)
        for i, k in np.ndindex(N, K):
            assert_close(found[i, k], sum(counted[i, k * M + m] for m in range(M)))


def test_responsibilities_are_normalised_exponentials():
    parts = DRAWS.normal(size=(3, N, C))
    log_prior = DRAWS.normal(size=C)
    parts[1, 2, :4] = -np.inf  # a known class
    ρ, normaliser = update_responsibilities(parts[0], log_prior, parts[1], parts[2])
    for i in range(N):
        raised = [np.exp(parts[0, i, c] + log_prior[c] + parts[1, i, c] + parts[2, i, c]) for c in range(C)]
        assert_close(normaliser[i], np.log(sum(raised)))
        for c in range(C):
            assert_close(ρ[i, c], raised[c] / sum(raised))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", READINGS)
def test_readings_stay_in_the_array_library_and_dtype_of_their_arguments(name, dtype):
    reading = Reading(name, K, M)
    values, logs = VALUES.astype(dtype), LOGS.astype(dtype)
    for function, *arguments in (
        (reading.group_sum, values),
        (lambda x: reading.spread(reading.group_sum(x)), values),
        (reading.class_sum, values),
        (reading.group_weight, values),
        (reading.log_mass, logs),
        (lambda x, y: reading.normaliser(-x, reading.log_mass(y)), values, logs),
        (reading.log_prior, logs),
        (reading.proportion_counts, values, 2 * values),
        (lambda *parts: update_responsibilities(*parts)[0], values, values[0], values, values),
    ):
        expected = function(*arguments)
        found = function(*(strict.asarray(argument) for argument in arguments))
        assert type(found) is type(strict.asarray(values))
        assert found.dtype == getattr(strict, dtype)
        assert expected.dtype == dtype
        assert_close(found, expected)
