"""Real data to try things on, with votes: two sets that scikit-learn bundles, and rules that a person wrote for them.

The rules were written from what the columns mean, without a look at gold, and were not changed after the first look.
Their thresholds are halves, thirds and quarters of a column and a few round numbers.  So they are as rules are in
practice: some good, some poor, some silent on most items, several saying the same thing twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.datasets.cell_rules import CELL_RULES
from labelfable.datasets.digit_rules import DIGIT_RULES, DigitImages
from labelfable.errors import InputError
from labelfable.votes.read import read_votes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable


NOTE = "The rules were written from what the columns mean, without gold labels, and not changed after the first score."


@dataclass(frozen=True)
class VotedData:
    """Items with features, votes of rules, and gold to score against."""

    name: str
    about: str
    """What the items are, and where they come from."""
    classes: tuple[str, ...]
    rules: dict[str, str]
    """Name of each source and its rule in words."""
    votes: NDArray[np.integer]
    """Class numbers, −1 = abstain, [items, sources]."""
    features: NDArray[np.float64]
    """[items, columns]."""
    gold: NDArray[np.int64]
    """Class numbers, [items].  For scoring."""
    note: str = NOTE

    @property
    def gold_names(self) -> NDArray[np.str_]:
        """Class names, [items]."""
        return np.asarray(self.classes)[self.gold]

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources."""
        return tuple(self.rules)

    def table(self) -> VoteTable:
        """The votes with the names of classes and sources."""
        names = np.array([*self.classes, None], dtype=object)[self.votes]  # −1 picks the last
        return read_votes(names, classes=self.classes, sources=self.sources)


def breast_cancer() -> VotedData:
    """569 pictures of cell nuclei from breast masses, 30 measured columns, benign or malignant; 14 rules.

    Wisconsin Diagnostic Breast Cancer (Street, Wolberg, Mangasarian 1993), as scikit-learn bundles it.
    """
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    columns = dict(zip(bunch.feature_names.tolist(), bunch.data.T, strict=True))
    return VotedData(
        name="breast_cancer",
        about="Cell nuclei from 569 breast masses, measured under the microscope: is the mass benign or malignant?",
        classes=("benign", "malignant"),
        rules={rule.name: rule.words for rule in CELL_RULES},
        votes=np.column_stack([rule.vote(columns) for rule in CELL_RULES]).astype(np.int8),
        features=bunch.data,
        gold=1 - bunch.target.astype(np.int64),  # scikit-learn has malignant first
    )


def digits() -> VotedData:
    """1,797 handwritten digits of 8 × 8 grey pixels, ten classes; 15 rules about their shapes.

    Optical Recognition of Handwritten Digits (Alpaydin, Kaynak 1998; its test part), as scikit-learn bundles it.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = DigitImages.of(bunch.images)
    return VotedData(
        name="digits",
        about="1,797 handwritten digits, 8 × 8 grey pixels each: which digit is it?",
        classes=tuple("0123456789"),
        rules={rule.name: rule.words for rule in DIGIT_RULES},
        votes=np.column_stack([rule.vote(images) for rule in DIGIT_RULES]).astype(np.int8),
        features=bunch.data,
        gold=bunch.target.astype(np.int64),
    )


BUNDLED: dict[str, Callable[[], VotedData]] = {"breast_cancer": breast_cancer, "digits": digits}


def bundled_data(name: str) -> VotedData:
    """One of the bundled sets, by name."""
    loader: Any = BUNDLED.get(name.replace("-", "_"))
    if loader is None:
        raise InputError(f"there is no bundled data set {name!r}", hint=f"There are {', '.join(BUNDLED)}")
    found: VotedData = loader()
    return found
