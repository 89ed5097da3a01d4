"""The layers of both models: a classifier of the features, and a network that says how far to trust each source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from labelfable.models.neural.items import Batch


@dataclass(frozen=True)
class Sizes:
    """How large the layers are."""

    n_features: int
    n_sources: int
    n_classes: int
    hidden: int


def weigh_votes(weights: Tensor, votes: Tensor, n_classes: int) -> Tensor:
    """Sum of the weights of the votes for each class.                                   Equations (WS.2), (DN.2)

        s_ik = Σ_j a_ijk 1[ y_ij = k ]

    Shapes: [n, sources, classes] or [n, sources, 1], [n, sources] -> [n, classes].  A mask and a sum rather than a
    scatter, whose order of adding is left to chance on a GPU.
    """
    spoken = votes[:, :, None] == torch.arange(n_classes, device=votes.device)
    return (weights * spoken).sum(dim=1)


def classifier(sizes: Sizes, dropout: float) -> nn.Sequential:
    """One hidden layer over the features."""
    return nn.Sequential(
        nn.Linear(sizes.n_features, sizes.hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(sizes.hidden, sizes.n_classes),
    )


def answers(network: nn.Module, batch: Batch, who: str) -> Tensor:
    """Class probabilities by the classifier, by the weighted votes, or by the surer of the two.  [n, classes]."""
    by_features = torch.softmax(network.classifier(batch.features), dim=1)
    if who == "classifier":
        return by_features
    by_votes = torch.softmax(network.aggregate(batch), dim=1)
    chosen = (batch.votes >= 0).any(dim=1)
    if who == "surer":
        chosen &= by_votes.max(dim=1).values >= by_features.max(dim=1).values
    return torch.where(chosen[:, None], by_votes, by_features)


class WeaSELNetwork(nn.Module):
    """Encoder over votes and features, end model over features.                          Equations (WS.1), (WS.2)"""

    def __init__(self, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        self.sizes = sizes
        hidden = sizes.hidden
        self.encoder = nn.Sequential(
            nn.Linear(sizes.n_sources + sizes.n_features, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, sizes.n_sources * sizes.n_classes),
        )
        self.classifier = classifier(sizes, dropout)
        self.register_buffer("temperature", torch.ones(()))
        self.register_buffer("log_prior", torch.zeros(sizes.n_classes))

    def weights(self, batch: Batch) -> Tensor:
        """Weight of each source's vote for each class, by item.  [n, sources, classes].          Equation (WS.1)

        a_ijk = √L K exp( e_ijk / T ) / Σ_j' exp( e_ij'k / T ),    e_i = encoder(y_i, x_i)
        """
        inputs = torch.cat((batch.votes.to(batch.features.dtype), batch.features), dim=1)
        scores = self.encoder(inputs).view(-1, self.sizes.n_sources, self.sizes.n_classes)
        scale = self.sizes.n_sources**0.5 * self.sizes.n_classes
        return scale * torch.softmax(scores / self.temperature, dim=1)

    def aggregate(self, batch: Batch) -> Tensor:
        """Logits of the classes from the weighted votes and the class prior.  [n, classes]."""
        return weigh_votes(self.weights(batch), batch.votes, self.sizes.n_classes) + self.log_prior


class DenoiseNetwork(nn.Module):
    """Attention over sources given votes and features, classifier over features.         Equations (DN.1), (DN.2)"""

    def __init__(self, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        self.sizes = sizes
        self.attention = nn.Sequential(
            nn.Linear(sizes.n_sources + sizes.n_features, sizes.hidden),
            nn.Tanh(),
            nn.Linear(sizes.hidden, sizes.n_sources),
        )
        self.classifier = classifier(sizes, dropout)

    def weights(self, batch: Batch) -> Tensor:
        """Attention of each item to each source, [n, sources].                                   Equation (DN.1)

        a_i = softmax( W₂ tanh( W₁ [y_i, x_i] ) )
        """
        inputs = torch.cat((batch.votes.to(batch.features.dtype), batch.features), dim=1)
        return torch.softmax(self.attention(inputs), dim=1)

    def aggregate(self, batch: Batch) -> Tensor:
        """Logits of the classes from the votes under attention, [n, classes]."""
        return weigh_votes(self.weights(batch)[:, :, None], batch.votes, self.sizes.n_classes)
