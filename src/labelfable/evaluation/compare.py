"""Several models side by side on the same votes, each against majority vote."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError, LabelfableError
from labelfable.evaluation.metrics import accuracy, covered_accuracy, expected_calibration_error, f1, log_loss, macro_f1
from labelfable.models.registry import available_models, model_named
from labelfable.votes.read import read_gold, read_votes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from labelfable.models.protocol import BaseLabelModel, Ties
    from labelfable.votes.table import VoteTable

BASELINE = "MajorityVote"
BINARY = 2


@dataclass(frozen=True)
class Verdict:
    """What became of one model."""

    model: str
    seconds: float = 0.0
    """Wall-clock time of the fit."""
    changed_share: float = 0.0
    """Share of covered items whose label is not among majority vote's winners."""
    contradicted: int = 0
    """Items whose two or more votes all agree and whose label is another."""
    converged: bool = True
    scores: dict[str, float] = field(default_factory=dict)
    """Where gold is given: the metrics of `scores_of`."""
    warnings: list[str] = field(default_factory=list)
    error: str = ""
    """Why there is no answer, where there is none."""


@dataclass(frozen=True)
class Comparison:
    """Verdicts, majority vote's first, with what they rest on."""

    table: VoteTable
    gold: NDArray[np.integer] | None
    """Class numbers, −1 where unknown, [items]."""
    verdicts: list[Verdict]
    models: dict[str, BaseLabelModel]
    probabilities: dict[str, NDArray[np.floating]]

    def records(self) -> list[dict[str, Any]]:
        """One plain dict a model, for tables and JSON; scores also as their difference from majority vote's."""
        base = self.verdicts[0].scores
        rows = []
        for verdict in self.verdicts:
            row: dict[str, Any] = {
                key: value for key, value in vars(verdict).items() if key != "scores"
            } | verdict.scores
            row["against_majority"] = {key: value - base[key] for key, value in verdict.scores.items() if key in base}
            rows.append(row)
        return rows


def compare_models(
    votes: Any,
    models: Sequence[str | BaseLabelModel] | None = None,
    *,
    features: Any = None,
    gold: Any = None,
    ties: Ties = "random",
    on_start: Callable[[str], None] | None = None,
) -> Comparison:
    """Fit models to the same votes and compare them with majority vote.

    `models` are names or unfitted models; None means all that are installed, without features those that need
    none.  Majority vote is always among them.  `gold` [items] is for scoring alone: no model sees it, except that a
    class which only gold names exists for all of them.  A model that cannot be fitted gets a verdict with its error;
    what models warn of is in their verdicts.
    `on_start` is told each model's name before it is fitted.
    """
    table, truth = read_gold(gold, read_votes(votes))
    if gold is not None and truth is None:
        raise InputError("no gold label is known", hint="Gold is -1 or null only where it is unknown")
    comparison = Comparison(table, truth, [], {}, {})
    models = models or available_models(with_features=features is not None)
    for name, model in _with_baseline(models).items():
        if on_start is not None:
            on_start(name)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                verdict = _verdict(comparison, name, model, features, ties)
            except LabelfableError as error:
                verdict = Verdict(name, error=str(error))
        told = list(dict.fromkeys(str(warning.message) for warning in caught))
        comparison.verdicts.append(replace(verdict, warnings=told))
    return comparison


def _verdict(comparison: Comparison, name: str, model: BaseLabelModel, features: Any, ties: Ties) -> Verdict:
    """Fit one model, keep it with its probabilities, and judge it."""
    began = time.perf_counter()
    model.fit(comparison.table, features=features)
    seconds = time.perf_counter() - began
    probabilities, scores = judge(model, comparison.table, comparison.gold, features=features, ties=ties)
    comparison.models[name] = model
    comparison.probabilities[name] = probabilities
    report = model.report_
    return Verdict(name, seconds, report.changed_share, report.contradicted, bool(report.converged), scores)


def judge(
    model: BaseLabelModel,
    table: VoteTable,
    gold: NDArray[np.integer] | None,
    *,
    features: Any = None,
    ties: Ties = "random",
) -> tuple[NDArray[np.floating], dict[str, float]]:
    """A fitted model's probabilities, and its scores where gold (class numbers, −1 = unknown) is given."""
    probabilities = np.asarray(model.predict_proba(table, features=features))
    if gold is None:
        return probabilities, {}
    labels = class_numbers(model.predict(table, features=features, ties=ties), table.classes)
    return probabilities, scores_of(probabilities, labels, gold, table.covered)


def scores_of(
    probabilities: NDArray[np.floating],
    labels: NDArray[np.integer],
    gold: NDArray[np.integer],
    covered: NDArray[np.bool_],
) -> dict[str, float]:
    """All metrics of one model; labels and gold are class numbers, −1 for abstain and unknown.

    `f1` is of the second class where there are two; with more classes there is `macro_f1` instead.
    """
    binary = probabilities.shape[1] == BINARY
    return {
        "covered_accuracy": covered_accuracy(labels, gold, covered),
        "accuracy": accuracy(labels, gold),
        "f1" if binary else "macro_f1": f1(labels, gold) if binary else macro_f1(labels, gold),
        "log_loss": log_loss(probabilities, gold),
        "calibration_error": expected_calibration_error(probabilities, gold),
    }


def _with_baseline(models: Sequence[str | BaseLabelModel]) -> dict[str, BaseLabelModel]:
    """Models by a name of their own, majority vote first."""
    chosen = [model_named(model)() if isinstance(model, str) else model for model in models]
    plain = next((model for model in chosen if type(model).__name__ == BASELINE), None) or model_named(BASELINE)()
    named = {BASELINE: plain}
    for model in chosen:
        if model is not plain:
            kind, number = type(model).__name__, 2
            name = kind
            while name in named:
                name, number = f"{kind} ({number})", number + 1
            named[name] = model
    return named


def class_numbers(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Class number of each label, −1 where it is none.  [items]."""
    numbers = np.full(len(labels), -1, dtype=np.int64)
    for number, name in enumerate(classes.tolist()):
        numbers[labels == name] = number
    return numbers
