"""Figures as PNG and SVG, drawn by matplotlib, which the extra `plots` brings."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import MissingExtraError
from labelfable.evaluation.benchmark.published import PUBLICATIONS
from labelfable.evaluation.metrics import N_BINS
from labelfable.persistence import make_folder, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

KINDS = ("png", "svg")
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#8C564B",
    "#7F7F7F",
)  # Okabe and Ito, two more
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
BASELINE = "MajorityVote"
CHOSEN = "FABLE"
FEW_ITEMS = 20  # of a bin: accuracies of fewer are noise
STYLE: Any = {
    "svg.hashsalt": "labelfable",  # the same figure is the same file
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "font.size": 9,
}


def can_draw() -> bool:
    """Whether matplotlib is here."""
    return find_spec("matplotlib") is not None


@contextmanager
def drawing(
    n_rows: int = 1, n_columns: int = 1, *, size: tuple[float, float], **axes: Any
) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes, without a window, in one style."""
    if not can_draw():
        raise MissingExtraError(
            "figures need matplotlib, which is not installed", hint="pip install 'labelfable[plots]'"
        )
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(n_rows, n_columns, **axes)


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure in both kinds; gives back the files."""
    make_folder(folder)
    paths = [folder / f"{name}.{kind}" for kind in KINDS]
    for path, kind in zip(paths, KINDS, strict=True):
        with replace_file(path) as temporary:
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(temporary, format=kind, dpi=150, metadata=metadata)
    return paths


def looks(models: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and marker of each model: majority vote grey, FABLE orange, whoever else is there."""
    own = {BASELINE: "#333333", CHOSEN: COLOURS[1]}
    colours, markers = cycle(colour for colour in COLOURS if colour not in own.values()), cycle(MARKERS)
    return {name: {"color": own.get(name) or next(colours), "marker": next(markers)} for name in models}


def draw_dots(document: dict[str, Any], folder: Path, score: str = "covered") -> list[Path]:
    """A row a set, a dot a model; hollow dots are published figures."""
    sets, look = document["sets"], looks(document["models"])
    good = [entry for entry in document["summary"] if entry["status"] == "ok"]
    models = [model for model in document["models"] if any(entry["model"] == model for entry in good)]
    with drawing(size=(7.5, 1.8 + (0.3 + 0.05 * len(models)) * len(sets))) as (figure, axes):
        for number, model in enumerate(models):
            lift = 0.7 * ((number + 0.5) / len(models) - 0.5)
            mine = [entry for entry in good if entry["model"] == model]
            for key, extra in (
                (score, {"label": model}),
                (f"{score}_published", {"markerfacecolor": "none", "alpha": 0.6}),
            ):
                found = [(entry[key], sets.index(entry["set"]) + lift) for entry in mine if entry.get(key) is not None]
                if found:
                    size = 8 if model == CHOSEN else 5
                    axes.plot(*zip(*found, strict=True), linestyle="", markersize=size, **look[model], **extra)
        for number in range(len(sets) - 1):
            axes.axhline(number + 0.5, color="#bbbbbb", linewidth=0.6)
        axes.set_yticks(range(len(sets)), sets)
        axes.grid(visible=False, axis="y")
        axes.set_ylim(len(sets) - 0.5, -0.5)
        axes.set_xlabel("accuracy on covered items, %" if score == "covered" else "F1 or accuracy over all items, %")
        hollow = f"; hollow: {PUBLICATIONS[score].source}" if score in PUBLICATIONS else ""
        axes.set_title(f"Means of {len(document['seeds'])} seeds{hollow}", loc="left", fontsize=8, color="#555555")
        figure.legend(loc="outside lower center", ncols=4)
        return save(figure, folder, f"dots_{score}")


def draw_reliability(document: dict[str, Any], folder: Path) -> list[Path]:
    """A panel a model: accuracy against confidence; thin lines are sets, dots all sets, by their share of the items."""
    seed, look = min(document["seeds"]), looks(document["models"])
    shown = [record for record in document["cells"] if record.get("status") == "ok" and record["seed"] == seed]
    models = [model for model in document["models"] if any(record["model"] == model for record in shown)]
    n_columns = max(1, min(4, len(models)))
    n_rows = max(1, -(-len(models) // n_columns))
    size = (2.1 * n_columns + 0.6, 2.2 * n_rows + 0.4)
    with drawing(n_rows, n_columns, size=size, sharex=True, sharey=True, squeeze=False) as (figure, axes):
        places = axes.ravel()
        for place in places[len(models) :]:
            place.set_visible(False)
        for place in places[max(len(models) - n_columns, 0) : len(models)]:
            place.tick_params(labelbottom=True)
        for model, place in zip(models, places, strict=False):
            place.plot([0, 1], [0, 1], color="#999999", linestyle=":", linewidth=1)
            bins = [record["bins"] for record in shown if record["model"] == model]
            for each in bins:
                many = np.array(each["items"]) >= FEW_ITEMS
                place.plot(
                    *(np.array(each[name])[many] for name in ("confidence", "accuracy")), color="#bbbbbb", linewidth=0.7
                )
            confidence, accuracy, share = mean_curve(bins)
            place.scatter(confidence, accuracy, s=4 + 200 * share, color=look[model]["color"], alpha=0.8, linewidth=0)
            place.set_title(model, fontsize=8)
            place.set(xlim=(0, 1.04), ylim=(0, 1.04), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        figure.supxlabel("confidence: the largest probability", fontsize=9)
        figure.supylabel("accuracy", fontsize=9)
        words = f"Covered items. Lines: sets, bins of {FEW_ITEMS} items or more. Dots: all sets weighing the same"
        figure.suptitle(words, fontsize=8, color="#555555")
        return save(figure, folder, "reliability")


def mean_curve(bins: Sequence[dict[str, list[float]]]) -> NDArray[np.float64]:
    """Mean confidence, accuracy and share of the items by bin, over sets of equal weight.  [3, bins]."""
    sums = np.zeros((3, N_BINS))
    for each in bins:
        share = np.array(each["items"]) / sum(each["items"])
        spot = np.clip(np.ceil(np.array(each["confidence"]) * N_BINS).astype(int) - 1, 0, N_BINS - 1)
        for row, values in zip(sums, (share * each["confidence"], share * each["accuracy"], share), strict=True):
            np.add.at(row, spot, values)
    used = sums[2] > 0
    return np.stack((*(sums[:2, used] / sums[2, used]), sums[2, used] / len(bins)))
