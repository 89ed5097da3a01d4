"""A fitted model as JSON values and arrays, and back.

What is stored: the class, the settings (`get_params`) and every fitted attribute (`name_`).  JSON says most values
directly; the others become an object with a `kind`, listed in KINDS.  A RandomState is stored with its whole state, so
that the loaded model draws what the saved one would have drawn next.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelfable.errors import FileError, ModelError
from labelfable.models.registry import MODELS, model_named
from labelfable.models.report import FitReport
from labelfable.persistence import read_folder, write_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from labelfable.models.protocol import BaseLabelModel


OF_THE_PLACE = ("engine", "checkpoint")
"""Settings that say where a fit was done: a model that is loaded elsewhere starts without them."""


def save_model(model: BaseLabelModel, path: str | Path) -> None:
    """Write a fitted model to a folder."""
    check_is_fitted(model)
    name = type(model).__name__
    if name not in MODELS or model_named(name) is not type(model):
        raise ModelError(
            f"{name} is not one of labelfable's models, so that it could not be loaded again",
            hint=f"These can: {', '.join(MODELS)}",
        )
    writer = Writer({kind.__name__: kind for kind in _stored_types(type(model))})
    settings = {key: None if key in OF_THE_PLACE else value for key, value in model.get_params(deep=False).items()}
    settings = {key: writer.encode(value, key) for key, value in settings.items()}
    fitted = {key: writer.encode(value, key) for key, value in vars(model).items() if _is_fitted_name(key)}
    write_folder(path, {"class": name, "settings": settings, "fitted": fitted}, writer.arrays)


def load_model(path: str | Path) -> BaseLabelModel:
    """The model that `save_model` wrote."""
    document, arrays = read_folder(path)
    name = document.get("class")
    if not isinstance(name, str) or name not in MODELS:
        raise FileError(
            f"this is a {name!r}, a model that this labelfable does not know",
            where=str(path),
            hint="It was saved by another version",
        )
    chosen = model_named(name)
    reader = Reader(arrays, {kind.__name__: kind for kind in _stored_types(chosen)})
    try:
        model = chosen(**{key: reader.decode(value) for key, value in document["settings"].items()})
        for key, value in document["fitted"].items():
            _set_fitted(model, key, reader.decode(value))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(
            f"this does not describe a {name} of this version ({error})",
            where=str(path),
            hint="It was saved by another version: fit the model again",
        ) from error
    return model


def _set_fitted(model: BaseLabelModel, name: str, value: Any) -> None:
    if not _is_fitted_name(name):
        raise AttributeError(f"{name!r} is no fitted attribute")
    setattr(model, name, value)


def _is_fitted_name(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_") and not name.endswith("__")


def _stored_types(model_class: type) -> tuple[type, ...]:
    """Data classes that fitted attributes may hold: the report, and what the model names in `_stored_types`."""
    return (FitReport, *getattr(model_class, "_stored_types", ()))


@dataclass
class Writer:
    """Turns values into JSON values, and puts arrays aside under a name."""

    types: dict[str, type]
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    def encode(self, value: Any, where: str) -> Any:
        """A JSON value; `where` names the value in errors, and in the arrays file."""
        if value is None or type(value) in {bool, int, str} or (type(value) is float and np.isfinite(value)):
            return value
        if type(value) is list:
            return [self.encode(entry, f"{where}.{number}") for number, entry in enumerate(value)]
        if type(value) is dict and "kind" not in value and all(type(key) is str for key in value):
            return {key: self.encode(entry, f"{where}.{key}") for key, entry in value.items()}
        for name, kind in KINDS.items():
            if isinstance(value, kind.types) and kind.takes(self, value):
                return {"kind": name, **kind.pack(self, value, where)}
        raise ModelError(
            f"{where} is a {type(value).__name__}, which cannot be stored",
            hint="Numbers, text, arrays, lists, dicts and RandomState can",
        )


@dataclass
class Reader:
    """Turns JSON values back."""

    arrays: dict[str, np.ndarray[Any, Any]]
    types: dict[str, type]

    def decode(self, value: Any) -> Any:
        """What `Writer.encode` was given."""
        if isinstance(value, list):
            return [self.decode(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        if "kind" not in value:
            return {key: self.decode(entry) for key, entry in value.items()}
        return KINDS[value["kind"]].unpack(self, value)


class Kind(NamedTuple):
    """A sort of value that JSON cannot say directly."""

    types: type | tuple[type, ...]
    pack: Callable[[Writer, Any, str], dict[str, Any]]
    unpack: Callable[[Reader, dict[str, Any]], Any]
    takes: Callable[[Writer, Any], bool] = lambda _writer, _value: True


def _pack_array(writer: Writer, value: Any, where: str) -> dict[str, Any]:
    """An array keeps the order of its axes in memory too: sums over it must come out the same, bit for bit."""
    axes = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
    writer.arrays[where] = value.transpose(axes).copy(order="C")
    return {"name": where} if axes == list(range(value.ndim)) else {"name": where, "axes": axes}


def _unpack_array(reader: Reader, content: dict[str, Any]) -> Any:
    stored = reader.arrays[content["name"]]
    return stored.transpose(np.argsort(content["axes"])) if "axes" in content else stored


def _pack_scalar(writer: Writer, value: Any, where: str) -> dict[str, Any]:
    writer.arrays[where] = np.asarray(value)
    return {"name": where}


def _pack_objects(writer: Writer, value: Any, where: str) -> dict[str, Any]:
    entries = [writer.encode(entry, f"{where}.{number}") for number, entry in enumerate(value.ravel().tolist())]
    return {"shape": list(value.shape), "entries": entries}


def _unpack_objects(reader: Reader, content: dict[str, Any]) -> Any:
    flat = np.empty(len(content["entries"]), dtype=object)
    flat[:] = [reader.decode(entry) for entry in content["entries"]]
    return flat.reshape(content["shape"])


def _pack_dict(writer: Writer, value: Any, where: str) -> dict[str, Any]:
    return {"entries": [writer.encode([key, entry], f"{where}.{key}") for key, entry in value.items()]}


def _pack_dataclass(writer: Writer, value: Any, where: str) -> dict[str, Any]:
    values = {part.name: getattr(value, part.name) for part in fields(value)}
    return {
        "type": type(value).__name__,
        "fields": {key: writer.encode(entry, f"{where}.{key}") for key, entry in values.items()},
    }


def _unpack_dataclass(reader: Reader, content: dict[str, Any]) -> Any:
    return reader.types[content["type"]](**{key: reader.decode(entry) for key, entry in content["fields"].items()})


def _unpack_random_state(reader: Reader, content: dict[str, Any]) -> Any:
    generator = np.random.RandomState(0)
    generator.set_state(reader.decode(content["state"]))
    return generator


KINDS: dict[str, Kind] = {
    "objects": Kind(np.ndarray, _pack_objects, _unpack_objects, lambda _, value: value.dtype == object),
    "array": Kind(np.ndarray, _pack_array, _unpack_array, lambda _, value: not value.dtype.hasobject),
    "scalar": Kind(np.generic, _pack_scalar, lambda reader, content: reader.arrays[content["name"]][()]),
    "float": Kind(
        float,
        lambda _w, value, _: {"value": repr(float(value))},
        lambda _, content: float(content["value"]),
        lambda _, value: type(value) is float,
    ),
    "tuple": Kind(
        tuple,
        lambda writer, value, where: {"entries": writer.encode(list(value), where)},
        lambda reader, content: tuple(reader.decode(content["entries"])),
        lambda _, value: type(value) is tuple,
    ),
    "dict": Kind(
        dict,
        _pack_dict,
        lambda reader, content: dict(reader.decode(content["entries"])),
        lambda _, value: type(value) is dict,
    ),
    "dataclass": Kind(
        object,
        _pack_dataclass,
        _unpack_dataclass,
        lambda writer, value: is_dataclass(value) and writer.types.get(type(value).__name__) is type(value),
    ),
    "random state": Kind(
        np.random.RandomState,
        lambda writer, value, where: {"state": writer.encode(value.get_state(legacy=False), where)},
        _unpack_random_state,
    ),
}
