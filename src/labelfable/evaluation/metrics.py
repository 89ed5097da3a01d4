"""How good labels and probabilities are where gold is known.

All are pure functions.  `gold` [items] is −1 (None, NaN) where it is unknown; those items do not count.  `labels`
[items] may be −1 (None) where a model abstains: that is never right.  Labels and gold are class numbers or class names,
in the same words.  Probabilities are [items, classes]; gold goes with them as class numbers, or names with `classes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import InputError
from labelfable.models.report import TIE
from labelfable.votes.alphabet import ABSTAIN, is_missing, short_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

N_BINS = 15  # of Guo et al., On Calibration of Modern Neural Networks, ICML 2017
ROWS_SUM_TO_ONE = 1e-3  # float16 probabilities of a hundred classes still pass


def accuracy(labels: ArrayLike, gold: ArrayLike) -> float:
    """Share of the items with known gold whose label is right.                                  Equation (E.1)"""
    given, truth, _ = _matched(labels, gold)
    return float(np.mean(given == truth))


def covered_accuracy(labels: ArrayLike, gold: ArrayLike, covered: ArrayLike) -> float:
    """Accuracy on the items that have a vote; NaN where none of them has gold.                  Equation (E.1)

    `covered` [items] says which items have one (`VoteTable.covered`).
    """
    given, truth, known = _matched(labels, gold)
    chosen = np.asarray(covered)
    if chosen.shape != known.shape or chosen.dtype != bool:
        raise InputError(
            f"covered is {chosen.dtype} of shape {chosen.shape}",
            hint=f"Expected {len(known)} truth values, one an item",
        )
    right = (given == truth)[chosen[known]]
    return float(right.mean()) if len(right) else float("nan")


def f1(labels: ArrayLike, gold: ArrayLike, *, positive: Any = 1) -> float:
    """Binary F1 of the class `positive`; 0 where it is neither given nor true.                  Equation (E.2)

    F1 = 2·TP / ( 2·TP + FP + FN )
    """
    given, truth, _ = _matched(labels, gold)
    return _f1_of(given, truth, positive)


def macro_f1(labels: ArrayLike, gold: ArrayLike) -> float:
    """Mean of the classes' F1, over the classes that are given or true somewhere.               Equation (E.2)"""
    given, truth, _ = _matched(labels, gold)
    classes = {name for name in [*given.tolist(), *truth.tolist()] if not _is_unknown(name)}
    return float(np.mean([_f1_of(given, truth, name) for name in sorted(classes)]))


def log_loss(probabilities: ArrayLike, gold: ArrayLike, *, classes: Sequence[Any] | None = None) -> float:
    """Mean negative log-probability of the truth, in nats (base e).                             Equation (E.3)

        − (1/n) Σ_i log max( p_i,gold(i), ε ),    ε = 2.2e-16, float64's epsilon

    So one item costs at most 36.04: a single certain mistake cannot make the mean infinite.
    """
    shares, truth = _scored(probabilities, gold, classes)
    right = shares[np.arange(len(truth)), truth]
    return float(-np.log(np.clip(right, np.finfo(np.float64).eps, 1)).mean())


def expected_calibration_error(
    probabilities: ArrayLike, gold: ArrayLike, *, classes: Sequence[Any] | None = None, n_bins: int = N_BINS
) -> float:
    """How far confidence and accuracy are apart, by bins of confidence.                         Equation (E.4)

        Σ_b (n_b / n) | accuracy of bin b − mean confidence of bin b |

    An item's confidence is its largest probability; bins are equally wide, (b/B, (b+1)/B].  Of classes that share the
    largest probability each counts as an equal part of a right answer, so that ties need no draw.
    """
    bins = calibration_bins(probabilities, gold, classes=classes, n_bins=n_bins)
    return float(sum(bins["items"] * np.abs(bins["accuracy"] - bins["confidence"])) / sum(bins["items"]))


def calibration_bins(
    probabilities: ArrayLike, gold: ArrayLike, *, classes: Sequence[Any] | None = None, n_bins: int = N_BINS
) -> dict[str, NDArray[np.float64]]:
    """Number of items, accuracy and mean confidence of each bin that is not empty."""
    if n_bins < 1:
        raise InputError(f"n_bins={n_bins}", hint="Use at least one bin")
    shares, truth = _scored(probabilities, gold, classes)
    confidence = shares.max(axis=1)
    winners = shares >= confidence[:, None] - TIE
    right = winners[np.arange(len(truth)), truth] / winners.sum(axis=1)
    spot = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    items = np.bincount(spot, minlength=n_bins).astype(np.float64)
    used = items > 0
    means = {
        name: np.bincount(spot, values, n_bins)[used] / items[used]
        for name, values in (("accuracy", right), ("confidence", confidence))
    }
    return {"items": items[used], **means}


def known_gold(gold: ArrayLike) -> NDArray[np.bool_]:
    """Which items have a gold label.  [items]."""
    values = np.asarray(gold)
    if values.dtype.kind in "iub":
        return np.asarray(values != ABSTAIN)
    return np.array([not _is_unknown(value) for value in values.ravel().tolist()], dtype=bool).reshape(values.shape)


def _is_unknown(value: Any) -> bool:
    return is_missing(value) or value in (ABSTAIN, str(ABSTAIN))


def _f1_of(given: NDArray[Any], truth: NDArray[Any], positive: Any) -> float:
    hits = np.sum((given == positive) & (truth == positive))
    claimed_or_true = np.sum(given == positive) + np.sum(truth == positive)
    return float(2 * hits / claimed_or_true) if claimed_or_true else 0.0


def _matched(labels: ArrayLike, gold: ArrayLike) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Labels and gold of the items whose gold is known, and which those are."""
    given, truth = np.asarray(labels), np.asarray(gold)
    if given.ndim != 1 or given.shape != truth.shape:
        raise InputError(
            f"labels have shape {given.shape}, gold has {truth.shape}", hint="Give one label and one gold label an item"
        )
    known = _some_known(truth)
    numeric = [_is_numeric(values) for values in (given, truth[known])]
    if numeric[0] != numeric[1]:
        words = [short_list(sorted(set(map(str, values.tolist())))) for values in (given, truth[known])]
        raise InputError(f"labels are {words[0]} but gold is {words[1]}", hint="Give both as numbers, or both as names")
    return given[known], truth[known], known


def _is_numeric(values: NDArray[Any]) -> bool:
    if values.dtype.kind != "O":
        return values.dtype.kind in "iubf"
    return not any(isinstance(value, str) for value in values.tolist())


def _some_known(gold: NDArray[Any]) -> NDArray[np.bool_]:
    known = known_gold(gold)
    if not known.any():
        raise InputError("no gold label is known", hint="Gold is -1 or null only where it is unknown")
    return known


def _scored(
    probabilities: ArrayLike, gold: ArrayLike, classes: Sequence[Any] | None
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Probabilities and class numbers of the items whose gold is known.  Shapes: -> [known, classes], [known]."""
    shares, truth = np.asarray(probabilities), np.asarray(gold)
    if shares.ndim != 2 or truth.shape != shares.shape[:1]:  # noqa: PLR2004 (items, classes)
        raise InputError(
            f"probabilities have shape {shares.shape}, gold has {truth.shape}",
            hint="Expected [items, classes] and [items]",
        )
    known = _some_known(truth)
    shares = shares[known].astype(np.float64)
    bad = (
        ~np.isfinite(shares).all(axis=1) | (shares.min(axis=1) < 0) | (np.abs(shares.sum(axis=1) - 1) > ROWS_SUM_TO_ONE)
    )
    if bad.any():
        item = int(np.flatnonzero(known)[np.argmax(bad)])
        raise InputError("these probabilities are not a distribution", where=f"item {item}", hint="Each row sums to 1")
    names = list(range(shares.shape[1])) if classes is None else list(classes)
    if len(names) != shares.shape[1]:
        raise InputError(f"{len(names)} classes are named, the probabilities have {shares.shape[1]}")
    numbers = {name: number for number, name in enumerate(names)}
    strange = [value for value in truth[known].tolist() if value not in numbers]
    if strange:
        raise InputError(
            f"gold label {strange[0]!r} is none of the classes {short_list(names)}",
            hint="Pass classes= (a model's classes_) where gold is given by name",
        )
    return shares, np.array([numbers[value] for value in truth[known].tolist()], dtype=np.intp)
