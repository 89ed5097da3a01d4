"""The prior of the votes, against loops, in every emission, scale and sharing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from labelfable.errors import ModelError
from labelfable.models.fable.emission_prior import PriorSettings, class_support, vote_prior
from labelfable.votes import read_votes
from tests.crowds import planted_votes
from tests.fable_problems import EMISSIONS
from tests.oracles import fable_prior as oracle
from tests.oracles.confusion import spoken_of
from tests.tolerances import assert_close

VOTES, _ = planted_votes(30, [0.9, 0.6, 0.7, 0.8], 3)
VOTES[:, 3] = np.where(np.arange(30) == 4, 2, -1)  # a source that votes once
VOTES[:, 2] = np.where(VOTES[:, 2] < 0, 0, VOTES[:, 2])  # one that always does
OTHERS = {"accuracy": 0.7, "flat": 0.03, "rarity": 0.6, "strength": 2.0, "silence_weight": 0.3}


def heard(votes, emission, **names):
    table = read_votes(votes, **names)
    return table.with_abstain_as_label() if emission == "silence" else table


@pytest.mark.parametrize("n_subtypes", [1, 3])
@pytest.mark.parametrize(("scale", "sharing"), list(product(("proportional", "counts"), ("source", "shared"))))
@pytest.mark.parametrize("emission", EMISSIONS)
def test_the_prior_is_the_oracles(emission, scale, sharing, n_subtypes):
    rows = heard(VOTES, emission, classes=[0, 1, 2])
    for others in ({}, OTHERS, {"strength": 0.0}, {"silence_weight": 0.0}):
        settings = PriorSettings(scale=scale, sharing=sharing, **others)
        found = vote_prior(rows, emission, settings, n_subtypes)
        spoken = spoken_of(VOTES, 3 if emission == "silence" else None)
        β, rate = oracle.vote_prior(spoken, rows.meaning, emission, settings, n_sources=4, n_subtypes=n_subtypes)
        assert_close(found.concentration, β)
        assert (found.rate is None) == (rate is None)
        if rate is not None:
            assert_close(found.rate, rate)
        assert np.all(found.concentration > 0)


@pytest.mark.parametrize("scale", ["proportional", "counts"])
@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("exclusions", [None, {2: 0}])
def test_with_strengths_to_learn_the_prior_begins_as_the_set_one(emission, scale, exclusions):
    """Whatever labels mean, and with x and y apart: only what speaks for the class grows with x."""
    rows = heard(VOTES, emission, classes=[0, 1] if exclusions else [0, 1, 2], exclusions=exclusions)
    fixed = vote_prior(rows, emission, PriorSettings(scale=scale, **OTHERS), 2)
    found = vote_prior(rows, emission, PriorSettings(scale=scale, sharing="hierarchical_strength", **OTHERS), 2)
    assert_close(found.concentration, fixed.concentration)
    assert_close(np.array(found.hierarchy.start), np.array([1.4, 0.6]))
    assert (found.rate is None) == (fixed.rate is None)
    if found.rate is not None:
        assert_close(found.rate, fixed.rate)
    moved = found.at((2.8, 0.6))
    speaks = np.repeat(rows.meaning[: rows.n_spoken] == rows.meaning.max(axis=1)[: rows.n_spoken, None], 2, axis=1)
    own = np.broadcast_to(speaks, (rows.n_sources, *speaks.shape))
    spoken, before = (x.concentration[:, : rows.n_spoken] - OTHERS["flat"] / 2 for x in (moved, fixed))
    assert_close(spoken[own], 2 * before[own])
    assert_close(spoken[~own], before[~own])
    if emission == "silence":  # it speaks for every class: x + y alone counts
        silent = [x.concentration[:, -1] - OTHERS["flat"] / 2 for x in (moved, fixed)]
        assert_close(silent[0], 1.7 * silent[1])


def test_strengths_cannot_be_learned_around_zero():
    with pytest.raises(ModelError, match="around the strength that is set, and that is 0"):
        vote_prior(heard(VOTES, "fired"), "fired", PriorSettings(strength=0, sharing="hierarchical"), 1)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_without_a_single_vote_the_prior_is_flat_and_proper(emission):
    found = vote_prior(heard(np.full((5, 2), -1), emission, classes=[0, 1]), emission, PriorSettings(), 1)
    assert np.all(np.isfinite(found.concentration))
    assert np.all(found.concentration > 0)


def test_labels_support_what_they_mean():
    """A class, an exclusion (all others), silence (all); with one class everything is sure."""
    meaning = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])
    expected = np.where(meaning > 0, 0.8, 0.1)
    assert_close(class_support(meaning, 0.8), expected)
    assert np.array_equal(class_support(np.ones((2, 1)), 0.8), np.ones((2, 1)))


def test_in_proportion_a_source_is_held_to_its_name_whatever_its_size():
    """Its prior mean does not depend on how often it votes; in counts neither does its weight."""
    rows = heard(VOTES, "fired", classes=[0, 1, 2])
    β = vote_prior(rows, "fired", PriorSettings(flat=1e-12), 1).concentration
    means = β / β.sum(axis=1, keepdims=True)
    assert_close(means[0], means[3], "sums")
    assert_close(β.sum(axis=1)[:, 0] * 3, rows.label_counts().sum(axis=1), "sums")
    β = vote_prior(rows, "fired", PriorSettings(flat=1e-12, scale="counts", strength=5.0), 1).concentration
    assert_close(β.sum(axis=1), np.full((4, 3), 5.0), "sums")


def test_a_rates_prior_mean_leans_from_the_labels_own_rate():
    rows = heard(VOTES, "rates", classes=[0, 1, 2])
    for scale in ("proportional", "counts"):
        found = vote_prior(rows, "rates", PriorSettings(flat=1e-12, scale=scale), 2)
        own = rows.label_counts() / rows.n_items
        lean = 3 * class_support(rows.meaning, 0.85)
        assert_close(found.concentration / found.rate, np.repeat(own[:, :, None] * lean, 2, axis=2), "sweeps")


def test_rarity_moves_a_pattern_from_one_meaning_of_accuracy_to_the_other():
    """At 1 every class's own label has the same share of its class's prior; at 0 as many as it was given."""
    rows = heard(VOTES, "pattern", classes=[0, 1, 2])
    given = rows.label_counts().sum(axis=0)
    for rarity, sizes in ((1.0, np.ones(3)), (0.0, given)):
        β = vote_prior(rows, "pattern", PriorSettings(flat=1e-12, rarity=rarity), 1).concentration
        own = np.diagonal(β.sum(axis=0))
        assert_close(own / own.sum(), sizes / sizes.sum(), "sweeps")
