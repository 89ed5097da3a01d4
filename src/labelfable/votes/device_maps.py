"""Votes as two linear maps, on the device of other arrays.

Ψ is as in `maps.py`, but with one column a (source, label).  Where columns are few it is a dense matrix, and both maps
are products.  Where they are many, both are sums over bags of rows: an item's bag holds its votes' columns, a column's
bag the items that have that vote.  Neither adds in an order that depends on which thread comes first, so two runs give
the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.numerics.linear_algebra import summed_products
from labelfable.votes.maps import Layout, VoteMaps

if TYPE_CHECKING:
    from labelfable.numerics.namespace import Array

DENSE_COLUMNS = 128  # past it a dense Ψ takes more memory than features usually do
LONGEST_BAG = 1024  # one thread adds a bag up; longer ones are cut, and their parts added up


@dataclass(frozen=True, eq=False)
class DeviceMaps:
    """Both maps of some items, as tensors of PyTorch."""

    layout: Layout
    votes: Any
    """Label numbers, [n, sources], −1 where silent; or `Bags`."""
    dtype: Any = None
    """Of all answers but counts; None for that of what they are made from."""

    @classmethod
    def of(cls, maps: VoteMaps, device: Any, dtype: Any = None) -> DeviceMaps:
        """The same votes on a device."""
        import torch

        layout = maps.layout.single
        votes: Any = maps.votes
        if sp.issparse(votes):
            return cls(layout, Bags.of(sp.csr_array(votes), device), dtype)
        if layout.n_columns > DENSE_COLUMNS:
            return cls(layout, Bags.of(layout.columns(np.asarray(votes)), device), dtype)
        return cls(layout, torch.tensor(np.asarray(votes), device=device), dtype)

    @property
    def n_items(self) -> int:
        """Number of rows."""
        return int(self.votes.shape[0])

    @property
    def made_bytes(self) -> int:
        """Memory of the dense Ψ."""
        if isinstance(self.votes, Bags):
            return 0
        return self.n_items * self.layout.n_columns * (8 if self.dtype is None else self.dtype.itemsize)

    def evidence(self, packed: Array) -> Array:
        """Ψ W.  Shapes: [columns, C] -> [n, C]."""
        packed = packed if self.dtype is None else packed.to(self.dtype)
        return self._matrix(packed.dtype) @ packed

    def counts(self, responsibilities: Array) -> Array:
        """Ψ' R, summed in the precision of R, given in double.  Shapes: [n, C] -> [columns, C]."""
        matrix = self._matrix(responsibilities.dtype)
        if isinstance(matrix, Bags):
            return matrix.transposed_times(responsibilities)
        return summed_products(matrix, responsibilities)

    @cached_property
    def _made(self) -> dict[Any, Any]:
        """Dense Ψ, by precision."""
        return {}

    def _matrix(self, dtype: Any) -> Any:
        if isinstance(self.votes, Bags):
            return self.votes
        if dtype not in self._made:
            self._made[dtype] = indicators(self.layout, self.votes, dtype)
        return self._made[dtype]


def indicators(layout: Layout, votes: Any, dtype: Any) -> Any:
    """A dense Ψ.  Shapes: [n, sources] -> [n, columns]."""
    import torch

    labels = torch.arange(layout.n_labels, dtype=votes.dtype, device=votes.device)
    known = (votes[:, :, None] == labels).to(dtype).reshape(len(votes), -1)
    return torch.cat((known, known.new_ones(len(votes), 1)), dim=1) if layout.silence else known


@dataclass(frozen=True, eq=False)
class Bags:
    """A sparse Ψ by rows and by columns."""

    rows: Bag
    columns: Bag
    shape: tuple[int, int]

    @classmethod
    def of(cls, matrix: sp.csr_array, device: Any) -> Bags:
        """A matrix of SciPy."""
        return cls(Bag.of(matrix, device), Bag.of(sp.csr_array(matrix.T), device), matrix.shape)

    def __matmul__(self, packed: Any) -> Any:
        """Ψ W."""
        return self.rows.sums(packed)

    def transposed_times(self, responsibilities: Any) -> Any:
        """Ψ' R, in double."""
        return self.columns.sums(responsibilities, wide=True)


@dataclass(frozen=True, eq=False)
class Bag:
    """The rows of a sparse matrix as bags of (number, weight), each cut into short parts."""

    numbers: Any
    weights: Any
    """None where all are 1."""
    parts: Any
    """Where each part begins among the numbers."""
    bags: Any
    """Where each bag begins among the parts; None where each bag is one part."""

    @classmethod
    def of(cls, matrix: sp.csr_array, device: Any) -> Bag:
        """The bags of a matrix of SciPy."""
        import torch

        sizes = np.diff(matrix.indptr)
        pieces = np.maximum(1, -(-sizes // LONGEST_BAG))
        firsts = np.cumsum(pieces) - pieces
        within = np.arange(pieces.sum()) - np.repeat(firsts, pieces)
        begins = np.repeat(matrix.indptr[:-1], pieces) + LONGEST_BAG * within

        def moved(values: Any, kind: Any = np.int64) -> Any:
            return torch.tensor(np.asarray(values, dtype=kind), device=device)

        weights = None if (matrix.data == 1).all() else moved(matrix.data, np.float64)
        return cls(moved(matrix.indices), weights, moved(begins), moved(firsts) if (pieces > 1).any() else None)

    def sums(self, values: Any, *, wide: bool = False) -> Any:
        """Each bag's weighted sum of rows of `values`; `wide` adds parts up in double.  [m, C] -> [bags, C]."""
        found = bag_sums(values, self.numbers, self.parts, self._weights_in(values.dtype))
        found = found.double() if wide else found
        return found if self.bags is None else bag_sums(found, self._every_part, self.bags, None)

    @cached_property
    def _every_part(self) -> Any:
        return self.numbers.new_ones(len(self.parts)).cumsum(0) - 1

    def _weights_in(self, dtype: Any) -> Any:
        return None if self.weights is None else self.weights.to(dtype)


def bag_sums(values: Any, numbers: Any, begins: Any, weights: Any) -> Any:
    """Sums of some rows.  PyTorch adds a bag up in the order of its entries."""
    import torch

    if not len(numbers):
        return values.new_zeros(len(begins), values.shape[1])
    return torch.nn.functional.embedding_bag(numbers, values, begins, mode="sum", per_sample_weights=weights)
