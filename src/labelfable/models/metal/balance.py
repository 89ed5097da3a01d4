"""Class proportions that the votes themselves tell, for MeTaL.

Second moments do not tell them: any p gives tables with the same X X'.  Two classes have third moments in closed form;
for more, proportions and tables are fitted in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.models.class_prior import LEAST_SHARE
from labelfable.models.confusion import cut_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

FEWEST_COMPONENTS = 3  # third moments are of three sources at a time
MOST_ROUNDS = 30
SMALLEST_CHANGE = 1e-3  # of any class proportion, to go on for another round


def binary_balance(
    rows: VoteTable,
    weights: NDArray[np.floating],
    point: NDArray[np.floating],
    prior: NDArray[np.floating],
    components: NDArray[np.integer],
) -> NDArray[np.floating] | None:
    """Proportions of two classes from third moments, or None where fewer than three sources say anything.

    With v_a = √(p0 p1) (μ_a1 − μ_a0), which is √p0 X_a1 − √p1 X_a0 and does not depend on p, and ψ an item's votes,

        E (ψ_a − o_a)(ψ_b − o_b)(ψ_c − o_c) = s v_a v_b v_c,    s = (p0 − p1) / √(p0 p1)              Equation (ME.8)

    for columns of three sources that do not depend on each other.  s is fitted to the sum over all such triples,
    weighted with v_a v_b v_c: with x_ij = Σ_a∈j v_a (ψ_ia − o_a) the sum over triples of sources is the third
    elementary symmetric polynomial of an item's x, which power sums give in one pass.  Of each component one source is
    used, the one that tells most.
    """
    v = (np.sqrt(prior[0]) * point[:, 1] - np.sqrt(prior[1]) * point[:, 0]).reshape(rows.n_sources, -1)
    sizes = (v**2).sum(axis=1)
    strongest = _strongest(sizes, components)
    v = v * strongest[:, None]
    squares = sizes * strongest
    if np.count_nonzero(squares > 0) < FEWEST_COMPONENTS:
        return None
    expected = _third_symmetric(*((squares**power).sum() for power in (1, 2, 3)))
    if not expected > 0:
        return None
    skewness = _third_moment(rows, weights, v) / expected
    difference = skewness / np.sqrt(4 + skewness**2)  # p0 − p1
    shares = np.maximum(np.array([1 + difference, 1 - difference]) / 2, LEAST_SHARE)
    return np.asarray(shares / shares.sum())


def _strongest(sizes: NDArray[np.floating], components: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Marks one source of each component, the one with the largest size.  Shapes: [sources], [sources] -> [sources]."""
    order = np.lexsort((-sizes, components))
    first = np.concatenate(([True], np.diff(components[order]) != 0))
    marked = np.zeros(len(sizes), dtype=bool)
    marked[order[first]] = True
    return marked


def _third_moment(rows: VoteTable, weights: NDArray[np.floating], v: NDArray[np.floating]) -> float:
    """Mean over items of Σ_{j<j'<j''} x_ij x_ij' x_ij''.  Shapes: v [sources, labels].

    x_ij is v_jl − c_j where source j gives label l and −c_j where it is silent, c_j = Σ_l v_jl o_jl; so powers of x,
    summed over sources, are linear in the votes: (v − c)^r − (−c)^r for a vote, and Σ_j (−c_j)^r for all.
    """
    total = weights.sum()
    centre = np.einsum("jl,jl->j", v, rows.counts(weights[:, None])[:, :, 0]) / total
    powers = np.arange(1, 4)
    silent = (-centre[:, None]) ** powers
    spoken = (v - centre[:, None])[:, :, None] ** powers - silent[:, None, :]
    packed, constant = rows.layout.pack(spoken), silent.sum(axis=0)
    third = 0.0
    for shard in cut_for(rows, weights, None, len(powers)):
        sums = shard.maps.evidence(packed) + constant
        third += float(shard.weights @ _third_symmetric(*sums.T))
    return third / float(total)


def _third_symmetric(first: Any, second: Any, third: Any) -> Any:
    """Σ_{a<b<c} x_a x_b x_c from the power sums of x (Newton)."""
    return (first**3 - 3 * first * second + 2 * third) / 6


def balance_in_turn(
    posterior: Callable[[NDArray[np.floating]], NDArray[np.floating]], first: NDArray[np.floating]
) -> tuple[NDArray[np.floating], bool]:
    """Proportions p that equal the mean posterior under the tables fitted with p.

    `posterior` fits tables at given proportions and returns the mean of the items' probabilities.  Returns p and
    whether it stopped changing.
    """
    prior = first
    for _ in range(MOST_ROUNDS):
        found = np.maximum(posterior(prior), LEAST_SHARE)
        found /= found.sum()
        if np.abs(found - prior).max() < SMALLEST_CHANGE:
            return found, True
        prior = found
    return prior, False
