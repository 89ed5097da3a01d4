"""FlyingSquid: planted accuracies come back exactly, slips are caught, and each setting does what it says."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from labelfable import read_votes
from labelfable.errors import LabelfableWarning, ModelError
from labelfable.models.flyingsquid import estimator as flyingsquid
from labelfable.models.flyingsquid.estimator import FlyingSquid
from labelfable.models.majority_vote import MajorityVote
from tests.crowds import planted_votes, soft_of
from tests.oracles.flyingsquid import population, true_agreement, true_log_odds
from tests.tolerances import STANDARD_ERRORS, assert_close

EXACT = {"min_signal": 0, "max_odds": 1e12}  # no noise to leave out, no odds to doubt


def fitted(votes, y=None, **settings) -> FlyingSquid:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        return FlyingSquid(**settings).fit(votes, y)


def fit_population(prior, truth, **settings) -> FlyingSquid:
    """A fit to the exact moments of tables `truth`: each pattern of votes weighs as much as it is probable."""
    patterns, weights = population(prior, truth)
    rows = read_votes(patterns, classes=len(prior))
    model = FlyingSquid(class_prior=list(prior), **(EXACT | settings))
    model._keep_names(rows)
    model._fit_rows(rows, weights, None)
    return model


def random_votes(n_items, n_sources, n_classes, seed):
    accuracies = np.random.default_rng(seed).uniform(0.4, 0.9, size=n_sources).tolist()
    return planted_votes(n_items, accuracies, n_classes, coverage=0.6, seed=seed)


def any_tables(n_sources, seed, *, silence="by class"):
    """Tables of two classes, every source better than chance, silence as often in both classes or not."""
    draws = np.random.default_rng(seed)
    tables = []
    for _ in range(n_sources):
        quiet = draws.uniform(0.1, 0.6, size=2) if silence == "by class" else np.full(2, draws.uniform(0.1, 0.6))
        right = draws.uniform(0.6, 0.9, size=2)
        spoken = np.array([[right[0], 1 - right[1]], [1 - right[0], right[1]]]) * (1 - quiet)
        tables.append(np.vstack((spoken, quiet)))
    return tables


def one_coin_tables(n_sources, n_classes, seed):
    """Tables of sources that are silent at random, right so often, and else say any of the wrong classes."""
    draws = np.random.default_rng(seed)
    tables = []
    for _ in range(n_sources):
        right, quiet = draws.uniform(1 / n_classes + 0.1, 0.9), draws.uniform(0.1, 0.6)
        wrong = (1 - right) / (n_classes - 1)
        spoken = (np.full((n_classes, n_classes), wrong) + (right - wrong) * np.eye(n_classes)) * (1 - quiet)
        tables.append(np.vstack((spoken, np.full(n_classes, quiet))))
    return tables


def one_label_tables(labels, seed):
    """Tables of sources that know one label each, or are silent."""
    draws = np.random.default_rng(seed)
    tables = []
    for label in labels:
        rates = np.array([0.15, 0.15]) * draws.uniform(0.5, 1.5, size=2)
        rates[label] += draws.uniform(0.2, 0.5)
        spoken = np.zeros((2, 2))
        spoken[label] = rates
        tables.append(np.vstack((spoken, 1 - rates)))
    return tables


# -- planted accuracies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("combine", ["median", "mean"])
@pytest.mark.parametrize("n_sources", [3, 4, 6])
def test_exact_moments_give_exact_agreement(n_sources, combine):
    """Equations (FS.1) to (FS.3), for any tables that are better than chance and any class prior."""
    for seed, prior in enumerate(([0.5, 0.5], [0.7, 0.3], [0.05, 0.95])):
        tables = any_tables(n_sources, seed)
        model = fit_population(prior, tables, combine=combine)
        assert_close(model.agreement_, true_agreement(prior, tables), "sums")
        assert np.all(model.triplets_ == (n_sources - 1) * (n_sources - 2) // 2)


def test_published_moments_are_exact_where_agreement_does_not_depend_on_the_class():
    for prior in ([0.5, 0.5], [0.8, 0.2]):
        tables = one_coin_tables(4, 2, seed=1)
        model = fit_population(prior, tables, moments="published")
        assert_close(model.agreement_, true_agreement(prior, tables), "sums")


def test_published_moments_are_wrong_where_it_does():
    """Why the default is another: sources that know one label seem far better or worse than they are."""
    prior, tables = [0.5, 0.5], one_label_tables([0, 0, 1, 1], seed=2)
    true = true_agreement(prior, tables)
    errors = {
        kind: np.abs(fit_population(prior, tables, moments=kind).agreement_ - true).max()
        for kind in ("centred", "published")
    }
    assert errors["published"] > 0.1
    assert errors["centred"] < 1e-3 * errors["published"]


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_one_coin_sources_get_their_exact_odds(n_classes):
    """Equation (FS.6): with all errors alike, a class against the rest is exact for any number of classes."""
    prior, tables = np.full(n_classes, 1 / n_classes), one_coin_tables(3, n_classes, seed=3)
    model = fit_population(prior, tables)
    assert_close(model.agreement_, true_agreement(prior, tables), "sums")
    assert_close(model.log_odds_, true_log_odds(prior, tables), "sums")


@pytest.mark.parametrize("tables_setting", ["symmetric", "published"])
@pytest.mark.parametrize("labels", [[0, 1, 1], [0, 0, 1, 1], [1, 1, 1]])
def test_sources_of_one_label_get_their_exact_odds(labels, tables_setting):
    """`symmetric` knows that such a source's silence tells of the class; the published tables say that it cannot."""
    prior, tables = [0.6, 0.4], one_label_tables(labels, seed=4)
    model = fit_population(prior, tables, tables=tables_setting)
    error = np.abs(model.log_odds_ - true_log_odds(prior, tables)).max()
    if tables_setting == "symmetric":
        assert_close(error, 0.0, "sums")
    else:
        assert error > 0.2


def test_published_tables_are_exact_where_silence_does_not_depend_on_the_class():
    """Equation (FS.7): right so often in one class, so often in the other."""
    for seed, prior in enumerate(([0.5, 0.5], [0.3, 0.7])):
        tables = any_tables(4, seed, silence="at random")
        model = fit_population(prior, tables, tables="published")
        assert_close(model.log_odds_, true_log_odds(prior, tables), "sums")


def test_sampled_votes_give_it_within_standard_errors():
    prior, tables = [0.6, 0.4], any_tables(5, seed=5)
    draws, found = np.random.default_rng(0), []
    for _ in range(30):
        truth = draws.choice(2, size=3000, p=prior)
        votes = np.array([draws.random(3000)[:, None] > np.cumsum(t, axis=0).T[truth] for t in tables]).sum(axis=2).T
        found.append(fitted(np.where(votes == 2, -1, votes), class_prior=prior).agreement_)
    standard_error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert np.all(standard_error < 0.01)
    assert np.all(np.abs(np.mean(found, axis=0) - true_agreement(prior, tables)) < STANDARD_ERRORS * standard_error)


# -- teeth ------------------------------------------------------------------------------------------------------------


def slip_without_root(moments, usable, combine, most, seed):
    roots, number = RIGHT(moments, usable, combine, most, seed)
    return roots**2, number


def slip_wrong_pair(moments, usable, combine, most, seed):
    """√| m_ij m_jh / m_ih |: the contrast of another source of the triplet."""
    roots, number = RIGHT(moments, usable, combine, most, seed)
    return np.roll(roots, 1), number


def slip_uncentred(moments, usable, combine, most, seed):
    """Half of what centring takes away."""
    return RIGHT(moments + 0.01, usable, combine, most, seed)


RIGHT = flyingsquid.combine_triplets


@pytest.mark.parametrize("slip", [slip_without_root, slip_wrong_pair, slip_uncentred])
def test_a_slip_in_the_triplets_does_not_pass(monkeypatch, slip):
    monkeypatch.setattr(flyingsquid, "combine_triplets", slip)
    prior, tables = [0.7, 0.3], any_tables(4, seed=1)
    with pytest.raises(AssertionError):
        assert_close(fit_population(prior, tables).agreement_, true_agreement(prior, tables), "sums")


def test_a_slip_in_the_scale_does_not_pass(monkeypatch):
    """1 − b for 1 − b², as if the classes were nearly even."""
    right = flyingsquid.expected_agreement
    monkeypatch.setattr(
        flyingsquid, "expected_agreement", lambda *given, **how: right(*given[:3], given[3] ** 2, **how)
    )
    prior, tables = [0.7, 0.3], any_tables(4, seed=1)
    with pytest.raises(AssertionError):
        assert_close(fit_population(prior, tables).agreement_, true_agreement(prior, tables), "sums")


# -- settings ---------------------------------------------------------------------------------------------------------


def test_dependencies_leave_out_the_triplets_that_hold_both():
    votes, _ = random_votes(300, 5, 2, seed=11)
    assert np.all(fitted(votes, min_signal=0).triplets_ == 6)
    for pair in (("0", "1"), (1, 0), (np.int64(0), "1")):
        model = fitted(votes, min_signal=0, dependencies=[pair])
        # of sources 0 and 1: pairs among the other three; of the others: all six pairs but (0, 1)
        assert model.triplets_[:, 0].tolist() == [3, 3, 5, 5, 5]


def test_dependencies_undo_what_a_copied_source_does():
    prior, tables = [0.5, 0.5], any_tables(4, seed=12)
    patterns, weights = population(prior, tables)
    rows = read_votes(np.column_stack((patterns, patterns[:, 0])), classes=2)
    found = {}
    for dependencies in (None, [(0, 4)]):
        model = FlyingSquid(class_prior=prior, dependencies=dependencies, combine="mean", **EXACT)
        model._keep_names(rows)
        model._fit_rows(rows, weights, None)
        found[dependencies is None] = model.agreement_
    true = true_agreement(prior, [*tables, tables[0]])
    assert_close(found[False], true, "sums")
    assert np.abs(found[True] - true).max() > 0.01


@pytest.mark.parametrize(
    ("dependencies", "message"),
    [
        ([(0, 0)], r"'0' is to depend on itself \(dependencies\[0\]\)"),
        ([(0, 1), (0, 9)], r"no source 9 \(dependencies\[1\]\).*0 to 2"),
        ([("0", "rule")], "no source 'rule'"),
        ([(0, 1, 2)], "is not a dependency.*pair"),
        ([0], "is not a dependency.*pair"),
        (["01"], "is not a dependency.*pair"),
        ([(0, 1.5)], "no source 1.5"),
        ([(True, 2)], "no source True"),
    ],
)
def test_a_dependency_that_is_none_is_a_clear_error(dependencies, message):
    with pytest.raises(ModelError, match=message):
        FlyingSquid(dependencies=dependencies).fit(random_votes(30, 3, 2, seed=0)[0])


def test_few_triplets_of_many_are_seeded_and_near_all_of_them():
    votes, _ = random_votes(2000, 30, 2, seed=13)
    full = fitted(votes)
    some = [fitted(votes, max_triplets=100, random_state=seed) for seed in (0, 0, 1)]
    assert full.triplets_.max() > 300
    assert 50 < some[0].triplets_.max() <= 100
    assert np.array_equal(some[0].agreement_, some[1].agreement_)
    assert not np.array_equal(some[0].agreement_, some[2].agreement_)
    assert np.abs(some[0].agreement_ - full.agreement_).max() < 0.1
    assert np.array_equal(fitted(votes, max_triplets=406).agreement_, full.agreement_)  # 29 · 28 / 2: all of them


def test_the_learned_prior_is_the_mean_answer_under_an_even_one():
    votes, _ = random_votes(400, 5, 3, seed=14)
    even = fitted(votes)
    covered = (votes >= 0).any(axis=1)
    shares = even.predict_proba(votes)[covered].mean(axis=0)
    model = fitted(votes, class_prior="learned")
    assert_close(model.class_prior_, shares, "sums")
    assert_close(model.predict_proba(votes), fitted(votes, class_prior=shares).predict_proba(votes), "sums")


def test_no_vote_counts_for_more_than_max_odds():
    votes = np.repeat(np.array([0, 1] * 50)[:, None], 4, axis=1)
    for most in (3.0, 19.0):
        assert_close(np.abs(fitted(votes, max_odds=most).log_odds_).max(), np.log(most))


# -- known labels -----------------------------------------------------------------------------------------------------


def test_known_labels_take_over_as_they_grow():
    """Equation (FS.5), from what the votes alone say to what is counted."""
    votes, truth = random_votes(3000, 4, 2, seed=15)
    counted = np.array([np.mean(np.where(v < 0, 0, np.where(v == truth, 1, -1))) for v in votes.T])
    coverage = (votes >= 0).mean(axis=0)
    alone = fitted(votes).agreement_[:, 1]
    known = fitted(votes, truth).agreement_[:, 1]
    share = 20 / (20 + 3000 * coverage)
    assert_close(known, (1 - share) * counted + share * alone, "sums")


def test_a_source_known_to_be_wrong_is_turned_round():
    votes, truth = random_votes(500, 4, 2, seed=16)
    votes[:, 3] = np.where(np.arange(500) % 10 == 0, truth, 1 - truth)
    model = fitted(votes, truth)
    assert model.agreement_[3, 1] < -0.5
    assert model.log_odds_[3, 1, 1] < 0 < model.log_odds_[3, 0, 1]


# -- edges ------------------------------------------------------------------------------------------------------------


def test_lone_votes_count_and_the_report_names_their_sources():
    votes = np.array([[0, -1, -1, -1], [-1, 1, -1, -1], [-1, -1, 2, -1], [-1, -1, -1, 0]] * 10)
    model = fitted(votes, min_signal=5)
    assert np.array_equal(model.predict(votes), votes.max(axis=1))
    assert "4 of 4 sources have no usable triplet" in model.report_.notes[0]


def test_a_class_without_votes_is_given_to_no_item_with_votes():
    for seed in range(5):
        votes, _ = random_votes(100, 5, 3, seed=seed)
        votes = votes[(votes >= 0).any(axis=1)]
        model = fitted(read_votes(votes, classes=5), min_signal=0)
        assert set(model.predict(votes).tolist()) <= {0, 1, 2}
        assert np.all(model.triplets_[:, 3:] == 0)
        assert model.report_.notes == []


def test_soft_votes_are_weights_of_hard_ones():
    votes, truth = random_votes(400, 5, 3, seed=17)
    hard = np.where(votes[:, :, None] >= 0, np.eye(3)[np.maximum(votes, 0)], 0.0)
    assert_close(fitted(hard).predict_proba(hard), fitted(votes).predict_proba(votes), "sums")
    soft = soft_of(votes, 3)
    covered = (votes >= 0).any(axis=1)
    right = np.mean(fitted(soft).predict(soft)[covered] == truth[covered])
    assert right > np.mean(MajorityVote().fit(soft).predict(soft)[covered] == truth[covered]) - 0.02


def test_exclusion_votes_speak_against_one_class_alone():
    words = np.array(
        [["a", "b", "c", "not c", None][v] for v in np.random.default_rng(0).integers(5, size=1200)], dtype=object
    )
    words = words.reshape(300, 4)
    table = read_votes(words, classes=["a", "b", "c"], exclusions={"not c": "c"})
    odds = fitted(table).log_odds_
    assert np.all(odds[:, 3, :2] == 0)
    assert np.all(odds[:, 3, 2] < 0)


def test_two_classes_and_an_exclusion_are_plain_votes():
    votes, _ = random_votes(200, 4, 2, seed=18)
    words = np.array(["no", "yes", None], dtype=object)[votes]
    other = np.where(words == "no", "not yes", words)
    table = read_votes(other, classes=["no", "yes"], exclusions={"not yes": "yes"})
    plain = fitted(read_votes(words, classes=["no", "yes"]), min_signal=0)
    assert np.all(plain.triplets_ > 0)  # agreement, the last resort, counts votes that name a class
    assert_close(fitted(table, min_signal=0).predict_proba(table), plain.predict_proba(words), "sums")
