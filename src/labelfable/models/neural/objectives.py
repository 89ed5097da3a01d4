"""What the two models minimise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (PyTorch's own name for it)
from torch import Tensor, nn

from labelfable.models.class_prior import vote_totals
from labelfable.models.neural.networks import DenoiseNetwork, WeaSELNetwork, weigh_votes

if TYPE_CHECKING:
    from labelfable.models.neural.items import Items


class Objective(Protocol):
    """A network, its loss on some items, and what changes between epochs."""

    network: nn.Module
    items: Items

    def terms(self, rows: Tensor) -> dict[str, Tensor]:
        """Parts of the loss, whose sum is minimised."""
        ...

    def end_epoch(self) -> None:
        """Renew what stays fixed within an epoch."""
        ...


def soft_cross_entropy(logits: Tensor, target_logits: Tensor) -> Tensor:
    """Cross-entropy against another network's answer, which is taken as given.                   Equation (WS.3)

        −(1/n) Σ_i Σ_k softmax(t_i)_k log softmax(s_i)_k,    no gradient to t

    Shapes: [n, classes], [n, classes] -> [].
    """
    target = torch.softmax(target_logits.detach(), dim=1)
    return -(target * torch.log_softmax(logits, dim=1)).sum(dim=1).mean()


class WeaSELObjective:
    """Encoder and end model each learn from the other's answer.                                  Equation (WS.4)

    CE( f(x), stop(s) ) + CE( s, stop(f(x)) )
    """

    def __init__(self, network: WeaSELNetwork, items: Items) -> None:
        self.network = network
        self.items = items

    def terms(self, rows: Tensor) -> dict[str, Tensor]:
        """Both cross-entropies."""
        batch = self.items.batch(rows)
        answer, votes = self.network.classifier(batch.features), self.network.aggregate(batch)
        return {"end model": soft_cross_entropy(answer, votes), "encoder": soft_cross_entropy(votes, answer)}

    def end_epoch(self) -> None:
        """Nothing stays fixed within an epoch."""


def source_reliability(mean_attention: Tensor) -> Tensor:
    """Reliability of each source from the mean over items of the attention to its votes.         Equation (DN.3)

        A = softmax( (1/n) Σ_i a_i 1[ y_i ≠ −1 ] )

    Shapes: [sources] -> [sources].
    """
    return torch.softmax(mean_attention, dim=0)


def ensemble_target(total: Tensor, visits: Tensor, momentum: float) -> Tensor:
    """Mean of an item's earlier answers, later ones weighing more.                               Equation (DN.5)

        z̃_i = Z_i / ( 1 − α^{v_i} ),    Z_i ← α Z_i + (1 − α) z_i,    v_i the visits so far

    Shapes: [n, classes], [n] -> [n, classes].
    """
    return total / (1 - momentum ** visits.clamp(min=1))[:, None]


class DenoiseObjective:
    """Votes are denoised by attention, the classifier learns from them, and from itself without votes.

    Equation (DN.4)

        c₁ CE( s, ỹ ) + c₂ CE( f(x), ỹ ) + (1 − c₁ − c₂) mean over uncovered items and classes of ( z̃ − log σ(f(x)) )²
    """

    def __init__(
        self,
        network: DenoiseNetwork,
        items: Items,
        *,
        shares: tuple[float, float],
        momentum: float,
        generator: torch.Generator,
    ) -> None:
        self.network, self.items = network, items
        self.shares, self.momentum, self.generator = shares, momentum, generator
        n_items, n_classes, device = items.rows.n_items, network.sizes.n_classes, items.device
        precision = next(network.parameters()).dtype
        self.uncovered = torch.from_numpy(np.flatnonzero(~items.rows.table.covered)).to(device)
        self.queue = self.uncovered[:0]
        self.targets = torch.zeros(n_items, dtype=torch.int64, device=device)
        self.totals = torch.zeros(n_items, n_classes, dtype=precision, device=device)
        self.visits = torch.zeros(n_items, dtype=precision, device=device)
        self.attention = torch.zeros(network.sizes.n_sources, dtype=precision, device=device)
        self.seen = 0
        self.end_epoch()

    def terms(self, rows: Tensor) -> dict[str, Tensor]:
        """The three parts, each with its share."""
        first, second = self.shares
        batch = self.items.batch(rows)
        weights = self.network.weights(batch)
        votes = weigh_votes(weights[:, :, None], batch.votes, self.network.sizes.n_classes)
        self.attention += (weights.detach() * (batch.votes >= 0)).sum(dim=0)
        self.seen += len(rows)
        return {
            "denoiser": first * F.cross_entropy(votes, self.targets[rows]),
            "classifier": second * F.cross_entropy(self.network.classifier(batch.features), self.targets[rows]),
            "ensemble": (1 - first - second) * self._consistency(len(rows)),
        }

    def _consistency(self, count: int) -> Tensor:
        """How far the classifier is from its earlier answers on uncovered items; those are then brought up to date."""
        rows = self._next_uncovered(count)
        if not len(rows):
            return torch.zeros((), device=rows.device)
        answer = torch.log_softmax(self.network.classifier(self.items.batch(rows).features), dim=1)
        known = self.visits[rows] > 0
        gap = ensemble_target(self.totals[rows], self.visits[rows], self.momentum) - answer
        self.totals[rows] = self.momentum * self.totals[rows] + (1 - self.momentum) * answer.detach()
        self.visits[rows] += 1
        return (gap**2 * known[:, None]).mean()

    def _next_uncovered(self, count: int) -> Tensor:
        """The next of the uncovered items, all of them in a random order before any comes again."""
        if not len(self.queue):
            order = torch.randperm(len(self.uncovered), generator=self.generator)
            self.queue = self.uncovered[order.to(self.uncovered.device)]
        rows, self.queue = self.queue[:count], self.queue[count:]
        return rows

    def end_epoch(self) -> None:
        """Labels of the covered items by the sources' reliability: equal at first, which is majority vote."""
        reliability = source_reliability(self.attention / max(self.seen, 1)).double().cpu().numpy()
        labels = vote_totals(self.items.rows.table, reliability).argmax(axis=1)
        self.targets.copy_(torch.from_numpy(labels))
        self.attention.zero_()
        self.seen = 0
