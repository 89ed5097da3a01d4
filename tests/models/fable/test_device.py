"""FABLE on a device: the answer of NumPy, the same bits each time, streamed as well as held; errors that help."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from labelfable import FABLE, load, open_votes
from labelfable.errors import InputError, LabelfableWarning, MissingExtraError, ModelError
from labelfable.inference import device_engine
from labelfable.inference.device_engine import DeviceEngine, bytes_allowed
from tests.crowds import planted_votes
from tests.tolerances import assert_close

torch = pytest.importorskip("torch", reason="needs torch: it comes with the extra `gpu`")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
SETTINGS = {
    "linear": {},
    "axes": {"max_components": 3},
    "rbf": {"kernel": "rbf", "n_inducing": 12, "scaling": "whiten"},
    "cosine": {"kernel": "cosine", "n_inducing": 12, "scaling": "normalise"},
    "posterior": {"tilt": "posterior", "kernel": "matern32", "n_inducing": 12},
    "subtypes": {"n_subtypes": 2, "n_init": 1, "emission": "silence"},
    "conditional": {"reading": "conditional", "normaliser": "factored", "class_prior": "learned"},
    "rates": {"emission": "rates", "tables": "posterior", "uncovered": "in"},
}
SWEEPS = 4
PROBABILITY = 1e-4
BOUND = 1e-5


@pytest.fixture(params=DEVICES)
def device(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def scene():
    votes, truth = planted_votes(600, [0.9, 0.7, 0.65, 0.8], 3, coverage=0.5, seed=3)
    draws = np.random.default_rng(4)
    features = np.eye(3)[truth] @ draws.standard_normal((3, 5)) + 0.7 * draws.standard_normal((600, 5))
    return votes, features, truth


def fitted(scene, dtype="float64", gold=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        model = FABLE(**({"max_iter": SWEEPS, "tol": 0.0, "calibration": "none"} | settings))
        return model.fit(scene[0], gold, features=scene[1].astype(dtype))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_it_finds_what_numpy_finds(scene, device, name, dtype):
    votes, features = scene[0], scene[1].astype(dtype)
    expected, found = fitted(scene, dtype, **SETTINGS[name]), fitted(scene, dtype, device=device, **SETTINGS[name])
    one, other = (model.predict_proba(votes, features=features) for model in (expected, found))
    assert found.n_iter_ == expected.n_iter_
    if dtype == "float64":
        assert_close(other, one, "sweeps")
        assert_close(np.array(found.report_.objective), np.array(expected.report_.objective), "sweeps")
    assert np.abs(other - one).max() <= PROBABILITY
    assert abs(found.report_.objective[-1] / expected.report_.objective[-1] - 1) <= BOUND
    top = np.sort(one, axis=1)
    clear = top[:, -1] - top[:, -2] > 2 * PROBABILITY
    np.testing.assert_array_equal(other.argmax(axis=1)[clear], one.argmax(axis=1)[clear])


def test_two_runs_give_the_same_bits(scene, device):
    one, other = (fitted(scene, "float32", device=device, kernel="rbf", max_iter=20) for _ in range(2))
    np.testing.assert_array_equal(one.globals_.weights.mean, other.globals_.weights.mean)
    assert one.report_.objective == other.report_.objective


def test_known_labels_count_and_are_not_copied_into_predictions(scene, device):
    votes, features, truth = scene
    gold = np.where(np.arange(len(truth)) % 7 == 0, truth, -1)
    one, other = (
        fitted(scene, gold=gold, device=place).predict_proba(votes, features=features) for place in (None, device)
    )
    assert_close(other, one, "sweeps")


def test_missing_features_leave_an_item_to_its_votes(scene, device):
    features = scene[1].copy()
    features[::9, 2] = np.nan
    holes = scene[0], features, scene[2]
    one, other = (
        fitted(holes, missing="ignore", kernel="rbf", device=place).predict_proba(scene[0], features=features)
        for place in (None, device)
    )
    assert_close(other, one, "sweeps")


def test_sparse_features_and_no_features_are_taken(scene, device):
    votes = scene[0]
    features = sp.csr_array(np.where(scene[1] > 0, scene[1], 0.0))
    for given in (features, None):
        one, other = (FABLE(max_iter=SWEEPS, tol=0.0, device=place, calibration="none") for place in (None, device))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelfableWarning)
            one, other = (
                model.fit(votes, features=given).predict_proba(votes, features=given) for model in (one, other)
            )
        assert_close(other, one, "sweeps")


@pytest.fixture
def small_shards(monkeypatch):
    """A sample and many shards, as with many items."""
    monkeypatch.setattr("labelfable.models.fable.search.SAMPLE_ITEMS", 100)
    monkeypatch.setattr("labelfable.models.fable.search.SAMPLE_ITEMS_A_COLUMN", 1)
    monkeypatch.setattr(device_engine, "MOST_ROWS", 64)
    monkeypatch.setattr(device_engine, "FEWEST_ROWS", 64)


def test_many_shards_after_a_sample_find_what_numpy_finds(scene, device, small_shards):
    one, other = (fitted(scene, device=place).predict_proba(scene[0], features=scene[1]) for place in (None, device))
    assert_close(other, one, "sweeps")


def test_shards_that_wait_on_the_host_change_no_bit(scene, device, small_shards, monkeypatch):
    held = fitted(scene, "float32", device=device)
    pinned, pin = [], DeviceEngine._pinned
    monkeypatch.setattr(DeviceEngine, "_pinned", lambda engine, one: pinned.append(one.shape) or pin(engine, one))
    streamed = fitted(scene, "float32", device=device, device_memory=60_000)
    assert pinned
    np.testing.assert_array_equal(held.globals_.weights.mean, streamed.globals_.weights.mean)
    assert held.report_.objective == streamed.report_.objective


def test_only_what_fits_half_of_the_memory_is_held(device):
    shards = [{"phi": np.zeros((100, 10))} for _ in range(8)]  # 8,000 bytes each
    held = DeviceEngine(device, "48kB").hold(shards)
    waiting = [isinstance(shard, device_engine._Waiting) for shard in held]
    assert waiting == [False] * 3 + [True] * 5
    with pytest.raises(ModelError, match="too little"):
        DeviceEngine(device, "10kB").hold(shards)


def test_a_fitted_model_is_of_numpy_and_moves(scene, device, tmp_path):
    model = fitted(scene, device=device)
    assert isinstance(model.globals_.weights.mean, np.ndarray)
    there = model.predict_proba(scene[0], features=scene[1])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model").set_params(device=None)
    assert_close(again.predict_proba(scene[0], features=scene[1]), there, "sweeps")
    again.partial_fit(scene[0], features=scene[1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_features_on_a_gpu_stay_there(scene):
    votes, features = scene[0], torch.tensor(scene[1], device="cuda")
    expected = fitted(scene, kernel="rbf").predict_proba(votes, features=scene[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        model = FABLE(kernel="rbf", max_iter=SWEEPS, tol=0.0, calibration="none").fit(votes, features=features)
    assert_close(model.predict_proba(votes, features=features), expected, "sweeps")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"device": "gpu:x"}, "is no device"),
        ({"device": "meta"}, "not supported"),
        ({"device": "cpu", "device_memory": "lots"}, "no amount of memory"),
        ({"device": "cpu", "inference": "published"}, "runs on the CPU"),
    ],
)
def test_settings_that_cannot_be_met_are_said(scene, settings, words):
    with pytest.raises(ModelError, match=words):
        fitted(scene, **settings)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_said(scene):
    with pytest.raises(ModelError, match="no GPU that PyTorch can use"):
        fitted(scene, device="cuda")


def test_no_torch_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtraError, match="needs PyTorch"):
        DeviceEngine("cuda")


def test_amounts_of_memory_are_read():
    place = torch.device("cpu")
    assert bytes_allowed("16GB", place) == bytes_allowed(16e9, place) == bytes_allowed("16000 mb", place)


def test_features_of_another_width_are_refused(scene, device):
    model = fitted(scene, device=device)
    with pytest.raises(InputError, match="columns"):
        model.predict_proba(scene[0], features=scene[1][:, :2])


def test_files_are_swept_on_a_device(scene, device, tmp_path):
    np.save(tmp_path / "v.npy", scene[0])
    np.save(tmp_path / "x.npy", scene[1].astype(np.float32))
    votes, settings = open_votes(tmp_path / "v.npy"), {"max_iter": SWEEPS, "tol": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        one, other = (
            FABLE(**settings, device=place, calibration="none").fit(votes, features=tmp_path / "x.npy")
            for place in (None, device)
        )
    features = scene[1].astype(np.float32)
    away = one.predict_proba(scene[0], features=features) - other.predict_proba(scene[0], features=features)
    assert np.abs(away).max() <= PROBABILITY


def test_an_average_of_fits_stays_one_on_a_device(scene, device):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        model = FABLE(max_iter=SWEEPS).fit(scene[0], features=scene[1])
    here = model.predict_proba(scene[0], features=scene[1])
    np.testing.assert_array_equal(model.set_params(device=device).predict_proba(scene[0], features=scene[1]), here)
    again = fitted(scene, device=device, calibration="votes")
    assert any("fits once" in note for note in again.report_.notes)
