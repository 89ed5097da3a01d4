"""VoteTable: the one trusted form of the votes, whatever they came from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.votes.alphabet import ABSTAIN, Alphabet, smallest_int
from labelfable.votes.distinct import group, row_keys, seem_distinct
from labelfable.votes.maps import Layout, VoteMaps, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BLOCK_ITEMS = 2**14  # what is made of so many rows stays small


@dataclass(frozen=True, eq=False)
class VoteTable:
    """Votes of `n_sources` sources on `n_items` items.

    A vote is a *label* out of a small alphabet.  The first `n_classes` labels name the classes; further ones may say
    "not class c" (exclusion votes) or "abstain".  `meaning[l]` is the distribution over classes that label l speaks
    for: all that majority vote and the priors of the other models need to know of it.  A *soft* vote spreads a weight
    of one over labels.
    """

    votes: NDArray[np.integer] | sp.csr_array
    """Hard votes: [items, sources] label numbers, −1 = abstain.  Sparse or soft ones: Ψ, [items, sources·labels]."""
    classes: NDArray[Any]
    """Names of the classes, [classes]."""
    sources: tuple[str, ...]
    meaning: NDArray[np.floating]
    """Which classes a label speaks for, [labels, classes], rows sum to 1."""
    labels: tuple[Any, ...] = field(default=())
    """Names of the labels; the class names first.  Left out: the class names."""
    items: NDArray[Any] | None = None
    """Names of the items, where the input had them, [items]."""
    frame_backend: str | None = None
    """The library of the data frame that held the votes (pandas, polars, pyarrow): answers leave in the same kind."""
    silence: bool = False
    """Whether abstaining is a label, the last one."""

    def __post_init__(self) -> None:
        """Labels without names are the classes."""
        if not self.labels:
            object.__setattr__(self, "labels", tuple(self.classes.tolist()))

    @property
    def n_items(self) -> int:
        """Number of items, with and without votes."""
        return int(self.votes.shape[0])

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self.sources)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def n_labels(self) -> int:
        """Size of the alphabet; at least the number of classes."""
        return int(self.meaning.shape[0])

    @property
    def n_spoken(self) -> int:
        """Labels that are given aloud: all but silence."""
        return self.n_labels - self.silence

    @property
    def alphabet(self) -> Alphabet:
        """What a vote may say aloud, and what it means."""
        return Alphabet(self.classes, self.labels[: self.n_spoken], self.meaning[: self.n_spoken])

    @cached_property
    def vote_weights(self) -> NDArray[np.floating]:
        """Weights under which `evidence` counts votes for each class; silence counts for none.

        Shape: [sources, labels, classes].
        """
        one_source = self.meaning.copy()
        one_source[self.n_spoken :] = 0
        return np.broadcast_to(one_source, (self.n_sources, *one_source.shape)).copy()

    @property
    def is_dense(self) -> bool:
        """Whether `votes` is a matrix of label numbers."""
        return not sp.issparse(self.votes)

    @property
    def is_plain(self) -> bool:
        """Whether every label names a class, so that a vote is right or wrong."""
        return self.n_spoken == self.n_classes

    @property
    def is_hard(self) -> bool:
        """Whether every vote is one label with weight one."""
        return self.is_dense or bool(np.all(self.votes.data == 1))

    @cached_property
    def layout(self) -> Layout:
        """How sources and labels lie along the columns of the maps."""
        if self.is_dense:
            return Layout.for_codes(self.n_sources, self.n_spoken, silence=self.silence)
        return Layout(self.n_sources, self.n_spoken, silence=self.silence)

    @cached_property
    def plain_incidence(self) -> sp.csr_array:
        """Ψ with one column a (source, label), unpacked and without silence.  [items, sources·labels]."""
        if self.is_dense:
            return Layout(self.n_sources, self.n_spoken).columns(np.asarray(self.votes))
        return self.votes

    def maps(self, start: int = 0, stop: int | None = None) -> VoteMaps:
        """The two linear maps of the items in [start, stop), the same object each time."""
        rows = start, self.n_items if stop is None else min(stop, self.n_items)
        if rows not in self._maps:
            votes = self.votes[slice(*rows)] if self.is_dense else rows_of(self._incidence, *rows)
            self._maps[rows] = VoteMaps(self.layout, votes)
        return self._maps[rows]

    @cached_property
    def _maps(self) -> dict[tuple[int, int], VoteMaps]:
        return {}

    @cached_property
    def _incidence(self) -> sp.csr_array:
        """Ψ of sparse votes."""
        incidence = sp.csr_array(self.votes)
        if self.silence:
            incidence = sp.csr_array(sp.hstack((incidence, np.ones((self.n_items, 1)))))
        return incidence

    def evidence(self, weights: NDArray[np.floating]) -> NDArray[np.floating]:
        """Sum of the weights of each item's votes.  Shapes: [sources, labels, C] -> [items, C]."""
        packed = self.layout.pack(weights)
        answer = np.empty((self.n_items, packed.shape[1]))
        for block in self._blocks():
            answer[block] = self.maps(block.start, block.stop).evidence(packed)
        return answer

    def counts(self, responsibilities: NDArray[np.floating]) -> NDArray[np.floating]:
        """Sum of the responsibilities of each vote's item.  Shapes: [items, C] -> [sources, labels, C]."""
        parts = (self.maps(block.start, block.stop).counts(responsibilities[block]) for block in self._blocks())
        return np.asarray(self.layout.unpack(reduce(np.add, parts)))

    def _blocks(self) -> list[slice]:
        """Rows at a time, few enough that dense votes need no ones of their own.  Sparse votes are Ψ already."""
        step = BLOCK_ITEMS if self.is_dense else max(self.n_items, 1)
        return [slice(first, first + step) for first in range(0, max(self.n_items, 1), step)]

    @cached_property
    def votes_per_item(self) -> NDArray[np.floating]:
        """Number of votes of each item (their total weight where soft).  [items]."""
        if self.is_dense:
            votes, number = np.asarray(self.votes), np.empty(self.n_items)
            for block in self._blocks():
                np.einsum("nj->n", (votes[block] >= 0).astype(np.int32), out=number[block], casting="unsafe")
            return number
        return np.asarray(sp.csr_array(self.votes).sum(axis=1), dtype=np.float64)

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Which items have any vote.  [items]."""
        return self.votes_per_item > 0

    def label_counts(self, weights: NDArray[np.floating] | None = None) -> NDArray[np.floating]:
        """How often each source gave each label, where each row counts as often as its weight.  [sources, labels]."""
        each = np.ones(self.n_items) if weights is None else weights
        return np.asarray(self.counts(each[:, None])[:, :, 0])

    def rows(self, chosen: Any) -> VoteTable:
        """The table of some items: a slice, a mask or row numbers."""
        items = None if self.items is None else self.items[chosen]
        return replace(self, votes=self.votes[chosen], items=items)

    def distinct(
        self, extra: NDArray[np.integer] | None = None
    ) -> tuple[VoteTable, NDArray[Any], NDArray[np.floating]]:
        """Rows that differ, with how many items each stands for.

        Models that see only votes give equal rows equal answers, so their cost need only grow with the distinct rows.
        `extra` [items] is a further key (known gold labels, −1 where unknown).  Returns the table, the number of each
        item's row in it, and the weights.  Where a sample shows few repeats the table comes back as it is.
        """
        if self.n_items <= 1 or seem_distinct(self.votes, extra):
            return self, np.arange(self.n_items), np.ones(self.n_items)
        first, number, weights = group(row_keys(self.votes, extra))
        return replace(self, votes=self.votes[first], items=None), number, weights.astype(np.float64)

    def with_abstain_as_label(self) -> VoteTable:
        """The same votes with silence as one more label, the last, which speaks for no class in particular."""
        if self.silence:
            return self
        uniform = np.full((1, self.n_classes), 1 / self.n_classes)
        labels = (*self.labels, "abstain")
        return replace(self, meaning=np.vstack((self.meaning, uniform)), labels=labels, silence=True)

    def without_abstain_label(self) -> VoteTable:
        """The same votes with silence as silence."""
        if not self.silence:
            return self
        spoken = slice(self.n_spoken)
        return replace(self, meaning=self.meaning[spoken], labels=self.labels[spoken], silence=False)

    def with_classes(self, classes: NDArray[Any]) -> VoteTable:
        """The same votes where more classes exist than were voted for.  `classes` must hold the present ones."""
        return self.with_alphabet(Alphabet.of(classes, self.alphabet.exclusions))

    def with_alphabet(self, alphabet: Alphabet) -> VoteTable:
        """The same votes under other label numbers.  `alphabet` must hold the present labels."""
        number = {label: place for place, label in enumerate(alphabet.labels)}
        moved = np.array([number[label] for label in self.alphabet.labels], dtype=np.int64)
        n_labels = len(alphabet.labels)
        if self.is_dense:
            lookup = np.append(moved, ABSTAIN).astype(smallest_int(n_labels))  # −1 picks the last entry
            votes: Any = lookup[np.asarray(self.votes)]
        else:
            source, label = np.divmod(np.arange(self.votes.shape[1]), self.n_spoken)
            votes = self._moved(source * n_labels + moved[label], self.n_sources * n_labels)
        table = replace(
            self,
            votes=votes,
            classes=alphabet.classes,
            meaning=alphabet.meaning,
            labels=alphabet.labels,
            silence=False,
        )
        return table.with_abstain_as_label() if self.silence else table

    def with_sources(self, sources: Sequence[str]) -> VoteTable:
        """The votes of some of the sources, in the order asked for."""
        chosen = np.array([self.sources.index(name) for name in sources])
        if self.is_dense:
            votes: Any = np.ascontiguousarray(np.asarray(self.votes)[:, chosen])
        else:
            columns = (chosen[:, None] * self.n_spoken + np.arange(self.n_spoken)).ravel()
            votes = sp.csr_array(self.votes[:, columns])
            votes.sort_indices()
        return replace(self, votes=votes, sources=tuple(sources))

    def _moved(self, columns: NDArray[np.integer], n_columns: int) -> sp.csr_array:
        """Sparse votes with each column of Ψ at a new place."""
        entries = sp.coo_array(self.votes)
        moved = (entries.data, (entries.row, columns[entries.col]))
        votes = sp.csr_array(moved, shape=(self.n_items, n_columns))
        votes.sort_indices()
        return votes
