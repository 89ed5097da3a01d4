"""All models by name.  A module is imported when its model is asked for, so that heavy ones cost nothing until then."""

from __future__ import annotations

import difflib
import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from labelfable.errors import MissingExtraError, ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from labelfable.models.protocol import BaseLabelModel


class Entry(NamedTuple):
    """Where a model's class is, and what else it is called."""

    module: str
    aliases: tuple[str, ...] = ()
    extra: str = ""
    """The optional dependencies that the model needs, by the name of the extra."""
    needs_features: bool = False
    """Whether votes alone are not enough."""


PACKAGES_OF_EXTRA = {"neural": "torch"}

# One line a model: the class's name is its public name.
MODELS: dict[str, Entry] = {
    "MajorityVote": Entry("labelfable.models.majority_vote", ("mv", "majority")),
    "FABLE": Entry("labelfable.models.fable.estimator"),
    "DawidSkene": Entry("labelfable.models.dawid_skene", ("ds",)),
    "IBCC": Entry("labelfable.models.bcc.estimator"),
    "EBCC": Entry("labelfable.models.bcc.estimator"),
    "DataProgramming": Entry("labelfable.models.data_programming.estimator", ("dp",)),
    "MeTaL": Entry("labelfable.models.metal.estimator"),
    "FlyingSquid": Entry("labelfable.models.flyingsquid.estimator", ("fs",)),
    "WeaSEL": Entry("labelfable.models.neural.weasel", extra="neural", needs_features=True),
    "Denoise": Entry("labelfable.models.neural.denoise", extra="neural", needs_features=True),
}
DEFAULT_MODEL = "DawidSkene"  # of votes alone
DEFAULT_WITH_FEATURES = "FABLE"


def model_named(name: str) -> type[BaseLabelModel]:
    """The class of a model, by its name in any spelling (`dawid-skene`, `Dawid_Skene`) or its short form (`ds`)."""
    known = {_plain(word): public for public, entry in MODELS.items() for word in (public, *entry.aliases)}
    public = known.get(_plain(name))
    if public is None:
        near = difflib.get_close_matches(_plain(name), known, n=1)
        guess = f"Did you mean {known[near[0]]}? " if near else ""
        raise ModelError(f"there is no model {name!r}", hint=f"{guess}The models are {', '.join(MODELS)}")
    entry = MODELS[public]
    require_extra(public, entry.extra)
    found: Any = getattr(importlib.import_module(entry.module), public)
    return found  # type: ignore[no-any-return]  # the table above says what it is


def available_models(*, with_features: bool = True) -> list[str]:
    """Names of the models whose optional dependencies are installed, in the order of the table.

    Without features, those that need features are left out.
    """
    usable = [name for name, entry in MODELS.items() if _is_installed(entry.extra)]
    return [name for name in usable if with_features or not MODELS[name].needs_features]


def require_extra(model: str, extra: str) -> None:
    """An error where the packages of an extra are not installed."""
    if not _is_installed(extra):
        raise MissingExtraError(
            f"{model} needs {PACKAGES_OF_EXTRA[extra]}, which is not installed",
            hint=f"pip install 'labelfable[{extra}]'",
        )


def load(path: str | Path) -> BaseLabelModel:
    """Read back a model that `model.save(path)` wrote.

    The loaded model predicts what the saved one did, bit for bit.  A folder that is damaged, foreign, or written by a
    newer version gives a FileError.
    """
    from labelfable.models.state import load_model

    return load_model(path)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _is_installed(extra: str) -> bool:
    return not extra or find_spec(PACKAGES_OF_EXTRA[extra]) is not None
