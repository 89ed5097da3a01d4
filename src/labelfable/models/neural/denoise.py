"""Denoise: attention denoises the votes, a classifier learns from them and, on items without votes, from itself.

W. Ren, Y. Li, H. Su, D. Kartchner, C. Mitchell, C. Zhang: Denoising Multi-Source Weak Supervision for Neural Text
Classification. Findings of EMNLP (2020).
"""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.utils._param_validation import Interval

from labelfable.errors import ModelError
from labelfable.models.neural.estimator import NEURAL_SETTINGS, SHARE, NeuralModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Denoise(NeuralModel):
    """Attention over sources, a classifier over features, temporal ensembling.          Equations (DN.1)-(DN.5)

    Parameters
    ----------
    denoiser_share, classifier_share : float
        Weights c₁ and c₂ of the first two parts of the loss; temporal ensembling gets what is left of 1.
    momentum : float
        How much of an item's earlier answers stays in its target, α.
    answer : "classifier", "votes" or "surer"
        Who answers: the classifier, from features alone; the attention where there are votes; or for each item the one
        of the two that is surer (as published).
    hidden : int
        Width of the hidden layers.
    dropout : float
        Share of hidden units of the classifier left out in each step.
    scaling : "standardise", "normalise" or "none"
        What is done to the features first.
    learning_rate, weight_decay : float
        Of Adam.
    batch_size : int
        Items with votes in a step, and as many without.
    stopping : "auto" or "fixed"
        "auto" keeps the best epoch: by accuracy on the items whose class `y` knows; else by how well the classifier's
        decisions predict the votes of items held out.  "fixed" runs all epochs.
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
        "denoiser_share": SHARE,
        "classifier_share": SHARE,
        "momentum": [Interval(Real, 0, 1, closed="left")],
        **NEURAL_SETTINGS,
    }

    def __init__(
        self,
        *,
        denoiser_share: float = 0.2,
        classifier_share: float = 0.7,
        momentum: float = 0.6,
        answer: str = "classifier",
        hidden: int = 100,
        dropout: float = 0.0,
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
        self.denoiser_share = denoiser_share
        self.classifier_share = classifier_share
        self.momentum = momentum
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
        from labelfable.models.neural.networks import DenoiseNetwork

        return DenoiseNetwork(sizes, self.dropout)

    def _objective(self, network: Any, items: Any, gold: NDArray[np.integer] | None, generator: Any) -> Any:
        from labelfable.models.neural.objectives import DenoiseObjective

        del gold  # decides when to stop, and nothing else
        if self.denoiser_share + self.classifier_share > 1:
            raise ModelError(
                f"denoiser_share={self.denoiser_share} and classifier_share={self.classifier_share} exceed 1 together",
                hint="What they leave of 1 is the share of temporal ensembling",
            )
        shares = self.denoiser_share, self.classifier_share
        return DenoiseObjective(network, items, shares=shares, momentum=self.momentum, generator=generator)
