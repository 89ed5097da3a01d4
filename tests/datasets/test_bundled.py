import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from labelfable.datasets import bundled_data
from labelfable.datasets.bundled import BUNDLED
from labelfable.datasets.cell_rules import ABSTAIN, BENIGN, MALIGNANT, band
from labelfable.datasets.digit_rules import DIGIT_RULES, DigitImages
from labelfable.errors import InputError
from labelfable.evaluation import accuracy
from labelfable.models import MajorityVote
from labelfable.votes import source_summary


@pytest.mark.parametrize("name", BUNDLED)
def test_each_set_is_whole(name):
    data = bundled_data(name)
    table = data.table()
    assert data.votes.shape == (len(data.gold), len(data.rules))
    assert data.votes.dtype == np.int8
    assert set(np.unique(data.votes)) <= {-1, *range(len(data.classes))}
    assert set(np.unique(data.gold)) == set(range(len(data.classes)))
    assert len(data.features) == len(data.gold)
    assert table.sources == data.sources == tuple(data.rules)
    assert table.classes.tolist() == list(data.classes)
    assert (np.asarray(table.votes) == data.votes).all()
    assert all(words.endswith(".") and len(words) > 20 for words in data.rules.values())
    assert (data.gold_names == np.asarray(data.classes)[data.gold]).all()


@pytest.mark.parametrize("name", BUNDLED)
def test_the_sources_differ_and_disagree_as_sources_do(name):
    data = bundled_data(name)
    table = data.table()
    summary = source_summary(table, data.gold)
    coverage, right = np.array(summary["Coverage"]), np.array(summary["Emp. Acc."])
    assert coverage.min() > 0.02
    assert coverage.max() < 0.8  # all of them abstain somewhere
    assert coverage.max() > 2 * coverage.min()
    assert right.max() > 0.9
    assert right.min() < 0.5  # some are poor, and were left as they were
    assert np.mean(summary["Conflicts"]) > 0.1
    labels = MajorityVote().fit(table).predict(table)
    chance = np.bincount(data.gold).max() / len(data.gold)
    assert accuracy(labels, data.gold_names) > chance + 0.2


def test_breast_cancer_is_scikit_learns_with_malignant_as_the_second_class():
    data, bunch = bundled_data("breast-cancer"), load_breast_cancer()
    assert (data.features == bunch.data).all()
    assert (data.gold_names == bunch.target_names[bunch.target]).all()
    assert data.classes == ("benign", "malignant")


def test_digits_are_scikit_learns():
    data, bunch = bundled_data("digits"), load_digits()
    assert (data.features == bunch.data).all()
    assert (data.gold_names == bunch.target.astype(str)).all()


def test_rules_see_features_alone(monkeypatch):
    from sklearn import datasets

    for name in BUNDLED:
        honest = bundled_data(name).votes
        load = getattr(datasets, f"load_{name}")
        bunch = load()
        bunch.target = np.roll(bunch.target, 7)
        monkeypatch.setattr(datasets, f"load_{name}", lambda bunch=bunch: bunch)
        assert (bundled_data(name).votes == honest).all()


def test_a_band_votes_at_both_ends_or_at_one():
    values = np.arange(8.0)
    assert band(values, 1 / 4, 1 / 4).tolist() == [BENIGN] * 2 + [ABSTAIN] * 4 + [MALIGNANT] * 2
    assert band(values, 0, 1 / 4).tolist() == [ABSTAIN] * 6 + [MALIGNANT] * 2
    assert band(values, 1 / 4, 0).tolist() == [BENIGN] * 2 + [ABSTAIN] * 6


DRAWN = {
    1: ["...##...", "...##...", "...##...", "...##...", "...##...", "...##...", "...##...", "...##..."],
    8: ["..####..", "..#..#..", "..#..#..", "...##...", "..#..#..", "..#..#..", "..#..#..", "..####.."],
    0: ["..####..", ".#....#.", ".#....#.", ".#....#.", ".#....#.", ".#....#.", ".#....#.", "..####.."],
    7: [".######.", "......#.", ".....#..", ".....#..", "....#...", "....#...", "...#....", "...#...."],
    9: ["..####..", "..#..#..", "..#..#..", "..####..", ".....#..", ".....#..", ".....#..", ".....#.."],
    6: ["..#.....", "..#.....", "..#.....", "..#.....", "..####..", "..#..#..", "..#..#..", "..####.."],
}
EXPECTED = {
    "loops": {8: 8, 0: 0},
    "place_of_loop": {9: 9, 6: 6},
    "empty_middle": {0: 0},
    "narrow": {1: 1},
    "one_stroke": {1: 1},
    "roof_and_stem": {7: 7},
}


def test_rules_tell_drawn_digits_apart():
    images = np.array([[[16 if mark == "#" else 0 for mark in row] for row in DRAWN[digit]] for digit in DRAWN])
    drawn = DigitImages.of(images)
    assert drawn.n_loops.tolist() == [0, 2, 1, 0, 1, 1]
    assert drawn.loop_size.tolist() == [0, 10, 24, 0, 4, 4]
    votes = {rule.name: dict(zip(DRAWN, rule.vote(drawn).tolist(), strict=True)) for rule in DIGIT_RULES}
    for name, said in EXPECTED.items():
        assert {digit: vote for digit, vote in votes[name].items() if vote >= 0} == said


def test_an_unknown_set_lists_those_there_are():
    with pytest.raises(InputError, match=r"no bundled data set 'iris'.*breast_cancer, digits"):
        bundled_data("iris")
