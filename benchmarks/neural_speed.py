"""An epoch of WeaSEL and of Denoise against a bare PyTorch loop over the same layers.

    make bench BENCH=neural_speed ARGS="--docs docs/neural.md"

The bare loop does what nobody can leave out: random batches, the networks forward, cross-entropy against fixed labels,
backward, Adam.  CPU seconds (wall seconds on a GPU), the median of several epochs in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from pages import renew
from torch import nn

from labelfable import Denoise, WeaSEL, read_votes
from labelfable.models.neural.items import Items, Rows
from labelfable.models.neural.networks import Sizes
from labelfable.models.neural.stopping import choose_criterion
from labelfable.models.neural.training import batches, classify, run_epoch
from labelfable.numerics.scaling import fit_scaling
from labelfable.votes.features import read_features


def main() -> None:
    """Print both models' epochs and their ratio to the bare loop's."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=384)
    parser.add_argument("--sources", type=int, default=9)
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--docs", type=Path, help="a page whose table is to be renewed")
    options = parser.parse_args()
    items, labels = made_items(options)
    n_covered = int(items.rows.table.covered.sum())
    lines = ["| model | seconds an epoch | bare loop | ratio |", "|---|---|---|---|"]
    for model in (WeaSEL(device=options.device), Denoise(device=options.device)):
        bare, ours = epochs_of(model, items, labels, options)
        lines.append(f"| {type(model).__name__} | {ours:.2f} | {bare:.2f} | {ours / bare:.2f} |")
    shape = f"{options.items:,} items ({n_covered:,} covered) × {options.features} features, {options.sources} sources"
    text = "\n".join([f"{shape}; {options.device}, {torch.get_num_threads()} threads.", "", *lines])
    print(text)
    if options.docs:
        renew(options.docs, __file__, text)


def made_items(options: argparse.Namespace) -> tuple[Items, torch.Tensor]:
    """Random votes and features, and labels for the bare loop."""
    draws = np.random.default_rng(0)
    shape = (options.items, options.sources)
    votes = np.where(draws.random(shape) < 0.3, draws.integers(options.classes, size=shape), -1)
    features = read_features(draws.standard_normal((options.items, options.features), dtype=np.float32))
    rows = Rows(read_votes(votes, classes=options.classes), features, fit_scaling(features, "standardise", 0, 0))
    device = torch.device(options.device)
    return Items.of(rows, device), torch.from_numpy(draws.integers(options.classes, size=options.items)).to(device)


def epochs_of(
    model: WeaSEL | Denoise, items: Items, labels: torch.Tensor, options: argparse.Namespace
) -> tuple[float, float]:
    """Median seconds of a bare epoch and of ours, the criterion included."""
    criterion, _ = choose_criterion(items.rows.table, None, model.held_out, np.random.default_rng(0), fixed=False)
    generator = torch.Generator().manual_seed(0)
    sizes = Sizes(options.features, options.sources, options.classes, model.hidden)
    network = model._network(sizes).to(items.device)  # noqa: SLF001 (an epoch alone is what is measured)
    objective = model._objective(network, items, None, generator)  # noqa: SLF001 (the same)
    twin = model._network(sizes).to(items.device)  # noqa: SLF001 (the same)
    uncovered = torch.from_numpy(np.flatnonzero(~items.rows.table.covered)).to(items.device)
    votes = items.votes.float()
    adams = [torch.optim.Adam(each.parameters(), lr=model.learning_rate) for each in (network, twin)]
    learned = torch.from_numpy(np.flatnonzero(items.rows.table.covered)).to(items.device)
    seconds: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(options.epochs + 1):
        began = now(items.device)
        bare_loop(twin, adams[1], (items.features, votes, labels), (learned, uncovered), model)
        between = now(items.device)
        run_epoch(objective, adams[0], batches(learned, model.batch_size, generator))
        criterion.score(classify(network, items, criterion.rows))
        seconds["bare"].append(between - began)
        seconds["ours"].append(now(items.device) - between)
    return statistics.median(seconds["bare"][1:]), statistics.median(seconds["ours"][1:])  # the first epochs warm up


def bare_loop(
    network: nn.Module,
    adam: torch.optim.Optimizer,
    data: tuple[torch.Tensor, ...],
    rows: tuple[torch.Tensor, torch.Tensor],
    model: WeaSEL | Denoise,
) -> None:
    """The same layers over the same number of items, with plain cross-entropies."""
    features, votes, labels = data
    order, other = (each[torch.randperm(len(each), device=each.device)] for each in rows)
    loss_of = nn.CrossEntropyLoss()
    trust = network.encoder if isinstance(model, WeaSEL) else network.attention
    pairs = isinstance(model, Denoise) and len(other) > 0
    for first in range(0, len(order), model.batch_size):
        chosen = order[first : first + model.batch_size]
        x, y = features[chosen], labels[chosen]
        loss = loss_of(network.classifier(x), y) + loss_of(trust(torch.cat((votes[chosen], x), dim=1)), y)
        if pairs:
            place = first % max(1, len(other) - model.batch_size)
            chosen = other[place : place + model.batch_size]
            loss = loss + loss_of(network.classifier(features[chosen]), labels[chosen])
        adam.zero_grad()
        loss.backward()
        adam.step()


def now(device: torch.device) -> float:
    """CPU seconds of this process, or the clock once the GPU has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


if __name__ == "__main__":
    main()
