"""How fast FABLE is: against bare weighted Grams, a logistic regression, and the published algorithm.

    python benchmarks/fable_speed.py [--items 100000] [--docs docs/fable_speed.md]

Every measurement is a process of its own, so that its memory is its own.  The features are like sentence embeddings:
rows of length one whose spectrum falls like 1/√k; `white` ones have none, which suits first-order methods.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from published_dense import exponent, measure

N_CLASSES, N_SUBTYPES, N_SOURCES, N_COLUMNS = 4, 3, 9, 256
NEAR = 1e-6  # of the final bound


def draw(n_items: int, kind: str, n_classes: int = N_CLASSES) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Votes of sources that speak on four items in ten, float32 features, and the classes."""
    generator = np.random.default_rng(0)
    classes = generator.integers(0, n_classes, n_items)
    features = generator.standard_normal((n_items, N_COLUMNS), dtype=np.float32)
    features += (0.12 * generator.standard_normal((n_classes, N_COLUMNS)).astype(np.float32))[classes]
    if kind == "embedding":
        features /= np.sqrt(1 + np.arange(N_COLUMNS, dtype=np.float32))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
    votes = np.full((n_items, N_SOURCES), -1, dtype=np.int8)
    for j in range(N_SOURCES):
        speaks = generator.random(n_items) < 0.4
        said = np.where(generator.random(n_items) < 0.6 + 0.03 * j, classes, generator.integers(0, n_classes, n_items))
        votes[speaks, j] = said[speaks]
    return votes, features, classes


def peak_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fit_fable(job: dict[str, Any]) -> dict[str, Any]:
    """A whole fit and the labels, with its memory, its convergence and how long one sweep takes."""
    from labelfable import FABLE

    votes, features, classes = draw(job["items"], job["kind"])
    small = slice(0, 500)
    FABLE(max_iter=2).fit(votes[small], features=features[small])  # imports and first calls are not what is measured
    before = peak_bytes()
    began, cpu = time.perf_counter(), time.process_time()
    model = FABLE(n_subtypes=job["subtypes"], max_components=N_COLUMNS).fit(votes, features=features)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    right = float(np.mean(model.predict(votes, features=features) == classes))
    heights = np.array(model.report_.objective)
    near = int(np.argmax(heights >= heights[-1] - NEAR * abs(heights[-1]))) + 1
    return {
        "seconds": seconds,
        "cpu": cpu,
        "accuracy": right,
        "sweeps": len(heights),
        "sweeps to 1e-6": near,
        "subtypes": model.sweeps_.reading.n_subtypes,
        "memory": (peak_bytes() - before + features.nbytes) / features.nbytes,
    }


def time_sweeps(job: dict[str, Any]) -> dict[str, Any]:
    """One light sweep over all items, with all components, and the bare Grams that a sweep by (F) would need."""
    from labelfable import FABLE, read_votes
    from labelfable.inference.convergence import Stopping
    from labelfable.inference.execution import engine_of
    from labelfable.models.fable import estimator
    from labelfable.models.fable.search import Start, climb

    votes, features, _ = draw(job["items"], job["kind"])
    kept: list[Any] = []

    def keep(starts: Any, *_: Any) -> Any:
        kept.extend(starts)
        raise InterruptedError

    estimator.sampled, estimator.climb_best = lambda *_: None, keep
    with contextlib.suppress(InterruptedError):
        FABLE(n_subtypes=N_SUBTYPES, n_init=1, max_components=N_COLUMNS).fit(read_votes(votes), features=features)
    start = kept[-1]
    found = {}
    for name, sweeps in (("light", start.sweeps), ("posterior", replace(start.sweeps, is_point=False))):
        times = []
        for n_sweeps in (2, 6):
            began = time.perf_counter()
            climb(Start(sweeps, start.shards), engine_of(None), Stopping(0.0, n_sweeps, 1.0))
            times.append(time.perf_counter() - began)
        found[name] = (times[1] - times[0]) / 4
    phi, weights = features, np.random.default_rng(1).random(N_CLASSES * N_SUBTYPES)
    grams = []
    for _ in range(3):
        began = time.perf_counter()
        for weight in weights:
            _ = (phi * np.float32(weight)).T @ phi
        grams.append(time.perf_counter() - began)
    return found | {"grams": statistics.median(grams)}


def fit_regression(job: dict[str, Any]) -> dict[str, Any]:
    """scikit-learn's logistic regression on majority vote's labels of the covered items, as it comes."""
    from sklearn.linear_model import LogisticRegression

    from labelfable import MajorityVote

    votes, features, classes = draw(job["items"], job["kind"])
    labels = MajorityVote().fit_predict(votes)
    covered = (votes >= 0).any(axis=1)
    inside, told = features[covered], labels[covered]
    began, cpu = time.perf_counter(), time.process_time()
    model = LogisticRegression(**job["settings"]).fit(inside, told)
    return {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "iterations": int(model.n_iter_[0]),
        "accuracy": float(np.mean(model.predict(features) == classes)),
    }


def fit_small(job: dict[str, Any]) -> dict[str, Any]:
    """FABLE on as few items as the published algorithm can bear, with its two classes and three subtypes."""
    from labelfable import FABLE

    votes, features, _ = draw(job["items"], "embedding", 2)
    FABLE(max_iter=2).fit(votes[:500], features=features[:500])
    found = {}
    for name, calibration in (("one", "none"), ("default", "votes")):
        began = time.perf_counter()
        FABLE(n_subtypes=3, calibration=calibration).fit(votes, features=features)
        found[name] = time.perf_counter() - began
    return found


def fit_published(job: dict[str, Any]) -> dict[str, Any]:
    """Set-up and one iteration of the plain transcription."""
    timing = measure(job["items"], n_classes=2, n_subtypes=3, rank=50)
    return {"seconds": timing.total}


WORK = {function.__name__: function for function in (fit_fable, time_sweeps, fit_regression, fit_small, fit_published)}


def measured(work: str, **job: Any) -> dict[str, Any]:
    """One job in a process of its own."""
    command = [sys.executable, __file__, "--job", json.dumps({"work": work, **job})]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent)  # noqa: S603 (this program)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    print(f"{work} {job}: " + ", ".join(f"{name} {value:.4g}" for name, value in found.items()), flush=True)
    return found


def against_grams_and_regression(n_items: int) -> tuple[list[str], dict[str, Any]]:
    """The table of one size, both kinds of features."""
    lines = ["| features | what | seconds | CPU seconds | ratio | of |", "|---|---|---|---|---|---|"]
    found: dict[str, Any] = {}
    for kind in ("embedding", "white"):
        sweep = measured("time_sweeps", items=n_items, kind=kind)
        lines.append(f"| {kind} | {N_CLASSES * N_SUBTYPES} weighted Grams, bare | {sweep['grams']:.2f} | | | |")
        for name in ("light", "posterior"):
            ratio = sweep[name] / sweep["grams"]
            lines.append(f"| {kind} | one sweep, {name} | {sweep[name]:.3f} | | {ratio:.2f} | Grams (bar 1.5) |")
        plain = measured("fit_regression", items=n_items, kind=kind, settings={})
        lines.append(
            f"| {kind} | LogisticRegression, {plain['iterations']} iterations, accuracy {100 * plain['accuracy']:.1f} |"
            f" {plain['seconds']:.2f} | {plain['cpu']:.2f} | | |"
        )
        found[kind] = {"sweep": sweep, "regression": plain}
        for subtypes in (1, N_SUBTYPES) if kind == "embedding" else (1,):
            fit = measured("fit_fable", items=n_items, kind=kind, subtypes=subtypes)
            said = (
                f"FABLE, M = {subtypes}: {fit['sweeps']} sweeps of all ({fit['sweeps to 1e-6']} to 1e-6), accuracy"
                f" {100 * fit['accuracy']:.1f}, memory {fit['memory']:.1f} × the features' (bar 2)"
            )
            ratio = fit["seconds"] / plain["seconds"]
            lines.append(
                f"| {kind} | {said} | {fit['seconds']:.2f} | {fit['cpu']:.2f} | {ratio:.1f} | regression (bar 3) |"
            )
            found[kind][f"M={subtypes}"] = fit
    return lines, found


def against_published(sizes: list[int]) -> tuple[list[str], dict[str, Any]]:
    """Whole fits against set-up and one iteration of the plain transcription."""
    lines = [
        "| items | published, one iteration s | FABLE, one fit, converged s | ratio | default, six fits s | ratio |",
        "|---|---|---|---|---|---|",
    ]
    theirs = [measured("fit_published", items=n)["seconds"] for n in sizes]
    ours = [measured("fit_small", items=n) for n in sizes]
    for n, their, our in zip(sizes, theirs, ours, strict=True):
        compared = [f"{our[name]:.2f} | {their / our[name]:.0f}" for name in ("one", "default")]
        lines.append(f"| {n:,} | {their:.2f} | {' | '.join(compared)} |")
    powers = exponent(sizes, theirs), exponent(sizes, [our["one"] for our in ours])
    lines += ["", f"Seconds grow like items to the power {powers[0]:.2f} (published) and {powers[1]:.2f} (FABLE)."]
    return lines, {"items": sizes, "published": theirs, "fable": ours, "exponents": powers}


def main() -> None:
    """Measure, print, and write JSON and, where asked, the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--published", default="2000,4000,8000")
    parser.add_argument("--out", type=Path, default=Path("build/bench/fable_speed.json"))
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--job")
    options = parser.parse_args()
    if options.job:
        warnings.simplefilter("ignore")
        job = json.loads(options.job)
        print(json.dumps(WORK[job.pop("work")](job)))
        return
    first, large = against_grams_and_regression(options.items)
    second, small = against_published([int(n) for n in options.published.split(",")])
    text = "\n".join([
        f"{options.items:,} items, {N_COLUMNS} float32 features, {N_CLASSES} classes, {N_SOURCES} sources.", "",
        *first, "", "Two classes, three subtypes; 50 Lanczos steps in the published one.", "", *second,
    ])  # fmt: skip
    print(text)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"large": large, "small": small}, indent=1) + "\n", encoding="utf-8")
    if options.docs:
        from pages import renew

        renew(options.docs, __file__, text)


if __name__ == "__main__":
    main()
