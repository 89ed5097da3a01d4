import importlib.util
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from labelfable import DawidSkene, MajorityVote, read_votes
from labelfable.errors import InputError, MissingExtraError, ModelError
from labelfable.evaluation import peers
from labelfable.evaluation.peer_packages import CrowdKit, Crowdlab, crowdlab_mean, vote_matrix
from labelfable.evaluation.peers import PEERS, VotesThenRegression, any_model, canonical_name
from labelfable.votes.alphabet import ABSTAIN
from tests.crowds import planted_votes
from tests.tolerances import assert_close

VOTES, TRUTH = planted_votes(150, [0.9, 0.8, 0.75, 0.7], 3, coverage=0.6)
FEATURES = np.random.default_rng(0).standard_normal((150, 4)) + 2 * np.eye(4)[TRUTH]
COVERED = (VOTES >= 0).any(axis=1)
HERE = [name for name, peer in PEERS.items() if importlib.util.find_spec(peer.imported.split(".")[0])]


@pytest.mark.parametrize("name", PEERS)
def test_every_comparator_keeps_the_contract(name, monkeypatch):
    if name not in HERE:
        pytest.skip(f"{PEERS[name].package} is not installed; it is part of the extra `peers`")
    if name == "crowdkit:MACE":  # its ten restarts take seven seconds on any votes
        from crowdkit import aggregation

        monkeypatch.setattr(aggregation, "MACE", partial(aggregation.MACE, n_restarts=1, n_iter=5))
    model = any_model(name)
    answer = model.fit(VOTES, features=FEATURES).predict_proba(VOTES, features=FEATURES)
    assert answer.shape == (150, 3)
    assert_close(answer.sum(axis=1), np.ones(150), "sweeps")
    assert answer.min() >= 0
    again = any_model(name).fit(VOTES, features=FEATURES).predict_proba(VOTES, features=FEATURES)
    assert (again == answer).all()
    labels = model.predict(VOTES, features=FEATURES)
    assert (labels == TRUTH)[COVERED].mean() > 0.8
    assert model.report_.n_items == 150
    with pytest.raises(ModelError, match="takes no known labels"):
        any_model(name).fit(VOTES, np.where(np.arange(150) < 5, TRUTH, -1), features=FEATURES)


def test_a_comparator_that_is_absent_says_what_to_install(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"snorkel is not installed\. pip install 'labelfable\[peers\]'"):
        any_model("snorkel")
    assert peers.package_version("MajorityVote") == ""


def test_names_are_found_in_any_spelling():
    assert canonical_name("crowdkit:glad") == "crowdkit:GLAD"
    assert canonical_name("mv-logistic") == "MVLogistic"
    assert canonical_name("ds") == "DawidSkene"
    with pytest.raises(ModelError, match=r"there is no model 'glat'.*comparators are MVLogistic"):
        canonical_name("glat")


# Regressions


def test_the_regression_learns_the_soft_labels_of_the_covered_items():
    item, label = np.nonzero(MajorityVote().fit(VOTES).predict_proba(VOTES) * COVERED[:, None])
    weight = MajorityVote().fit(VOTES).predict_proba(VOTES)[item, label]
    scaled = (FEATURES - FEATURES[item].mean(axis=0)) / FEATURES[item].std(axis=0)
    expected = LogisticRegression(C=10, max_iter=1000).fit(scaled[item], label, sample_weight=weight)
    model = VotesThenRegression().fit(VOTES, features=FEATURES)
    assert_close(model.predict_proba(VOTES, features=FEATURES), expected.predict_proba(scaled), "sweeps")


def test_rows_of_length_one_are_taken_as_they_are():
    units = FEATURES / np.linalg.norm(FEATURES, axis=1, keepdims=True)
    votes = TRUTH[:, None]  # one source that is right, so labels are hard
    expected = LogisticRegression(C=10, max_iter=1000).fit(units, TRUTH).predict_proba(units)
    assert_close(
        VotesThenRegression().fit(votes, features=units).predict_proba(votes, features=units), expected, "sweeps"
    )


@pytest.mark.parametrize(("labeller", "kind"), [("MajorityVote", MajorityVote), ("DawidSkene", DawidSkene)])
def test_the_product_is_that_of_both_answers(labeller, kind):
    alone = VotesThenRegression(labeller).fit(VOTES, features=FEATURES).predict_proba(VOTES, features=FEATURES)
    both = VotesThenRegression(labeller, multiply=True).fit(VOTES, features=FEATURES)
    product = alone * kind().fit(VOTES).predict_proba(VOTES)
    product /= product.sum(axis=1, keepdims=True)
    assert_close(both.predict_proba(VOTES, features=FEATURES), product, "sweeps")


def test_a_regression_without_a_choice_gives_what_it_has():
    one = np.zeros((5, 2), dtype=int)
    model = VotesThenRegression().fit(read_votes(one, classes=3), features=np.ones(5))
    assert model.predict_proba(one, features=np.ones(5)).tolist() == [[1, 0, 0]] * 5
    silent = np.full((5, 2), ABSTAIN)
    nothing = VotesThenRegression().fit(read_votes(silent, classes=3), features=np.ones(5))
    assert_close(nothing.predict_proba(silent, features=np.ones(5)), np.full((5, 3), 1 / 3))


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (None, ModelError, "needs features"),
        (FEATURES[:9], InputError, "150"),
        (np.where(FEATURES > 2, np.nan, FEATURES), InputError, "needs the features of every item"),
    ],
)
def test_features_that_are_missing_or_broken_are_refused(features, error, message):
    with pytest.raises(error, match=message):
        VotesThenRegression().fit(VOTES, features=features)


# Other packages


def test_crowd_kits_majority_vote_is_ours():
    ours = MajorityVote().fit(VOTES).predict_proba(VOTES)
    assert_close(CrowdKit("MajorityVote").fit(VOTES).predict_proba(VOTES), ours)


def test_crowd_kit_labels_only_what_it_was_fitted_to():
    model = CrowdKit("DawidSkene").fit(VOTES)
    with pytest.raises(ModelError, match="labels only the items"):
        model.predict_proba(VOTES[:20])


def test_crowdlab_is_cleanlabs_down_to_its_own_quality_scores():
    from cleanlab.multiannotator import get_label_quality_multiannotator

    model = Crowdlab().fit(VOTES, features=FEATURES)
    answer = model.predict_proba(VOTES, features=FEATURES)[COVERED]
    given = np.where(VOTES >= 0, VOTES, np.nan)[COVERED]
    classifier = model._held_out(read_votes(VOTES), FEATURES)
    found = get_label_quality_multiannotator(
        given, classifier[COVERED], consensus_method="majority_vote", return_weights=True, verbose=False
    )
    quality = found["label_quality"]
    at_consensus = answer[np.arange(len(answer)), quality["consensus_label"].to_numpy()]
    assert_close(at_consensus, quality["consensus_quality_score"].to_numpy(), "sums")
    bare = model.predict_proba(VOTES, features=FEATURES)[~COVERED]
    assert_close(bare, classifier[~COVERED])  # nothing but the classifier speaks there


def test_crowdlabs_mean_is_a_mean_over_those_who_voted():
    given = np.array([[0.0, 1.0], [0.0, np.nan], [1.0, 1.0]])
    classifier = np.array([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]])
    answer = crowdlab_mean(given, classifier, np.array([0.5, 1.0, 1.0]), 2.0, np.array([1.0, 3.0]))
    right = 0.75  # the mean agreement of the items with two votes
    first = (2 * 0.7 + 1 * right + 3 * (1 - right)) / 6
    second = (2 * 0.2 + 1 * right) / 3
    assert_close(answer[:, 0], np.array([first, second, (2 * 0.5 + 4 * (1 - right)) / 6]))


def test_crowdlab_says_where_it_does_not_apply():
    with pytest.raises(
        ModelError, match="CROWDLAB does not apply to these votes: labels_multiannotator must have more"
    ):
        Crowdlab().fit(VOTES[:, :1], features=FEATURES)


def test_other_packages_see_the_votes_of_any_table():
    from scipy.sparse import csr_array

    assert (vote_matrix(read_votes(VOTES)) == VOTES).all()
    item, source = np.nonzero(VOTES >= 0)
    sparse = csr_array((VOTES[item, source], (item, source)), shape=VOTES.shape)
    assert (vote_matrix(read_votes(sparse)) == VOTES).all()
    soft = np.full((4, 2, 3), 1 / 3)
    with pytest.raises(ModelError, match="one class each"):
        vote_matrix(read_votes(soft))
