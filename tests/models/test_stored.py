"""Models over votes on disk: the answers of memory, the bits of one thread, and a fit that survives its death."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.base import clone

from labelfable import EBCC, FABLE, IBCC, DawidSkene, MajorityVote, MeTaL, load, open_votes
from labelfable.errors import FileError, InputError, ModelError
from labelfable.inference import spill
from labelfable.models import stored as stored_module
from labelfable.models.checkpoint import checkpoint_of
from labelfable.models.fable import search
from labelfable.models.stored import distinct_rows, engine_for
from tests.crowds import planted_votes, some_gold
from tests.tolerances import assert_close

N_ITEMS = 2 * stored_module.RUN_ITEMS + 1234
VOTES, TRUTH = planted_votes(N_ITEMS, [0.8, 0.75, 0.7, 0.65, 0.6], 3, coverage=0.7)
FEATURES = (np.random.default_rng(1).normal(size=(N_ITEMS, 6)) + 1.5 * np.eye(3, 6)[TRUTH]).astype(np.float32)
GOLD = some_gold(TRUTH, 50)
QUICK = {"max_iter": 6, "tol": 0.0}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    np.save(folder / "v.npy", VOTES.astype(np.int8))
    np.save(folder / "x.npy", FEATURES)
    return folder


@pytest.fixture
def votes(files):
    return open_votes(files / "v.npy")


@pytest.fixture
def over_items(monkeypatch):
    """No room for distinct rows, so that models sweep over the files."""
    monkeypatch.setattr(stored_module, "MEMORY_SHARE", 10**9)


def made(kind, **settings):
    alone = {"calibration": "none"} if kind is FABLE else {}  # votes on disk are fitted once
    return kind(**({**QUICK, **alone, **settings} if kind is not MajorityVote else settings))


@pytest.fixture(autouse=True)
def quiet(recwarn):
    """Six sweeps are too few to converge, which is said aloud; here it does not matter."""
    import warnings

    from labelfable.errors import NotConvergedWarning

    warnings.simplefilter("ignore", NotConvergedWarning)


# -- votes alone ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [MajorityVote, DawidSkene, IBCC, EBCC, MeTaL])
@pytest.mark.parametrize("with_gold", [False, True])
def test_distinct_rows_give_the_fit_of_memory_bit_for_bit(votes, kind, with_gold):
    y = GOLD if with_gold else None
    settings = {"n_init": 2} if kind is EBCC else {}
    memory, disk = (made(kind, **settings).fit(each, y) for each in (VOTES, votes))
    assert np.array_equal(disk.predict_proba(votes), memory.predict_proba(VOTES))
    assert np.array_equal(disk.predict(votes), memory.predict(VOTES))
    plain = {key: value for key, value in memory.report_.as_dict().items() if key != "seconds"}
    assert plain == {key: value for key, value in disk.report_.as_dict().items() if key != "seconds"}


@pytest.mark.parametrize("kind", [DawidSkene, IBCC])
@pytest.mark.parametrize("with_gold", [False, True])
@pytest.mark.usefixtures("over_items")
def test_sweeps_over_files_find_the_fit_of_memory(votes, kind, with_gold):
    y = GOLD if with_gold else None
    memory, disk = (made(kind, abstain="label").fit(each, y) for each in (VOTES, votes))
    assert disk.report_.n_distinct == N_ITEMS > memory.report_.n_distinct
    assert_close(disk.predict_proba(votes), memory.predict_proba(VOTES), "sweeps")
    assert disk.report_.contradicted == memory.report_.contradicted
    assert disk.report_.changed_share == memory.report_.changed_share
    assert disk.report_.n_covered == memory.report_.n_covered


@pytest.mark.usefixtures("over_items")
def test_threads_and_spilled_shards_change_no_bit(votes, monkeypatch):
    found = []
    for n_jobs, share in ((1, 0.4), (3, 0.4), (1, 0.0), (3, 0.0)):
        monkeypatch.setattr(spill, "MEMORY_SHARE", share)
        found.append(made(EBCC, n_init=1, n_jobs=n_jobs).fit(votes).predict_proba(votes))
    assert all(np.array_equal(other, found[0]) for other in found[1:])


@pytest.mark.usefixtures("over_items")
def test_a_model_that_needs_rows_in_memory_says_so(votes):
    with pytest.raises(ModelError, match=r"too many of the .* differ for MeTaL"):
        MeTaL().fit(votes)


def test_a_model_with_features_that_needs_them_in_memory_says_so(votes):
    class Other(MajorityVote):
        def _fit_table(self, table, gold, features):
            raise NotImplementedError

    with pytest.raises(ModelError, match="Other needs votes and features in memory"):
        Other().fit(votes)


def test_looking_for_repeats_ends_where_there_are_none(tmp_path):
    draws = np.random.default_rng(0)
    np.save(tmp_path / "v.npy", draws.integers(0, 5, size=(12 * stored_module.RUN_ITEMS, 30)).astype(np.int8))
    votes = open_votes(tmp_path / "v.npy")
    looked = []
    reads = stored_module.ItemFiles.load
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            stored_module.ItemFiles, "load", lambda self, *edges: looked.append(edges[0]) or reads(self, *edges)
        )
        assert distinct_rows(votes, None, engine_for(DawidSkene(n_jobs=1))) is None
    assert len(looked) < 12


def test_gold_that_names_another_class_adds_it(votes):
    y = np.full(N_ITEMS, -1)
    y[3] = 3
    model = made(DawidSkene).fit(votes, y)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    labels = made(DawidSkene).fit_predict(votes, GOLD)
    assert np.array_equal(labels[GOLD >= 0], GOLD[GOLD >= 0])


# -- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", ["random", "first", "abstain"])
def test_the_label_file_is_the_label_table(votes, tmp_path, ties):
    model = made(MajorityVote, random_state=7).fit(votes)
    model.label_file(votes, tmp_path / "labels.parquet", ties=ties)
    written, table = parquet.read_table(tmp_path / "labels.parquet"), model.label_table(VOTES, ties=ties)
    assert written.column_names == table.column_names
    assert written.to_pydict() == table.to_pydict()
    with pytest.raises(InputError, match="label_file"):
        model.label_table(votes)
    with pytest.raises(InputError, match="label_table"):
        model.label_file(VOTES, tmp_path / "labels.parquet")


def test_a_label_file_is_whole_or_not_there(files, tmp_path):
    (tmp_path / "v.npy").write_bytes((files / "v.npy").read_bytes())
    votes = open_votes(tmp_path / "v.npy")
    model = made(MajorityVote).fit(votes)
    (tmp_path / "labels.parquet").write_text("before")
    (tmp_path / "v.npy").unlink()
    with pytest.raises(FileError, match=r"v\.npy"):
        model.label_file(votes, tmp_path / "labels.parquet")
    assert (tmp_path / "labels.parquet").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["labels.parquet"]


def test_new_votes_must_have_the_sources_and_classes_of_the_fit(votes, tmp_path):
    model = made(DawidSkene).fit(votes)
    np.save(tmp_path / "four.npy", VOTES[:100, :4])
    with pytest.raises(InputError, match="4 sources, the fit saw 5"):
        model.predict(open_votes(tmp_path / "four.npy"))
    np.save(tmp_path / "more.npy", VOTES[:100] + (VOTES[:100] == 2))
    with pytest.raises(InputError, match="class 3"):
        model.predict(open_votes(tmp_path / "more.npy"))


def test_item_names_are_carried_through(tmp_path):
    table = pa.table({"id": [f"n{k}" for k in range(30)], "a": VOTES[:30, 0] % 2, "b": abs(VOTES[:30, 1]) % 2})
    parquet.write_table(table, tmp_path / "v.parquet", row_group_size=7)
    votes = open_votes(tmp_path / "v.parquet")
    MajorityVote().fit(votes).label_file(votes, tmp_path / "labels.parquet")
    assert parquet.read_table(tmp_path / "labels.parquet").column("item").to_pylist() == [f"n{k}" for k in range(30)]


# -- FABLE ------------------------------------------------------------------------------------------------------------

FABLES = [{}, {"emission": "silence", "uncovered": "in"}, {"kernel": "rbf", "n_inducing": 12}, {"tilt": "posterior"}]
SUBTYPES = {"n_subtypes": 2, "n_init": 2}


@pytest.mark.parametrize("settings", FABLES, ids=str)
def test_fable_on_disk_is_fable_in_memory(files, votes, settings):
    """Not to the last bit: items without votes are left out within each shard, so shards are cut elsewhere."""
    memory, disk = made(FABLE, **settings), made(FABLE, **settings)
    memory.fit(VOTES, GOLD, features=FEATURES)
    disk.fit(votes, GOLD, features=files / "x.npy")
    one, other = memory.predict_proba(VOTES, features=FEATURES), disk.predict_proba(votes, features=files / "x.npy")
    assert_close(other.astype(np.float32), one.astype(np.float32), "sweeps")
    bounds = (np.array(model.report_.objective, dtype=np.float32) / N_ITEMS for model in (disk, memory))
    assert_close(*bounds, "sweeps")
    assert_close(disk.report_.changed_share, memory.report_.changed_share, "sweeps")


@pytest.mark.parametrize("settings", [{}, SUBTYPES, {"kernel": "rbf", "n_inducing": 12}], ids=str)
def test_fable_finds_the_same_bits_with_any_threads_in_memory_or_spilled(files, votes, settings, monkeypatch):
    found = []
    for n_jobs, share in ((1, 0.4), (3, 0.4), (3, 0.0)):
        monkeypatch.setattr(spill, "MEMORY_SHARE", share)
        model = made(FABLE, n_jobs=n_jobs, **settings).fit(votes, features=files / "x.npy")
        found.append(model.predict_proba(votes, features=files / "x.npy"))
    assert all(np.array_equal(other, found[0]) for other in found[1:])
    assert np.mean(found[0].argmax(axis=1) == TRUTH) > 0.9


def test_fable_without_features_and_with_too_little_memory(files, votes):
    alone = made(FABLE).fit(votes)
    assert_close(alone.predict_proba(votes), made(FABLE).fit(VOTES).predict_proba(VOTES), "sweeps")
    from dataclasses import replace

    with pytest.raises(ModelError, match=r"too little for 4,096 items at once.*Allow"):
        made(FABLE).fit(replace(votes, memory=10**6), features=files / "x.npy")
    with pytest.raises(ModelError, match="published"):
        FABLE(inference="published").fit(votes, features=files / "x.npy")


def test_a_class_prior_that_is_learned_is_the_mean_of_the_labels(files, votes):
    disk = made(FABLE, class_prior="learned").fit(votes, features=files / "x.npy")
    memory = made(FABLE, class_prior="learned").fit(VOTES, features=FEATURES)
    assert_close(disk.class_prior_.astype(np.float32), memory.class_prior_.astype(np.float32), "sweeps")


def test_a_spilled_shard_that_is_damaged_is_named(files, votes, monkeypatch):
    monkeypatch.setattr(search, "SAMPLE_ITEMS", 4096)
    monkeypatch.setattr(spill, "MEMORY_SHARE", 0.0)
    write = spill.write_arrays

    def cut(path, arrays):
        write(path, arrays)
        if path.endswith("1"):
            with open(path, "r+b") as handle:  # noqa: PTH123 (to cut it short)
                handle.truncate(1000)

    monkeypatch.setattr(spill, "write_arrays", cut)
    with pytest.raises(FileError, match=r"this shard is damaged.*shard-000001"):
        made(FABLE).fit(votes, features=files / "x.npy")


# -- checkpoints ------------------------------------------------------------------------------------------------------

KILLED = """
import sys, numpy as np, warnings
from labelfable import DawidSkene, EBCC, FABLE, open_votes
from labelfable.models.checkpoint import FolderCheckpoint
warnings.simplefilter("ignore")
save, sweeps = FolderCheckpoint.save, int(sys.argv[4])
def told(self, state):
    save(self, state)
    if len(state.terms) >= sweeps:
        print("saved", flush=True)
        __import__("time").sleep(60)
FolderCheckpoint.save = told
folder, kind, settings = sys.argv[1], sys.argv[2], __import__("json").loads(sys.argv[3])
model = {"EBCC": EBCC, "FABLE": FABLE}[kind](**settings)
model.fit(open_votes(folder + "/v.npy"), features=folder + "/x.npy")
"""


@pytest.mark.parametrize("kind", [EBCC, FABLE])
def test_a_fit_that_is_killed_goes_on_to_the_same_bits(files, votes, tmp_path, kind):
    settings = {"max_iter": 9, "tol": 0.0} | ({"n_init": 2} if kind is EBCC else {})
    whole = kind(**settings).fit(votes, features=files / "x.npy")
    settings["checkpoint"] = str(tmp_path / "kept")
    command = [sys.executable, "-c", KILLED, str(files), kind.__name__, json.dumps(settings), "5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"saved\n"
        process.send_signal(signal.SIGKILL)
    again = kind(**settings).fit(votes, features=files / "x.npy")
    names = {"features": files / "x.npy"}
    assert np.array_equal(again.predict_proba(votes, **names), whole.predict_proba(votes, **names))
    assert again.report_.history == whole.report_.history


def test_a_resumed_fit_starts_where_the_last_one_ended(votes, tmp_path):
    settings = {"tol": 0.0, "max_iter": 7, "checkpoint": tmp_path}
    whole = DawidSkene(tol=0.0, max_iter=7).fit(VOTES)
    first = DawidSkene(**settings).fit(VOTES)
    swept = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labelfable.models.dawid_skene.local_statistics", lambda *_: swept.append(1))
        second = DawidSkene(**settings).fit(VOTES)
    assert not swept
    for model in (first, second):
        assert np.array_equal(model.predict_proba(VOTES), whole.predict_proba(VOTES))
        assert model.report_.history == whole.report_.history
    assert np.array_equal(DawidSkene(**settings).fit(votes).predict_proba(votes), whole.predict_proba(VOTES))


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    DawidSkene(max_iter=3, tol=0.0, checkpoint=tmp_path).fit(VOTES)
    for other in (
        lambda: DawidSkene(max_iter=4, tol=0.0, checkpoint=tmp_path).fit(VOTES),
        lambda: DawidSkene(max_iter=3, tol=0.0, checkpoint=tmp_path).fit(VOTES[:-1]),
        lambda: DawidSkene(max_iter=3, tol=0.0, checkpoint=tmp_path).fit(VOTES, GOLD),
    ):
        with pytest.raises(FileError, match="checkpoint is of another fit"):
            other()
    DawidSkene(max_iter=3, tol=0.0, checkpoint=tmp_path, n_jobs=1).fit(VOTES)
    assert checkpoint_of(DawidSkene(), "sweeps") is None


def test_a_saved_model_forgets_where_it_was_fitted(tmp_path):
    model = DawidSkene(max_iter=2, checkpoint=tmp_path / "kept").fit(VOTES)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").checkpoint is None


def test_an_engine_that_cannot_be_copied_is_shared_by_clones():
    class Client:
        def submit(self): ...
        def gather(self): ...
        def __deepcopy__(self, memo):
            raise TypeError

    client = Client()
    twin = clone(DawidSkene(engine=client, smoothing=0.5))
    assert twin.engine is client
    assert twin.smoothing == 0.5


@pytest.mark.parametrize("settings", [{}, SUBTYPES, {"learn": ["variance"]}], ids=str)
def test_fable_begins_on_a_sample_where_items_are_many(files, votes, settings, monkeypatch):
    monkeypatch.setattr(search, "SAMPLE_ITEMS", 4096)
    found = []
    for n_jobs, share in ((1, 0.4), (3, 0.4), (3, 0.0)):
        monkeypatch.setattr(spill, "MEMORY_SHARE", share)
        model = made(FABLE, n_jobs=n_jobs, **settings).fit(votes, features=files / "x.npy")
        found.append(model.predict_proba(votes, features=files / "x.npy"))
    assert all(np.array_equal(other, found[0]) for other in found[1:])
    memory = made(FABLE, **settings).fit(VOTES, features=FEATURES).predict_proba(VOTES, features=FEATURES)
    assert np.mean(memory.argmax(axis=1) == found[0].argmax(axis=1)) > 0.99
