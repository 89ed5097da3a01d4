"""KEY=VALUE on the command line -> settings of models and options of `read_votes`."""

from __future__ import annotations

import ast
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from labelfable.errors import InputError, ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labelfable.datasets.inputs import Inputs
    from labelfable.evaluation.benchmark import ModelSpec
    from labelfable.models.protocol import BaseLabelModel

AS_TEXT = ("layout", "item", "source", "label")
READING = (*AS_TEXT, "classes", "abstain", "exclusions")
WORDS = {"true": True, "false": False, "null": None, "none": None}


class TieRule(StrEnum):
    """What happens to an item whose best classes are equally probable."""

    RANDOM = "random"
    FIRST = "first"
    ABSTAIN = "abstain"


def make_model(name: str, settings: Sequence[str] | None, seed: int) -> BaseLabelModel:
    """An unfitted model with its settings."""
    from labelfable.models.registry import model_named

    model = model_named(name.strip())()
    allowed = model.get_params()
    given = {"random_state": seed} if "random_state" in allowed else {}
    for key, value in _pairs(settings).items():
        if key not in allowed:
            raise ModelError(
                f"{type(model).__name__} has no setting {key!r}", hint=f"It has {', '.join(sorted(allowed)) or 'none'}"
            )
        given[key] = _value(value)
    model.set_params(**given)
    return model


def model_specs(text: str) -> list[ModelSpec]:
    """Columns of a benchmark: names with commas between, each with settings after colons (`fable:kernel=rbf`).

    A name may have a colon of its own (`crowdkit:GLAD`).  A model whose package is absent stays in: its cells say so.
    """
    from labelfable.evaluation.benchmark import ModelSpec
    from labelfable.evaluation.peers import any_model, canonical_name

    specs = []
    for word in (part.strip() for part in text.split(",")):
        if not word:
            continue
        parts = word.split(":")
        name = canonical_name(":".join(part for part in parts if "=" not in part))
        settings = {key: _value(value) for key, value in _pairs([part for part in parts if "=" in part]).items()}
        if settings:
            allowed = any_model(name).get_params()
            unknown = next((key for key in settings if key not in allowed), None)
            if unknown is not None:
                raise ModelError(f"{name} has no setting {unknown!r}", hint=f"It has {', '.join(sorted(allowed))}")
        specs.append(ModelSpec(name, settings))
    if not specs:
        raise ModelError("no model is named", hint="Give names with commas between")
    return specs


def whole_numbers(text: str, option: str) -> list[int]:
    """Numbers from 1 with commas between."""
    words = [word.strip().replace("_", "") for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
        raise InputError(f"{option} {text!r} is not whole numbers with commas between", hint="Say 1000,5000")
    return [int(word) for word in words]


def fit_model(model: BaseLabelModel, inputs: Inputs) -> BaseLabelModel:
    """Fit to votes that were read."""
    return fit_votes(model, inputs.table, inputs.names(inputs.known), inputs.features)


def fit_votes(model: BaseLabelModel, votes: Any, known: Any, features: Any) -> BaseLabelModel:
    """Fit; a setting out of its limits is an error of ours."""
    from sklearn.utils._param_validation import InvalidParameterError

    try:
        return model.fit(votes, known, features=features)
    except InvalidParameterError as error:
        raise ModelError(str(error)) from error


def reading_options(given: Sequence[str] | None, like: BaseLabelModel | None = None) -> dict[str, Any]:
    """Options for `read_votes`; `like` a fitted model means its classes and, where they have names, its sources."""
    options: dict[str, Any] = {}
    for key, text in _pairs(given).items():
        if key not in READING:
            raise InputError(f"--read knows no {key!r}", hint=f"It knows {', '.join(READING)}")
        options[key] = text if key in AS_TEXT else _value(text)
    if isinstance(options.get("classes"), str):
        options["classes"] = [options["classes"]]
    if like is not None:
        options["classes"] = like.classes_.tolist()
        names = like.sources_.tolist()
        if names != [str(number) for number in range(len(names))]:  # the sources of an array have no names
            options["sources"] = names
    return options


def _pairs(given: Sequence[str] | None) -> dict[str, str]:
    pairs = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(f"{text!r} is not of the form KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs


def _value(text: str) -> Any:
    """A number, truth value, list or dict where the text says one; several words with commas between; else the text."""
    if text.casefold() in WORDS:
        return WORDS[text.casefold()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return [_value(part.strip()) for part in text.split(",")] if "," in text else text
