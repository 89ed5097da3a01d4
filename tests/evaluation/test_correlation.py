import math
import tracemalloc

import numpy as np
import pytest

from labelfable.errors import InputError
from labelfable.evaluation import correlation
from labelfable.evaluation.correlation import dependence, distance_correlation, pair_sums
from tests.oracles import correlation as oracle
from tests.tolerances import STANDARD_ERRORS, assert_close

CASES = {
    "one column each": lambda draws, n: (draws.standard_normal((n, 1)), draws.standard_normal((n, 1))),
    "many ties": lambda draws, n: (draws.integers(3, size=(n, 1)), draws.integers(2, size=(n, 1))),
    "the same": lambda draws, n: 2 * (draws.standard_normal((n, 1)),),
    "backwards": lambda _, n: (np.arange(n)[:, None], -np.arange(n)[:, None]),
    "several columns": lambda draws, n: (draws.standard_normal((n, 3)), draws.integers(2, size=(n, 4))),
    "one against several": lambda draws, n: (draws.standard_normal((n, 1)), draws.standard_normal((n, 2))),
    "far from zero": lambda draws, n: (1e6 + draws.standard_normal((n, 1)), draws.standard_normal((n, 1)) - 1e6),
    "constant": lambda draws, n: (np.ones((n, 1)), draws.standard_normal((n, 1))),
}


def sides(case, n, seed=0):
    return [np.asarray(side, dtype=np.float64) for side in CASES[case](np.random.default_rng(seed), n)]


@pytest.mark.parametrize("n", [4, 7, 16, 33])
@pytest.mark.parametrize("case", CASES)
def test_correlation_is_that_of_the_definition(case, n):
    left, right = sides(case, n)
    assert_close(distance_correlation(left, right), oracle.correlation(left.tolist(), right.tolist()), "minimum")
    sums = pair_sums(left - left[:1], right - right[:1])
    assert_close(sums.covariance, oracle.covariance(left.tolist(), right.tolist()), "sums")
    assert_close(sums.unbiased_covariance, oracle.unbiased_covariance(left.tolist(), right.tolist()), "sums")


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 100, 257, 1000])
@pytest.mark.parametrize("n_values", [2, 10, 10**6])
def test_the_fast_sums_of_one_column_are_those_of_all_pairs(n, n_values):
    draws = np.random.default_rng(n)
    x, y = (draws.integers(n_values, size=(n, 1)).astype(float) for _ in range(2))
    fast, plain = pair_sums(x, y), correlation._sums_by_blocks(x, y)
    for name in ("products", "left", "right"):
        assert_close(np.asarray(getattr(fast, name)), np.asarray(getattr(plain, name)), "sums", message=name)


def test_blocks_do_not_change_the_answer_and_bound_the_memory(monkeypatch):
    left, right = sides("several columns", 3000)
    whole = pair_sums(left, right)
    monkeypatch.setattr(correlation, "BLOCK_BYTES", 2**20)
    tracemalloc.start()
    cut = pair_sums(left, right)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20  # one matrix of all pairs would take 72 MB
    assert_close(cut.covariance, whole.covariance, "sums")


def test_many_items_of_one_column_are_no_matter():
    draws = np.random.default_rng(0)
    x = draws.standard_normal(300_000)
    tracemalloc.start()
    found = dependence(x, x**2)  # uncorrelated, and wholly dependent
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300 * x.nbytes
    assert found.correlation > 0.4
    assert found.p_value < 1e-9


def test_turning_scaling_and_moving_change_nothing():
    left, right = sides("several columns", 60)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    assert_close(
        distance_correlation(1e150 * (left @ turn) + 5e150, right), distance_correlation(left, right), "sweeps"
    )
    assert_close(distance_correlation(1e-200 * left, right), distance_correlation(left, right), "sweeps")
    assert_close(distance_correlation(right, left), distance_correlation(left, right))
    assert_close(distance_correlation(left, 3 * left @ turn - 1), 1.0, "sweeps")


def test_the_test_of_independence_keeps_its_level_and_finds_dependence():
    draws = np.random.default_rng(0)
    runs = 300
    pairs = [(draws.standard_normal((60, 2)), draws.integers(2, size=(60, 3))) for _ in range(runs)]
    p_values = [dependence(*pair).p_value for pair in pairs]
    rejected = np.mean(np.array(p_values) < 0.1)
    assert abs(rejected - 0.1) < STANDARD_ERRORS * math.sqrt(0.1 * 0.9 / runs)
    unbiased = [dependence(draws.standard_normal(40), draws.standard_normal(40)).unbiased for _ in range(runs)]
    assert abs(np.mean(unbiased)) < STANDARD_ERRORS * np.std(unbiased) / math.sqrt(runs)
    angle = draws.uniform(0, 2 * math.pi, 200)
    assert dependence(np.cos(angle), np.sin(angle)).p_value < 1e-6  # on a circle, without any linear correlation


def test_a_side_that_does_not_vary_says_nothing():
    found = dependence(np.ones(10), np.arange(10))
    assert (found.correlation, found.unbiased, found.p_value) == (0.0, 0.0, 1.0)


REFUSED = {
    "are too few": ([1, 2, 3], [1, 2, 3]),
    "5 and 4 items": (np.arange(5), np.arange(4)),
    "no number": ([1, 2, math.nan, 3], [1, 2, 3, 4]),
    "does not hold numbers": (["a", "b", "c", "d"], [1, 2, 3, 4]),
    "has shape (4, 0)": (np.ones((4, 0)), np.ones(4)),
    "has shape (4, 1, 1)": (np.ones((4, 1, 1)), np.ones(4)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_correlated_is_one_clear_error(message):
    with pytest.raises(InputError) as refused:
        dependence(*REFUSED[message])
    assert message in str(refused.value)
