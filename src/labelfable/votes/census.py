"""What is known of stored votes once all of them were looked at: sums, and no rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.votes.table import VoteTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.stored import StoredVotes


@dataclass(frozen=True)
class VoteTotals:
    """Sums over items; they add up over runs of items."""

    given: NDArray[np.floating]
    """How often each source gave each label aloud, [sources, labels]."""
    shares: NDArray[np.floating]
    """Majority vote's soft labels, or the known classes, summed over the items that have either, [classes]."""
    n_items: int
    n_told: int
    """Items with a vote or a known class."""

    def __add__(self, other: VoteTotals) -> VoteTotals:
        """The sums of both."""
        return VoteTotals(
            self.given + other.given,
            self.shares + other.shares,
            self.n_items + other.n_items,
            self.n_told + other.n_told,
        )


@dataclass(frozen=True, eq=False)
class VoteCensus(VoteTable):
    """Stored votes as a table that cannot show its rows: names, the alphabet, and what was counted.

    It takes a table's place wherever a model asks for no more than that: fits in and out of memory are one code.
    """

    stored: StoredVotes | None = None
    totals: VoteTotals | None = None
    only_told: bool = False
    """Whether items without votes and without a known class are left out."""

    @property
    def n_items(self) -> int:
        """Number of items that count."""
        assert self.totals is not None  # noqa: S101 (a census is made with its totals)
        return self.totals.n_told if self.only_told else self.totals.n_items

    def label_counts(self, weights: NDArray[np.floating] | None = None) -> NDArray[np.floating]:
        """How often each source gave each label, [sources, labels]; every item has a weight of one."""
        del weights
        assert self.totals is not None  # noqa: S101 (as above)
        given = self.totals.given
        if not self.silence:
            return given
        return np.concatenate((given, self.n_items - given.sum(axis=1, keepdims=True)), axis=1)

    @property
    def stored_items(self) -> int:
        """Number of items on disk, those that do not count among them."""
        return self.stored_votes.n_items

    @property
    def stored_votes(self) -> StoredVotes:
        """The votes themselves."""
        assert self.stored is not None  # noqa: S101 (as above)
        return self.stored

    def rows_of(self, start: int, stop: int) -> VoteTable:
        """The items [start, stop), with silence as it is here."""
        return self.with_rows(self.stored_votes.read(start, stop).votes)

    def with_rows(self, votes: Any) -> VoteTable:
        """A table of these rows."""
        fields = (self.classes, self.sources, self.meaning, self.labels)
        return VoteTable(votes, *fields, silence=self.silence)

    @property
    def class_shares(self) -> NDArray[np.floating]:
        """What `VoteTotals.shares` holds."""
        assert self.totals is not None  # noqa: S101 (as above)
        return self.totals.shares


def census_of(stored: StoredVotes, totals: VoteTotals, *, only_told: bool = False) -> VoteCensus:
    """A census of these votes."""
    names = stored.names
    fields: dict[str, Any] = {
        name: getattr(names, name) for name in ("votes", "classes", "sources", "meaning", "labels")
    }
    return VoteCensus(**fields, stored=stored, totals=totals, only_told=only_told)
