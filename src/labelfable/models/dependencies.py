"""Which sources are said to depend on each other: pairs of names or numbers, read alike by every model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from labelfable.errors import ModelError
from labelfable.votes.encode import short_list

PAIR = 2


def read_pairs(given: Any, sources: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of sources as numbers.  `given` holds pairs (source, source), or is None."""
    pairs = []
    for position, pair in enumerate(() if given is None else given):
        where = f"dependencies[{position}]"
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != PAIR:
            raise ModelError(f"{pair!r} is not a dependency", where=where, hint="It is a pair (source, source)")
        pairs.append(source_pair(pair, sources, where))
    return pairs


def source_pair(ends: Iterable[Any], sources: Sequence[str], where: str) -> tuple[int, int]:
    """The numbers of two different sources, each given by name or number."""
    first, second = (_source_number(end, sources, where) for end in ends)
    if first == second:
        raise ModelError(f"source {sources[first]!r} is to depend on itself", where=where, hint="Name two sources")
    return first, second


def _source_number(end: Any, sources: Sequence[str], where: str) -> int:
    if isinstance(end, str) and end in sources:
        return list(sources).index(end)
    if isinstance(end, (int, np.integer)) and not isinstance(end, bool) and 0 <= end < len(sources):
        return int(end)
    raise ModelError(
        f"there is no source {end!r}",
        where=where,
        hint=f"Give a name, or a number from 0 to {len(sources) - 1}; the sources are {short_list(list(sources))}",
    )
