"""Roads that lead to the same place: shards, threads, forms of votes, dtypes, readings, no processes at all."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial, Threads
from labelfable.inference.sweep import run_sweeps
from labelfable.votes import read_votes
from tests.crowds import sparse_of
from tests.fable_problems import EMISSIONS, NORMALISERS, READINGS, TILTS, Case
from tests.oracles import confusion as confusion_oracle
from tests.oracles import fable as oracle
from tests.oracles.confusion import spoken_of
from tests.tolerances import assert_close

LARGE = Case(n_items=90, n_sources=5, n_classes=3, shard_items=32, process="inducing")
SWEEPS = 8


def fitted(problem, *, engine=None, shards=None):
    shards = problem.shards if shards is None else shards
    return run_sweeps(problem.sweeps, shards, engine or Serial(), Stopping(0.0, SWEEPS, 1))


def everything(problem, fit) -> dict[str, Any]:
    """All factors and the course of the bound."""
    factors = problem.item_factors(fit.global_) | problem.global_factors(fit.global_)
    return {name: x for name, x in factors.items() if x is not None} | {"bound": np.array(fit.history.totals)}


def assert_same(found, expected, row):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_close(found[name], value, row, message=name)


# -- how the work is cut ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("emission", EMISSIONS)
def test_threads_and_serial_agree_to_the_last_bit(emission, tilt):
    problem = replace(LARGE, emission=emission, tilt=tilt).problem()
    serial, threads = (everything(problem, fitted(problem, engine=engine)) for engine in (Serial(), Threads(3)))
    for name, value in serial.items():
        assert np.array_equal(threads[name], value), name


@pytest.mark.parametrize("normaliser", NORMALISERS)
@pytest.mark.parametrize("reading", READINGS)
def test_shards_add_up_to_the_whole(reading, normaliser):
    problem = replace(LARGE, reading=reading, normaliser=normaliser, has_gold=True).problem()
    whole = everything(problem, fitted(problem, shards=problem.shards_of(90)))
    assert_same(everything(problem, fitted(problem, shards=problem.shards_of(7))), whole, "sweeps")


def test_equal_shards_agree_to_the_last_bit_wherever_they_are_added():
    problem = LARGE.problem()
    first, again = (fitted(problem, shards=problem.shards_of(32)) for _ in range(2))
    assert first.history.totals == again.history.totals


@pytest.mark.parametrize("emission", EMISSIONS)
def test_sparse_votes_are_dense_votes(emission):
    problem = replace(LARGE, emission=emission).problem()
    dense = everything(problem, fitted(problem))
    other = replace(LARGE, emission=emission).problem()
    table = read_votes(sparse_of(problem.votes), classes=[0, 1, 2])
    other.table = table.with_abstain_as_label() if emission == "silence" else table
    assert not other.table.is_dense
    assert_same(everything(other, fitted(other)), dense, "sweeps")


@pytest.mark.parametrize("normaliser", NORMALISERS)
@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("process", ["inducing", "linear", "exact"])
def test_columns_in_float32_are_columns_in_float64(process, tilt, normaliser):
    case = replace(LARGE, process=process, tilt=tilt, normaliser=normaliser, n_items=40)
    fine = everything(problem := case.problem(), fitted(problem))
    coarse = everything(problem := replace(case, dtype="float32").problem(), fitted(problem))
    for name, value in fine.items():
        assert_close(coarse[name].astype(np.float32), value.astype(np.float32), "sweeps", message=name)
    assert coarse["ρ"].dtype == np.float32  # what there is of every item follows the features
    assert coarse["S" if tilt == "posterior" else "m"].dtype == np.float64  # what there is once does not


def test_inducing_points_at_all_items_are_the_exact_process():
    """Φ = K L⁻ᵀ = L: the same columns up to a rotation, so the same answer."""
    exact = replace(LARGE, process="exact", n_items=25).problem()
    rotated = replace(LARGE, process="exact", n_items=25).problem()
    rotation, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(25, 25)))
    rotated.phi = exact.phi @ rotation
    expected, found = everything(exact, fitted(exact)), everything(rotated, fitted(rotated))
    for name in ("ρ", "γ", "t", "a", "μ", "bound"):
        assert_close(found[name], expected[name], "sweeps", message=name)
    assert_close(rotation @ found["m"], expected["m"], "sweeps")


# -- how the model is read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normaliser", NORMALISERS)
@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("emission", EMISSIONS)
def test_with_equal_proportions_the_base_reading_is_the_joint_one(emission, tilt, normaliser):
    """τ_k σ / Σ τ σ = σ / Σ σ, and so is the bound, to the constant."""
    case = replace(LARGE, emission=emission, tilt=tilt, normaliser=normaliser, learned=False)
    joint = replace(case, reading="joint").problem()
    base = replace(case, reading="base").problem()
    base.shares = np.full(3, 1 / 3)
    expected, found = everything(joint, fitted(joint)), everything(base, fitted(base))
    for name in expected.keys() - {"b"}:  # λ is in other units
        assert_close(found[name], expected[name], "sweeps", message=name)


@pytest.mark.parametrize("normaliser", NORMALISERS)
@pytest.mark.parametrize("tilt", TILTS)
def test_one_class_in_the_conditional_reading_is_the_joint_one(tilt, normaliser):
    """All components are then one class's, and all readings the same."""
    case = replace(LARGE, n_classes=1, n_subtypes=3, tilt=tilt, normaliser=normaliser, learned=False)
    fits = []
    for reading in READINGS:
        problem = replace(case, reading=reading).problem()
        fits.append(everything(problem, fitted(problem)))
    for other in fits[1:]:
        assert_same(other, fits[0], "sweeps")


# -- without processes ------------------------------------------------------------------------------------------------

FLAT = replace(LARGE, process="flat", tilt="mean", n_subtypes=1, learned=False)


def mixture(problem):
    """ρ and μ of SWEEPS sweeps without processes or augmentation: votes, and fixed shares σ(mean_c)/Σσ."""
    model, case = problem.model, problem.case
    raised = [1 / (1 + np.exp(-x)) for x in model.process_mean.tolist()]
    shares = [x / sum(raised) for x in raised]
    if case.reading == "conditional":
        shares = model.proportions.tolist()
    if case.reading == "base":
        shares = [s * τ / sum(x * y for x, y in zip(shares, model.proportions, strict=True))
                  for s, τ in zip(shares, model.proportions, strict=True)]  # fmt: skip
    ρ = problem.start
    for _ in range(SWEEPS):
        μ, totals = model.concentration.copy(), np.zeros(model.n_components)
        for i, entries in enumerate(model.spoken):
            for c in range(model.n_components):
                totals[c] += model.weight * ρ[i, c]
                for j, label, _ in entries:
                    μ[j, label, c] += model.weight * ρ[i, c]
        rate = None if model.rate is None else model.rate + totals
        logs, constant = oracle.vote_logs(model, μ, rate)
        ρ = np.zeros_like(ρ)
        for i, entries in enumerate(model.spoken):
            powers = [
                shares[c] * np.exp(model.weight * (sum(logs[j, label, c] for j, label, _ in entries) + constant[c]))
                for c in range(model.n_components)
            ]
            ρ[i] = [power / sum(powers) for power in powers]
    return ρ, μ


@pytest.mark.parametrize("normaliser", NORMALISERS)
@pytest.mark.parametrize("tables", ["posterior", "point"])
@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("reading", ["joint", "base"])
def test_a_flat_process_with_one_subtype_is_a_mixture_without_features(reading, emission, tables, normaliser):
    case = replace(FLAT, reading=reading, emission=emission, tables=tables, normaliser=normaliser)
    problem = replace(case, weight=0.8, n_items=30).problem()
    found = everything(problem, fitted(problem))
    ρ, μ = mixture(problem)
    assert_close(found["ρ"], ρ, "sweeps")
    assert_close(found["μ"], μ, "sweeps")


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("process", ["linear", "exact"])
def test_in_the_conditional_reading_one_subtype_leaves_nothing_for_the_features_to_tell(process, emission):
    """p(m | k) = σ/σ = 1.  Where λ is integrated out that is exact: whatever the columns, the processes stay at 0."""
    case = replace(FLAT, reading="conditional", process=process, emission=emission, normaliser="collapsed", n_items=30)
    problem = case.problem()
    found = everything(problem, fitted(problem))
    ρ, μ = mixture(problem)
    assert_close(found["ρ"], ρ, "sweeps")
    assert_close(found["μ"], μ, "sweeps")
    assert_close(found["m"], np.zeros_like(found["m"]))


def test_a_flat_process_with_tables_is_ibcc_with_given_proportions():
    """ "Votes given that a source fires", Dirichlet tables, τ fixed: the oracle of another model."""
    problem = replace(FLAT, reading="joint", emission="fired", n_items=30).problem()
    found = everything(problem, fitted(problem))
    raised = 1 / (1 + np.exp(-problem.process_mean))
    prior = confusion_oracle.Prior(problem.prior.concentration, np.ones((3, 1)), None, raised / raised.sum())
    spoken, ρ = spoken_of(problem.votes), problem.start
    for _ in range(SWEEPS):
        μ, η, ν = confusion_oracle.bcc_update(spoken, ρ, prior)
        logs = confusion_oracle.expected_logs(μ, η, ν, prior.proportions)
        ρ = confusion_oracle.responsibilities(spoken, *logs, None, 1)
    assert_close(found["ρ"], ρ, "sweeps")
    assert_close(found["μ"], μ, "sweeps")


# -- prediction -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("reading", READINGS)
def test_prediction_of_training_items_is_their_responsibility(reading, emission):
    """The local step of any part of the items, with the globals held: nothing of the fit is needed but the globals."""
    problem = replace(LARGE, reading=reading, emission=emission).problem()
    fit = fitted(problem)
    ρ = problem.item_factors(fit.global_)["ρ"]
    statistics = problem.statistics(fit.global_)
    assert fit.history.totals[-1] == sum(problem.sweeps.bound(statistics, fit.global_).values())
    assert_close(statistics.totals, problem.case.weight * ρ.sum(axis=0), "sums")
    predict = partial(problem.sweeps.item_factors, global_=fit.global_)
    alone = [predict(shard)[0].responsibilities for shard in problem.shards_of(1)]
    assert_close(np.concatenate(alone), ρ)
