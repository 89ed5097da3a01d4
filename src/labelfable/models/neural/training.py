"""Mini-batches, epochs, and when to stop."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from labelfable.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from labelfable.models.neural.items import Items
    from labelfable.models.neural.objectives import Objective
    from labelfable.models.neural.stopping import Criterion, Score

ITEMS_AT_ONCE = 4096  # classified together between epochs


class Epoch(NamedTuple):
    """What a progress callback is told after each epoch."""

    number: int
    """Counted from 1."""
    most: int
    """Epochs after which training ends at the latest."""
    loss: float
    score: float | None
    """The stopping criterion, the larger the better; None where all epochs are run."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast."""

    learning_rate: float
    weight_decay: float
    batch_size: int
    max_iter: int
    patience: int
    progress: Callable[[Epoch], object] | None = None


@dataclass
class Training:
    """How it went, and the weights of the best epoch."""

    history: list[dict[str, float]] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    best: int = 0
    """The epoch whose weights are kept, counted from 1."""
    weights: dict[str, NDArray[Any]] = field(default_factory=dict)
    converged: bool = True


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """PyTorch's global random numbers, seeded here and as before afterwards: weights and dropout."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count())) if on_gpu else []):
        (torch.manual_seed if on_gpu else torch.default_generator.manual_seed)(seed)
        yield


def train(
    objective: Objective,
    rows: Tensor,
    schedule: Schedule,
    generator: torch.Generator,
    criterion: Criterion | None = None,
) -> Training:
    """Adam over mini-batches of `rows` until the criterion has not risen for `patience` epochs."""
    network, done = objective.network, Training()
    optimizer = torch.optim.Adam(network.parameters(), lr=schedule.learning_rate, weight_decay=schedule.weight_decay)
    for number in range(1, schedule.max_iter + 1):
        terms = run_epoch(objective, optimizer, batches(rows, schedule.batch_size, generator))
        loss = sum(terms.values())
        if not np.isfinite(loss):
            raise ModelError(
                f"the loss of epoch {number} is not a number", hint="Lower learning_rate, or scale the features"
            )
        done.history.append(terms)
        if criterion is not None:
            done.scores.append(criterion.score(classify(network, objective.items, criterion.rows)))
        if criterion is None or done.scores[-1] > max(done.scores[:-1], default=(-np.inf,)):
            done.best = number
            if criterion is not None:
                done.weights = _copied(network)
        if schedule.progress is not None:
            score = done.scores[-1][0] if done.scores else None
            schedule.progress(Epoch(number, schedule.max_iter, loss, score))
        if number - done.best >= schedule.patience:
            break
    else:
        done.converged = criterion is None
    done.weights = done.weights or _copied(network)
    return done


def batches(rows: Tensor, size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """The rows in a random order, cut into parts of `size` or fewer whose lengths differ by one at most.

    No part has a single item, because batch normalisation needs two: a lone item comes twice, and parts of `size` 2 may
    have 3.
    """
    if len(rows) == 1:
        return (rows.repeat(2),)
    order = torch.randperm(len(rows), generator=generator).to(rows.device)
    parts: tuple[Tensor, ...] = torch.tensor_split(rows[order], min(-(-len(rows) // size), len(rows) // 2))
    return parts


def run_epoch(objective: Objective, optimizer: Any, parts: tuple[Tensor, ...]) -> dict[str, float]:
    """One step a part.  Returns the means of the loss's terms."""
    objective.network.train()
    sums: dict[str, Tensor] = {}
    for rows in parts:
        terms = objective.terms(rows)
        optimizer.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        optimizer.step()
        for name, value in terms.items():
            sums[name] = sums[name] + value.detach() if name in sums else value.detach()
    objective.end_epoch()
    return {name: float(value) / len(parts) for name, value in sums.items()}


def classify(network: nn.Module, items: Items, rows: Tensor) -> NDArray[np.float64]:
    """Log probabilities of the classes by the classifier, [rows, classes]."""
    network.eval()
    with torch.no_grad():
        parts = [network.classifier(items.batch(part).features) for part in rows.split(ITEMS_AT_ONCE)]
        found: NDArray[np.float64] = torch.log_softmax(torch.cat(parts).double(), dim=1).cpu().numpy()
    return found


def _copied(network: nn.Module) -> dict[str, NDArray[Any]]:
    """The network's numbers as arrays of their own."""
    return {name: np.array(value.detach().cpu().numpy()) for name, value in network.state_dict().items()}
