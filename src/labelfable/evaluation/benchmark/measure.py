"""What happens in a cell: models are fitted and scored.  Of this folder, results hang on this file alone."""

from __future__ import annotations

import sys
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.evaluation.advise import standardised, vote_indicators
from labelfable.evaluation.benchmark.pool import CellSkippedError
from labelfable.evaluation.compare import class_numbers
from labelfable.evaluation.correlation import dependence
from labelfable.evaluation.metrics import (
    accuracy,
    calibration_bins,
    covered_accuracy,
    expected_calibration_error,
    f1,
    log_loss,
)
from labelfable.evaluation.peers import any_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from labelfable.datasets import Dataset
    from labelfable.models.protocol import BaseLabelModel

GAIN_OVER = "EBCC"  # the model of votes alone that a model of features is measured against


def measure_set(job: dict[str, Any]) -> dict[str, Any]:
    """A cell of the table."""
    from labelfable.datasets import load_dataset

    return measure_data(load_dataset(job["path"]), job)


def measure_size(job: dict[str, Any]) -> dict[str, Any]:
    """A cell of the figure "dataset size": all models of one repetition and size see the same draw."""
    from labelfable.datasets.synthetic import gaussian_classes

    return measure_data(gaussian_classes(job["n_items"], random_state=job["seed"]), job)


def measure_gain(job: dict[str, Any]) -> dict[str, Any]:
    """A cell of the figure "when features help": a synthetic set, both models, how far its votes depend on features."""
    from labelfable.datasets.synthetic import gaussian_classes

    data = gaussian_classes(job["n_items"], width="random", random_state=job["seed"])
    ours = measure_data(data, job)
    theirs = measure_data(data, job | {"model": GAIN_OVER, "settings": {}})
    with threads(job["threads"]):
        found = dependence(standardised(np.asarray(data.features, dtype=np.float64)), vote_indicators(data.votes))
    return {
        "correlation": found.correlation,
        "gain": 100 * (ours["accuracy"] - theirs["accuracy"]),
        "accuracy": ours["accuracy"],
        "accuracy_without": theirs["accuracy"],
        "uncovered": float(np.mean(~data.votes.covered)),
        "seconds": ours["seconds"] + theirs["seconds"],
        "notes": ours["notes"],
        "threads": job["threads"],
    }


def measure_data(data: Dataset, job: dict[str, Any]) -> dict[str, Any]:
    """Fit the job's model and score it."""
    model = prepared(job["model"], job["settings"], job["seed"], job["threads"])
    if getattr(model, "needs_features", False) and data.features is None:
        raise CellSkippedError("needs features, and this set has none")
    table = data.votes
    with quiet() as notes, threads(job["threads"]):
        timing, probabilities = timed_fit(model, table, data.features)
        labels = class_numbers(model.predict(table, features=data.features), table.classes)
    scores = table_scores(probabilities, labels, data.gold, table.covered, data.metric)
    return scores | timing | {"notes": notes, "converged": bool(model.report_.converged), "threads": job["threads"]}


def prepared(name: str, settings: dict[str, Any], seed: int, n_threads: int) -> BaseLabelModel:
    """An unfitted model with its settings, seed and threads."""
    model = any_model(name)
    known = model.get_params()
    own = {"random_state": seed, "n_jobs": n_threads}
    model.set_params(**settings, **{key: value for key, value in own.items() if key in known})
    return model


def timed_fit(model: BaseLabelModel, votes: Any, features: Any) -> tuple[dict[str, float], NDArray[np.floating]]:
    """Fit and predict_proba: seconds, seconds of the processor, peak of the process's memory; and the probabilities."""
    began, spent = time.perf_counter(), time.process_time()
    probabilities = np.asarray(model.fit(votes, features=features).predict_proba(votes, features=features))
    timing = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - spent}
    return timing | {"peak_mb": peak_memory() / 1e6}, probabilities


def table_scores(
    probabilities: NDArray[np.floating],
    labels: NDArray[np.integer],
    gold: NDArray[np.integer],
    covered: NDArray[np.bool_],
    metric: str,
) -> dict[str, Any]:
    """Both scores of the literature, and how honest the probabilities of covered items are."""
    heard = np.where(covered, gold, -1)
    return {
        "covered": covered_accuracy(labels, gold, covered),
        "whole": f1(labels, gold) if metric == "f1" else accuracy(labels, gold),
        "accuracy": accuracy(labels, gold),
        "log_loss": log_loss(probabilities, heard),
        "calibration_error": expected_calibration_error(probabilities, heard),
        "bins": {name: values.tolist() for name, values in calibration_bins(probabilities, heard).items()},
    }


def peak_memory() -> int:
    """Largest resident size of this process so far, in bytes; 0 where the system does not say."""
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # kilobytes, on a Mac bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@contextmanager
def quiet() -> Iterator[list[str]]:
    """What is warned of inside, each once, instead of on the terminal."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes += dict.fromkeys(str(warning.message) for warning in caught)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """No more threads of the linear algebra than this: cells that run beside each other share the cores."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(number):
        yield
