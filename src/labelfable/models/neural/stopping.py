"""When to stop: by known gold where there is some, else by the votes of items that were held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

Score = tuple[float, ...]
"""The larger the better, entry by entry."""

FEWEST_COVERED = 50  # with fewer covered items a tenth of them says nothing
PRIOR_COUNT = 0.1  # of every (source, label) in each class's table of votes


@dataclass(frozen=True)
class GoldScore:
    """Accuracy on known items, as the authors stop; equal ones are told apart by the log loss."""

    rows: Tensor
    """Items whose classes it wants to see."""
    gold: NDArray[np.integer]
    """Class numbers of those rows."""

    @property
    def about(self) -> str:
        """What decided."""
        return f"accuracy on {len(self.gold):,} known items"

    def score(self, log_probabilities: NDArray[np.floating]) -> Score:
        """Accuracy, then mean log probability of the known class."""
        right = log_probabilities.argmax(axis=1) == self.gold
        return float(right.mean()), float(log_probabilities[np.arange(len(self.gold)), self.gold].mean())


@dataclass(frozen=True)
class VoteScore:
    """How well the classes that the classifier decides on predict the votes of items that it did not learn from."""

    rows: Tensor
    """Items to count votes on, then items held out."""
    counted: sp.csr_array
    """Ψ of the former."""
    held_out: sp.csr_array
    """Ψ of the latter."""

    @property
    def about(self) -> str:
        """What decided."""
        return f"votes of {self.held_out.shape[0]:,} items held out"

    def score(self, log_probabilities: NDArray[np.floating]) -> Score:
        """Mean log probability of a held-out vote given its item's decided class.                Equation (NS.1)

            V_ck = ( Σ_i Ψ_ic 1[ĉ_i = k] + ε ) / Σ_c ( … ),    score = mean over votes (i, c) held out of log V_c,ĉ_i

        One table of all (source, label) pairs c a class: who votes says as much as what is said.  Decisions rather
        than probabilities, because WeaSEL's two networks drift to indifference, which is no loss of what they know.
        """
        decided = log_probabilities.argmax(axis=1)
        classes = np.eye(log_probabilities.shape[1])[decided]
        n_counted = self.counted.shape[0]
        tables = self.counted.T @ classes[:n_counted] + PRIOR_COUNT
        logs = np.log(tables / tables.sum(axis=0))
        item = np.repeat(decided[n_counted:], np.diff(self.held_out.indptr))
        return (float(logs[self.held_out.indices, item].mean()),)


Criterion = GoldScore | VoteScore


def choose_criterion(
    table: VoteTable, gold: NDArray[np.integer] | None, held_out: float, chance: np.random.Generator, *, fixed: bool
) -> tuple[Criterion | None, NDArray[np.integer]]:
    """The criterion that these data allow (None: run all epochs), and the items to learn from."""
    covered = np.flatnonzero(table.covered)
    if fixed:
        return None, covered
    if gold is not None and (gold >= 0).any():
        known = np.flatnonzero(gold >= 0)
        return GoldScore(torch.from_numpy(known), gold[known]), covered
    if len(covered) < FEWEST_COVERED:
        return None, covered
    order = chance.permutation(covered)
    kept = max(1, round(held_out * len(order)))
    aside, learned = np.sort(order[:kept]), np.sort(order[kept:])
    incidence = table.plain_incidence
    return VoteScore(torch.from_numpy(np.append(learned, aside)), incidence[learned], incidence[aside]), learned
