"""Votes and features as tensors, some rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from labelfable.votes.alphabet import ABSTAIN, smallest_int

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.numerics.scaling import Scaling
    from labelfable.votes.features import Features
    from labelfable.votes.table import VoteTable

BLOCK_ITEMS = 4096
BLOCK_ENTRIES = 2**23  # a number for each source and class of a block's items, at most: 64 MB


class Batch(NamedTuple):
    """What a network sees of some items."""

    features: Tensor
    """Scaled, [n, d]."""
    votes: Tensor
    """Class numbers, −1 where a source is silent, [n, sources]."""

    @property
    def covered(self) -> Tensor:
        """Which items have a vote, [n]."""
        return (self.votes >= 0).any(dim=1)


@dataclass(frozen=True)
class Items:
    """All items, from which rows are taken.  What is dense lies on the device whole; sparse rows are made dense."""

    features: Any
    votes: Any
    device: torch.device
    rows: Rows
    """Where sparse rows come from."""

    @classmethod
    def of(cls, rows: Rows, device: torch.device) -> Items:
        """Tensors of float32 features and of small integer votes."""
        features = None if rows.features.is_sparse else torch.empty(rows.n_items, rows.features.n_columns)
        if features is not None:
            for block in rows.blocks():
                features[block] = torch.from_numpy(rows.scaled(block)).float()
            features = features.to(device)
        votes = torch.from_numpy(rows.codes(slice(None))).to(device) if rows.table.is_dense else None
        return cls(features, votes, device, rows)

    def batch(self, rows: Tensor) -> Batch:
        """Some of the items, in the order of `rows`."""
        chosen = None if self.features is not None and self.votes is not None else rows.cpu().numpy()
        if self.features is None:
            features = torch.from_numpy(self.rows.scaled(chosen)).float().to(self.device)
        else:
            features = self.features[rows]
        votes = torch.from_numpy(self.rows.codes(chosen)).to(self.device) if self.votes is None else self.votes[rows]
        return Batch(features, votes)


@dataclass(frozen=True)
class Rows:
    """The same in NumPy, as the user gave it."""

    table: VoteTable
    features: Features
    scaling: Scaling

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.table.n_items

    def blocks(self) -> list[slice]:
        """Consecutive rows, few at a time."""
        step = max(1, min(BLOCK_ITEMS, BLOCK_ENTRIES // (self.table.n_sources * self.table.n_classes)))
        return [slice(first, first + step) for first in range(0, self.n_items, step)]

    def scaled(self, rows: Any) -> NDArray[np.floating]:
        """Scaled features, [n, d]."""
        return self.scaling.rows(self.features.numbers[rows]).dense()

    def codes(self, rows: Any) -> NDArray[np.integer]:
        """Class numbers of votes, −1 where silent, [n, sources]."""
        if self.table.is_dense:
            return np.asarray(np.ascontiguousarray(self.table.votes[rows]))
        chosen = sp.csr_array(self.table.votes[rows])
        dense = np.full((chosen.shape[0], self.table.n_sources), ABSTAIN, dtype=smallest_int(self.table.n_classes))
        item = np.repeat(np.arange(chosen.shape[0]), np.diff(chosen.indptr))
        source, label = np.divmod(chosen.indices, self.table.n_classes)
        dense[item, source] = label
        return dense

    def batch(self, rows: slice) -> Batch:
        """Some of the items in float64, for answers that do not depend on the company."""
        return Batch(torch.from_numpy(self.scaled(rows)), torch.from_numpy(self.codes(rows)))
