"""The table of docs/gpu.md from what benchmarks/gpu.py measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pages import renew

PAGE = Path("docs/gpu.md")


def write_page(path: Path) -> None:
    """Put the figures of a JSON file into the page."""
    renew(PAGE, "gpu.py", table(json.loads(path.read_text(encoding="utf-8"))))


def table(found: dict[str, Any]) -> str:
    """Figures as a table, each beside what was asked for."""
    about, bars = found["machine"], found["bars"]
    lines = [
        (
            f"{about['card']}, {about['cores']} CPU cores, PyTorch {about['torch']}; {found['items']:,} items, "
            "9 sources, 128 features in float32, 256 inducing points, 4 classes × 3 subtypes."
        ),
        "",
        "| what | measured | asked |",
        "| --- | --- | --- |",
    ]
    for part, rows in ROWS.items():
        lines += list(rows(found[part], bars)) if part in found else []
    if "sweep" in found:
        where = ", ".join(
            f"{name.removeprefix('aten::')} {share:.0%}" for name, share in found["sweep"]["where"].items()
        )
        lines += ["", f"Where a light sweep's time on the device goes: {where}."]
    return "\n".join(lines)


def _fit(found: dict[str, Any], bars: dict[str, float]) -> list[str]:
    ended = "converged" if found["converged"] else "not converged"
    return [
        f"| fit: reading to labels, {found['sweeps']} sweeps, {ended} | {found['seconds']:.1f} s | {bars['fit_s']} s |",
        f"| labels of the same items | {found['predict_s']:.2f} s | |",
        f"| memory of the device, at most | {found['device_gb']:.1f} GB | |",
    ]


def _sweep(found: dict[str, Any], bars: dict[str, float]) -> list[str]:
    rows = [f"| features to columns, once | {found['projecting_s']:.2f} s | |"]
    for precision in ("fp32", "tf32"):
        if precision not in found:
            continue
        own = found[precision]
        rows += [
            f"| bare weighted Grams, {precision} | {own['grams_s']:.3f} s, {own['grams_tflops']:.1f} TFLOP/s | |",
            (
                f"| one sweep, `tilt='mean'`, {precision} | {own['light_s']:.4f} s, {own['light_tflops']:.1f} TFLOP/s, "
                f"{own['light_gb_per_s']:.0f} GB/s of columns | |"
            ),
            f"| the same over the Grams' time, {precision} | {own['light_over_grams']:.3f} | |",
            (
                f"| one sweep, `tilt='posterior'`, {precision} | {own['posterior_s']:.3f} s, "
                f"{own['posterior_tflops']:.1f} TFLOP/s | |"
            ),
            f"| its share of the Grams' rate, {precision} | {own['posterior_share']:.0%} | {bars['share']:.0%} |",
        ]
    return [*rows, f"| a copy on the device | {found['copy_gb_per_s']:.0f} GB/s | |"]


def _cpu(found: dict[str, Any], bars: dict[str, float]) -> list[str]:
    sweeps = " and ".join(map(str, found["sweeps"]))
    return [
        (
            f"| a tenth of the items, and by this machine's cores ({sweeps} sweeps) | {found['device_s']:.2f} s and "
            f"{found['cpu_s']:.1f} s: {found['times']:.0f} times | {bars['times_cpu']} times |"
        ),
        (
            f"| largest difference of a probability after 3 sweeps; of the bound | {found['difference_after_3']:.1e}; "
            f"{found['bound_after_3']:.1e} | 1e-4; 1e-5 |"
        ),
    ]


def _stream(found: dict[str, Any], bars: dict[str, float]) -> list[str]:
    return [
        (
            f"| a sweep over {found['columns_gb']:.0f} GB of columns, {found['streamed_gb']:.0f} GB of them streamed | "
            f"{found['sweep_s']:.2f} s, the copies alone {found['copies_s']:.2f} s "
            f"({found['copies_gb_per_s']:.0f} GB/s): {found['ratio']:.2f} times | {bars['stream_ratio']} times |"
        ),
        f"| memory at work in it, beside {found['resident_gb']:.1f} GB held | {found['at_work_gb']:.1f} GB | |",
    ]


def _sizes(found: dict[str, Any], _bars: dict[str, float]) -> list[str]:
    rows = [
        f"| {row['items']:,} items, at most 20 sweeps a climb | {row['fit_s']:.2f} s"
        + (f", on the CPU {row['cpu_s']:.2f} s" if "cpu_s" in row else "")
        + " | |"
        for row in found["rows"]
    ]
    return [*rows, f"| exponent of the fit's seconds over the largest three | {found['exponent']:.2f} | |"]


def _precision(found: dict[str, Any], _bars: dict[str, float]) -> list[str]:
    return [
        f"| change of a probability, {name}: largest; mean | {row['largest']:.1e}; {row['mean']:.1e} | |"
        for name, row in found.items()
    ]


ROWS = {"fit": _fit, "sweep": _sweep, "cpu": _cpu, "stream": _stream, "sizes": _sizes, "precision": _precision}
