"""How fast and how small the vote-only models are, beside snorkel's LabelModel and crowd-kit's Dawid-Skene.

    make bench ARGS="--peers /tmp/peers/bin/python"        about 20 minutes on two cores, half of it the peers'
    make bench ARGS="--scale 0.01 --parts ABC"             a minute; figures at a small scale say nothing

The peers live in an environment of their own, without which their rows are left out:

    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install torch snorkel crowd-kit

Every measurement is a process of its own (one_measurement.py), all on the same votes, drawn once from a seed and
mapped from a file.  Seconds are those of fit and of predict_proba, from the form that the library takes: labelfable
and snorkel an int8 array (labelfable checks and encodes it within fit and again within predict_proba), crowd-kit a
long data frame of integers, whose making is "prepare".  crowd-kit's fit holds the probabilities, so that its predict
is nothing.  Memory is the largest resident size of the process ("peak"), and how far that is above the size when the
votes had been loaded ("own"); a bar is met when both meet it.  Each library uses as many threads as it likes.
"accuracy" is the share of items given their true class.

A   many items, hardly any two alike: three models against both peers at equal iterations
B   few distinct rows: Dawid-Skene, each side until its own default rule stops it.  With --peer-items crowd-kit gets
    only the first items, and its seconds are extrapolated in proportion, which the bar says
C   growth: seconds against items where hardly any two are alike, and the slope in log-log
D   1,200 sources × 56 classes, one vote in a hundred cells, as a sparse matrix: what each model needs
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from pages import renew

# No labelfable here: a process begins with its parent's largest size, which must stay below all that is measured.

MODELS = ("MajorityVote", "DawidSkene", "IBCC", "EBCC", "MeTaL", "FlyingSquid", "DataProgramming")
GROWTH = {"DawidSkene": 10_000_000, "EBCC": 1_000_000, "MeTaL": 1_000_000}  # most items in part C
SWEEPS, EPOCHS = 10, 100  # of models that sweep over the items, and of those that descend on moments
NEVER = -1e9  # a tolerance that stops nothing
PEERS = ("snorkel", "crowd-kit")
SETTINGS: dict[str, dict[str, Any]] = {
    "DawidSkene": {"tol": 0.0, "max_iter": SWEEPS},
    "IBCC": {"tol": 0.0, "max_iter": SWEEPS},
    "EBCC": {"tol": 0.0, "max_iter": SWEEPS, "n_subtypes": 3, "n_init": 1},
    "MeTaL": {"tol": 0.0, "max_iter": EPOCHS},
    "DataProgramming": {"tol": 0.0, "max_iter": SWEEPS},
}


def main() -> None:
    """Measure, print the tables and verdicts, and write the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="Python interpreter that has snorkel and crowd-kit")
    parser.add_argument("--parts", default="ABCD", help="which parts, for example AD")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every number of items")
    parser.add_argument("--peer-items", type=int, default=10_000_000, help="items that crowd-kit gets in part B")
    parser.add_argument("--limit", type=float, default=1800, help="seconds after which a measurement is given up")
    parser.add_argument("--out", type=Path, default=Path("build/bench/votes_only.json"))
    parser.add_argument("--docs", type=Path, help="a page whose tables are to be renewed")
    arguments = parser.parse_args()
    if set(arguments.parts) - set(PARTS):
        parser.error(f"--parts {arguments.parts!r}: the parts are {', '.join(PARTS)}")
    here = machine() | {"scale": arguments.scale}
    report: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    report = {"parts": report.get("parts", {})}  # parts that are not measured again stay
    print(json.dumps(here))
    if not arguments.peers:
        print("snorkel and crowd-kit are left out: --peers names no interpreter that has them (see --help)")
    with tempfile.TemporaryDirectory() as folder:
        for part in dict.fromkeys(arguments.parts):
            bench = Bench(Path(folder), arguments)
            PARTS[part](bench)
            report["parts"][part] = {"machine": here, "rows": bench.rows, "bars": bench.bars}
            print(
                f"\nBars of part {part}" + (f": none is asked at scale {arguments.scale:g}" if bench.is_small else "")
            )
            for bar in bench.bars:
                verdict = "" if bar["met"] is None else "met" if bar["met"] else "MISSED"
                print(f"{verdict:6} {bar['figure']:8.2f} {bar['asked']:7} {bar['what']}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\nwritten to {arguments.out}")
    if arguments.docs:
        renew(arguments.docs, __file__, as_markdown(report))


def as_markdown(report: dict[str, Any]) -> str:
    """The report as tables for a page."""
    lines: list[str] = []
    for part, found in sorted(report["parts"].items()):
        measured = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
        lines += ["", f"**Part {part}: {PARTS[part].__doc__}** ({measured})", ""]
        lines += ["| what | items | iterations | fit s | predict s | peak MB |", "|---|---|---|---|---|---|"]
        for row in found["rows"]:
            if "failed" in row:
                lines.append(f"| {row['name']} | {row['n_items']:,} | | {row['failed']} | | |")
                continue
            numbers = [
                row.get("iterations", ""),
                *(f"{row[key]:.2f}" if key in row else "" for key in ("fit", "predict")),
            ]
            lines.append(
                f"| {row['name']} | {row['n_items']:,} | {' | '.join(map(str, numbers))} | {row['peak'] / 1e6:,.0f} |"
            )
        if found["bars"]:
            lines += ["", "| bar | asked | measured | |", "|---|---|---|---|"]
        for bar in found["bars"]:
            verdict = "" if bar["met"] is None else "met" if bar["met"] else "**missed**"
            lines.append(f"| {bar['what']} | {bar['asked']} | {bar['figure']:.2f} | {verdict} |")
    return "\n".join(lines).strip()


def machine() -> dict[str, Any]:
    """Where and with what this was measured."""
    found: dict[str, Any] = {"cores": os.cpu_count(), "load before": round(os.getloadavg()[0], 1)}
    found |= {"processor": platform.processor() or platform.machine(), "python": platform.python_version()}
    for package in ("labelfable", "numpy", "scipy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    command = ["git", "describe", "--always", "--dirty"]
    here = Path(__file__).parent
    described = subprocess.run(command, capture_output=True, text=True, check=False, cwd=here)  # noqa: S603 (fixed words)
    return found | {"commit": described.stdout.strip()}


class Bench:
    """Runs one part's measurements, each in its own process, prints a line for each, and keeps what was found."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.folder, self.arguments = folder, arguments
        self.is_small = arguments.scale < 1
        self.rows: list[dict[str, Any]] = []
        self.bars: list[dict[str, Any]] = []

    def draw(self, n_items: int, **shape: Any) -> dict[str, Any]:
        """Draw votes into a file; gives back where they are and how many."""
        n_items = max(100, round(n_items * self.arguments.scale))
        path = self.folder / f"votes.{'npz' if shape.get('sparse') else 'npy'}"
        drawn = self._process(sys.executable, {"work": "draw", "votes": str(path), "n_items": n_items, **shape})
        if "failed" in drawn:
            sys.exit(f"no votes could be drawn: {drawn['failed']}")
        print(f"\n{n_items:,} items × {shape['n_sources']:,} sources × {shape['n_classes']} classes, ", end="")
        print(f"{drawn['n_votes']:,} votes: {shape['abstain']:.0%} of the cells are abstentions\n{HEADER}", flush=True)
        return {"votes": str(path), "n_items": n_items, "n_classes": shape["n_classes"], **drawn}

    def measure(self, work: str, drawn: dict[str, Any], **job: Any) -> dict[str, Any] | None:
        """One row of the table, or None where it could not be measured (the table says why)."""
        interpreter = self.arguments.peers if work in PEERS else sys.executable
        if interpreter is None:
            return None
        found = self._process(interpreter, {"work": work, **drawn, **job})
        row = {"name": job.get("model", work), **drawn, **job, **found}
        self.rows.append(row)
        print(line_of(row), flush=True)
        return None if "failed" in row else row

    def ask(self, what: str, figure: float, *, least: float | None = None, most: float | None = None) -> None:
        """Keep a figure beside what is asked of it."""
        asked = f"≥ {least:g}" if least is not None else f"≤ {most:g}" if most is not None else ""
        met = (least is None or figure >= least) and (most is None or figure <= most)
        verdict = bool(met) if asked and not self.is_small else None
        self.bars.append({"what": what, "figure": float(figure), "asked": asked, "met": verdict})

    def _process(self, interpreter: str, job: dict[str, Any]) -> dict[str, Any]:
        command = [interpreter, str(Path(__file__).with_name("one_measurement.py")), json.dumps(job)]
        try:
            done = subprocess.run(  # noqa: S603 (the file beside this one, run by the interpreter that the user names)
                command, capture_output=True, text=True, timeout=self.arguments.limit, check=False
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"given up after {self.arguments.limit:.0f} s"}
        except OSError as error:
            return {"failed": f"{interpreter} cannot be run: {error.strerror}"}
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            killed = ", killed: was there too little memory?" if done.returncode < 0 else ""
            return {"failed": f"{last} (exit status {done.returncode}{killed})"}
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return answer


def part_a(bench: Bench) -> None:
    """Speed and memory against both peers."""
    drawn = bench.draw(1_000_000, n_sources=30, n_classes=10, abstain=0.7, accuracy=(0.2, 0.6))
    names = ("DawidSkene", "EBCC", "MeTaL")
    ours = {name: bench.measure("labelfable", drawn, model=name, settings=SETTINGS[name]) for name in names}
    crowd_kit = bench.measure("crowd-kit", drawn, asked_iterations=SWEEPS, tol=NEVER)
    snorkel = {number: bench.measure("snorkel", drawn, asked_iterations=number) for number in (SWEEPS, EPOCHS)}
    for name, row in ours.items():
        epochs = SETTINGS[name]["max_iter"]
        for peer, other in (("crowd-kit", crowd_kit), (f"snorkel at {epochs} epochs", snorkel[epochs])):
            if row and other:
                bench.ask(f"{name}: times faster than {peer}", other["seconds"] / row["seconds"], least=20)
                peak, own = other["peak"] / row["peak"], other["own"] / row["own"]
                sizes = f"{name}: times smaller than {peer}: the whole process {peak:.1f}, above the votes {own:.1f}"
                bench.ask(sizes, min(peak, own), least=4)


def part_b(bench: Bench) -> None:
    """Few distinct rows, to convergence."""
    drawn = bench.draw(10_000_000, n_sources=9, n_classes=3, abstain=0.8, accuracy=(0.75, 0.95))
    row = bench.measure("labelfable", drawn, model="DawidSkene", settings={})
    few = min(drawn["n_items"], max(100, round(bench.arguments.peer_items * bench.arguments.scale)))
    other = bench.measure("crowd-kit", drawn | {"n_items": few}, asked_iterations=500, tol=1e-5)
    if row and other:
        times = drawn["n_items"] / few
        seconds = other["seconds"] * times
        how = "measured in full" if times == 1 else f"EXTRAPOLATED from {few:,} items to {seconds:,.0f} s"
        bench.ask(
            f"DawidSkene: times faster than crowd-kit to convergence ({how})", seconds / row["seconds"], least=100
        )
        each = seconds / other["iterations"] / (row["seconds"] / row["iterations"])
        bench.ask("DawidSkene: the same, for each iteration", each)


def part_c(bench: Bench) -> None:
    """Growth with the number of items."""
    for n_items in (10_000, 100_000, 1_000_000, 10_000_000):
        drawn = bench.draw(n_items, n_sources=16, n_classes=4, abstain=0.3, accuracy=(0.3, 0.6))
        for name, most in GROWTH.items():
            if n_items <= most:
                bench.measure("growth", drawn, model=name, settings=SETTINGS[name])
    for name in GROWTH:
        for part, what in (
            ("sweep", "one sweep"),
            ("seconds", "fit and predict_proba, with what they cost at any size"),
        ):
            points = [(r["n_items"], r[part]) for r in bench.rows if r["name"] == name and r.get(part, 0) > 0]
            if len(points) > 1:
                slope = np.polyfit(*np.log(np.array(points, dtype=np.float64)).T, 1)[0]
                bench.ask(f"{name}: exponent of the seconds of {what}", slope, most=1.1)


def part_d(bench: Bench) -> None:
    """Many sources and classes, sparse."""
    drawn = bench.draw(100_000, n_sources=1200, n_classes=56, abstain=0.99, accuracy=(0.4, 0.8), sparse=True)
    for name in MODELS:
        settings = SETTINGS.get(name, {}) | ({"n_subtypes": 2} if name == "EBCC" else {})
        row = bench.measure("labelfable", drawn, model=name, settings=settings)
        if row:
            bench.ask(f"{name}: GB at the most", row["peak"] / 1e9, most=4)


PARTS = {"A": part_a, "B": part_b, "C": part_c, "D": part_d}
HEADER = (
    f"\n{'':30}{'iterations':>11}{'prepare s':>10}{'fit s':>9}{'predict s':>10}{'sum s':>9}{'sweep s':>10}"
    f"{'peak MB':>9}{'own MB':>8}{'accuracy':>10}"
)


def line_of(row: dict[str, Any]) -> str:
    """One row of the table."""
    name = f"{row['name']} ({row['n_items']:,})"
    if "failed" in row:
        return f"{name:30} {row['failed']}"
    seconds = f"{row['prepare']:>10.3f}{row['fit']:>9.3f}{row['predict']:>10.3f}{row['seconds']:>9.3f}"
    sweep = f"{row['sweep']:>10.5f}" if "sweep" in row else " " * 10
    sizes = f"{row['peak'] / 1e6:>9,.0f}{row['own'] / 1e6:>8,.0f}{row['accuracy']:>10.4f}"
    distinct = f"   {row['n_distinct']:,} distinct rows" if "n_distinct" in row else ""
    return f"{name:30}{row['iterations']:>11}{seconds}{sweep}{sizes}{distinct}"


if __name__ == "__main__":
    main()
