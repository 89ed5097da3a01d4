"""The cluster's promises: the bits of one thread, whoever dies; and a clear error where nobody is left."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from dataclasses import dataclass

import cloudpickle
import numpy as np
import pytest

from labelfable import EBCC, FABLE, IBCC, DawidSkene, MajorityVote, open_votes
from labelfable.errors import EngineError, FileError, ModelError, NotConvergedWarning
from labelfable.inference.convergence import Stopping
from labelfable.inference.dask_engine import DaskEngine, HeldRuns, dask_engine, run_length
from labelfable.inference.execution import Serial, Threads, engine_of
from labelfable.inference.shards import StoredShard
from labelfable.inference.sweep import SweepState, run_sweeps
from labelfable.models.stored import RUN_ITEMS
from tests.clusters import Cluster
from tests.crowds import planted_votes

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import tests
N_SHARDS = 13
ROWS = 700


@dataclass(frozen=True)
class Numbers:
    """Shards of features in a file: uneven, float32, with products whose last digits tell how they were made."""

    path: str
    seconds: float = 0.0

    def load(self, start, stop, gold):
        del gold
        try:
            numbers = np.load(self.path)[start:stop]
        except (OSError, ValueError) as error:
            raise FileError("cannot read this file", where=self.path) from error
        return numbers


@dataclass(frozen=True)
class PowerSteps:
    """A power iteration: the globals are a direction, the statistics X'Xw and X'X."""

    seconds: float = 0.0

    def start(self, shard):
        return None, np.concatenate([(shard.T @ shard)[0], [1.0]])

    def local_step(self, shard, local, global_):
        time.sleep(self.seconds)
        return local, np.concatenate([shard.T @ (shard @ global_.astype(np.float32)), [1.0]])

    def global_step(self, statistics):
        return statistics[:-1] / np.linalg.norm(statistics[:-1])

    def bound(self, statistics, global_):
        return {"Rayleigh": float(statistics[:-1] @ global_) / 1e4, "shards": statistics[-1]}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    numbers = np.random.default_rng(0).normal(size=(N_SHARDS * ROWS - 123, 33)).astype(np.float32)
    file = tmp_path_factory.mktemp("numbers") / "x.npy"
    np.save(file, numbers)
    return file


def shards_of(path):
    source, whole = Numbers(str(path)), len(np.load(path, mmap_mode="r"))
    return [StoredShard(source, first, min(first + ROWS, whole)) for first in range(0, whole, ROWS)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.add_workers(2)
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(cluster):
    with cluster.client() as made:
        made.wait_for_workers(2, timeout=30)
        yield made


def sweep(engine, path, sweeps=6, seconds=0.0, **options):
    return run_sweeps(PowerSteps(seconds), shards_of(path), engine, Stopping(-1e9, sweeps, 1), **options)


def assert_same_bits(one, other):
    assert np.array_equal(one.global_, other.global_)
    assert one.history.terms == other.history.terms


def test_runs_are_powers_of_two_and_leave_each_thread_some():
    for n_shards in (1, 2, 13, 600, 70_000):
        for wanted in (1, 4, 8, 1600):
            run = run_length(n_shards, wanted)
            assert run & (run - 1) == 0
            assert run == 1 or -(-n_shards // run) >= wanted


def test_two_workers_find_what_one_thread_finds_bit_for_bit(client, path):
    alone = sweep(Serial(), path)
    assert_same_bits(sweep(Threads(3), path), alone)
    assert_same_bits(sweep(DaskEngine(client), path), alone)
    in_memory = [shard.load() for shard in shards_of(path)]
    found = run_sweeps(PowerSteps(), in_memory, DaskEngine(client), Stopping(-1e9, 6, 1))
    assert_same_bits(found, alone)


def test_answers_come_in_order_and_errors_of_the_work_as_they_are(client, path):
    engine = DaskEngine(client)
    assert list(engine.map(lambda number: number**2, list(range(40)))) == [number**2 for number in range(40)]
    means = list(engine.map(np.mean, shards_of(path)))
    assert means == list(Serial().map(np.mean, shards_of(path)))
    with pytest.raises(ZeroDivisionError):
        list(engine.map(lambda number: 1 / (number - 3), list(range(5))))


@pytest.fixture(scope="module")
def votes_and_features(tmp_path_factory):
    folder, n_items = tmp_path_factory.mktemp("items"), 2 * RUN_ITEMS + 321
    votes, truth = planted_votes(n_items, [0.8, 0.7, 0.6, 0.6], 3)
    features = np.random.default_rng(0).normal(size=(n_items, 5)) + np.eye(3, 5)[truth]
    np.save(folder / "v.npy", votes.astype(np.int8))
    np.save(folder / "x.npy", features.astype(np.float32))
    return open_votes(folder / "v.npy"), folder / "x.npy"


@pytest.mark.parametrize("kind", [MajorityVote, DawidSkene, IBCC, EBCC, FABLE])
@pytest.mark.parametrize("over_items", [False, True])
def test_every_sweep_model_finds_the_same_bits_on_the_cluster(
    client, votes_and_features, kind, over_items, monkeypatch
):
    votes, features = votes_and_features
    if over_items:
        if kind in {MajorityVote, FABLE}:
            pytest.skip("majority vote needs no sweep, FABLE never sweeps over distinct rows")
        monkeypatch.setattr("labelfable.models.stored.MEMORY_SHARE", 10**9)
    settings = {} if kind is MajorityVote else {"max_iter": 4, "tol": 0.0}
    settings |= {"n_init": 1} if kind is EBCC else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        found = [kind(engine=engine, **settings).fit(votes, features=features) for engine in (None, client)]
    alone, spread = (model.predict_proba(votes, features=features) for model in found)
    assert np.array_equal(alone, spread)
    assert found[0].report_.history == found[1].report_.history


def test_a_single_shard_stays_in_this_process(client):
    held = DaskEngine(client).hold([np.ones((3, 2))])
    assert not isinstance(held, HeldRuns)


def test_a_worker_killed_in_the_middle_of_a_sweep_and_a_third_one_change_nothing(cluster, client, path):
    alone = sweep(Serial(), path)
    deaths = threading.Timer(1.0, lambda: (cluster.kill_workers(1), cluster.add_workers(2)))
    deaths.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sweep(DaskEngine(client), path, seconds=0.05)
    deaths.join()
    assert_same_bits(found, alone)
    client.wait_for_workers(3, timeout=30)
    assert_same_bits(sweep(DaskEngine(client), path), alone)


def test_a_file_that_is_cut_short_is_named(client, path, tmp_path):
    broken = tmp_path / "short.npy"
    broken.write_bytes(path.read_bytes()[:5000])
    shards = [StoredShard(Numbers(str(broken)), shard.start, shard.stop) for shard in shards_of(path)]
    with pytest.raises(FileError, match=r"short\.npy"):
        run_sweeps(PowerSteps(), shards, DaskEngine(client), Stopping(-1e9, 2, 1))


class Kept:
    """A checkpoint in memory, which may call somebody after a number of sweeps."""

    def __init__(self, after=0, call=lambda: None):
        self.state: SweepState | None = None
        self.saved = 0
        self.after, self.call = after, call

    def load(self):
        return self.state

    def save(self, state):
        self.state, self.saved = state, self.saved + 1
        if self.saved == self.after:
            self.call()


def test_without_workers_the_fit_ends_with_an_error_and_goes_on_from_its_checkpoint(cluster, client, path):
    alone = sweep(Serial(), path)
    kept = Kept(3, lambda: cluster.kill_workers(len(cluster.workers)))
    with pytest.raises(EngineError, match=r"no worker is left.*checkpoint"):
        sweep(DaskEngine(client, grace=1.0), path, checkpoint=kept)
    assert 0 < len(kept.state.terms) < 6
    cluster.add_workers(1, client)
    assert_same_bits(sweep(DaskEngine(client), path, checkpoint=kept), alone)


def test_without_the_scheduler_it_does_too(cluster, client, path):
    alone = sweep(Serial(), path)
    kept = Kept(3, cluster.kill_scheduler)
    with pytest.raises(EngineError, match=r"the cluster is gone.*checkpoint"):
        sweep(DaskEngine(client, grace=1.0), path, checkpoint=kept)
    assert_same_bits(sweep(Threads(2), path, checkpoint=kept), alone)


def test_engines_are_named_by_word_address_or_client(monkeypatch):
    monkeypatch.setattr("labelfable.inference.dask_engine.GRACE_SECONDS", 0.5)
    with pytest.raises(EngineError, match=r"no Dask scheduler answers \(tcp://127.0.0.1:9\)"):
        dask_engine("tcp://127.0.0.1:9")
    with pytest.raises(ModelError, match="is no engine"):
        engine_of(1, 7)
