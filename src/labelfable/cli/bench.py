"""The commands that measure: bench, bench-size, bench-gain, advise."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labelfable.cli import terminal
from labelfable.cli.commands import AsJson, Reading, Seed, VotesFile, app
from labelfable.cli.settings import model_specs, reading_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from labelfable.evaluation.benchmark import Outcome, Progress, RunOptions

LINE_SECONDS = 20.0  # between lines of progress in a log
Models = Annotated[
    str | None,
    typer.Option(
        help="Names with commas between, comparators included; a name may carry settings: `fable:kernel=rbf`."
    ),
]
Out = Annotated[
    Path, typer.Option(help="Folder of finished cells, tables and figures; a second run does what is missing.")
]
Jobs = Annotated[int, typer.Option(help="Cells at a time; 0: one a core.")]
Limit = Annotated[float, typer.Option(help="Give a cell up after so many seconds.")]
Retry = Annotated[bool, typer.Option("--retry", help="Try cells again that failed.")]
Docs = Annotated[Path | None, typer.Option(help="Renew the part of this Markdown page that this command writes.")]


@app.command(epilog="Example: `labelfable bench ../shared/data --models mv,ebcc,fable --seeds 5 --out build/bench`")
def bench(
    folder: Annotated[
        Path, typer.Argument(help="Data sets: WRENCH folders, .npz files, or tables of votes with gold.")
    ],
    *,
    models: Models = None,
    peers: Annotated[bool, typer.Option("--peers", help="With all comparators: other packages, regressions.")] = False,
    sets: Annotated[str | None, typer.Option(help="Names of data sets with commas between; all if left out.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each model on each set.")] = 5,
    out: Out = Path("build/bench"),
    jobs: Jobs = 0,
    limit: Limit = 600,
    retry: Retry = False,
    docs: Docs = None,
    as_json: AsJson = False,
) -> None:
    """Models × data sets × seeds in parallel, beside published figures: tables and figures."""
    from labelfable.evaluation.benchmark.experiments import RunOptions, run_table
    from labelfable.evaluation.peers import PEERS
    from labelfable.models.registry import available_models

    names = models or ",".join(available_models())
    chosen = model_specs(f"{names},{','.join(PEERS)}" if peers else names)
    only = None if sets is None else [name.strip() for name in sets.split(",") if name.strip()]
    options = RunOptions(out, jobs, limit, retry, docs)
    _show(lambda options: run_table(folder, chosen, seeds, options, only), options, as_json=as_json)


@app.command(epilog="Example: `labelfable bench-size --repetitions 100 --out build/bench`")
def bench_size(
    *,
    models: Models = None,
    sizes: Annotated[str | None, typer.Option(help="Numbers of items with commas between.")] = None,
    repetitions: Annotated[int, typer.Option(help="Draws of the data at each size.")] = 100,
    published_up_to: Annotated[
        int, typer.Option(help="Most items for the published rules, whose memory grows with the square of the items.")
    ] = 5000,
    out: Out = Path("build/bench"),
    jobs: Jobs = 0,
    limit: Limit = 600,
    retry: Retry = False,
    docs: Docs = None,
    as_json: AsJson = False,
) -> None:
    """Accuracy against the number of items on synthetic data: is the paper's claim about growing data true?"""
    from labelfable.cli.settings import whole_numbers
    from labelfable.evaluation.benchmark import size
    from labelfable.evaluation.benchmark.experiments import RunOptions, run_size

    chosen = size.MODELS if models is None else model_specs(models)
    numbers = size.SIZES if sizes is None else whole_numbers(sizes, "--sizes")
    options = RunOptions(out, jobs, limit, retry, docs)
    _show(lambda options: run_size(chosen, numbers, repetitions, options, published_up_to), options, as_json=as_json)


@app.command(epilog="Example: `labelfable bench-gain --sets 50 --out build/bench`")
def bench_gain(
    *,
    sets: Annotated[int, typer.Option(help="Synthetic sets.")] = 50,
    items: Annotated[int, typer.Option(help="Items of each.")] = 5000,
    model: Annotated[
        str, typer.Option(help="The model whose gain over EBCC is measured, with settings after colons.")
    ] = "fable",
    out: Out = Path("build/bench"),
    jobs: Jobs = 0,
    limit: Limit = 600,
    retry: Retry = False,
    docs: Docs = None,
    as_json: AsJson = False,
) -> None:
    """Gain of FABLE over EBCC against how far votes depend on features, on synthetic data."""
    from labelfable.evaluation.benchmark.experiments import RunOptions, run_gain

    options = RunOptions(out, jobs, limit, retry, docs)
    (chosen,) = model_specs(model)
    _show(lambda options: run_gain(sets, items, options, chosen), options, as_json=as_json)


@app.command(epilog="Example: `labelfable advise votes.csv --features features.parquet`")
def advise(
    votes: VotesFile,
    *,
    features: Annotated[Path, typer.Option(help="Features: a table of numbers, .npy, or .npz (array `features`).")],
    seed: Seed = 0,
    reading: Reading = None,
    as_json: AsJson = False,
) -> None:
    """Without gold: should these features help?"""
    from labelfable.datasets.inputs import read_inputs
    from labelfable.evaluation.advise import advise as give_advice

    with terminal.busy("Reading votes"):
        inputs = read_inputs(votes, features=features, **reading_options(reading))
    with terminal.busy("Comparing votes and features"):
        advice = give_advice(inputs.table, inputs.features, seed=seed)
    if as_json:
        terminal.print_json(advice.as_dict())
        return
    typer.echo(f"{advice.words}\n")
    chance = "less than 0.001" if advice.p_value < 0.001 else f"{advice.p_value:.3f}"  # noqa: PLR2004 (digits shown)
    rows = [
        [
            "distance correlation of features and votes, chance taken off (0 none, 1 complete)",
            f"{advice.correlation:.3f}",
        ],
        ["probability of so large a correlation by chance", chance],
        ["covered items compared", f"{advice.n_compared:,}"],
        ["items without a vote", f"{advice.uncovered:.1%}"],
        ["items with a single vote", f"{advice.single:.1%}"],
        ["items whose votes disagree", f"{advice.disputed:.1%}"],
    ]
    terminal.print_table(["Found without gold", "Figure"], rows)


def _show(run: Callable[[RunOptions], Outcome], options: RunOptions, *, as_json: bool) -> None:
    """Run with progress, then print the tables and where things went."""
    from dataclasses import replace

    with terminal.bars(in_bytes=False) as bar:
        last = time.monotonic()

        def on_done(progress: Progress) -> None:
            nonlocal last
            if bar is not None:
                bar("Measuring", progress.done, progress.total)
            elif time.monotonic() - last > LINE_SECONDS:
                last = time.monotonic()
                typer.echo(f"{progress.done:,} of {progress.total:,} measured{_left(progress)}", err=True)

        outcome = run(replace(options, on_done=on_done))
    for note in outcome.notes:
        terminal.tell("Warning", note, "yellow")
    if as_json:
        terminal.print_json(outcome.document)
        return
    typer.echo(outcome.text + "\n")
    for path in outcome.files:
        typer.echo(f"written: {path}")


def _left(progress: Progress) -> str:
    """What is known of the time that is left."""
    if progress.seconds_left is None:
        return ""
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    return f", about {minutes} min {seconds} s left"
