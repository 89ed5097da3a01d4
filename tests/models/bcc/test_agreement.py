"""iBCC and EBCC agree with the exact posterior, with a sampler, and with themselves in every form of the same votes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelfable import EBCC, IBCC, read_votes
from labelfable.inference import shards as shards_module
from labelfable.models import confusion as confusion_module
from labelfable.models.bcc import estimator as bcc_module
from labelfable.numerics.random import BLOCK_ITEMS
from labelfable.votes.table import VoteTable
from tests.crowds import planted_votes, sparse_of
from tests.oracles import confusion as oracle
from tests.oracles.gibbs import ibcc_posterior
from tests.problems import (
    BCC_CASES,
    FIRM,
    GOLD,
    N_CLASSES,
    REPEATED,
    REPEATED_GOLD,
    VOTES,
    BCCProblem,
    fitted,
    prior_of,
)
from tests.tolerances import MEAN_FIELD_SLACK, STANDARD_ERRORS, TOLERANCE, assert_close
from tests.walk import setting_of

# -- 5: the posterior itself ------------------------------------------------------------------------------------------

SMALL, _ = planted_votes(9, [0.9, 0.8, 0.85], 2, seed=2)


@pytest.mark.parametrize("proportions", [None, np.array([0.6, 0.4])], ids=["learned", "fixed"])
def test_the_sampler_draws_from_the_exact_posterior(proportions):
    """Two oracles that know nothing of each other."""
    prior = prior_of(IBCC(abstain="missing", right=4.0, wrong=1.0), SMALL, proportions, 2)
    exact = oracle.bcc_exact_posterior(oracle.spoken_of(SMALL), prior)
    sampled, noise = ibcc_posterior(SMALL, prior, n_draws=4000, n_burn=200)
    assert np.all(np.abs(sampled - exact) < STANDARD_ERRORS * noise + TOLERANCE["float64"].rounding)
    assert noise.max() < 0.02


def test_mean_field_tends_to_the_exact_posterior_as_the_tables_become_known():
    """What is left is that the factors ignore each other, which matters less the firmer the prior is."""
    distances = []
    for counts in (10.0, 40.0, 160.0, 640.0, 2560.0):
        model = IBCC(abstain="missing", class_prior=[0.6, 0.4], right=0.8 * counts, wrong=0.2 * counts)
        exact = oracle.bcc_exact_posterior(oracle.spoken_of(SMALL), prior_of(model, SMALL, np.array([0.6, 0.4]), 2))
        found = fitted(model, SMALL, max_iter=50).predict_proba(SMALL)
        assert np.array_equal(found.argmax(axis=1), exact.argmax(axis=1))
        distances.append(np.abs(found - exact).mean())
    assert np.all(np.diff(distances) < 0)
    assert distances[-1] < distances[0] / 100


def test_mean_field_agrees_with_the_sampler_on_a_well_identified_problem():
    votes, _ = planted_votes(120, [0.9, 0.85, 0.8, 0.75, 0.9], N_CLASSES, coverage=0.9, seed=4)
    model = IBCC(abstain="missing", class_prior="learned", **FIRM)
    found = fitted(model, votes, max_iter=100).predict_proba(votes)
    sampled, noise = ibcc_posterior(votes, prior_of(model, votes), n_draws=600, n_burn=100)
    clear = sampled.max(axis=1) > 0.6
    assert clear.mean() > 0.9
    assert np.array_equal(found[clear].argmax(axis=1), sampled[clear].argmax(axis=1))
    assert np.abs(found - sampled).mean() < MEAN_FIELD_SLACK + STANDARD_ERRORS * noise.mean()


# -- 6: what should coincide does -------------------------------------------------------------------------------------


@pytest.mark.parametrize("class_prior", ["learned", "votes"])
def test_ebcc_with_one_subtype_is_ibcc(class_prior):
    params = {"class_prior": class_prior, "abstain": "label", "right": 0.3, "wrong": 0.1}
    one, other = fitted(IBCC(**params), VOTES, GOLD), fitted(EBCC(1, n_init=4, **params), VOTES, GOLD)
    assert np.array_equal(one.predict_proba(VOTES), other.predict_proba(VOTES))
    assert np.array_equal(one.vote_concentration_, other.vote_concentration_)
    assert one.report_.objective == other.report_.objective


@pytest.mark.parametrize("abstain", ["missing", "label"])
def test_sparse_votes_are_dense_votes(abstain):
    tables = [same_rows(votes) for votes in (VOTES, sparse_of(VOTES))]  # random starts belong to rows: keep their order
    one, other = (fitted(EBCC(2, abstain=abstain), table, GOLD) for table in tables)
    assert not tables[1].is_dense
    assert_close(one.predict_proba(VOTES), other.predict_proba(sparse_of(VOTES)), "sweeps")
    assert_close(one.report_.objective, other.report_.objective, "sweeps")


class AllRows(VoteTable):
    """A table whose rows all count as distinct."""

    def distinct(self, _gold=None):
        return self, np.arange(self.n_items), np.ones(self.n_items)


def same_rows(votes):
    table = read_votes(votes)
    return AllRows(**{name: getattr(table, name) for name in table.__dataclass_fields__})


@pytest.mark.parametrize("gold", [None, REPEATED_GOLD], ids=["no gold", "gold"])
def test_distinct_rows_are_all_rows(gold):
    """With one subtype, as random starts belong to rows."""
    one, other = fitted(IBCC(), REPEATED, gold), fitted(IBCC(), same_rows(REPEATED), gold)
    assert one.report_.n_distinct < other.report_.n_distinct == len(REPEATED)
    assert_close(one.predict_proba(REPEATED), other.predict_proba(REPEATED), "sweeps")
    assert_close(one.report_.objective, other.report_.objective, "sums")


@pytest.fixture
def many_rows():
    """More rows than one block of random draws, so that a cut could matter."""
    votes, _ = planted_votes(BLOCK_ITEMS + 500, [0.8, 0.6, 0.7, 0.9, 0.6, 0.7, 0.5, 0.8, 0.8, 0.6], N_CLASSES)
    table = read_votes(votes)
    assert table.distinct()[0].n_items > BLOCK_ITEMS
    return table


@pytest.fixture
def short_shards(monkeypatch):
    monkeypatch.setattr(shards_module, "FEWEST_ITEMS", BLOCK_ITEMS)
    monkeypatch.setattr(shards_module, "MOST_ITEMS", BLOCK_ITEMS)


def test_shards_are_the_whole(many_rows, request):
    few_sweeps = {"max_iter": 3, "n_init": 1}
    whole = fitted(EBCC(2), many_rows, **few_sweeps)
    request.getfixturevalue("short_shards")
    assert len(setting_of(EBCC(2), bcc_module, many_rows).shards) == 2
    cut = fitted(EBCC(2), many_rows, **few_sweeps)
    assert_close(whole.predict_proba(many_rows), cut.predict_proba(many_rows), "sweeps")
    assert_close(whole.report_.objective, cut.report_.objective, "sums")


@pytest.mark.usefixtures("short_shards")
def test_threads_are_serial_bit_for_bit(many_rows):
    serial, threads = (fitted(EBCC(2), many_rows, max_iter=3, n_init=1, n_jobs=jobs) for jobs in (1, 2))
    assert serial.report_.history == threads.report_.history
    assert np.array_equal(serial.vote_concentration_, threads.vote_concentration_)
    assert np.array_equal(serial.predict_proba(many_rows), threads.predict_proba(many_rows))


@pytest.mark.parametrize("name", [name for name, (_, _, gold) in BCC_CASES.items() if gold is not None])
def test_known_classes_are_held_while_fitting(name):
    problem = BCCProblem(name)
    known, n_subtypes = problem.gold >= 0, problem.prior.subtypes.shape[1]
    for state in problem.setting.walk(2):
        by_class = state.responsibilities.reshape(len(problem.gold), N_CLASSES, n_subtypes).sum(axis=2)
        assert_close(by_class[known], np.eye(N_CLASSES)[problem.gold[known]])
        assert np.all(by_class[~known] > 0)


def test_the_start_with_the_highest_bound_is_kept():
    best = fitted(EBCC(3, n_init=6, random_state=0), VOTES).report_.objective[-1]
    each = [fitted(EBCC(3, n_init=1, random_state=seed), VOTES).report_.objective[-1] for seed in range(6)]
    assert best == max(each)
    assert len(set(each)) > 1


# -- 7: invariance ----------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n_subtypes=st.integers(1, 2), abstain=st.sampled_from(["missing", "label"]))
def test_permuting_items_sources_classes_or_subtypes_permutes_a_sweep(seed, n_subtypes, abstain):
    """One sweep from any globals: random starts belong to rows, so a whole fit of EBCC is permuted only in law."""
    draws = np.random.default_rng(seed)
    votes = draws.integers(-1, N_CLASSES, size=(8, 4))
    n_labels = N_CLASSES + (abstain == "label")
    μ = draws.gamma(2.0, size=(4, n_labels, N_CLASSES * n_subtypes)) + 0.1
    η, ν = draws.gamma(2.0, size=(N_CLASSES, n_subtypes)) + 0.1, draws.gamma(2.0, size=N_CLASSES) + 0.1
    sweep = partial(one_sweep, n_subtypes=n_subtypes, abstain=abstain)
    expected = sweep(votes, μ, η, ν)

    items = draws.permutation(len(votes))
    found = sweep(votes[items], μ, η, ν)
    assert_close(found["ρ"], expected["ρ"][items], "sums", message="items")
    assert_close(found["μ"], expected["μ"], "sums", message="items")

    sources = draws.permutation(4)
    found = sweep(votes[:, sources], μ[sources], η, ν)
    assert_close(found["μ"], expected["μ"][sources], "sums", message="sources")
    assert_close(found["bound"], expected["bound"], "sums", message="sources")

    # new class number k and subtype number m are the old classes[k] and subtypes[m]
    classes, subtypes = draws.permutation(N_CLASSES), draws.permutation(n_subtypes)
    components = (classes[:, None] * n_subtypes + subtypes).ravel()
    labels = np.append(classes, range(N_CLASSES, n_labels)).astype(int)
    renamed = np.append(np.argsort(classes), -1)[votes]
    found = sweep(renamed, μ[:, labels][:, :, components], η[classes][:, subtypes], ν[classes])
    assert_close(found["ρ"], expected["ρ"][:, components], "sums", message="classes")
    assert_close(found["μ"], expected["μ"][:, labels][:, :, components], "sums", message="classes")
    assert_close(found["η"], expected["η"][classes][:, subtypes], "sums", message="classes")
    assert_close(found["ν"], expected["ν"][classes], "sums", message="classes")
    assert_close(found["bound"], expected["bound"], "sums", message="classes")


def one_sweep(votes, μ, η, ν, *, n_subtypes, abstain):
    model = EBCC(n_subtypes, abstain=abstain, class_prior="learned")
    setting = setting_of(model, bcc_module, read_votes(votes, classes=N_CLASSES))
    given = setting.sweeps.globals_of(μ, ν, η)
    (shard,) = setting.shards
    ρ = confusion_module.responsibilities(shard, given.logs, N_CLASSES)[0][setting.row_of_item]
    statistics = setting.sweeps.local_step(shard, None, given)[1]
    bound = sum(setting.sweeps.bound(statistics, given).values())
    return {"ρ": ρ, "bound": bound, **BCCProblem.factors_of(setting.sweeps.global_step(statistics))}


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), abstain=st.sampled_from(["missing", "label"]))
def test_permuting_items_sources_or_classes_permutes_a_whole_fit_of_ibcc(seed, abstain):
    draws = np.random.default_rng(seed)
    votes = draws.integers(-1, N_CLASSES, size=(10, 3))
    items, sources, classes = draws.permutation(10), draws.permutation(3), draws.permutation(N_CLASSES)

    def probabilities(of):
        table = read_votes(of, classes=N_CLASSES)
        return fitted(IBCC(abstain=abstain), table, max_iter=4).predict_proba(table)

    expected = probabilities(votes)
    assert_close(probabilities(votes[items]), expected[items], "sweeps", message="items")
    assert_close(probabilities(votes[:, sources]), expected, "sweeps", message="sources")
    assert_close(probabilities(np.append(classes, -1)[votes])[:, classes], expected, "sweeps", message="classes")
