import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'neural'")

from labelfable import Denoise, WeaSEL, read_votes  # noqa: E402 (after the skip)
from labelfable.errors import ModelError, NotConvergedWarning  # noqa: E402 (the same)
from labelfable.models.neural import stopping  # noqa: E402 (the same)
from labelfable.models.neural.stopping import GoldScore, choose_criterion  # noqa: E402 (the same)
from labelfable.models.neural.training import batches  # noqa: E402 (the same)
from tests.conform import quiet  # noqa: E402 (the same)
from tests.crowds import planted_votes, some_gold, sparse_of  # noqa: E402 (the same)
from tests.oracles import neural as oracle  # noqa: E402 (the same)
from tests.tolerances import assert_close  # noqa: E402 (the same)

VOTES, TRUTH = planted_votes(200, [0.8, 0.7, 0.9, 0.75], 3, coverage=0.5, seed=2)
CENTRES = np.random.default_rng(3).normal(size=(3, 6)) * 2
FEATURES = CENTRES[TRUTH] + np.random.default_rng(4).normal(size=(200, 6))
QUICK = {"learning_rate": 0.01, "batch_size": 64, "max_iter": 12}
MODELS = pytest.mark.parametrize("model", [WeaSEL, Denoise])


def fitted(model, y=None, **params):
    return model(**{**QUICK, "stopping": "fixed", **params}).fit(VOTES, y, features=FEATURES)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 128, 129, 257, 1000])
@pytest.mark.parametrize("size", [2, 3, 128])
def test_batches_hold_every_row_once_and_none_is_alone(count, size):
    rows = torch.arange(7, 7 + count)
    parts = batches(rows, size, torch.Generator().manual_seed(0))
    together = torch.cat(parts).tolist()
    lengths = [len(part) for part in parts]
    assert min(lengths) >= 2
    assert max(lengths) <= max(size, 3 if size == 2 else 2)
    assert max(lengths) - min(lengths) <= 1
    assert sorted(together) == (rows.tolist() if count > 1 else [7, 7])
    assert count < 128 or together != rows.tolist()


@pytest.mark.parametrize("form", [VOTES, sparse_of(VOTES)], ids=["dense", "sparse"])
def test_vote_score_is_that_of_the_loops(form):
    table = read_votes(form, classes=3)
    criterion, learned = choose_criterion(table, None, 0.2, np.random.default_rng(0), fixed=False)
    rows = criterion.rows.numpy()
    answers = np.log(np.random.default_rng(1).dirichlet(np.ones(3), size=len(rows)))
    aside = rows[len(learned) :]
    expected = oracle.vote_score(VOTES[learned], VOTES[aside], answers.argmax(axis=1), 3, stopping.PRIOR_COUNT)
    assert_close(criterion.score(answers)[0], expected)
    assert not set(learned) & set(aside)
    assert sorted(rows) == np.flatnonzero(table.covered).tolist()
    assert len(aside) == round(0.2 * len(rows))


def test_right_decisions_score_higher_than_one_class_for_all():
    criterion, _ = choose_criterion(read_votes(VOTES), None, 0.2, np.random.default_rng(0), fixed=False)
    right, constant = (
        np.log(np.eye(3)[decided] + 0.01) for decided in (TRUTH[criterion.rows], np.zeros(len(criterion.rows), int))
    )
    assert criterion.score(right) > criterion.score(constant)


def test_gold_score_is_accuracy_and_then_the_log_loss():
    criterion = GoldScore(torch.arange(3), np.array([0, 1, 1]))
    answers = np.log([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    accuracy, log_probability = criterion.score(answers)
    assert_close(accuracy, 2 / 3)
    assert_close(log_probability, (np.log(0.9) + np.log(0.8) + np.log(0.4)) / 3)


def test_the_criterion_follows_from_what_is_known():
    table, gold = read_votes(VOTES), some_gold(TRUTH, 5)
    chance = np.random.default_rng(0)
    covered = np.flatnonzero(table.covered).tolist()
    by_gold, learned = choose_criterion(table, gold, 0.1, chance, fixed=False)
    assert isinstance(by_gold, GoldScore)
    assert learned.tolist() == covered
    assert by_gold.rows.tolist() == np.flatnonzero(gold >= 0).tolist()
    assert choose_criterion(table, gold, 0.1, chance, fixed=True)[0] is None
    assert choose_criterion(table.rows(slice(40)), None, 0.1, chance, fixed=False)[0] is None


@MODELS
def test_the_best_epoch_is_kept_and_patience_ends_the_fit(model):
    told = []
    gold = some_gold(TRUTH, 4)
    found = fitted(model, gold, stopping="auto", patience=3, max_iter=60, progress=told.append)
    scores = [epoch.score for epoch in told]
    assert found.scores_ == scores
    assert [epoch.number for epoch in told] == list(range(1, len(told) + 1))
    assert found.report_.converged
    assert len(told) - found.best_iter_ == 3
    assert scores[found.best_iter_ - 1] == max(scores)
    assert f"epoch {found.best_iter_} of {len(told)} were kept, by the accuracy on 50 known items" in str(found.report_)
    known = gold >= 0
    right = (found.predict_proba(VOTES, features=FEATURES).argmax(axis=1) == gold)[known].mean()
    assert_close(right, max(scores))
    with pytest.warns(NotConvergedWarning):
        shorter = fitted(model, gold, stopping="auto", patience=50, max_iter=found.best_iter_)
    assert all(np.array_equal(value, shorter.weights_[name]) for name, value in found.weights_.items())


@MODELS
def test_gold_decides_when_to_stop_and_nothing_else(model):
    with_gold, without = fitted(model, some_gold(TRUTH, 4)), fitted(model)
    assert all(np.array_equal(value, without.weights_[name]) for name, value in with_gold.weights_.items())
    assert without.report_.iterations == without.best_iter_ == QUICK["max_iter"]


@MODELS
def test_items_held_out_are_not_learned_from(model):
    table = read_votes(VOTES)
    criterion, learned = choose_criterion(table, None, 0.1, np.random.default_rng(0), fixed=False)
    aside = criterion.rows.numpy()[len(learned) :]
    changed = VOTES.copy()
    changed[aside] = np.where(VOTES[aside] >= 0, (VOTES[aside] + 1) % 3, -1)
    fits = [
        quiet(lambda votes=votes: model(**QUICK, patience=12).fit(votes, features=FEATURES)).report_.history
        for votes in (VOTES, changed)
    ]
    assert fits[0] == fits[1]


@MODELS
def test_the_loss_falls(model):
    terms = fitted(model).report_.objective
    assert terms[-1] < terms[0]


@MODELS
def test_global_random_numbers_and_threads_are_left_alone(model):
    torch.manual_seed(11)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first = fitted(model).weights_
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    torch.manual_seed(12)
    again = fitted(model).weights_
    assert all(np.array_equal(value, again[name]) for name, value in first.items())
    other = fitted(model, random_state=1).weights_
    assert not np.array_equal(other["classifier.0.weight"], first["classifier.0.weight"])


@MODELS
def test_a_loss_that_is_no_number_is_a_clear_error(model):
    with pytest.raises(ModelError, match=r"loss of epoch \d+ is not a number.*learning_rate"):
        fitted(model, learning_rate=1e30)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that PyTorch can use")


@needs_gpu
@MODELS
def test_a_gpu_gives_the_same_fit_twice_and_answers_like_the_cpu(model):
    one, two = (fitted(model, device="cuda") for _ in range(2))
    assert all(np.array_equal(value, two.weights_[name]) for name, value in one.weights_.items())
    found = one.predict(VOTES, features=FEATURES)
    assert (found == TRUTH).mean() > (VOTES >= 0).any(axis=1).mean() * 0.8
