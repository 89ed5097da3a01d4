import numpy as np
import pytest
from sklearn import metrics as reference
from sklearn.calibration import calibration_curve

from labelfable.errors import InputError
from labelfable.evaluation import accuracy, covered_accuracy, expected_calibration_error, f1, log_loss, macro_f1
from labelfable.evaluation.metrics import N_BINS, calibration_bins
from tests.oracles import metrics as oracle
from tests.tolerances import assert_close

NAMES = np.array(["bird", "cat", "dog"])


def drawn(seed, n_items=400, n_classes=3, unknown=0.2):
    """Probabilities, their best classes, and gold of which some is unknown."""
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(n_classes, 0.5), n_items)
    gold = np.array([rng.choice(n_classes, p=row) for row in probabilities])
    return probabilities, probabilities.argmax(axis=1), np.where(rng.random(n_items) < unknown, -1, gold)


@pytest.mark.parametrize("seed", range(3))
def test_labels_score_as_in_scikit_learn(seed):
    _, labels, gold = drawn(seed)
    known = gold >= 0
    assert_close(accuracy(labels, gold), reference.accuracy_score(gold[known], labels[known]))
    assert_close(macro_f1(labels, gold), reference.f1_score(gold[known], labels[known], average="macro"))
    for positive in range(3):
        expected = reference.f1_score(gold[known] == positive, labels[known] == positive)
        assert_close(f1(labels, gold, positive=positive), expected)


@pytest.mark.parametrize("seed", range(3))
def test_log_loss_is_scikit_learns_and_the_oracles(seed):
    probabilities, _, gold = drawn(seed)
    known = gold >= 0
    expected = reference.log_loss(gold[known], probabilities[known], labels=[0, 1, 2])
    assert_close(log_loss(probabilities, gold), expected)
    assert_close(expected, oracle.log_loss(probabilities, gold, np.finfo(float).eps))


def test_a_certain_mistake_costs_the_clipped_loss_and_a_certain_truth_nothing():
    wrong, right = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert_close(log_loss(wrong, [1]), -np.log(np.finfo(np.float64).eps))
    assert_close(log_loss(wrong, [1]), reference.log_loss([1], wrong, labels=[0, 1]))
    assert log_loss(right, [1]) == 0


@pytest.mark.parametrize("n_bins", [1, 7, N_BINS])
def test_calibration_error_is_the_oracles(n_bins):
    probabilities, _, gold = drawn(5)
    probabilities[:20] = [[0.5, 0.5, 0.0]]  # ties, and confidences on the edge of a bin
    probabilities[20:30] = [[1.0, 0.0, 0.0]]
    found = expected_calibration_error(probabilities, gold, n_bins=n_bins)
    assert_close(found, oracle.calibration_error(probabilities.tolist(), gold.tolist(), n_bins))
    assert found > 0


def test_calibration_bins_are_scikit_learns():
    probabilities, labels, gold = drawn(6, unknown=0.0)
    right, confidence = labels == gold, probabilities.max(axis=1)
    share_right, mean_confidence = calibration_curve(right, confidence, n_bins=10)
    bins = calibration_bins(probabilities, gold, n_bins=10)
    assert_close(bins["accuracy"], share_right)
    assert_close(bins["confidence"], mean_confidence)
    assert bins["items"].sum() == len(gold)


def test_honest_probabilities_are_calibrated_and_boasting_ones_are_not():
    probabilities, labels, gold = drawn(7, n_items=20_000, unknown=0.0)
    boasting = np.eye(3)[labels]
    honest = expected_calibration_error(probabilities, gold)
    # a bin's accuracy strays by half an item's standard error over the root of its items; 15 bins share 20,000 items
    assert honest < np.sqrt(N_BINS / len(gold))
    assert_close(expected_calibration_error(boasting, gold), 1 - accuracy(labels, gold))


def test_names_score_as_numbers_do():
    probabilities, labels, gold = drawn(1)
    named = np.append(NAMES.astype(object), None)[gold]
    assert accuracy(NAMES[labels], named) == accuracy(labels, gold)
    assert macro_f1(NAMES[labels], named) == macro_f1(labels, gold)
    assert f1(NAMES[labels], named, positive="dog") == f1(labels, gold, positive=2)
    assert log_loss(probabilities, named, classes=NAMES.tolist()) == log_loss(probabilities, gold)
    scores = [expected_calibration_error(probabilities, named, classes=NAMES.tolist())]
    assert scores == [expected_calibration_error(probabilities, gold)]


def test_an_abstaining_label_is_never_right_and_is_no_class():
    gold = np.array([0, 1, 1, -1])
    assert accuracy([-1, 1, 1, -1], gold) == 2 / 3
    assert macro_f1([-1, 1, 1, 0], gold) == 0.5  # class 0 is missed, class 1 is perfect
    assert f1([-1, -1, -1, -1], gold) == 0


def test_covered_accuracy_looks_at_items_with_votes_only():
    labels, gold = np.array([0, 0, 1, 1]), np.array([0, 1, 1, -1])
    assert covered_accuracy(labels, gold, np.array([True, False, True, True])) == 1
    assert covered_accuracy(labels, gold, np.array([False, True, False, True])) == 0
    assert np.isnan(covered_accuracy(labels, gold, np.array([False, False, False, True])))


def test_float16_probabilities_pass():
    probabilities, _, gold = drawn(2, n_classes=10)
    halves = probabilities.astype(np.float16)
    assert_close(log_loss(halves.astype(np.float64), gold), log_loss(halves, gold))


SHARES = np.array([[0.5, 0.5], [0.1, 0.9]])
BAD = {
    "no gold at all": (lambda: accuracy([0, 1], [-1, -1]), "no gold label is known"),
    "lengths": (lambda: accuracy([0, 1], [0]), r"labels have shape \(2,\), gold has \(1,\)"),
    "a matrix of labels": (lambda: accuracy([[0, 1]], [[0, 1]]), "one label and one gold label"),
    "numbers and names": (lambda: f1([0, 1], ["a", "b"]), "labels are '0', '1' but gold is 'a', 'b'"),
    "covered is too short": (lambda: covered_accuracy([0, 1], [0, 1], np.array([True])), "2 truth values"),
    "covered is no truth value": (lambda: covered_accuracy([0, 1], [0, 1], np.array([1, 2])), "covered is int64"),
    "rows do not sum to one": (lambda: log_loss([[0.5, 0.2], [0.1, 0.9]], [0, 1]), "item 0"),
    "negative": (lambda: log_loss([[0.5, 0.5], [-0.5, 1.5]], [0, 1]), "item 1"),
    "nan": (lambda: log_loss([[0.5, 0.5], [np.nan, 1.0]], [0, 1]), "item 1"),
    "probabilities of one class": (lambda: log_loss([0.5, 0.5], [0, 1]), r"\(2,\)"),
    "gold past the classes": (lambda: log_loss(SHARES, [0, 2]), "2 is none of the classes 0, 1"),
    "gold by name without classes": (lambda: log_loss(SHARES, ["a", "b"]), "'a' is none of the classes 0, 1.*classes_"),
    "too many names": (lambda: log_loss(SHARES, ["a", "b"], classes=["a", "b", "c"]), "3 classes are named"),
    "no bin": (lambda: expected_calibration_error(SHARES, [0, 1], n_bins=0), "n_bins=0"),
}


@pytest.mark.parametrize("case", BAD, ids=list(BAD))
def test_bad_input_gets_one_clear_error(case):
    call, message = BAD[case]
    with pytest.raises(InputError, match=message):
        call()
