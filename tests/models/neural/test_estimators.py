import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from labelfable import Denoise, WeaSEL, load, read_votes
from labelfable.errors import InputError, MissingExtraError, ModelError
from labelfable.models import registry
from tests.crowds import planted_votes, sparse_of
from tests.tolerances import assert_close

VOTES, TRUTH = planted_votes(300, [0.8, 0.7, 0.9, 0.75], 3, coverage=0.4, seed=2)
VOTES[::3] = -1
FEATURES = np.random.default_rng(3).normal(size=(3, 6))[TRUTH] * 2 + np.random.default_rng(4).normal(size=(300, 6))
BARE = (VOTES < 0).all(axis=1)
MODELS = pytest.mark.parametrize("model", [WeaSEL, Denoise])


def quick(model, **params):
    return model(**{"learning_rate": 0.01, "batch_size": 64, "max_iter": 12, "stopping": "fixed", **params})


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs the extra 'neural'")


def test_a_model_is_made_and_read_about_without_loading_torch():
    code = "import sys, labelfable as lf; print(lf.WeaSEL().get_params(), lf.Denoise(), 'torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.endswith("Denoise() False\n")


@MODELS
def test_where_torch_is_absent_a_fit_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(registry.PACKAGES_OF_EXTRA, "neural", "no_such_package_at_all")
    with pytest.raises(MissingExtraError, match=rf"{model.__name__} needs no_such.*pip install 'labelfable\[neural\]'"):
        quick(model).fit(VOTES, features=FEATURES)
    assert model.__name__ not in registry.available_models()


@MODELS
def test_a_fitted_model_says_so_too(model, torch, monkeypatch):
    found = quick(model).fit(VOTES, features=FEATURES)
    monkeypatch.setitem(registry.PACKAGES_OF_EXTRA, "neural", "no_such_package_at_all")
    with pytest.raises(MissingExtraError, match="no_such_package"):
        found.predict(VOTES, features=FEATURES)


@MODELS
def test_features_decide_where_there_are_no_votes(model, torch):
    found = quick(model, max_iter=30).fit(VOTES, features=FEATURES)
    labels = found.predict(VOTES, features=FEATURES)
    nearest = np.linalg.norm(
        FEATURES[:, None] - np.array([FEATURES[k == TRUTH].mean(axis=0) for k in range(3)]), axis=2
    )
    possible = (nearest.argmin(axis=1) == TRUTH)[BARE].mean()
    assert (labels == TRUTH)[BARE].mean() > possible - 0.1
    assert found.report_.n_covered == (~BARE).sum()


@MODELS
@pytest.mark.parametrize("answer", ["votes", "surer"])
def test_who_answers_can_be_chosen_after_the_fit(model, answer, torch):
    found = quick(model).fit(VOTES, features=FEATURES)
    by_features = found.predict_proba(VOTES, features=FEATURES)
    by_votes = found.set_params(answer="votes").predict_proba(VOTES, features=FEATURES)
    chosen = found.set_params(answer=answer).predict_proba(VOTES, features=FEATURES)
    assert np.array_equal(chosen[BARE], by_features[BARE])
    assert not np.array_equal(by_votes[~BARE], by_features[~BARE])
    if answer == "surer":
        surer = np.where((by_votes.max(axis=1) >= by_features.max(axis=1))[:, None], by_votes, by_features)
        assert np.array_equal(chosen[~BARE], surer[~BARE])


@MODELS
def test_sparse_votes_and_features_are_dense_ones(model, torch):
    some = np.where(np.abs(FEATURES) < 1, 0, FEATURES)
    expected = quick(model, scaling="none").fit(VOTES, features=some)
    found = quick(model, scaling="none").fit(sparse_of(VOTES), features=sp.csr_array(some))
    assert all(np.array_equal(value, expected.weights_[name]) for name, value in found.weights_.items())
    mixed = quick(model).fit(VOTES, features=sp.csr_array(some)).predict_proba(VOTES, features=some)
    assert_close(mixed.sum(axis=1), np.ones(300))


@MODELS
def test_columns_of_features_are_found_by_name(model, torch):
    frame = pd.DataFrame(FEATURES, columns=list("abcdef"))
    found = quick(model).fit(VOTES, features=frame)
    expected = found.predict_proba(VOTES, features=frame)
    assert_close(found.predict_proba(VOTES, features=frame[list("fedcba")]), expected)
    with pytest.raises(InputError, match="5 columns, the fit saw 6"):
        found.predict(VOTES, features=FEATURES[:, :5])


@MODELS
@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, "learns from features, and there are none"),
        (np.zeros((300, 0)), "have no column"),
        (np.zeros((299, 2)), "299 rows of features for 300 items"),
        (np.where(np.arange(300)[:, None] == 7, np.nan, FEATURES), "some features are missing.*item 7"),
    ],
)
def test_features_that_cannot_be_used_are_a_clear_error(model, features, message, torch):
    with pytest.raises(InputError, match=message):
        quick(model).fit(VOTES, features=features)


@MODELS
def test_what_cannot_be_fitted_is_a_clear_error(model, torch):
    with pytest.raises(ModelError, match="no item has a vote"):
        quick(model).fit(read_votes(np.full((300, 4), -1), classes=3), features=FEATURES)
    for device in ("cuda:99", "abacus"):
        with pytest.raises(ModelError, match=rf"device='{device}' cannot be used. PyTorch says"):
            quick(model, device=device).fit(VOTES, features=FEATURES)


def test_shares_beyond_one_are_a_clear_error(torch):
    with pytest.raises(ModelError, match="exceed 1 together"):
        quick(Denoise, denoiser_share=0.6, classifier_share=0.6).fit(VOTES, features=FEATURES)


@MODELS
def test_saving_leaves_the_progress_callback_out(model, torch, tmp_path):
    found = quick(model, progress=print).fit(VOTES, features=FEATURES)
    found.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.progress is None
    assert found.progress is print
    assert np.array_equal(loaded.predict_proba(VOTES, features=FEATURES), found.predict_proba(VOTES, features=FEATURES))
    assert {path.suffix for path in (tmp_path / "m").iterdir()} == {".json", ".npz"}
    assert loaded.weights_["classifier.0.weight"].dtype == np.float32
