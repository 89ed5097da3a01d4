"""FABLE on an accelerator: a fit of ten million items, what a sweep takes beside bare products, streaming, exponents.

    python benchmarks/gpu.py --out build/bench/gpu.json                  on a machine with a GPU: under ten minutes
    python benchmarks/gpu.py --device cpu --items 20000 --out /tmp/gpu.json      the same path without one
    python benchmarks/gpu.py --page build/bench/gpu.json                 writes the table into docs/gpu.md

Parts can be chosen: --parts fit,sweep,cpu,stream,sizes,precision.  Each is written to the file as soon as it is done.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_page import write_page

from labelfable import FABLE
from labelfable.inference.device_engine import DeviceEngine, _Copies, _Waiting, shard_rows
from labelfable.inference.shards import LazyShard, Shard
from labelfable.inference.sweep import _local_step
from labelfable.models.fable.device import DeviceItems, features_on, probabilities_on
from labelfable.models.fable.light import LightGlobals, LightSweeps
from labelfable.models.fable.process import WeightFactor
from labelfable.models.fable.projection import Projected
from labelfable.models.fable.steps import FableShard
from labelfable.numerics.linear_algebra import weighted_gram
from labelfable.votes.device_maps import DeviceMaps
from labelfable.votes.read import read_votes

WIDTH, SOURCES, CLASSES, SUBTYPES, POINTS = 128, 9, 4, 3, 256
PARTS = ("fit", "sweep", "cpu", "stream", "sizes", "precision")
BARS = {"fit_s": 60, "share": 0.6, "times_cpu": 50, "stream_ratio": 1.5}
REPEATS = 5


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", type=Path, default=Path("build/bench/gpu.json"))
    parser.add_argument("--page", type=Path, help="write docs/gpu.md from this file, and measure nothing")
    parser.add_argument("--stream-gb", type=float, default=40.0)
    parser.add_argument("--budget-gb", type=float, default=16.0)
    asked = parser.parse_args()
    if asked.page:
        write_page(asked.page)
        return
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {"machine": machine(asked.device), "items": asked.items, "bars": BARS}
    state: dict[str, Any] = {}
    for part in asked.parts.split(","):
        began = time.perf_counter()
        found[part] = globals()[f"part_{part}"](asked, state)
        print(f"{part} ({time.perf_counter() - began:.1f} s): {json.dumps(found[part])}", flush=True)
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps(found, indent=1), encoding="utf-8")


def machine(device: str) -> dict[str, Any]:
    """Whose figures these are."""
    card = torch.cuda.get_device_name(device) if device.startswith("cuda") else "no GPU"
    return {"card": card, "torch": torch.__version__, "numpy": np.__version__, "cores": os.cpu_count()}


def problem(n_items: int, device: str, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    """Features in CLASSES × SUBTYPES clouds, and votes of sources that are right more often near some of them."""
    draws = torch.Generator(device).manual_seed(seed)
    options = {"generator": draws, "device": device}
    cloud = torch.randint(CLASSES * SUBTYPES, (n_items,), **options)
    centres = torch.randn(CLASSES * SUBTYPES, WIDTH, **options)
    features = torch.randn(n_items, WIDTH, **options)
    for first in range(0, n_items, 2**20):
        features[first : first + 2**20] += 0.35 * centres[cloud[first : first + 2**20]]
    truth = cloud // SUBTYPES
    accuracy = 0.55 + 0.4 * torch.rand(SOURCES, CLASSES * SUBTYPES, **options)
    votes = torch.full((n_items, SOURCES), -1, dtype=torch.int8, device=device)
    for source in range(SOURCES):
        right = torch.rand(n_items, **options) < accuracy[source][cloud]
        said = torch.where(right, truth, torch.randint(CLASSES, (n_items,), **options))
        votes[:, source] = torch.where(torch.rand(n_items, **options) < 0.5, said, -1).to(torch.int8)
    return features, votes.cpu().numpy()


def made(device: Any, **settings: Any) -> FABLE:
    """The model that is measured."""
    return FABLE(SUBTYPES, kernel="rbf", n_inducing=POINTS, device=device, calibration="none", **settings)


def synchronise(device: str) -> None:
    """Until the device is done."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def timed(device: str, work: Any, repeats: int = REPEATS) -> float:
    """Median seconds, after one call that is not counted."""
    seconds = []
    for _ in range(repeats + 1):
        synchronise(device)
        began = time.perf_counter()
        work()
        synchronise(device)
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[1:]))


def fitted(model: FABLE, votes: Any, features: Any, device: str) -> tuple[float, FABLE]:
    """Seconds of a whole fit: reading, projecting, sweeping, labelling, reporting."""
    synchronise(device)
    began = time.perf_counter()
    model.fit(votes, features=features)
    return time.perf_counter() - began, model


def part_fit(asked: Any, state: dict[str, Any]) -> dict[str, Any]:
    """All items to convergence."""
    fitted(made(asked.device), *reversed(problem(20_000, asked.device)), asked.device)  # loads kernels and libraries
    features, votes = problem(asked.items, asked.device)
    seconds, model = fitted(made(asked.device), votes, features, asked.device)
    state |= {"model": model, "features": features, "votes": votes}
    again = timed(asked.device, lambda: probabilities_on(model, read_votes(votes), features), 1)
    report = model.report_
    peak = torch.cuda.max_memory_allocated() / 1e9 if asked.device.startswith("cuda") else 0.0
    return {
        "seconds": seconds,
        "sweeps": report.iterations,
        "converged": report.converged,
        "subtypes_kept": model.sweeps_.reading.n_subtypes,
        "predict_s": again,
        "device_gb": peak,
    }


def held_items(asked: Any, state: dict[str, Any]) -> tuple[DeviceEngine, Any]:
    """Shards of the fit, on the device."""
    if "model" not in state:
        part_fit(asked, state)
    model, features, rows = state["model"], state["features"], read_votes(state["votes"])
    engine = DeviceEngine(asked.device)
    known = features_on(features, model.projection_, rows.n_items, engine.device)
    items = DeviceItems(model._heard(rows), known, None, model.projection_, engine.device)  # noqa: SLF001 (its parts are timed)
    return engine, items


def part_sweep(asked: Any, state: dict[str, Any]) -> dict[str, Any]:
    """One sweep of each kind beside the bare Grams and a copy, and where a light sweep's time goes."""
    engine, items = held_items(asked, state)
    projecting = timed(asked.device, lambda: [shard.load() for shard in items.shards(None)], 1)
    held = engine.hold(items.shards(None))
    sweeps, light, full = models_of(state["model"], items.rows)
    found: dict[str, Any] = {"projecting_s": projecting, "components": light.factors.weights.mean.shape[1]}
    n_columns, components = light.factors.weights.mean.shape
    flops = 2 * asked.items * n_columns**2 * components
    nothing = [None] * len(held)
    weights = [torch.rand(len(one.projected.phi), components, device=engine.device) for one in held]
    for precision in ("fp32", "tf32") if asked.device.startswith("cuda") else ("fp32",):
        engine.precision = precision

        def grams() -> None:
            with engine._at_work():  # noqa: SLF001 (its parts are timed)
                for one, weight in zip(held, weights, strict=True):
                    weighted_gram(one.projected.phi, weight)

        bare = timed(asked.device, grams, 2)
        step = partial(_local_step, LightSweeps(sweeps), light)
        own = timed(asked.device, lambda step=step: engine.total(step, held, nothing))
        step = partial(_local_step, replace(sweeps, is_point=False), full)
        whole = timed(asked.device, lambda step=step: engine.total(step, held, nothing), 2)
        found[precision] = {
            "grams_s": bare,
            "grams_tflops": flops / bare / 1e12,
            "light_s": own,
            "light_gb_per_s": 2 * asked.items * n_columns * 4 / own / 1e9,
            "light_tflops": 4 * asked.items * n_columns * components / own / 1e12,
            "light_over_grams": own / bare,
            "posterior_s": whole,
            "posterior_tflops": 2 * flops / whole / 1e12,
            "posterior_share": 2 * bare / whole,
        }
    found["copy_gb_per_s"] = copy_rate(engine)
    found["where"] = kernels_of(engine, partial(_local_step, LightSweeps(sweeps), light), held)
    state["held"] = held
    return found


def models_of(model: FABLE, rows: Any) -> tuple[Any, LightGlobals, Any]:
    """Sweeps with all components, and globals near their prior as points and as posteriors."""
    heard = model._heard(rows)  # noqa: SLF001 (its parts are timed)
    sweeps = replace(model._sweeps(heard, None, SUBTYPES), layout=heard.layout.single)  # noqa: SLF001 (as above)
    nothing: Any = FableShard(None, Projected(np.zeros((1, model.projection_.n_columns)), np.zeros(1)))
    begin = sweeps.prior_globals(nothing)
    mean = 0.1 * np.random.default_rng(0).standard_normal(begin.weights.mean.shape)
    spread = np.broadcast_to(0.01 * np.eye(len(mean)), (mean.shape[1], len(mean), len(mean))).copy()
    light, full = (replace(begin, weights=WeightFactor(mean, one, 0.0)) for one in (None, spread))
    return sweeps, LightGlobals(light, None), full


def copy_rate(engine: DeviceEngine) -> float:
    """GB/s of a copy on the device, read and written."""
    source = torch.rand(2**24 if engine.device.type == "cpu" else 2**30, device=engine.device)
    target = torch.empty_like(source)
    return 2 * 4 * len(source) / timed(engine.device.type, lambda: target.copy_(source)) / 1e9


def kernels_of(engine: DeviceEngine, step: Any, held: Any) -> dict[str, float]:
    """Share of the device's time by operation."""
    from torch.profiler import ProfilerActivity, profile

    is_gpu = engine.device.type == "cuda"
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_gpu else [])]
    with profile(activities=kinds) as seen:
        engine.total(step, held, [None] * len(held))
    rows = [
        (one.key, one.self_device_time_total if is_gpu else one.self_cpu_time_total)
        for one in seen.key_averages()
        if one.key.startswith("aten::") or not is_gpu
    ]
    whole = sum(time_ for _, time_ in rows) or 1.0
    return {key: round(time_ / whole, 4) for key, time_ in sorted(rows, key=lambda row: -row[1])[:10]}


def part_cpu(asked: Any, _state: dict[str, Any]) -> dict[str, Any]:
    """A tenth of the items, on the device and on all cores of this machine."""
    features, votes = problem(asked.items // 10, asked.device, seed=1)
    fast, model = fitted(made(asked.device), votes, features, asked.device)
    numbers = features.cpu().numpy()
    slow, other = fitted(made(None), votes, numbers, asked.device)
    limits = {"max_iter": 3, "tol": 0.0}
    few = [fitted(made(one, **limits), votes, numbers, asked.device)[1] for one in (asked.device, None)]
    probabilities = [one.predict_proba(votes[:200_000], features=numbers[:200_000]) for one in few]
    bounds = [one.report_.objective[-1] for one in few]
    return {
        "device_s": fast,
        "cpu_s": slow,
        "times": slow / fast,
        "sweeps": [model.report_.iterations, other.report_.iterations],
        "difference_after_3": float(np.abs(probabilities[0] - probabilities[1]).max()),
        "bound_after_3": abs(bounds[0] / bounds[1] - 1),
    }


class Drawn(LazyShard):
    """A shard of random columns: what is streamed, without the files."""

    def __init__(self, start: int, rows: int, layout: Any, device: Any) -> None:
        self.start, self.rows, self.layout, self.device = start, rows, layout, device

    def load(self) -> FableShard:
        """The shard itself."""
        phi = torch.randn(self.rows, POINTS + 1, device=self.device)
        votes = torch.randint(-1, CLASSES, (self.rows, SOURCES), dtype=torch.int8, device=self.device)
        maps: Any = DeviceMaps(self.layout, votes, phi.dtype)
        projected = Projected(phi, torch.zeros(self.rows, device=self.device))
        return FableShard(Shard(self.start, maps, np.broadcast_to(1.0, self.rows), None), projected)


def part_stream(asked: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Sweeps over more columns than the budget holds, beside copying the same shards and doing nothing."""
    if "model" not in state:
        part_fit(asked, state)
    state.pop("held", None)
    engine = DeviceEngine(asked.device, f"{asked.budget_gb}GB")
    sweeps, light, _ = models_of(state["model"], read_votes(state["votes"][:1000]))
    rows, layout = shard_rows(POINTS + 1), sweeps.layout
    n_shards = max(2, round(asked.stream_gb * 1e9 / (rows * (POINTS + 1) * 4)))
    if not asked.device.startswith("cuda"):
        rows, n_shards = 4096, 6
        engine.memory = 6 * rows * (POINTS + 1) * 4
    began = time.perf_counter()
    held = engine.hold([Drawn(number * rows, rows, layout, engine.device) for number in range(n_shards)])
    holding = time.perf_counter() - began
    if asked.device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    waiting = [one for one in held if isinstance(one, _Waiting)]
    step = partial(_local_step, LightSweeps(sweeps), light)
    whole = timed(asked.device, lambda: engine.total(step, held, [None] * len(held)), 2)

    def copy_only() -> None:
        copies = _Copies(engine)
        for one in waiting:
            copies.finish(copies.start(one))

    copying = timed(asked.device, copy_only, 2)
    size = sum(one.shard.projected.phi.numel() * 4 for one in waiting) / 1e9
    is_gpu = asked.device.startswith("cuda")
    own = (torch.cuda.max_memory_allocated() - before) / 1e9 if is_gpu else 0.0
    resident = sum(one.projected.phi.numel() * 4 for one in held if not isinstance(one, _Waiting)) / 1e9
    return {
        "columns_gb": n_shards * rows * (POINTS + 1) * 4 / 1e9,
        "streamed_gb": size,
        "resident_gb": resident,
        "at_work_gb": own,
        "holding_s": holding,
        "sweep_s": whole,
        "copies_s": copying,
        "copies_gb_per_s": size / copying,
        "ratio": whole / copying,
    }


def part_sizes(asked: Any, _state: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a fit and of ten further sweeps against items, and against NumPy where that is quick."""
    sizes = [int(asked.items * share) for share in (0.001, 0.01, 0.1, 1.0)]
    rows = []
    for size in sizes:
        features, votes = problem(size, asked.device, seed=2)
        whole, _ = fitted(made(asked.device, max_iter=20, tol=0.0), votes, features, asked.device)
        few, _ = fitted(made(asked.device, max_iter=10, tol=0.0), votes, features, asked.device)
        row = {"items": size, "fit_s": whole, "ten_sweeps_s": whole - few}
        if size <= asked.items // 100:
            numbers = features.cpu().numpy()
            row["cpu_s"], _ = fitted(made(None, max_iter=20, tol=0.0), votes, numbers, asked.device)
        rows.append(row)
    logs = np.log([[row["items"], row["fit_s"]] for row in rows[1:]])
    return {"rows": rows, "exponent": float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])}


def part_precision(asked: Any, _state: dict[str, Any]) -> dict[str, Any]:
    """What lower precision does to the answer after the same sweeps: of products, or of the columns themselves."""
    features, votes = problem(asked.items // 20, asked.device, seed=3)
    found = {}
    for tilt in ("mean", "posterior"):
        limits = {"max_iter": 3, "tol": 0.0, "tilt": tilt}
        usual = fitted(made(asked.device, **limits), votes, features, asked.device)[1]
        expected = usual.predict_proba(votes, features=features)
        variants = {"fp32 again": ({}, features), "bf16 features": ({}, features.bfloat16().float())}
        if asked.device.startswith("cuda"):
            variants["tf32"] = ({"precision": "tf32"}, features)
        for name, (settings, numbers) in variants.items():
            model = fitted(made(asked.device, **limits, **settings), votes, numbers, asked.device)[1]
            away = np.abs(model.predict_proba(votes, features=numbers) - expected)
            found[f"{tilt}, {name}"] = {"largest": float(away.max()), "mean": float(away.mean())}
    return found


if __name__ == "__main__":
    main()
