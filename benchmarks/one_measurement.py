"""One measurement of votes_only.py, in a process of its own: reads a job as JSON, prints what was found as JSON.

It runs under the peers' interpreter too, so nothing but NumPy is imported before the job is known.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

SWEEPING = ("DawidSkene", "EBCC")  # models whose time lies in sweeps over the items


def main() -> None:
    """Do the job that the only argument describes."""
    job = json.loads(sys.argv[1])
    print(json.dumps(WORK[job["work"]](job)))


def draw(job: dict[str, Any]) -> dict[str, Any]:
    """Votes of sources that err evenly over the other classes, and the truth beside them in a file of its own."""
    import scipy.sparse as sp

    generator, n_items, n_sources = np.random.default_rng(0), job["n_items"], job["n_sources"]
    accuracy, n_classes = generator.uniform(*job["accuracy"], n_sources), job["n_classes"]
    truth = generator.integers(n_classes, size=n_items, dtype=np.int8)
    sparse, blocks, n_votes = job.get("sparse", False), [], 0
    whole = None if sparse else np.lib.format.open_memmap(job["votes"], "w+", np.int8, (n_items, n_sources))
    step = max(1, 1_000_000 // n_sources)
    for first in range(0, n_items, step):
        true = truth[first : first + step, None]
        errs = generator.random((len(true), n_sources)) >= accuracy
        wrong = generator.integers(1, n_classes, (len(true), n_sources), dtype=np.int8)
        votes = (true + errs * wrong) % n_classes
        speaks = generator.random((len(true), n_sources)) >= job["abstain"]
        n_votes += int(speaks.sum())
        if whole is None:
            row, column = np.nonzero(speaks)  # class 0 is stored too: made from triples, not from the matrix
            blocks.append(sp.csr_array((votes[row, column], (row, column)), shape=speaks.shape))
        else:
            whole[first : first + step] = np.where(speaks, votes, -1)
    if sparse:
        sp.save_npz(job["votes"], sp.vstack(blocks, format="csr"), compressed=False)
    np.save(job["votes"] + ".truth.npy", truth)
    return {"n_votes": n_votes}


def measure_labelfable(job: dict[str, Any]) -> dict[str, Any]:
    """Fit and predict_proba of one of our models."""
    model = model_of(job)
    if model is None:
        return {"failed": "not there yet"}
    votes, prepare = timed(load, job)
    before = resident()
    _, fit = timed(model.fit, votes)
    probabilities, predict = timed(model.predict_proba, votes)
    found = {"iterations": model.report_.iterations, "n_distinct": model.report_.n_distinct}
    return row_of(job, (prepare, fit, predict), (before, largest()), probabilities) | found


def measure_growth(job: dict[str, Any]) -> dict[str, Any]:
    """The same, and the seconds of one more sweep: a long fit less a short one, over the sweeps between them."""
    row = measure_labelfable(job)
    if "failed" in row or job["model"] not in SWEEPING:
        return row
    votes, more = load(job), int(np.clip(2_000_000 // job["n_items"], 3, 200))

    def shortest(max_iter: int) -> tuple[float, int]:
        model = model_of(job | {"settings": job["settings"] | {"max_iter": max_iter}})
        seconds = min(timed(model.fit, votes)[1] for _ in range(3))
        return seconds, model.report_.iterations

    (short, few), (long, many) = shortest(1), shortest(1 + more)
    return row | {"sweep": (long - short) / max(many - few, 1)}


def measure_snorkel(job: dict[str, Any]) -> dict[str, Any]:
    """snorkel's LabelModel, which is a MeTaL."""
    from snorkel.labeling.model import LabelModel

    votes, prepare = timed(lambda: np.array(load(job)))
    before, n_epochs = resident(), job["asked_iterations"]
    model = LabelModel(cardinality=job["n_classes"], verbose=False)
    _, fit = timed(lambda: model.fit(votes, n_epochs=n_epochs, seed=0, progress_bar=False))
    probabilities, predict = timed(model.predict_proba, votes)
    return row_of(job, (prepare, fit, predict), (before, largest()), probabilities) | {"iterations": n_epochs}


def measure_crowd_kit(job: dict[str, Any]) -> dict[str, Any]:
    """crowd-kit's Dawid-Skene."""
    import pandas as pd
    from crowdkit.aggregation import DawidSkene

    def long_frame() -> pd.DataFrame:
        votes = load(job)
        task, worker = np.nonzero(votes >= 0)
        return pd.DataFrame({"task": task, "worker": worker, "label": votes[task, worker].astype(np.int64)})

    data, prepare = timed(long_frame)
    before = resident()
    model = DawidSkene(n_iter=job["asked_iterations"], tol=job["tol"])
    answer, fit = timed(model.fit_predict_proba, data)
    after = largest()
    probabilities = np.full(
        (job["n_items"], job["n_classes"]), 1 / job["n_classes"]
    )  # items without votes are left out
    probabilities[answer.index.to_numpy()] = answer[list(range(job["n_classes"]))].to_numpy()
    found = {"iterations": len(model.loss_history_)}
    return row_of(job, (prepare, fit, 0.0), (before, after), probabilities) | found


WORK = {
    "draw": draw,
    "labelfable": measure_labelfable,
    "growth": measure_growth,
    "snorkel": measure_snorkel,
    "crowd-kit": measure_crowd_kit,
}


def model_of(job: dict[str, Any]) -> Any:
    """One of our models with those of the settings that it has, or None where there is no such model."""
    from labelfable.errors import LabelfableWarning, ModelError
    from labelfable.models.registry import model_named

    warnings.simplefilter("ignore", LabelfableWarning)  # a fit of ten sweeps has not converged, and says so
    try:
        model = model_named(job["model"])()
    except ModelError:
        return None
    return model.set_params(**{name: value for name, value in job["settings"].items() if name in model.get_params()})


def load(job: dict[str, Any]) -> Any:
    """The votes, mapped where they are dense."""
    if job["votes"].endswith(".npy"):
        return np.load(job["votes"], mmap_mode="r")[: job["n_items"]]
    import scipy.sparse as sp

    return sp.load_npz(job["votes"])


def row_of(
    job: dict[str, Any], seconds: tuple[float, float, float], sizes: tuple[int, int], probabilities: np.ndarray
) -> dict[str, Any]:
    """Figures of one measurement, with the accuracy, so that speed is not had for nonsense."""
    truth = np.load(job["votes"] + ".truth.npy")[: job["n_items"]]
    row: dict[str, Any] = dict(zip(("prepare", "fit", "predict"), seconds, strict=True))
    row |= {"seconds": seconds[1] + seconds[2], "peak": sizes[1], "own": sizes[1] - sizes[0]}
    return row | {"accuracy": float(np.mean(np.argmax(probabilities, axis=1) == truth))}


def timed(function: Any, *arguments: Any) -> tuple[Any, float]:
    """What a function gives, and the seconds that it took."""
    began = time.perf_counter()
    answer = function(*arguments)
    return answer, time.perf_counter() - began


def largest() -> int:
    """Largest resident size of this process so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage counts kilobytes, on a Mac bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident() -> int:
    """Resident size of this process now, in bytes; where the system does not say, the largest so far."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else largest()


if __name__ == "__main__":
    main()
