"""Votes as a list of (item, source, label number) -> a table, sparse or dense, whichever is smaller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.errors import InputError
from labelfable.votes.alphabet import ABSTAIN, Alphabet, smallest_int
from labelfable.votes.table import VoteTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.integer]

DENSE_SHARE = 0.05  # votes with more of their cells filled than this are kept as a matrix


@dataclass(frozen=True)
class Triples:
    """One entry a vote; item and source may repeat as long as the label does."""

    rows: NDArray[np.integer]
    columns: NDArray[np.integer]
    codes: NDArray[np.integer]
    """Label numbers, −1 = abstain."""
    n_items: int
    sources: tuple[str, ...]
    alphabet: Alphabet
    items: NDArray[Any] | None = None

    def table(self, *, sparse: bool | None = None, frame_backend: str | None = None) -> VoteTable:
        """The table, sparse or dense as asked, else by how many cells are filled.

        Equal repeats count once, contradicting ones are an error.
        """
        given = self.codes >= 0
        rows, columns, codes = (part[given].astype(np.int64) for part in (self.rows, self.columns, self.codes))
        if sparse is None:
            sparse = len(codes) < DENSE_SHARE * self.n_items * len(self.sources)
        fill = self._sparse if sparse else self._dense
        alphabet = self.alphabet
        return VoteTable(
            fill(rows, columns, codes),
            alphabet.classes,
            self.sources,
            alphabet.meaning,
            alphabet.labels,
            self.items,
            frame_backend,
        )

    def _dense(self, rows: Numbers, columns: Numbers, codes: Numbers) -> NDArray[np.integer]:
        votes = np.full((self.n_items, len(self.sources)), ABSTAIN, dtype=smallest_int(len(self.alphabet.labels)))
        votes[rows, columns] = codes
        self._refuse_clash(rows, columns, (codes, votes[rows, columns]))
        return votes

    def _sparse(self, rows: Numbers, columns: Numbers, codes: Numbers) -> sp.csr_array:
        n_sources, n_labels = len(self.sources), len(self.alphabet.labels)
        cell = rows * n_sources + columns
        if not np.all(cell[1:] > cell[:-1]):  # CSR has its entries in order and without repeats
            _, first, number = np.unique(cell, return_index=True, return_inverse=True)
            self._refuse_clash(rows, columns, (codes[first][number], codes))
            rows, columns, codes = rows[first], columns[first], codes[first]
        entries = (np.ones(len(codes)), (rows, columns * n_labels + codes))
        votes = sp.csr_array(entries, shape=(self.n_items, n_sources * n_labels))
        votes.sort_indices()
        return votes

    def _refuse_clash(self, rows: Numbers, columns: Numbers, codes: tuple[Numbers, Numbers]) -> None:
        clash = codes[0] != codes[1]
        if clash.any():
            at = int(np.argmax(clash))
            item = rows[at] if self.items is None else repr(self.items.tolist()[rows[at]])
            one, other = (self.alphabet.labels[each[at]] for each in codes)
            raise InputError(
                f"source {self.sources[columns[at]]!r} votes both {one!r} and {other!r}",
                where=f"item {item}",
                hint="Keep one vote for each item and source, or name the second round as another source",
            )
