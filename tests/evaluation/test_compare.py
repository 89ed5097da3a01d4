import numpy as np
import pytest

from labelfable import DawidSkene, MajorityVote, read_votes
from labelfable.errors import InputError, ModelError, NotConvergedWarning
from labelfable.evaluation import accuracy, compare_models, covered_accuracy, f1, log_loss, macro_f1
from labelfable.models.registry import MODELS, available_models
from tests.crowds import planted_votes
from tests.tolerances import assert_close

VOTES, TRUTH = planted_votes(400, [0.9, 0.8, 0.7, 0.6], 3, coverage=0.5)
GOLD = np.where(np.arange(400) % 5 == 0, -1, TRUTH)


def test_each_verdict_is_what_the_model_and_the_metrics_say():
    found = compare_models(VOTES, ["ds", "mv"], gold=GOLD)
    assert [verdict.model for verdict in found.verdicts] == ["MajorityVote", "DawidSkene"]
    model = DawidSkene().fit(VOTES)
    labels, probabilities, covered = model.predict(VOTES), model.predict_proba(VOTES), (VOTES >= 0).any(axis=1)
    scores = found.verdicts[1].scores
    assert scores["accuracy"] == accuracy(labels, GOLD)
    assert scores["covered_accuracy"] == covered_accuracy(labels, GOLD, covered)
    assert scores["macro_f1"] == macro_f1(labels, GOLD)
    assert scores["log_loss"] == log_loss(probabilities, GOLD)
    assert "f1" not in scores
    assert (found.probabilities["DawidSkene"] == probabilities).all()
    assert found.verdicts[1].changed_share == model.report_.changed_share
    assert found.verdicts[1].contradicted == model.report_.contradicted
    assert found.verdicts[0].changed_share == 0


def test_records_hold_the_distance_from_majority_vote():
    base, other = compare_models(VOTES, ["ds"], gold=GOLD).records()
    assert set(base["against_majority"].values()) == {0}
    for key, value in other["against_majority"].items():
        assert_close(value, other[key] - base[key])
    assert len(other["against_majority"]) == 5


def test_two_classes_have_the_f1_of_the_second():
    votes, truth = planted_votes(200, [0.8, 0.7, 0.6], 2)
    words = np.array(["ham", "spam", None], dtype=object)
    found = compare_models(read_votes(words[votes]), ["mv"], gold=words[truth])
    labels = MajorityVote().fit(votes).predict(votes)
    assert found.verdicts[0].scores["f1"] == f1(labels, truth)
    assert "macro_f1" not in found.verdicts[0].scores


def test_without_gold_there_are_no_scores():
    found = compare_models(VOTES, ["ds"])
    assert found.gold is None
    assert found.verdicts[1].scores == {}
    assert "accuracy" not in found.records()[1]


def test_all_models_are_compared_unless_some_are_named():
    told = []
    found = compare_models(VOTES[:60], on_start=told.append)
    usable = available_models(with_features=False)
    assert sorted(told) == sorted(usable)
    assert "FABLE" in usable
    assert not {"WeaSEL", "Denoise"} & set(usable)
    assert told[0] == "MajorityVote"
    assert sorted(found.models) == sorted(usable)


def test_the_same_model_twice_has_two_names():
    found = compare_models(VOTES, [MajorityVote("agreement"), DawidSkene(), DawidSkene(smoothing=1)])
    assert [verdict.model for verdict in found.verdicts] == ["MajorityVote", "DawidSkene", "DawidSkene (2)"]
    assert found.models["MajorityVote"].weights == "agreement"
    assert found.models["DawidSkene (2)"].smoothing == 1


def test_gold_is_for_scoring_alone():
    found = compare_models(VOTES, ["ds"], gold=(GOLD + 1) % 3)
    assert (found.probabilities["DawidSkene"] == DawidSkene().fit(VOTES).predict_proba(VOTES)).all()


def test_a_class_that_only_gold_names_counts_as_missed():
    gold = np.where(np.arange(400) < 40, 5, TRUTH)
    found = compare_models(VOTES, ["mv"], gold=gold)
    assert found.table.n_classes == 6
    labels = found.models["MajorityVote"].predict(found.table)
    assert_close(found.verdicts[0].scores["accuracy"], np.mean(labels == gold))


def test_warnings_are_kept_in_the_verdict():
    found = compare_models(VOTES, [DawidSkene(max_iter=2)])
    assert len(found.verdicts[1].warnings) == 1
    assert found.verdicts[1].warnings[0].startswith("DawidSkene stopped after 2 iterations")
    assert not found.verdicts[1].converged
    with pytest.warns(NotConvergedWarning, match="2 iterations"):
        DawidSkene(max_iter=2).fit(VOTES)


class Choosy(MajorityVote):
    """A model that these votes do not suit."""

    def fit(self, votes, y=None, *, features=None):
        del votes, y, features
        raise ModelError("three sources are too few")


def test_a_model_that_cannot_be_fitted_does_not_end_the_comparison():
    found = compare_models(VOTES, [Choosy(), "ds"], gold=GOLD)
    assert [verdict.error for verdict in found.verdicts] == ["", "three sources are too few", ""]
    assert sorted(found.models) == ["DawidSkene", "MajorityVote"]
    assert "accuracy" not in found.records()[1]


def test_what_cannot_be_compared():
    with pytest.raises(InputError, match="no gold label is known"):
        compare_models(VOTES, ["mv"], gold=np.full(400, -1))
    with pytest.raises(ModelError, match=r"there is no model 'x'.*" + next(iter(MODELS))):
        compare_models(VOTES, ["x"])
