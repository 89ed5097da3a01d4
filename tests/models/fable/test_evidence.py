"""The bound is below the log evidence, with all constants kept, and meets it where it should."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.fable_problems import EMISSIONS, NORMALISERS, READINGS, Case
from tests.oracles.fable import prior_at, strengths_fall
from tests.oracles.fable_evidence import log_evidence
from tests.tolerances import STANDARD_ERRORS

DRAWS = 40_000
FOUR = Case(n_items=4, n_sources=2, shard_items=4)
CASES = [
    replace(
        FOUR,
        reading=reading,
        emission=emission,
        process=("exact", "inducing")[number % 2],
        n_subtypes=(2, 1)[number // 2 % 2],
        learned=number % 3 != 0,
        weight=(1.0, 0.6)[number // 3 % 2],
        has_gold=number % 4 == 3,
        seed=number,
    )
    for number, (reading, emission) in enumerate(product(READINGS, EMISSIONS))
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_bound_stays_below_the_log_evidence(case):
    """With λ integrated out it is the nearer one."""
    problem = case.problem()
    evidence, noise = log_evidence(problem.model, DRAWS)
    bounds = [max(replace(case, normaliser=normaliser).problem().run(60)[1]) for normaliser in NORMALISERS]
    assert bounds[0] < bounds[1] < evidence - STANDARD_ERRORS * noise


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_with_any_weight_on_silence_the_bound_stays_below(weight):
    problem = replace(FOUR, emission="silence", silence_weight=weight, normaliser="collapsed").problem()
    evidence, noise = log_evidence(problem.model, DRAWS)
    assert max(problem.run(60)[1]) < evidence - STANDARD_ERRORS * noise


@pytest.mark.parametrize("emission", EMISSIONS)
def test_with_learned_strengths_the_bound_stays_below_the_evidence_that_they_give(emission):
    """The strengths are points: their prior counts as it is."""
    problem = replace(FOUR, emission=emission, firmness=3.0, normaliser="collapsed").problem()
    global_, totals = problem.run(60)
    β, rate = prior_at(problem.model, global_.votes.strengths)
    evidence, noise = log_evidence(replace(problem.model, concentration=β, rate=rate, learned=None), DRAWS)
    assert totals[-1] < evidence - strengths_fall(problem.model, global_.votes.strengths) - STANDARD_ERRORS * noise
    assert totals[-1] > totals[0]


@pytest.mark.parametrize("normaliser", NORMALISERS)
@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("reading", READINGS)
def test_the_bound_meets_the_evidence_where_nothing_is_uncertain(reading, emission, normaliser):
    """Processes known, tables ever firmer: the gap shrinks to nothing.

    Where λ has a factor of its own the processes must be high too, so that σ is 1 and λ of no account.
    """
    gaps = []
    case = replace(FOUR, reading=reading, emission=emission, process="flat", normaliser=normaliser)
    for firmness in (1.0, 10.0, 100.0, 1000.0, 10_000.0):
        problem = replace(case, learned=False, weight=0.8).problem()
        if normaliser == "factored":
            problem.process_mean = np.full(problem.reading.n_components, 40.0)
        rate = problem.prior.rate
        problem.prior = replace(
            problem.prior,
            concentration=firmness * problem.prior.concentration,
            rate=None if rate is None else firmness * rate,
        )
        _, totals = problem.run(100)
        gaps.append(log_evidence(problem.model, 20)[0] - totals[-1])
    assert np.all(np.diff(gaps) < 0)
    assert 0 < gaps[-1] < gaps[0] / 1000
