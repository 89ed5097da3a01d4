"""The loss of a low-rank account of the second moments of the votes.

With Ψ the votes as a matrix (one column a source and label), O = Ψ' diag(w) Ψ / n holds how often two votes occur
together.  Given the class, sources that do not depend on each other vote independently, so that

    O_ab = Σ_k P(Y = k) μ_ak μ_bk      for columns a, b of independent sources                        Equation (ME.1)
    O_aa = Σ_k P(Y = k) μ_ak           the rate of column a

with μ_ak = P(vote a | Y = k), silence being what the votes of a source leave of 1.  In the variables
x_ak = μ_ak √P(Y = k) these read O = X X' and diag O = X √p: the class proportions leave the quadratic part, and a rare
class is as well scaled as a common one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Pull:
    """Σ_k weight_k ‖X_k − centre_k‖², a term of the loss.  Shapes: [classes], [columns, classes]."""

    weights: NDArray[np.floating]
    centre: NDArray[np.floating]


@dataclass(frozen=True)
class Completion:
    """The loss of X, term by term, and its gradient.                                         Equations (ME.2), (ME.3)

        moments    ‖ mask ∘ ( O − X X' ) ‖²            mask: pairs of sources of different components
        marginals  ‖ X √p − diag O ‖²
        pulls      Σ_k w_k ‖ X_k − centre_k ‖²         the start (the anchor), tables counted on known items

        gradient   4 [ X X'X − blockdiag(X_c X_c'X_c) − (mask ∘ O) X ] + 2 (X √p − diag O) √p' + 2 w_k (X_k − centre_k)

    X_c are the rows of component c.  ‖mask ∘ XX'‖² = ‖X'X‖² − Σ_c ‖X_c'X_c‖² needs K × K matrices only, so that no
    product of columns by columns is ever formed, and the cost is that of (mask ∘ O) X and of X X'X.
    """

    between: Any
    """O with zeros inside components, [columns, columns], dense or sparse."""
    components: NDArray[np.integer]
    """Component of each source, numbered from 0, [sources]."""
    rates: NDArray[np.floating] | None = None
    """diag O, [columns]; None leaves the marginals out."""
    root_prior: NDArray[np.floating] | None = None
    """√p, [classes]."""
    pulls: dict[str, Pull] = field(default_factory=dict)

    @cached_property
    def squares(self) -> float:
        """‖mask ∘ O‖²."""
        entries = self.between.data if sp.issparse(self.between) else self.between
        return float(np.vdot(entries, entries))

    @property
    def scale(self) -> float:
        """The loss of X = 0 without pulls."""
        return self.squares + (0.0 if self.rates is None else float(self.rates @ self.rates))

    def __call__(self, point: NDArray[np.floating]) -> tuple[dict[str, float], NDArray[np.floating]]:
        """Terms of the loss and its gradient.  Shapes: [columns, classes] -> the same."""
        blocks = point.reshape(len(self.components), -1, point.shape[1])
        grams = self._component_grams(np.matmul(blocks.transpose(0, 2, 1), blocks))
        whole = grams.sum(axis=0)
        seen = np.asarray(self.between @ point)
        squares = self.squares - 2 * np.vdot(seen, point) + np.vdot(whole, whole) - np.vdot(grams, grams)
        gradient = point @ whole
        gradient -= np.matmul(blocks, grams[self.components]).reshape(point.shape)
        gradient -= seen
        gradient *= 4
        terms = {"moments": float(squares)}
        if self.rates is not None and self.root_prior is not None:
            excess = point @ self.root_prior - self.rates
            terms["marginals"] = float(excess @ excess)
            gradient += 2 * np.outer(excess, self.root_prior)
        for name, pull in self.pulls.items():
            away = point - pull.centre
            terms[name] = float(np.einsum("ak,ak,k->", away, away, pull.weights))
            away *= 2 * pull.weights
            gradient += away
        return terms, gradient

    def _component_grams(self, own: NDArray[np.floating]) -> NDArray[np.floating]:
        """X_c'X_c.  Shapes: [sources, K, K] -> [components, K, K]."""
        n_components = int(self.components.max()) + 1
        if n_components == len(own):
            return own[np.argsort(self.components)]
        total = np.zeros((n_components, *own.shape[1:]))
        np.add.at(total, self.components, own)
        return total
