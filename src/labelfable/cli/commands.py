"""The commands: each is a few lines around calls that a program could make itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from labelfable.cli import large, terminal
from labelfable.cli.settings import TieRule, fit_model, fit_votes, make_model, reading_options
from labelfable.errors import LabelfableError, ModelError
from labelfable.models.registry import DEFAULT_MODEL, DEFAULT_WITH_FEATURES


class Commands(TyperGroup):
    """Commands whose errors are one line, unless --debug asks for the traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error of ours ends it with exit code 2."""
        try:
            return super().invoke(ctx)
        except LabelfableError as error:
            if ctx.params.get("debug"):
                raise
            terminal.tell("Error", str(error), "bold red")
            raise typer.Exit(2) from None


app = typer.Typer(
    name="labelfable",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

LABELS_FROM = "FILE|COLUMN"
VotesFile = Annotated[
    Path,
    typer.Argument(help="Votes: .csv, .tsv or .parquet (a column a source; or item, source, label), .npy, .npz."),
]
Features = Annotated[
    Path | None, typer.Option(help="Features of the items: a table of numbers, .npy, or .npz (array `features`).")
]
Gold = Annotated[
    str | None,
    typer.Option(help="Gold labels to score against; no model sees them. Or a column of VOTES.", metavar=LABELS_FROM),
]
Known = Annotated[
    str | None, typer.Option(help="Labels that the fit may use and keeps. Or a column of VOTES.", metavar=LABELS_FROM)
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the model, say tol=1e-4. May be repeated.", metavar="KEY=VALUE"),
]
Reading = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        help="How to read VOTES: classes=spam,ham, abstain=0, layout=wide or long, item=, source=, label= (names of"
        " columns). May be repeated.",
        metavar="KEY=VALUE",
    ),
]
ModelName = Annotated[str, typer.Option(help="`DawidSkene`, `dawid-skene` and `ds` are the same.")]
Out = Annotated[Path | None, typer.Option(help="Write labels here: .csv, .tsv, .parquet, .json or .jsonl.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Memory = Annotated[
    str | None,
    typer.Option(help="Leave votes and features on disk (Parquet, .npy) and keep to this much memory, say 2GB."),
]
EngineName = Annotated[str | None, typer.Option(help="`dask`: a cluster of this machine's cores, or --scheduler's.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of a Dask scheduler, say tcp://10.0.0.1:8786.")]
Checkpoint = Annotated[Path | None, typer.Option(help="Folder for the fit's state; a killed fit goes on from it.")]
Ties = Annotated[TieRule, typer.Option(help="What to do where several classes are equally probable.")]
Seed = Annotated[int, typer.Option(help="Seed of random starts and of ties.")]


def print_version(*, asked: bool) -> None:
    """Print the version and leave, where it was asked for."""
    if asked:
        from labelfable import __version__

        typer.echo(f"labelfable {__version__}")
        raise typer.Exit


@app.callback(epilog="Try `labelfable demo` first.")
def options(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Calibrated labels from several noisy votes an item, without gold labels."""
    del debug, version  # Commands.invoke looks at the one, print_version at the other


@app.command(epilog="Example: `labelfable demo --data digits --out digits-demo`")
def demo(
    *,
    data: Annotated[
        str, typer.Option(help="breast_cancer (14 rules, 2 classes) or digits (15 rules, 10 classes).")
    ] = "breast_cancer",
    model: ModelName = DEFAULT_WITH_FEATURES,
    out: Annotated[Path, typer.Option(help="Folder for labels.csv, labels.parquet and report.html.")] = Path(
        "labelfable-demo"
    ),
    as_json: AsJson = False,
) -> None:
    """Fit every model to real data with hand-written rules as sources, and compare them with majority vote."""
    from labelfable.datasets import bundled_data
    from labelfable.datasets.outputs import write_table
    from labelfable.evaluation.report import html_report
    from labelfable.models.registry import model_named
    from labelfable.persistence import make_folder, replace_file

    chosen, task = model_named(model).__name__, bundled_data(data)
    make_folder(out)
    comparison = terminal.compare_with_progress(task.table(), features=task.features, gold=task.gold_names)
    if chosen not in comparison.models:
        raise ModelError(next(verdict.error for verdict in comparison.verdicts if verdict.model == chosen))
    labels = comparison.models[chosen].label_table(comparison.table, features=task.features)
    for name in ("labels.csv", "labels.parquet"):
        write_table(labels, out / name)
    title = f"labelfable demo: {task.name.replace('_', ' ')}"
    text = html_report(comparison, chosen, title=title, about=task.about, rules=task.rules, footer=task.note)
    with replace_file(out / "report.html") as temporary:
        temporary.write_text(text, encoding="utf-8")
    if as_json:
        terminal.print_json(comparison.records())
        return
    typer.echo(f"{task.about}\n{len(task.rules)} hand-written rules vote; no model sees a gold label.\n")
    terminal.print_verdicts(comparison)
    typer.echo(f"\nLabels of {chosen}: {out / 'labels.csv'}, {out / 'labels.parquet'}\nReport: {out / 'report.html'}")


@app.command(
    epilog="Example: `labelfable fit votes.csv --model ebcc --set n_subtypes=2 --save model --out labels.parquet`"
)
def fit(
    votes: VotesFile,
    *,
    features: Features = None,
    model: Annotated[
        str | None, typer.Option(help=f"By default {DEFAULT_WITH_FEATURES} with features, else {DEFAULT_MODEL}.")
    ] = None,
    settings: Settings = None,
    known: Known = None,
    gold: Gold = None,
    save: Annotated[Path | None, typer.Option(help="Save the fitted model to this folder.")] = None,
    out: Out = None,
    ties: Ties = TieRule.RANDOM,
    seed: Seed = 0,
    memory: Memory = None,
    engine: EngineName = None,
    scheduler: Scheduler = None,
    checkpoint: Checkpoint = None,
    reading: Reading = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to votes, label the same items, and say how the labels differ from majority vote's."""
    from labelfable.datasets.inputs import read_inputs
    from labelfable.datasets.outputs import check_output, hold_known, write_table
    from labelfable.evaluation.compare import judge
    from labelfable.persistence import check_target

    if out is not None:
        check_output(out)
    if save is not None:
        check_target(save)
    name = model or (DEFAULT_MODEL if features is None else DEFAULT_WITH_FEATURES)
    chosen = make_model(name, settings, seed)
    large.place_of_work(chosen, engine, scheduler, checkpoint)
    if memory is not None:
        stored = large.open_large(votes, reading_options(reading), memory, out, gold=gold, known=known)
        with terminal.warnings_told(), terminal.busy(f"Fitting {name} to {stored.n_items:,} items"):
            fit_votes(chosen, stored, None, features)
        if save is not None:
            chosen.save(save)
        counts = large.label_large(chosen, stored, out, features, ties.value)
        large.tell(chosen, counts, out, save, as_json=as_json)
        return
    with terminal.busy("Reading votes"):
        inputs = read_inputs(votes, gold=gold, known=known, features=features, **reading_options(reading))
    with terminal.warnings_told(), terminal.busy(f"Fitting {name} to {inputs.table.n_items:,} items"):
        fit_model(chosen, inputs)
        labels = hold_known(chosen.label_table(inputs.table, features=inputs.features, ties=ties.value), inputs)
        scores = judge(chosen, inputs.table, inputs.unseen_gold, features=inputs.features, ties=ties.value)[1]
    if save is not None:
        chosen.save(save)
    if out is not None:
        write_table(labels, out)
    if as_json:
        report = chosen.report_.as_dict()
        terminal.print_json({"report": report, "labels": terminal.label_counts(labels), "scores": scores})
        return
    typer.echo(str(chosen.report_))
    terminal.print_labels(labels, scores)
    terminal.say_written({"model": save, "labels": out})


@app.command(epilog="Example: `labelfable predict model new-votes.csv --out labels.csv`")
def predict(
    model: Annotated[Path, typer.Argument(help="A folder that `fit --save` or `model.save` wrote.")],
    votes: VotesFile,
    *,
    features: Features = None,
    out: Out = None,
    ties: Ties = TieRule.RANDOM,
    memory: Memory = None,
    engine: EngineName = None,
    scheduler: Scheduler = None,
    reading: Reading = None,
    as_json: AsJson = False,
) -> None:
    """Label items with a saved model."""
    from labelfable.datasets.inputs import read_inputs
    from labelfable.datasets.outputs import check_output, write_table
    from labelfable.models.registry import load

    if out is not None:
        check_output(out)
    chosen = load(model)
    large.place_of_work(chosen, engine, scheduler, None)
    if memory is not None:
        stored = large.open_large(votes, reading_options(reading, like=chosen), memory, out)
        counts = large.label_large(chosen, stored, out, features, ties.value)
        large.tell(chosen, counts, out, None, as_json=as_json, fitted=False)
        return
    with terminal.busy("Reading votes"):
        inputs = read_inputs(votes, features=features, **(reading_options(reading, like=chosen)))
    with terminal.warnings_told(), terminal.busy(f"Labelling {inputs.table.n_items:,} items"):
        labels = chosen.label_table(inputs.table, features=inputs.features, ties=ties.value)
    if out is not None:
        write_table(labels, out)
    if as_json:
        terminal.print_json({"labels": terminal.label_counts(labels)})
        return
    terminal.print_labels(labels, {})
    terminal.say_written({"labels": out})


@app.command(epilog="Example: `labelfable sources votes.csv --gold gold.csv`")
def sources(
    votes: VotesFile,
    *,
    gold: Gold = None,
    features: Features = None,
    model: Annotated[
        str, typer.Option(help="The model that estimates each source's accuracy, or none.")
    ] = DEFAULT_MODEL,
    settings: Settings = None,
    seed: Seed = 0,
    reading: Reading = None,
    as_json: AsJson = False,
) -> None:
    """What each source does: coverage, overlaps, conflicts, accuracy against gold, accuracy as a model estimates it."""
    from labelfable.datasets.inputs import read_inputs
    from labelfable.votes import source_summary

    chosen = None if model.casefold() == "none" else make_model(model, settings, seed)
    with terminal.busy("Reading votes"):
        inputs = read_inputs(votes, gold=gold, features=features, **reading_options(reading))
    probabilities = None
    if chosen is not None:
        with terminal.warnings_told(), terminal.busy(f"Fitting {model} to {inputs.table.n_items:,} items"):
            probabilities = fit_model(chosen, inputs).predict_proba(inputs.table, features=inputs.features)
    summary = source_summary(inputs.table, inputs.gold, probabilities)
    rows = [dict(zip(summary, entries, strict=True)) for entries in zip(*summary.values(), strict=True)]
    if as_json:
        terminal.print_json(rows)
        return
    terminal.print_table(list(summary), [[terminal.written(value) for value in row.values()] for row in rows])


@app.command(epilog="Example: `labelfable plan votes.parquet --features features.npy`")
def plan(
    votes: VotesFile,
    *,
    features: Features = None,
    model: Annotated[
        str | None, typer.Option(help=f"By default {DEFAULT_WITH_FEATURES} with features, else {DEFAULT_MODEL}.")
    ] = None,
    settings: Settings = None,
    memory: Annotated[str, typer.Option(help="What a fit from files may keep in memory.")] = "2GB",
    reading: Reading = None,
    as_json: AsJson = False,
) -> None:
    """What a fit will need: memory, disk and seconds, measured on a sample, and where to run it."""
    from labelfable.evaluation.plan import plan_fit

    chosen = make_model(model or (DEFAULT_MODEL if features is None else DEFAULT_WITH_FEATURES), settings, 0)
    stored = large.open_large(votes, reading_options(reading), memory, None)
    with terminal.busy("Fitting a sample"):
        found = plan_fit(chosen, stored, features)
    if as_json:
        terminal.print_json(found.as_dict())
        return
    large.print_plan(found)


@app.command(epilog="Example: `labelfable compare votes.csv --models mv,ds,ebcc --gold gold.csv`")
def compare(
    votes: VotesFile,
    *,
    models: Annotated[
        str | None, typer.Option(help="Names with commas between; all that are installed if left out.")
    ] = None,
    features: Features = None,
    gold: Gold = None,
    ties: Ties = TieRule.RANDOM,
    seed: Seed = 0,
    reading: Reading = None,
    as_json: AsJson = False,
) -> None:
    """Fit several models to the same votes, each against majority vote."""
    from labelfable.datasets.inputs import read_inputs
    from labelfable.models.registry import available_models

    usable = available_models(with_features=features is not None)
    names = usable if models is None else [name for name in models.split(",") if name.strip()]
    chosen = [make_model(name, None, seed) for name in names]
    with terminal.busy("Reading votes"):
        inputs = read_inputs(votes, gold=gold, features=features, **reading_options(reading))
    comparison = terminal.compare_with_progress(
        inputs.table, chosen, features=inputs.features, gold=inputs.names(inputs.gold), ties=ties.value
    )
    if as_json:
        terminal.print_json(comparison.records())
        return
    terminal.print_verdicts(comparison)


def main() -> None:
    """Run the command line, as `labelfable` and as `python -m labelfable`."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name that the terminal cannot write must not end the program
    app(prog_name="labelfable")
