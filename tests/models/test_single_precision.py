"""Fits whose responsibilities are in single precision: the same answers up to rounding, and they still climb."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable import EBCC, DawidSkene, read_votes
from labelfable.inference.shards import cut
from labelfable.models import confusion as confusion_module
from labelfable.models.confusion import ConfusionLogs, local_statistics, responsibilities, suits_single
from labelfable.votes.maps import DOUBLE, SINGLE
from tests.crowds import planted_votes
from tests.tolerances import TOLERANCE, assert_close

pytestmark = pytest.mark.filterwarnings("ignore::labelfable.errors.NotConvergedWarning")

N_CLASSES = 8
VOTES, TRUTH = planted_votes(4000, [0.3 + 0.02 * j for j in range(20)], N_CLASSES, coverage=0.6)
MODELS = {
    "DawidSkene": DawidSkene,
    "DawidSkene, learned proportions": lambda **settings: DawidSkene(class_prior="learned", **settings),
    "silence as a label": lambda **settings: DawidSkene(abstain="label", **settings),
    "EBCC": lambda **settings: EBCC(n_init=1, **settings),
}


@pytest.fixture
def single(monkeypatch):
    """Every fit with enough components is in single precision."""
    monkeypatch.setattr(confusion_module, "SINGLE_ITEMS", 1)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("with_gold", [False, True])
def test_answers_are_those_of_double_precision_up_to_rounding(name, with_gold, monkeypatch):
    y = np.where(np.arange(len(TRUTH)) % 10 == 0, TRUTH, -1) if with_gold else None
    expected = MODELS[name](max_iter=6).fit(VOTES, y)
    monkeypatch.setattr(confusion_module, "SINGLE_ITEMS", 1)
    found = MODELS[name](max_iter=6).fit(VOTES, y)
    assert not np.array_equal(found.confusion_, expected.confusion_)  # it was in single precision
    limit = np.float32(1)  # says by which row of the table these are to agree
    assert_close(found.confusion_.astype(limit.dtype), expected.confusion_)
    assert_close(found.predict_proba(VOTES).astype(limit.dtype), expected.predict_proba(VOTES), "sums")
    assert found.predict_proba(VOTES).dtype == DOUBLE
    assert np.mean(found.predict(VOTES) == expected.predict(VOTES)) == 1
    objective = np.array([found.report_.objective[-1]], np.float32)
    assert_close(objective / expected.report_.objective[-1], np.ones(1, np.float32))


@pytest.mark.parametrize("name", MODELS)
def test_the_objective_climbs(name, single):
    objective = np.array(MODELS[name](max_iter=12, tol=1e-9).fit(VOTES).report_.objective)
    assert np.all(np.diff(objective) >= -TOLERANCE["float32"].climb * np.abs(objective[1:]))
    assert objective[-1] > objective[0] + TOLERANCE["float32"].climb * abs(objective[0])


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_votes_that_contradict_each_other_beyond_the_range_of_powers(dtype):
    """Each of 400 sources all but rules out every class but one: all powers underflow, in both precisions."""
    n_sources, n_classes = 400, 4
    votes = np.arange(n_sources)[None, :] % n_classes + np.zeros((3, 1), int)
    votes[2] = 0
    table = read_votes(votes)
    tables = np.full((n_sources, n_classes, n_classes), np.log(1e-4))
    tables[:, np.arange(n_classes), np.arange(n_classes)] = np.log(1 - 3e-4)
    tables[0, 0, 0] += 1e-3  # class 0 by a hair
    logs = ConfusionLogs(table.layout.pack(tables), np.log(np.full(n_classes, 1 / n_classes)), single=dtype == SINGLE)
    (shard,) = cut(table, np.ones(3), None, 3)
    ρ, normaliser = responsibilities(shard, logs, n_classes)
    assert ρ.dtype == dtype
    assert np.isfinite(normaliser).all()
    odds = np.exp([1e-3, 0, 0, 0])
    expected = np.array([odds / odds.sum(), odds / odds.sum(), [1, 0, 0, 0]])
    assert_close(ρ.astype(np.float32), expected, "sums")  # hundreds of logarithms were added up
    assert np.isfinite(local_statistics(shard, logs, n_classes).entropy)


def test_single_precision_needs_many_items_many_components_and_short_sums():
    table = read_votes(np.zeros((2**17, 1), np.int8))
    weights = np.ones(table.n_items)
    short, long = cut(table, weights, None, 2**14), cut(table, weights, None, 2**16)
    assert suits_single(short, 8)
    assert not suits_single(short, 7)
    assert not suits_single(long, 8)
    assert not suits_single(short[:-1], 8)
