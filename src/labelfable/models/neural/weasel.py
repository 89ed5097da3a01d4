"""WeaSEL: an encoder weighs each item's votes, an end model reads its features, and each learns from the other.

S. Rühling Cachay, B. Boecking, A. Dubrawski: End-to-End Weak Supervision. Advances in Neural Information Processing
Systems 34 (2021).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from labelfable.models.class_prior import fixed_prior
from labelfable.models.neural.estimator import NEURAL_SETTINGS, NeuralModel
from labelfable.models.protocol import POSITIVE

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WeaSEL(NeuralModel):
    """End-to-end weak supervision.                                                      Equations (WS.1)-(WS.4)

    Parameters
    ----------
    temperature : float
        Of the softmax over sources: the higher, the nearer to majority vote.  1 in the paper, 2 in its authors' code.
    class_prior : "uniform", "votes", or one number a class
        Class proportions in the encoder.  Under "votes" the two networks tend to agree on the commonest class alone.
    answer : "classifier", "votes" or "surer"
        Who answers: the end model, from features alone (as published); the encoder where there are votes; or for each
        item the one of the two that is surer.
    hidden : int
        Width of the hidden layers.
    dropout : float
        Share of hidden units left out in each step.
    scaling : "standardise", "normalise" or "none"
        What is done to the features first.
    learning_rate, weight_decay : float
        Of Adam.
    batch_size : int
        Items in a step.
    stopping : "auto" or "fixed"
        "auto" keeps the best epoch: by accuracy on the items whose class `y` knows; else by how well the end model's
        decisions predict the votes of items held out.  "fixed" runs all epochs, as published.
    held_out : float
        Share of the covered items that is held out, where there is no `y`.
    patience : int
        Stop after so many epochs without a better one.
    max_iter : int
        Most epochs.
    device : str
        Where to train, by PyTorch's names: "cpu", "cuda".
    progress : callable or None
        Told an `Epoch` (number, most, loss, score) after each.
    random_state : int
        Seed of weights, batches, dropout, what is held out, and draws between tied classes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "temperature": POSITIVE,
        "class_prior": ["array-like", StrOptions({"votes", "uniform"})],
        **NEURAL_SETTINGS,
    }

    def __init__(
        self,
        *,
        temperature: float = 2.0,
        class_prior: Any = "uniform",
        answer: str = "classifier",
        hidden: int = 100,
        dropout: float = 0.3,
        scaling: str = "standardise",
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        batch_size: int = 128,
        stopping: str = "auto",
        held_out: float = 0.1,
        patience: int = 20,
        max_iter: int = 150,
        device: str = "cpu",
        progress: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.temperature = temperature
        self.class_prior = class_prior
        self.answer = answer
        self.hidden = hidden
        self.dropout = dropout
        self.scaling = scaling
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.stopping = stopping
        self.held_out = held_out
        self.patience = patience
        self.max_iter = max_iter
        self.device = device
        self.progress = progress
        self.random_state = random_state

    def _network(self, sizes: Any) -> Any:
        from labelfable.models.neural.networks import WeaSELNetwork

        return WeaSELNetwork(sizes, self.dropout)

    def _objective(self, network: Any, items: Any, gold: NDArray[np.integer] | None, generator: Any) -> Any:
        import torch

        from labelfable.models.neural.objectives import WeaSELObjective

        del generator  # nothing else is drawn
        table = items.rows.table
        self.class_prior_ = fixed_prior(self.class_prior, table, np.ones(table.n_items), gold)
        network.temperature.fill_(self.temperature)
        network.log_prior.copy_(torch.log(torch.from_numpy(self.class_prior_)))
        return WeaSELObjective(network, items)
