"""Votes as two maps on a device: the numbers of the maps on the host, dense and in bags; the same bits each time."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable import read_votes
from labelfable.votes import device_maps
from labelfable.votes.device_maps import DeviceMaps
from tests.crowds import planted_votes, soft_of, sparse_of
from tests.tolerances import assert_close

torch = pytest.importorskip("torch", reason="needs torch: it comes with the extra `gpu`")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
KINDS = ("dense", "sparse", "soft", "silence")


@pytest.fixture(params=DEVICES)
def device(request) -> str:
    return request.param


@pytest.fixture(params=KINDS)
def table(request):
    votes, _ = planted_votes(3000, [0.9, 0.7, 0.6, 0.8, 0.75], 3, coverage=0.6, seed=0)
    if request.param == "soft":
        return read_votes(soft_of(votes, 3))
    if request.param == "sparse":
        return read_votes(sparse_of(votes))
    found = read_votes(votes)
    return found.with_abstain_as_label() if request.param == "silence" else found


def maps_of(table, device, *, bags, monkeypatch):
    monkeypatch.setattr(device_maps, "DENSE_COLUMNS", 0 if bags else 128)
    monkeypatch.setattr(device_maps, "LONGEST_BAG", 64)
    return DeviceMaps.of(table.maps(), device)


@pytest.mark.parametrize("bags", [False, True])
def test_both_maps_have_the_numbers_of_the_host(table, device, bags, monkeypatch):
    draws = np.random.default_rng(1)
    weights = draws.standard_normal((table.n_sources, table.n_labels, 4))
    shares = draws.random((table.n_items, 4))
    maps = maps_of(table, device, bags=bags, monkeypatch=monkeypatch)
    single = table.layout.single
    found = maps.evidence(torch.tensor(single.pack(weights), device=device))
    assert_close(found.cpu().numpy(), table.evidence(weights), "sums")
    counts = maps.counts(torch.tensor(shares, device=device))
    assert_close(single.unpack(counts.cpu().numpy()), table.counts(shares), "sums")


@pytest.mark.parametrize("bags", [False, True])
def test_counts_in_single_precision_are_given_in_double_and_the_same_each_time(table, device, bags, monkeypatch):
    shares = torch.rand(table.n_items, 4, generator=torch.Generator().manual_seed(0)).to(device)
    maps = maps_of(table, device, bags=bags, monkeypatch=monkeypatch)
    first, second = maps.counts(shares), maps.counts(shares)
    assert first.dtype == torch.float64
    assert torch.equal(first, second)
    expected = table.counts(shares.cpu().numpy()).astype(np.float32)
    assert_close(table.layout.single.unpack(first.cpu().numpy()), expected, "sums")
