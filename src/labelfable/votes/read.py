"""Raw votes -> one trusted table: what can be read, and which file reads it."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import scipy.sparse as sp

from labelfable.errors import InputError
from labelfable.votes import frames
from labelfable.votes.alphabet import ABSTAIN, Alphabet, Expected, short_list
from labelfable.votes.from_arrays import read_array, read_sparse
from labelfable.votes.from_frames import Arrangement, read_frame
from labelfable.votes.gold import read_gold
from labelfable.votes.stored import StoredVotes
from labelfable.votes.table import VoteTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["read_gold", "read_votes"]


def read_votes(
    votes: Any,
    *,
    classes: Sequence[Any] | int | None = None,
    sources: Sequence[str] | None = None,
    layout: Literal["auto", "wide", "long"] = "auto",
    item: str | None = None,
    source: str | None = None,
    label: str | None = None,
    items: Sequence[Any] | None = None,
    abstain: Any = ABSTAIN,
    exclusions: Mapping[Any, Any] | None = None,
    copy: bool = True,
) -> VoteTable:
    """Read votes from whatever holds them.

    `votes` is one of

    - an array [items, sources] of labels: integers with −1 for abstain, floats with NaN, text with None;
    - an array [items, sources, classes] of probabilities: soft votes, all zero where a source abstains;
    - a scipy.sparse matrix [items, sources] of integer labels: what is not stored is an abstention, a stored 0 is
      class 0;
    - a pandas, polars or pyarrow table: one column a source and null for abstain (`item` names the column of item
      names), or long with the columns item, source, label (`item`, `source`, `label` name them if they are called
      otherwise);
    - the path of a .csv, .tsv, .parquet, .npy or .npz file with one of these;
    - a VoteTable, which comes back as it is where `classes`, `sources` and `exclusions` ask for nothing else.

    `classes` fixes names and order of the classes (a number n means 0 … n − 1); without it integers mean classes 0 …
    the largest vote, and names are sorted.  `sources` picks and orders the columns of tables, and names those of
    arrays.  `items` fixes the order of the items of a long table and adds those that have no vote.  `abstain` is the
    value that means abstain, beside missing values; None where only those do.  `exclusions` maps labels that mean "not
    this class" to the class; an empty one says that there are none.

    The table holds a copy: changing the input later does not change it.  With copy=False it looks at the array itself
    where that is an int8 array in C order already.
    """
    arrangement = Arrangement.of(layout, (item, source, label), items)
    expected = Expected.of(classes, sources, abstain, exclusions, copy=copy)
    if isinstance(votes, VoteTable):
        return _read_table(votes, expected)
    if isinstance(votes, StoredVotes):
        raise InputError(
            "these votes stay on disk: they are no table", hint="Give them to fit, predict_proba, predict or label_file"
        )
    if isinstance(votes, (str, PathLike)):
        named = expected.classes is not None and expected.classes.dtype.kind == "U"
        votes = frames.read_file(votes, lambda column: named and not arrangement.names_items(column))
    frame = None if sp.issparse(votes) else frames.as_frame(votes)
    if frame is not None:
        return read_frame(frame, arrangement, expected)
    arrangement.refuse_for_arrays()
    return read_sparse(votes, expected) if sp.issparse(votes) else read_array(votes, expected)


def _read_table(table: VoteTable, expected: Expected) -> VoteTable:
    """The table with the classes, exclusion labels and sources that are expected, where it has them."""
    if expected.classes is not None or expected.exclusions is not None:
        present = table.alphabet
        classes = present.classes if expected.classes is None else expected.classes
        target = Alphabet.of(classes, present.exclusions if expected.exclusions is None else expected.exclusions)
        if target.labels != present.labels or target.exclusions != present.exclusions:
            _refuse_other_labels(present, target)
            table = table.with_alphabet(target)
    if expected.sources is not None and expected.sources != table.sources:
        absent = [name for name in expected.sources if name not in table.sources]
        if absent:
            raise InputError(
                f"the votes have no source {absent[0]!r}: they come from {short_list(table.sources)}",
                hint=f"Expected {short_list(expected.sources)}",
            )
        table = table.with_sources(expected.sources)
    return table


def read_stored(votes: StoredVotes, expected: Expected) -> StoredVotes:
    """Stored votes with the classes, exclusion labels and sources that are expected, where they have them."""
    names = votes.names
    unnamed = not votes.files.is_parquet and names.sources == tuple(map(str, range(names.n_sources)))
    if unnamed and expected.sources is not None and len(expected.sources) == names.n_sources:
        names = replace(names, sources=expected.sources)  # the columns of an array have no names of their own
    return votes.with_names(_read_table(names, expected))


def _refuse_other_labels(present: Alphabet, target: Alphabet) -> None:
    """An error where the votes have a class or an exclusion label that is absent from `target`, or other there."""
    absent = [name for name in present.classes.tolist() if name not in target.classes.tolist()]
    if absent:
        raise InputError(
            f"the votes have class {absent[0]!r}",
            hint=f"The classes asked for are {short_list(target.classes.tolist())}",
        )
    for label, ruled_out in present.exclusions.items():
        if target.exclusions.get(label) != ruled_out:
            raise InputError(
                f"the votes have an exclusion label {label!r} against {ruled_out!r}",
                hint=f"The exclusions asked for are {target.exclusions}",
            )
