"""The edge of what can be asked of every public model: an answer, or a reason why there is none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from labelfable import read_votes
from labelfable.errors import ModelError
from tests.conform import ALL_MODELS, N_CLASSES, VOTES, assert_distributions, fit_or_refusal, fitted, is_network, made
from tests.tolerances import assert_close

pytestmark = pytest.mark.usefixtures("votes_as_features")


@pytest.fixture(params=ALL_MODELS)
def name(request) -> str:
    return request.param


# -- the edge of what can be asked ------------------------------------------------------------------------------------

EDGES = {
    "one source": np.array([[0], [1], [1], [2], [0], [0]]),
    "one source, abstaining": np.array([[0], [1], [-1], [2], [0], [-1]]),
    "two sources": np.array([[0, 0], [1, 1], [1, 0], [2, 2], [0, -1], [-1, 1]]),
    "two sources that never meet": np.array([[0, -1], [-1, 1], [1, -1], [-1, 0]]),
    "two sources that always disagree": np.array([[0, 1], [1, 0], [0, 1], [1, 0]]),
    "a single item": np.array([[0, 1, 1]]),
    "a single item with one vote": np.array([[-1, 1, -1]]),
    "a single item in agreement": np.array([[1, 1, 1]]),
    "unanimous votes": np.repeat([[0], [1], [2], [2]], 5, axis=1),
    "everything is one class": np.ones((6, 4), dtype=int),
    "the same vote everywhere": np.zeros((6, 4), dtype=int),
    "items without votes": np.vstack((VOTES[:30], np.full((30, 5), -1))),
    "sources that never vote": np.column_stack((VOTES[:40], np.full((40, 2), -1))),
    "a source that votes once": np.column_stack((VOTES[:40, :3], np.where(np.arange(40) == 3, 1, -1))),
    "sources with one label each": np.where(VOTES[:60] == np.arange(5) % 3, VOTES[:60], -1),
    "copies of one source": np.repeat(VOTES[:40, :1], 4, axis=1),
    "a class that nobody votes for": read_votes(VOTES[:40], classes=5),
    "classes in the middle that nobody votes for": np.where(VOTES[:40] == 1, 4, VOTES[:40]),
    "no vote at all": read_votes(np.full((4, 3), -1), classes=2),
    "many sources, few items": np.tile(VOTES[:3], (1, 12)),
    "one known item": np.array([[0, 1, 1], [-1, -1, -1]]),
}


@pytest.mark.parametrize("edge", EDGES)
def test_edge_cases_have_an_answer_or_a_reason(name, edge):
    votes = EDGES[edge]
    table = read_votes(votes)
    model = fit_or_refusal(name, votes)
    if isinstance(model, ModelError):
        assert model.what  # says what it cannot do ...
        assert model.hint  # ... and what to try instead
        return
    assert_distributions(model.predict_proba(votes), table.n_items, table.n_classes)
    assert set(model.predict(votes).tolist()) <= set(table.classes.tolist())
    json.dumps(model.report_.as_dict(), allow_nan=False)
    assert str(model.report_)


@pytest.mark.parametrize("n_sources", [3, 6])
def test_unanimous_votes_are_believed(name, n_sources):
    votes = np.repeat(np.array([0, 1, 2, 2, 0, 1, 1] * 5)[:, None], n_sources, axis=1)
    model = made(name).fit(votes)
    assert np.array_equal(model.predict(votes), votes[:, 0])
    assert model.report_.contradicted == 0
    assert model.report_.collapsed == []


def test_one_source_is_repeated_or_refused(name):
    votes = np.array([0, 1, 1, 2, 0, 0, 2, 1, 2, 0])[:, None]
    model = fit_or_refusal(name, votes)
    if isinstance(model, ModelError):
        assert "source" in model.what
    else:
        assert np.array_equal(model.predict(votes), votes[:, 0])


def test_items_without_votes_get_the_same_answer_each(name):
    model = fitted(name, np.vstack((VOTES, np.full((5, 5), -1))))
    answers = model.predict_proba(np.full((5, 5), -1))
    assert_distributions(answers, 5, N_CLASSES)
    if is_network(name):  # a matrix product of several rows rounds some of them otherwise
        assert_close(answers, np.repeat(answers[:1], 5, axis=0))
    else:
        assert np.all(answers == answers[0])
