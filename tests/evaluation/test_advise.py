import numpy as np
import pytest
from scipy.sparse import csr_array

from labelfable import read_votes
from labelfable.errors import InputError
from labelfable.evaluation.advise import N_SAMPLED, advise, standardised, vote_indicators
from labelfable.evaluation.correlation import dependence
from tests.crowds import planted_votes
from tests.tolerances import assert_close

VOTES, TRUTH = planted_votes(600, [0.9, 0.8, 0.75, 0.7], 3, coverage=0.5)
DRAWS = np.random.default_rng(0)
NOISE = DRAWS.standard_normal((600, 5))


def test_features_that_know_the_class_should_help_and_noise_should_not():
    useful = NOISE + 2 * np.eye(5)[TRUTH]
    told = advise(read_votes(VOTES), useful)
    assert told.verdict == "strong"
    assert told.words.startswith("Features can help")
    silent = advise(read_votes(VOTES), NOISE)
    assert silent.verdict == "no"
    assert silent.words.startswith("Features should not help")
    assert silent.correlation < told.correlation


def test_numbers_are_those_of_the_parts():
    table = read_votes(VOTES)
    told = advise(table, NOISE)
    covered = (VOTES >= 0).any(axis=1)
    found = dependence(standardised(NOISE[covered]), vote_indicators(table.rows(covered)))
    assert_close(told.raw_correlation, found.correlation)
    assert told.p_value == found.p_value
    assert told.n_compared == covered.sum()
    numbers = [row[row >= 0] for row in VOTES]
    assert_close(told.uncovered, np.mean([len(row) == 0 for row in numbers]))
    assert_close(told.single, np.mean([len(row) == 1 for row in numbers]))
    assert_close(told.disputed, np.mean([len(set(row.tolist())) > 1 for row in numbers]))
    assert f"{told.disputed:.0%}" in advise(table, NOISE + 2 * np.eye(5)[TRUTH]).words


def test_units_of_features_do_not_matter_and_constant_ones_say_nothing():
    table = read_votes(VOTES)
    scaled = NOISE * [1e-9, 1, 1e3, 1e6, 1e9] + 7
    assert_close(advise(table, scaled).raw_correlation, advise(table, NOISE).raw_correlation, "sweeps")
    constant = advise(table, np.ones((600, 2)))
    assert (constant.verdict, constant.p_value) == ("no", 1.0)


def test_items_without_features_are_left_out():
    holes = np.where(np.arange(600)[:, None] % 3 == 0, np.nan, NOISE)
    told = advise(read_votes(VOTES), holes)
    assert told.n_compared == ((VOTES >= 0).any(axis=1) & (np.arange(600) % 3 > 0)).sum()
    sparse = advise(read_votes(VOTES), csr_array(NOISE))
    assert_close(sparse.raw_correlation, advise(read_votes(VOTES), NOISE).raw_correlation)


def test_indicators_are_one_column_a_source_and_label():
    table = read_votes([[0, 1], [1, -1], [-1, -1]])
    assert vote_indicators(table).tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_large_tables_are_sampled():
    votes = np.tile(VOTES, (10, 1))
    told = advise(read_votes(votes), np.tile(NOISE, (10, 1)))
    assert told.n_compared == N_SAMPLED
    assert advise(read_votes(votes), np.tile(NOISE, (10, 1))) == told


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (NOISE[:5], "600"),
        ([["x"]] * 600, "numbers"),
    ],
)
def test_features_that_cannot_be_compared_are_refused(features, message):
    with pytest.raises(InputError) as refused:
        advise(read_votes(VOTES), features)
    assert message in str(refused.value)


def test_votes_that_say_nothing_are_refused():
    with pytest.raises(InputError, match="3 items have a vote and features"):
        advise(read_votes([[0]] * 3 + [[-1]] * 9, classes=2), np.ones(12))
