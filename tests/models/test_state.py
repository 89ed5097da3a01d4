from dataclasses import dataclass, fields, is_dataclass

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from labelfable.errors import FileError, ModelError
from labelfable.models import DawidSkene, MajorityVote
from labelfable.models.registry import available_models, load, model_named
from labelfable.models.report import FitReport
from labelfable.models.state import Reader, Writer
from labelfable.persistence import read_folder, write_folder
from tests.crowds import planted_votes

VOTES, TRUTH = planted_votes(300, [0.8, 0.7, 0.9, 0.6, 0.75], 3, coverage=0.6)
NEW_VOTES, _ = planted_votes(200, [0.8, 0.7, 0.9, 0.6, 0.75], 3, coverage=0.5, seed=1)
WORDS = np.array(["ant", "bee", "cat", None], dtype=object)


def frame_of(votes):
    """A polars table with names of items, sources and classes."""
    columns = {f"source {j}": WORDS[column].tolist() for j, column in enumerate(votes.T)}
    return pl.DataFrame({"item": [f"i{number}" for number in range(len(votes))], **columns})


def quick(name):
    """A model with few sweeps where it has sweeps, so that the test is about storing it."""
    model = model_named(name)()
    few = {"max_iter": 10, "n_init": 1, "tol": 1e-2}
    return model.set_params(**{key: value for key, value in few.items() if key in model.get_params()})


def same(one, other):
    """Equal in value, type and layout in memory."""
    assert type(one) is type(other)
    if is_dataclass(one):
        return all(same(getattr(one, part.name), getattr(other, part.name)) for part in fields(one))
    if type(one) is dict:
        assert one.keys() == other.keys()
        return all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, tuple):
        return all(same(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        steps = [np.argsort(np.abs(array.strides), kind="stable").tolist() for array in (one, other)]
        assert 0 in one.shape or 1 in one.shape or steps[0] == steps[1]
        assert one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()
    else:
        assert one == other
    return True


def assert_same_model(loaded, model):
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    fitted = {key: value for key, value in vars(model).items() if key.endswith("_")}
    assert {key for key in vars(loaded) if key.endswith("_")} == set(fitted)
    assert all(same(value, getattr(loaded, key)) for key, value in fitted.items())


@pytest.mark.usefixtures("votes_as_features")
@pytest.mark.filterwarnings("ignore::labelfable.errors.NotConvergedWarning")
@pytest.mark.filterwarnings("ignore::labelfable.errors.VanishedClassWarning")
@pytest.mark.parametrize("name", available_models())
def test_a_loaded_model_predicts_bit_for_bit_what_the_saved_one_does(name, tmp_path):
    for kind, votes, new in (("array", VOTES, NEW_VOTES), ("frame", frame_of(VOTES), frame_of(NEW_VOTES))):
        model = quick(name).fit(votes)
        assert model.save(tmp_path / kind) is None
        loaded = load(tmp_path / kind)
        assert_same_model(loaded, model)
        assert loaded.predict_proba(new).tobytes() == model.predict_proba(new).tobytes()
        assert loaded.predict(new).tolist() == model.predict(new).tolist()
        assert (
            loaded.label_table(new).to_pydict()
            if kind == "array"
            else loaded.label_table(new).equals(model.label_table(new))
        )
        assert str(loaded.report_) == str(model.report_)


def test_a_model_of_known_labels_and_exclusions_survives(tmp_path):
    from labelfable import read_votes

    votes = np.where(VOTES == 2, 7, VOTES)
    table = read_votes(votes, classes=[0, 1, 3], exclusions={7: 0})
    model = DawidSkene(class_prior=[0.2, 0.3, 0.5], smoothing=np.float32(0.5)).fit(table)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.predict_proba(table).tobytes() == model.predict_proba(table).tobytes()
    assert loaded.class_prior == [0.2, 0.3, 0.5]
    assert type(loaded.smoothing) is np.float32


def test_a_random_state_is_stored_with_its_state(tmp_path):
    ties = np.repeat([[0, 1], [1, 0], [-1, -1]], 50, axis=0)
    model = MajorityVote(random_state=np.random.RandomState(3)).fit(ties)
    model.predict(ties)  # it has moved on since it was made
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    draws = [model.predict(ties).tolist() for _ in range(3)]
    assert [loaded.predict(ties).tolist() for _ in range(3)] == draws
    assert len({str(draw) for draw in draws}) == 3


def test_a_new_save_takes_the_old_ones_place(tmp_path):
    MajorityVote().fit(VOTES).save(tmp_path / "m")
    model = DawidSkene().fit(VOTES)
    model.save(tmp_path / "m")
    assert_same_model(load(tmp_path / "m"), model)


# What can be stored


@dataclass(frozen=True)
class Nested:
    values: object
    name: str = "n"


STORABLE = {
    "plain": [None, True, 3, 2**80, -0.5, "☂ \ud800", [], {}, [[1, "a"], {"b": [None]}]],
    "floats that JSON lacks": [float("inf"), float("-inf")],
    "tuples": (1, (2, "x"), []),
    "keys that are no text": {1: "a", (2, "b"): None, None: 0.5},
    "a key called kind": {"kind": "array", "name": "x"},
    "numpy scalars": [np.float32(0.1), np.int8(-3), np.bool_(True), np.str_("a"), np.datetime64("2020-01-01")],
    "arrays": [np.arange(6).reshape(2, 3), np.array(2.5), np.zeros((0, 2)), np.array(["a", "☂"]), np.array([True])],
    "layouts": [
        np.asfortranarray(np.random.default_rng(0).random((3, 4))),
        np.random.default_rng(0).random((2, 3, 4)).transpose(1, 2, 0),
        np.arange(24.0).reshape(2, 3, 4).swapaxes(1, 2),
        np.arange(20.0)[::2],
    ],
    "dates and complex": [
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.array([1j]),
        np.array([1, 2], dtype=">i4"),
    ],
    "arrays of objects": np.array([["a", None], ["b", 3]], dtype=object),
    "a report": FitReport("m", 1, 1, 1, 1, 2, 0.5, converged=True, history=[{"a": 1.0}], collapsed=["x"], notes=["n"]),
    "a data class of the model": Nested(np.arange(3.0), "name"),
}


@pytest.mark.parametrize("case", STORABLE, ids=list(STORABLE))
def test_what_can_be_stored_comes_back_the_same(case, tmp_path):
    value, types = STORABLE[case], {"FitReport": FitReport, "Nested": Nested}
    writer = Writer(types)
    write_folder(tmp_path / "m", {"value": writer.encode(value, "value")}, writer.arrays)
    document, arrays = read_folder(tmp_path / "m")
    assert_same(Reader(arrays, types).decode(document["value"]), value)


def assert_same(found, value):
    assert type(found) is type(value)
    if isinstance(value, (list, tuple)):
        for one, other in zip(found, value, strict=True):
            assert_same(one, other)
    elif isinstance(value, Nested):
        assert_same(found.values, value.values)
        assert found.name == value.name
    else:
        assert same(found, value)


def test_nan_comes_back_as_nan():
    writer = Writer({})
    found = Reader(writer.arrays, {}).decode(writer.encode([float("nan"), np.float64("nan")], "x"))
    assert np.isnan(found).all()
    assert [type(entry) for entry in found] == [float, np.float64]


class Mine(MajorityVote):
    pass


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda model: setattr(model, "thing_", {"deep": [object()]}),
            r"thing_\.deep\.0 is a object, which cannot be stored",
        ),
        (lambda model: setattr(model, "thing_", {1, 2}), "thing_ is a set, which cannot be stored"),
        (lambda model: setattr(model, "random_state", print), "random_state is a builtin_function_or_method"),
        (lambda model: setattr(model, "random_state", np.random.default_rng(0)), "random_state is a Generator"),
        (lambda model: setattr(model, "thing_", Nested(1)), "thing_ is a Nested"),
    ],
)
def test_what_cannot_be_stored_is_a_clear_error_and_writes_nothing(tmp_path, spoil, message):
    model = MajorityVote().fit(VOTES)
    spoil(model)
    with pytest.raises(ModelError, match=message):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_model_that_could_not_be_loaded_is_not_saved(tmp_path):
    with pytest.raises(ModelError, match=r"Mine is not one of labelfable's models.*MajorityVote"):
        Mine().fit(VOTES).save(tmp_path / "m")
    imposter = type("DawidSkene", (DawidSkene,), {})
    with pytest.raises(ModelError, match="DawidSkene is not one of labelfable's models"):
        imposter(max_iter=100).fit(VOTES).save(tmp_path / "m")
    with pytest.raises(NotFittedError):
        MajorityVote().save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def described(fitted):
    return {"class": "MajorityVote", "settings": {}, "fitted": fitted}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"class": "Prophet", "settings": {}, "fitted": {}}, "this is a 'Prophet'.*does not know"),
        ({}, "this is a None"),
        ({"class": ["x"]}, r"this is a \['x'\]"),
        ({"class": "MajorityVote"}, "does not describe a MajorityVote.*settings"),
        ({"class": "MajorityVote", "settings": {"speed": 1}, "fitted": {}}, "does not describe.*speed"),
        ({"class": "MajorityVote", "settings": [], "fitted": {}}, "does not describe"),
        (described({"x_": {"kind": "array", "name": "x"}}), "does not describe"),
        (described({"x_": {"kind": "pickle"}}), "does not describe.*pickle"),
        (described({"fit": 1}), "'fit' is no fitted attribute"),
    ],
)
def test_a_whole_file_that_describes_no_model_is_a_clear_error(tmp_path, document, message):
    write_folder(tmp_path / "m", document, {})
    with pytest.raises(FileError, match=message):
        load(tmp_path / "m")
