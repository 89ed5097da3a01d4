"""Names do not matter: permuting items, sources, classes or subtypes permutes the answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fable_problems import EMISSIONS, NORMALISERS, READINGS, TILTS, Case
from tests.tolerances import assert_close

SWEEPS = 4


@st.composite
def cases(draw):
    return Case(
        reading=draw(st.sampled_from(READINGS)),
        emission=draw(st.sampled_from(EMISSIONS)),
        tilt=draw(st.sampled_from(TILTS)),
        process=draw(st.sampled_from(["exact", "inducing", "linear"])),
        tables=draw(st.sampled_from(["posterior", "point"])),
        n_classes=draw(st.integers(2, 3)),
        n_subtypes=draw(st.integers(1, 3)),
        learned=draw(st.booleans()),
        normaliser=draw(st.sampled_from(NORMALISERS)),
        weight=draw(st.sampled_from([1.0, 0.6])),
        has_gold=draw(st.booleans()),
        n_items=draw(st.integers(4, 9)),
        seed=draw(st.integers(0, 99)),
    )


def answer(problem):
    global_, totals = problem.run(SWEEPS)
    return problem.item_factors(global_)["ρ"], totals


def reordered(case, *, items=None, sources=None, components=None, classes=None):
    """The same problem under other names; `components` and `classes` say which old one each new one is."""
    problem, told = case.problem(), case.problem()
    if items is not None:
        told.votes, told.phi, told.residual = problem.votes[items], problem.phi[items], problem.residual[items]
        told.start = problem.start[items]
        told.gold = None if problem.gold is None else problem.gold[items]
    if sources is not None:
        told.votes = problem.votes[:, sources]
        told.prior = replace(problem.prior, concentration=problem.prior.concentration[sources])
    if components is not None:
        rate = None if problem.prior.rate is None else problem.prior.rate[components]
        told.prior = replace(told.prior, concentration=problem.prior.concentration[:, :, components], rate=rate)
        told.process_mean, told.start = problem.process_mean[components], problem.start[:, components]
    if classes is not None:
        new_name = np.append(np.argsort(classes), -1)  # −1 picks the last
        labels = np.append(classes, np.arange(case.n_classes, told.prior.concentration.shape[1]))
        told.votes = new_name[problem.votes]
        told.gold = None if problem.gold is None else new_name[problem.gold]
        told.prior = replace(told.prior, concentration=told.prior.concentration[:, labels])
        told.shares = None if problem.shares is None else problem.shares[classes]
        told.class_prior = None if problem.class_prior is None else problem.class_prior[classes]
    return told


def shuffled(length, seed):
    return np.random.default_rng(seed).permutation(length)


def assert_permuted(case, told, items=slice(None), components=slice(None)):
    ρ, totals = answer(case.problem())
    found, found_totals = answer(told)
    assert_close(found, ρ[items][:, components], "sweeps")
    assert_close(np.array(found_totals), np.array(totals), "sweeps")


@settings(deadline=None, max_examples=20)
@given(case=cases(), seed=st.integers(0, 99))
def test_items(case, seed):
    order = shuffled(case.n_items, seed)
    assert_permuted(case, reordered(case, items=order), items=order)


@settings(deadline=None, max_examples=20)
@given(case=cases(), seed=st.integers(0, 99))
def test_sources(case, seed):
    assert_permuted(case, reordered(case, sources=shuffled(case.n_sources, seed)))


@settings(deadline=None, max_examples=20)
@given(case=cases(), seed=st.integers(0, 99))
def test_classes(case, seed):
    classes = shuffled(case.n_classes, seed)
    components = (classes[:, None] * case.n_subtypes + np.arange(case.n_subtypes)).ravel()
    assert_permuted(case, reordered(case, classes=classes, components=components), components=components)


@settings(deadline=None, max_examples=20)
@given(case=cases(), seed=st.integers(0, 99))
def test_subtypes(case, seed):
    components = np.concatenate(
        [k * case.n_subtypes + shuffled(case.n_subtypes, [seed, k]) for k in range(case.n_classes)]
    )
    assert_permuted(case, reordered(case, components=components), components=components)
