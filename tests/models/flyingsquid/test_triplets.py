"""Signed moments from vote products: each class's second moments are those of its ±1 votes, counted directly."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable import read_votes
from labelfable.models.flyingsquid.triplets import SignedVotes, combine_triplets, independence
from labelfable.votes import products as vote_products
from tests.crowds import planted_votes, soft_of, sparse_of
from tests.tolerances import assert_close

N_CLASSES = 3
VOTES, _ = planted_votes(50, [0.9, 0.6, 0.5, 0.8], N_CLASSES, coverage=0.7, seed=3)
WEIGHTS = np.random.default_rng(0).integers(1, 5, size=50).astype(float)
WORDS = np.append(np.array(["a", "b", "c"], dtype=object), None)[VOTES]
WORDS[::4, 1] = "not c"
WORDS[1::4, 2] = "not a"

FORMS = {
    "dense": lambda: read_votes(VOTES, classes=N_CLASSES),
    "sparse": lambda: read_votes(sparse_of(VOTES), classes=N_CLASSES),
    "soft": lambda: read_votes(soft_of(VOTES, N_CLASSES)),
    "silence": lambda: read_votes(VOTES, classes=N_CLASSES).with_abstain_as_label(),
    "exclusions": lambda: read_votes(WORDS, classes=["a", "b", "c"], exclusions={"not c": "c", "not a": "a"}),
}


def signed_of(form: str, k: int):
    """λ of class k by its definition.  [items, sources]."""
    if form == "soft":
        soft = soft_of(VOTES, N_CLASSES)
        return 2 * soft[:, :, k] - soft.sum(axis=2)
    if form == "exclusions":
        name = "abc"[k]
        says = dict.fromkeys("abc", -1) | {name: 1, None: 0, "not a": 0, "not c": 0}
        says |= {f"not {name}": -1}
        return np.array([[says[word] for word in row] for row in WORDS])
    return np.where(VOTES < 0, 0, 2 * (k == VOTES) - 1)


@pytest.mark.parametrize("products", ["dense products", "sparse products"])
@pytest.mark.parametrize("form", FORMS)
def test_moments_are_those_of_the_signed_votes(monkeypatch, form, products):
    if products == "sparse products":
        monkeypatch.setattr(vote_products, "DENSE_PRODUCT_COLUMNS", 1)
    votes = SignedVotes.of(FORMS[form]().without_abstain_label(), WEIGHTS)
    share = WEIGHTS / WEIGHTS.sum()
    for k in range(N_CLASSES):
        signed = signed_of(form, k)
        assert_close(votes.mean[:, k], share @ signed)
        assert_close(votes.products_for(k), (signed * share[:, None]).T @ signed)
        if form != "soft":
            assert_close(votes.coverage[:, k], share @ np.abs(signed))
    assert votes.n_items == WEIGHTS.sum()


@pytest.mark.parametrize("form", ["dense", "sparse", "silence", "exclusions"])
def test_meetings_and_matches_are_of_votes_that_name_a_class(form):
    votes = SignedVotes.of(FORMS[form]().without_abstain_label(), WEIGHTS)
    named = np.where(np.isin(WORDS, ["a", "b", "c"]), VOTES, -1) if form == "exclusions" else VOTES
    met, matched = np.zeros((4, 4)), np.zeros((4, 4))
    for row, w in zip(named.tolist(), WEIGHTS / WEIGHTS.sum(), strict=True):
        for i in range(4):
            for j in range(4):
                met[i, j] += w * (row[i] >= 0 and row[j] >= 0)
                matched[i, j] += w * (row[i] >= 0 and row[i] == row[j])
    assert_close(votes.meetings, met)
    assert_close(votes.matches, matched)


def test_triplets_use_only_pairs_that_may_be_used():
    moments = np.array([[1.0, 0.2, 0.3, 0.5], [0.2, 1.0, 0.6, 0.1], [0.3, 0.6, 1.0, 0.4], [0.5, 0.1, 0.4, 1.0]])
    usable = ~np.eye(4, dtype=bool)
    usable[0, 3] = usable[3, 0] = False
    roots, number = combine_triplets(moments, usable, "mean", 100, 0)
    assert number.tolist() == [1, 2, 2, 1]
    assert_close(roots[0], np.sqrt(0.2 * 0.3 / 0.6))
    assert_close(roots[1], (np.sqrt(0.2 * 0.6 / 0.3) + np.sqrt(0.6 * 0.1 / 0.4)) / 2)
    roots, number = combine_triplets(moments, np.zeros((4, 4), dtype=bool), "median", 100, 0)
    assert number.tolist() == [0] * 4
    assert np.all(np.isnan(roots))


def test_independent_is_every_pair_that_is_not_named():
    may = independence([("b", 0)], ["a", "b", "c"])
    assert may.tolist() == [[False, False, True], [False, False, True], [True, True, False]]
