"""When the sweeps stop."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable.inference.convergence import History, Stopping


def history_of(*totals: float) -> History:
    history = History()
    for total in totals:
        history.record({"likelihood": total - 1.0, "prior": 1.0})
    return history


@pytest.mark.parametrize(
    ("totals", "met"),
    [
        ((), False),
        ((-5.0,), False),  # a gain needs two
        ((-5.0, -4.0), False),
        ((-5.0, -4.0, -3.5), True),  # 0.5 for 10 items at 0.05 each: not more than the tolerance
        ((-5.0, -4.0, -3.25), False),
        ((-5.0, -5.0), True),
        ((-5.0, -6.0), True),  # nothing to be had by going on
    ],
)
def test_the_last_gain_decides_measured_by_item(totals, met):
    assert Stopping(0.05, 100, 10.0).is_met(history_of(*totals)) is met


def test_less_than_one_item_counts_as_one():
    assert Stopping(0.5, 100, 0.0).is_met(history_of(0.0, 0.25))
    assert not Stopping(0.5, 100, 0.0).is_met(history_of(0.0, 0.75))


def test_with_no_tolerance_any_gain_goes_on():
    assert not Stopping(0.0, 100, 1e6).is_met(history_of(-1.0, -1.0 + 2**-50))
    assert Stopping(0.0, 100, 1e6).is_met(history_of(-1.0, -1.0))


def test_history_keeps_plain_terms_and_their_sums():
    history = History()
    terms = {"votes": np.float64(-3.5), "entropy": np.float32(0.5)}
    history.record(terms)
    terms["votes"] = np.float64(0)
    assert history.terms == [{"votes": -3.5, "entropy": 0.5}]
    assert all(type(value) is float for value in history.terms[0].values())
    assert history.totals == [-3.0]
