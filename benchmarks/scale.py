"""FABLE and Dawid-Skene from files: memory, growth with the items, what threads and Dask cost and save.

    python benchmarks/scale.py                       all sizes up to 200,000 items, some minutes
    python benchmarks/scale.py --items 10000000      the full size: 2.6 GB of features, made in --folder
    python benchmarks/scale.py --docs docs/scale.md  puts what was measured into the page

Every measurement is a process of its own, so that its largest resident size is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from pages import renew

from labelfable.inference.dask_engine import RUNS_A_THREAD, run_length
from labelfable.inference.execution import Serial
from labelfable.numerics.random import BLOCK_ITEMS

SOURCES, COLUMNS, CLASSES = 9, 64, 2
BLOCK = 2**16
PAPER_ITEMS, PAPER_MACHINES, PAPER_CORES = 10**9, 100, 16
NETWORK_BYTES = 1.25e9  # a second, of a machine: 10 Gbit/s
IN_MEMORY = 1_000_000  # the largest size that is fitted in memory too
WORKERS = 2
SHORT, LONG = 4, 24  # sweeps: the difference of two fits is the time of the sweeps alone


def main() -> None:
    """Draw, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=200_000, help="the largest size")
    parser.add_argument("--steps", type=int, default=3, help="sizes, each a third of the one after it")
    parser.add_argument("--memory", default="2GB", help="what a fit from files may keep in memory")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "labelfable-scale")
    parser.add_argument("--docs", type=Path, help="a page to put the figures into")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.job:
        print(json.dumps(measure(json.loads(asked.job))))
        return
    sizes = [asked.items // 3**step for step in reversed(range(asked.steps))]
    asked.folder.mkdir(parents=True, exist_ok=True)
    for size in sizes:
        draw(asked.folder, size)
    engine_size = min(asked.items, 1_000_000)
    draw(asked.folder, engine_size)
    text = "\n\n".join((about(asked), growth(asked, sizes), engines(asked, engine_size)))
    print(text)
    if asked.docs is not None:
        renew(asked.docs, __file__, text)


def about(asked: argparse.Namespace) -> str:
    """What was measured where."""
    load = f"load before {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    shape = f"{SOURCES} sources, {CLASSES} classes, {COLUMNS} float32 features, memory={asked.memory}"
    return f"{shape}; {os.cpu_count()} cores, {load}, Python {platform.python_version()}, NumPy {np.__version__}."


def draw(folder: Path, n_items: int) -> None:
    """Votes and features, a block at a time; what is there already stays."""
    votes, features = paths(folder, n_items)
    if features.exists():
        return
    generator = np.random.default_rng(0)
    accuracy = generator.uniform(0.6, 0.85, SOURCES)
    direction = generator.normal(size=COLUMNS).astype(np.float32)
    direction *= 2 / np.linalg.norm(direction)
    drawn = [path.with_suffix(".drawn.npy") for path in (votes, features)]
    vote_map = np.lib.format.open_memmap(drawn[0], "w+", np.int8, (n_items, SOURCES))
    feature_map = np.lib.format.open_memmap(drawn[1], "w+", np.float32, (n_items, COLUMNS))
    for first in range(0, n_items, BLOCK):
        here = slice(first, min(first + BLOCK, n_items))
        truth = generator.integers(CLASSES, size=(here.stop - first, 1), dtype=np.int8)
        right = generator.random((len(truth), SOURCES)) < accuracy
        speaks = generator.random((len(truth), SOURCES)) < 0.3
        vote_map[here] = np.where(speaks, np.where(right, truth, 1 - truth), -1)
        noise = generator.standard_normal((len(truth), COLUMNS), dtype=np.float32)
        feature_map[here] = noise + (truth - 0.5) * direction
    vote_map.flush()
    feature_map.flush()
    del vote_map, feature_map
    for path, made in zip((votes, features), drawn, strict=True):
        made.rename(path)


def paths(folder: Path, n_items: int) -> tuple[Path, Path]:
    """Where votes and features of a size lie."""
    return folder / f"votes-{n_items}.npy", folder / f"features-{n_items}.npy"


def growth(asked: argparse.Namespace, sizes: list[int]) -> str:
    """Fit and label from files at all sizes, and in memory beside it."""
    heads = ("model", "items", "from files, s", "in memory, s", "ratio", "largest resident, GB", "sweeps")
    lines, slopes = [row(*heads), "|---|" + "--:|" * (len(heads) - 1)], []
    for model in ("FABLE", "DawidSkene"):
        seconds = []
        for size in sizes:
            files = run(asked, model=model, items=size, stored=True)
            memory = ratio = ""
            if size <= IN_MEMORY:
                beside = run(asked, model=model, items=size, stored=False)["seconds"]
                memory, ratio = f"{beside:.1f}", f"{files['seconds'] / beside:.2f}"
            seconds.append(files["seconds"])
            took, resident = f"{files['seconds']:.1f}", f"{files['resident'] / 1e9:.2f}"
            lines.append(row(model, f"{size:,}", took, memory, ratio, resident, files["sweeps"]))
        if len(sizes) > 1:
            slopes.append(f"{model} {np.polyfit(np.log(sizes), np.log(seconds), 1)[0]:.2f}")
    return "\n".join([*lines, "", f"Seconds from files grow with the items to the power: {', '.join(slopes)}."])


def row(*cells: Any) -> str:
    """A row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def engines(asked: argparse.Namespace, n_items: int) -> str:
    """Seconds of a sweep by engine, and what they mean for a cluster."""
    sweep, message = {}, 0
    asked_of = {"1 thread": {"n_jobs": 1}, "2 threads": {"n_jobs": 2}, "Dask, 2 workers": {"engine": WORKERS}}
    for name, settings in asked_of.items():
        short, long = (
            run(asked, model="FABLE", items=n_items, stored=True, settings=settings | {"max_iter": most, "tol": 0.0})
            for most in (SHORT, LONG)
        )
        sweep[name] = (long["fit"] - short["fit"]) / (long["sweeps"] - short["sweeps"])
        message = max(message, long["message"])
    one, two, dask = sweep.values()
    lines = [row("engine", "seconds a sweep"), "|---|--:|"]
    lines += [row(name, f"{seconds:.3f}") for name, seconds in sweep.items()]
    told = (
        f"{n_items:,} items. Two threads are {one / two:.2f} times as fast as one. Dask's overhead against two threads"
        f" is {1000 * (dask - two):.0f} ms a sweep. One core sweeps {n_items / one / 1e6:.2f} million items a second; a"
        f" message has {message / 1e3:.0f} kB."
    )
    return "\n".join([*lines, "", told, "", on_paper(n_items, one, dask - two, message)])


def on_paper(n_items: int, one: float, overhead: float, message: int) -> str:
    """What a sweep over many items on many machines takes, from what one took here."""
    shards = -(-n_items // BLOCK_ITEMS)
    tasks_here = -(-shards // run_length(shards, RUNS_A_THREAD * WORKERS))
    shards = -(-PAPER_ITEMS // BLOCK_ITEMS)
    tasks = -(-shards // run_length(shards, RUNS_A_THREAD * PAPER_MACHINES * PAPER_CORES))
    a_task = max(overhead, 0.0) / tasks_here
    held = PAPER_ITEMS / PAPER_MACHINES * (4 * (COLUMNS + 1) + 8 * CLASSES + 20)
    work = PAPER_ITEMS / (n_items / one * PAPER_MACHINES * PAPER_CORES)
    return (
        f"On paper: {PAPER_ITEMS:,} items on {PAPER_MACHINES} machines of {PAPER_CORES} such cores, the sizes above."
        f" Each machine holds {held / 1e9:.1f} GB of columns and votes. A sweep is {tasks:,} tasks: {work:.2f} s of"
        f" work on every core, {message * tasks / 1e9:.2f} GB of sums to the coordinator"
        f" ({message * tasks / NETWORK_BYTES:.2f} s at 10 Gbit/s), and, at the {1000 * a_task:.1f} ms a task measured"
        f" above, {tasks * a_task:.1f} s at the scheduler."
    )


def run(asked: argparse.Namespace, **job: Any) -> dict[str, Any]:
    """One measurement in a process of its own."""
    job |= {"folder": str(asked.folder), "memory": asked.memory}
    command = [sys.executable, __file__, "--job", json.dumps(job)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (this very file)
    if told.returncode:
        sys.exit(told.stderr)
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    print(f"{job['model']} {job['items']:,} stored={job['stored']} {job.get('settings', '')}: {found}", file=sys.stderr)
    return found


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Fit and predict; seconds, sweeps, and the largest resident size."""
    from labelfable import open_votes
    from labelfable.errors import LabelfableWarning
    from labelfable.models.registry import model_named

    warnings.simplefilter("ignore", LabelfableWarning)
    settings = dict(job.get("settings", {}))
    if "engine" in settings:
        import distributed

        cluster = distributed.LocalCluster(settings["engine"], threads_per_worker=1, dashboard_address=None)
        settings["engine"] = distributed.Client(cluster)
        settings["engine"].run(__import__, "labelfable")  # the workers' start is no part of a sweep
    votes, features = paths(Path(job["folder"]), job["items"])
    model = model_named(job["model"])().set_params(**settings)
    messages = watch_messages()
    began = time.perf_counter()
    given: Any = open_votes(votes, memory=job["memory"]) if job["stored"] else np.load(votes)
    beside: Any = None
    if job["model"] == "FABLE":
        beside = features if job["stored"] else np.load(features)
    model.fit(given, features=beside)
    fitted = time.perf_counter()
    if job["stored"]:
        with tempfile.TemporaryDirectory(dir=job["folder"]) as folder:
            model.label_file(given, Path(folder) / "labels.parquet", features=beside)
    else:
        model.label_table(given, features=beside)
    ended = time.perf_counter()
    found = {"seconds": ended - began, "fit": fitted - began, "sweeps": model.report_.iterations}
    return found | {"resident": largest_resident(), "message": max(messages, default=0)}


def largest_resident() -> int:
    """Largest resident size of this process, in bytes.  What getrusage says began with the size of its parent."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def watch_messages() -> list[int]:
    """Sizes of the sums that a shard's sweep leads to, filled as a fit goes on."""
    sizes, total = [], Serial.total

    def weighed(self: Serial, *arguments: Any) -> Any:
        kept, statistics = total(self, *arguments)
        sizes.append(len(pickle.dumps(statistics)))
        return kept, statistics

    Serial.total = weighed  # type: ignore[method-assign]  # only here, to look on
    return sizes


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
