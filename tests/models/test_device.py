"""Dawid-Skene, iBCC and EBCC on a device: the answer of NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from labelfable import EBCC, IBCC, DawidSkene, read_votes
from labelfable.errors import LabelfableWarning, ModelError
from tests.crowds import planted_votes, soft_of
from tests.tolerances import assert_close

torch = pytest.importorskip("torch", reason="needs torch: it comes with the extra `gpu`")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
MODELS = {
    "Dawid-Skene": (DawidSkene, {}),
    "silence": (DawidSkene, {"abstain": "label", "class_prior": "learned"}),
    "iBCC": (IBCC, {}),
    "EBCC": (EBCC, {"n_subtypes": 2, "n_init": 2}),
}


def fitted(name, votes, gold, device):
    kind, settings = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        return kind(max_iter=15, device=device, **settings).fit(votes, gold)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["hard", "soft", "gold"])
def test_they_find_what_numpy_finds(name, device, kind):
    votes, truth = planted_votes(500, [0.9, 0.7, 0.65, 0.8], 3, coverage=0.6, seed=5)
    given = soft_of(votes, 3) if kind == "soft" else votes
    gold = np.where(np.arange(len(truth)) % 5 == 0, truth, -1) if kind == "gold" else None
    one, other = (fitted(name, read_votes(given), gold, place) for place in (None, device))
    assert one.n_iter_ == other.n_iter_
    assert_close(other.predict_proba(given), one.predict_proba(given), "sweeps")
    assert_close(np.array(other.report_.objective), np.array(one.report_.objective), "sweeps")
    assert isinstance(other.confusion_, np.ndarray)


def test_a_device_and_a_cluster_are_too_much():
    with pytest.raises(ModelError, match="runs on the CPU"):
        DawidSkene(device="cpu", engine="dask").fit([[0, 1], [1, 1]])
