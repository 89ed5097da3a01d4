"""Rules for pictures of cell nuclei: what a textbook says of malignant ones, as thresholds on measured columns.

Each measure comes three times: its mean over the nuclei of a picture, its standard error ("error"), and the mean of its
three largest values ("worst").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

BENIGN, MALIGNANT, ABSTAIN = 0, 1, -1
LARGE_AREA = 1000.0  # square micrometres
STEADY = ("area error", "concavity error", "texture error")


@dataclass(frozen=True)
class CellRule:
    """One source."""

    name: str
    words: str
    vote: Callable[[dict[str, NDArray[np.float64]]], NDArray[np.integer]]
    """Columns by name, [items] each -> BENIGN, MALIGNANT or ABSTAIN, [items]."""


def band(values: NDArray[np.float64], benign_share: float, malignant_share: float) -> NDArray[np.integer]:
    """The lowest share of the values votes benign, the highest votes malignant, those in between abstain."""
    low = np.quantile(values, benign_share) if benign_share else -np.inf
    high = np.quantile(values, 1 - malignant_share) if malignant_share else np.inf
    return np.select([values > high, values < low], [MALIGNANT, BENIGN], ABSTAIN)


CELL_RULES = (
    CellRule(
        "large_nuclei",
        "Nuclei of cancer are large: the quarter of largest radius is malignant, the smaller half benign.",
        lambda columns: band(columns["mean radius"], 1 / 2, 1 / 4),
    ),
    CellRule(
        "giant_nuclei",
        "A few giant nuclei are enough: where the largest have an area above 1000 the mass is malignant; else no vote.",
        lambda columns: np.where(columns["worst area"] > LARGE_AREA, MALIGNANT, ABSTAIN),
    ),
    CellRule(
        "small_at_most",
        "Where even the largest nuclei are small (lowest third of their perimeters) the mass is benign; else no vote.",
        lambda columns: band(columns["worst perimeter"], 1 / 3, 0),
    ),
    CellRule(
        "sizes_differ",
        "Cancer's nuclei differ in size: largest radius over mean radius, top quarter malignant, bottom one benign.",
        lambda columns: band(columns["worst radius"] / columns["mean radius"], 1 / 4, 1 / 4),
    ),
    CellRule(
        "spread_of_radius",
        "The same by the standard error of the radius: top quarter malignant, lower half benign.",
        lambda columns: band(columns["radius error"], 1 / 2, 1 / 4),
    ),
    CellRule(
        "dented_outline",
        "Malignant nuclei are dented: mean concavity, top quarter malignant, lowest third benign.",
        lambda columns: band(columns["mean concavity"], 1 / 3, 1 / 4),
    ),
    CellRule(
        "many_dents",
        "And have many dents: worst number of concave points, top quarter malignant, lower half benign.",
        lambda columns: band(columns["worst concave points"], 1 / 2, 1 / 4),
    ),
    CellRule(
        "ragged_outline",
        "A long outline around a small area is ragged: worst compactness, top quarter malignant, bottom one benign.",
        lambda columns: band(columns["worst compactness"], 1 / 4, 1 / 4),
    ),
    CellRule(
        "coarse_chromatin",
        "Coarse chromatin gives uneven grey: mean texture, top quarter malignant, bottom quarter benign.",
        lambda columns: band(columns["mean texture"], 1 / 4, 1 / 4),
    ),
    CellRule(
        "uneven_picture",
        "Where texture varies most between nuclei (top fifth of its error) the mass is malignant; else no vote.",
        lambda columns: band(columns["texture error"], 0, 1 / 5),
    ),
    CellRule(
        "lopsided",
        "Malignant nuclei are lopsided: worst symmetry (large is lopsided), top quarter malignant, bottom one benign.",
        lambda columns: band(columns["worst symmetry"], 1 / 4, 1 / 4),
    ),
    CellRule(
        "bumpy_edge",
        "Their edge is bumpy: worst smoothness (large is bumpy), top quarter malignant, bottom quarter benign.",
        lambda columns: band(columns["worst smoothness"], 1 / 4, 1 / 4),
    ),
    CellRule(
        "coastline",
        "Their outline is like a coast: mean fractal dimension, top quarter malignant, bottom quarter benign.",
        lambda columns: band(columns["mean fractal dimension"], 1 / 4, 1 / 4),
    ),
    CellRule(
        "nothing_sticks_out",
        "Where area, concavity and texture all vary less than in the middle picture the mass is benign; else no vote.",
        lambda columns: np.where(
            np.all([columns[name] < np.median(columns[name]) for name in STEADY], axis=0), BENIGN, ABSTAIN
        ),
    ),
)
