"""Items drawn from the model's own story: its labels are found nearly as well as by who knows all parameters."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from labelfable.inference.convergence import Stopping
from labelfable.inference.execution import Serial
from labelfable.inference.shards import cut
from labelfable.inference.sweep import run_sweeps
from labelfable.models.fable.emission import Emission
from labelfable.models.fable.emission_prior import PriorSettings, vote_prior
from labelfable.models.fable.projection import Projected
from labelfable.models.fable.reading import Reading
from labelfable.models.fable.starts import subtype_starts
from labelfable.models.fable.steps import FableShard, FableSweeps
from labelfable.votes import read_votes
from tests.fable_planted import planted
from tests.tolerances import MEAN_FIELD_SLACK, TOLERANCE

N_CLASSES = 3
STRENGTH = 4.0


@functools.cache
def items(seed: int, n_subtypes: int = 1):
    if n_subtypes == 1:
        return planted(3000, strength=STRENGTH, seed=seed)
    return planted(2000, n_subtypes=n_subtypes, n_sources=12, strength=STRENGTH, right=(0.3, 0.95), seed=seed)


def fitted(data, *, n_subtypes=1, emission="fired", tilt="posterior", normaliser="collapsed"):
    """Class probabilities and the last bound of the best start; priors are the story's where it has one."""
    table = read_votes(data.votes, classes=list(range(N_CLASSES)))
    phi = data.features * STRENGTH / np.sqrt(data.features.shape[1])
    best = None
    for size, start in subtype_starts(table, None, phi, (n_subtypes, 2, 0)):
        sweeps = FableSweeps(
            reading=Reading("joint", N_CLASSES, size),
            emission=Emission(emission),
            layout=table.layout,
            vote_prior=vote_prior(table, emission, PriorSettings(), size),
            process_mean=np.zeros(N_CLASSES * size),
            class_prior=None,
            log_proportions=np.full(N_CLASSES, -np.log(N_CLASSES)),
            is_point=tilt == "mean",
            normaliser=normaliser,
        )
        shards = [
            FableShard(shard, Projected(phi, np.zeros(len(phi))), start)
            for shard in cut(table, np.ones(table.n_items), None, table.n_items)
        ]
        fit = run_sweeps(sweeps, shards, Serial(), Stopping(0.0, 100, 1))
        totals = np.array(fit.history.totals)
        assert np.all(np.diff(totals) >= -TOLERANCE["float64"].climb * np.abs(totals[1:]))
        if best is None or totals[-1] > best[1]:
            ρ = sweeps.item_factors(shards[0], fit.global_)[0].responsibilities
            best = sweeps.reading.class_sum(ρ), totals[-1], size
    return best


def accuracy(data, probabilities):
    return float((probabilities.argmax(axis=1) == data.truth).mean())


def log_loss(data, probabilities):
    return float(-np.log(probabilities[np.arange(len(data.truth)), data.truth]).mean())


@pytest.mark.parametrize("tilt", ["posterior", "mean"])
@pytest.mark.parametrize("emission", ["fired", "pattern", "rates"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_planted_labels_are_found_nearly_as_well_as_can_be(seed, emission, tilt):
    """More than half of what the features add to known tables, although tables and processes are learned as well."""
    data = items(seed)
    found, _, _ = fitted(data, emission=emission, tilt=tilt)
    assert accuracy(data, found) > accuracy(data, data.by_both) - MEAN_FIELD_SLACK
    assert accuracy(data, found) > (accuracy(data, data.by_both) + accuracy(data, data.by_votes)) / 2
    assert log_loss(data, found) < (log_loss(data, data.by_both) + log_loss(data, data.by_votes)) / 2


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_factor_of_its_own_for_λ_costs_part_of_the_signal(seed):
    """It loses most where σ is small, so that processes flee to where σ is flat; integrated out it loses nothing."""
    data = items(seed)
    (collapsed, higher, _), (factored, lower, _) = (fitted(data, normaliser=name) for name in ("collapsed", "factored"))
    assert higher > lower
    assert log_loss(data, collapsed) < log_loss(data, factored)
    assert accuracy(data, collapsed) > accuracy(data, factored)


def test_planted_subtypes_are_worth_having():
    """Two subtypes a class, each with tables and a process of its own: the bound asks for them, and is right to."""
    data = items(0, n_subtypes=2)
    one, alone, _ = fitted(data)
    two, together, size = fitted(data, n_subtypes=2)
    assert size == 2
    assert together > alone
    assert log_loss(data, two) < log_loss(data, one)
    assert accuracy(data, two) > accuracy(data, one)
