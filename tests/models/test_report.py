"""The report of a fit, on votes small enough to count by hand."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from labelfable import DawidSkene, MajorityVote, read_votes
from labelfable.errors import NotConvergedWarning, VanishedClassWarning
from labelfable.models.report import FitReport, compared, warn_of
from tests.tolerances import assert_close

VOTES = read_votes(np.array([[0, 0], [1, 1], [0, 1], [2, -1], [-1, -1]]))


def against(labels, *, table=VOTES, weights=None, gold=None):
    """The comparison for a model that is sure of these labels; −1: equally sure of all."""
    n_classes = table.n_classes
    probabilities = np.array([np.eye(n_classes)[k] if k >= 0 else np.full(n_classes, 1 / n_classes) for k in labels])
    weights = np.ones(table.n_items) if weights is None else np.asarray(weights, dtype=float)
    found = compared(table, weights, None if gold is None else np.asarray(gold), probabilities)
    return found.changed_share, found.contradicted, found.collapsed(table.classes)


@pytest.mark.parametrize(
    ("labels", "changed", "contradicted", "collapsed"),
    [
        ([0, 1, 0, 2, 0], 0, 0, []),  # one of the winners of a tie is no change
        ([0, 1, 1, 2, 2], 0, 0, []),  # the other one, and anything on an item without votes
        ([0, 1, -1, 2, 0], 0, 0, []),  # undecided between all classes, the winner among them
        ([0, 1, 2, 2, 0], 1, 0, []),
        ([1, 1, 0, 2, 0], 1, 1, []),  # item 0 is unanimous
        ([0, 1, 0, 1, 0], 1, 0, [2]),  # item 3 has a single vote, which is not unanimity
        ([2, 2, 2, 2, 2], 3, 2, [0, 1]),
        ([1, 0, 0, 2, 0], 2, 2, []),
    ],
)
def test_changes_are_counted_against_the_winners_of_the_vote(labels, changed, contradicted, collapsed):
    share, against_all, gone = against(labels)
    assert_close(share, changed / 4)  # of the covered items
    assert against_all == contradicted
    assert gone == collapsed


def test_a_row_counts_for_all_its_items():
    share, contradicted, _ = against([1, 1, 0, 2, 0], weights=[3, 1, 1, 1, 10])
    assert_close(share, 3 / 6)
    assert contradicted == 3


def test_items_whose_class_is_known_do_not_count():
    share, contradicted, collapsed = against([1, 1, 0, 0, 0], gold=[1, -1, -1, 0, -1])
    assert share == 0
    assert contradicted == 0
    assert collapsed == []


def test_nothing_to_compare_with_is_no_change():
    table = read_votes(np.full((3, 2), -1), classes=2)
    assert against([0, 1, 0], table=table) == (0.0, 0, [])


def test_names_of_classes_are_reported_as_they_are():
    table = read_votes(np.array([["ham", "ham"], ["spam", None]]))
    assert against([0, 0], table=table)[2] == ["spam"]


def report(**parts):
    whole = {"n_items": 5, "n_covered": 4, "n_distinct": 5, "n_sources": 2, "n_classes": 3, "seconds": 0.1}
    return FitReport(**{"model": "Any", "converged": True, **whole, **parts})


def test_a_vanished_class_is_said_aloud_by_name():
    with pytest.warns(VanishedClassWarning, match=r"Any: class spam, 3 has vanished.*MajorityVote"):
        warn_of(report(collapsed=["spam", 3]))


def test_an_unfinished_fit_is_said_aloud():
    with pytest.warns(NotConvergedWarning, match=r"Any stopped after 2 iterations.*max_iter"):
        warn_of(report(converged=False, history=[{"bound": -2.0}, {"bound": -1.0}]))


def test_a_good_fit_is_silent():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_of(report())
    assert not said


def test_warnings_point_at_the_line_that_asked_for_the_fit():
    with pytest.warns(NotConvergedWarning) as caught:
        DawidSkene(max_iter=1, tol=0).fit(VOTES)
    assert caught[0].filename == __file__


def test_history_is_told_by_term_and_in_sum():
    told = report(history=[{"votes": -3.0, "entropy": 1.0}, {"votes": -2.5, "entropy": 1.0}])
    assert told.iterations == 2
    assert told.objective == [-2.0, -1.5]


def test_it_reads_as_a_few_lines():
    text = str(
        report(
            history=[{"bound": -1234.5}, {"bound": -1000.25}],
            changed_share=0.125,
            contradicted=1500,
            collapsed=["spam"],
            notes=["1 of 2 sources never vote: 'b'"],
        )
    )
    assert text.splitlines() == [
        "Any: 5 items (4 covered, 5 distinct), 2 sources, 3 classes",
        "  2 iterations, converged in 0.10 s",
        "  objective -1,000.250 (first -1,234.500)",
        "  differs from majority vote on 12.5% of covered items, contradicts 1,500 unanimous ones",
        "  no item got class spam although majority vote gives it some",
        "  note: 1 of 2 sources never vote: 'b'",
    ]
    assert "iterations" not in str(report())
    assert "not converged" in str(report(converged=False))


def test_it_is_plain_values_for_json():
    told = DawidSkene().fit(VOTES).report_
    assert FitReport(**json.loads(json.dumps(told.as_dict()))) == told


def test_sources_that_never_vote_are_noted():
    silent = np.column_stack((VOTES.votes, np.full(5, -1)))
    assert MajorityVote().fit(silent).report_.notes == ["1 of 3 sources never vote: '2'"]
    assert MajorityVote().fit(VOTES).report_.notes == []


def test_sizes_are_those_of_the_votes():
    told = MajorityVote().fit(np.repeat(VOTES.votes, 2, axis=0)).report_
    assert (told.n_items, told.n_covered, told.n_distinct) == (10, 8, 5)
    assert (told.n_sources, told.n_classes) == (2, 3)
    assert told.model == "MajorityVote"
    assert told.seconds > 0
    assert told.history == []
    assert told.converged
