"""Rules for handwritten digits: how one would tell them apart over the telephone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ABSTAIN = -1
DARK = 8  # of 16 grey levels: a pixel of ink
LARGE_LOOP = 5  # pixels inside
NARROW, WIDE = 3, 4  # pixels of eight
MOST, LEAST = 0.6, 0.4  # of all ink
UPPER, LOWER = 3, 4  # rows counted from 0; between them is the middle
ALL, FIRST, MIDDLE, LAST = slice(0, 8), slice(0, 4), slice(3, 5), slice(4, 8)  # of the rows or of the columns


@dataclass(frozen=True)
class DigitImages:
    """What the rules look at."""

    grey: NDArray[np.float64]
    """Grey levels 0 (paper) to 16, [items, 8, 8]."""
    dark: NDArray[np.bool_]
    """[items, 8, 8]."""
    n_loops: NDArray[np.int64]
    """Closed loops: patches of paper that ink shuts in, [items]."""
    loop_size: NDArray[np.int64]
    """Pixels inside all loops, [items]."""
    loop_row: NDArray[np.float64]
    """Mean row inside the loops, NaN where there is none, [items]."""

    @classmethod
    def of(cls, images: NDArray[Any]) -> DigitImages:
        """Find ink and loops."""
        grey = np.asarray(images, dtype=np.float64)
        dark = grey >= DARK
        paper = np.pad(~dark, ((0, 0), (1, 1), (1, 1)), constant_values=True)  # one sheet around each digit
        neighbours = np.zeros((3, 3, 3))
        neighbours[1] = ndimage.generate_binary_structure(2, 1)  # within an image, across edges and not across corners
        patches, n_patches = ndimage.label(paper, neighbours)
        outside = patches[:, 0, 0]
        inside = np.where(patches == outside[:, None, None], 0, patches)[:, 1:-1, 1:-1]
        item, row, _ = np.nonzero(inside)
        patch_item = np.full(n_patches + 1, -1)
        patch_item[inside[inside > 0]] = item
        size = np.bincount(item, minlength=len(grey))
        rows = np.bincount(item, row, minlength=len(grey))
        mean_row = np.divide(rows, size, out=np.full(len(grey), np.nan), where=size > 0)
        return cls(grey, dark, np.bincount(patch_item[patch_item >= 0], minlength=len(grey)), size, mean_row)

    @property
    def widths(self) -> NDArray[np.int64]:
        """From the first dark pixel of a row to its last, 0 in rows without; [items, 8]."""
        first = self.dark.argmax(axis=2)
        last = 7 - self.dark[:, :, ::-1].argmax(axis=2)
        return np.where(self.dark.any(axis=2), last - first + 1, 0)

    @property
    def n_strokes(self) -> NDArray[np.int64]:
        """Runs of dark pixels in each row, [items, 8]."""
        return np.asarray(np.sum(np.diff(self.dark.astype(np.int8), axis=2, prepend=0) == 1, axis=2))

    def ink(self, rows: slice, columns: slice) -> NDArray[np.float64]:
        """Share of the image's ink that lies in a part of it, [items]."""
        return np.asarray(self.grey[:, rows, columns].sum(axis=(1, 2)) / self.grey.sum(axis=(1, 2)))

    def top(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The entry of `values` [items, 8] at the highest row with ink, [items]."""
        return np.asarray(values[np.arange(len(values)), self.has_ink.argmax(axis=1)])

    def bottom(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The entry of `values` [items, 8] at the lowest row with ink, [items]."""
        return np.asarray(values[np.arange(len(values)), 7 - self.has_ink[:, ::-1].argmax(axis=1)])

    @property
    def has_ink(self) -> NDArray[np.bool_]:
        """Rows with a dark pixel, [items, 8]."""
        return np.asarray(self.dark.any(axis=2))

    @property
    def no_loop(self) -> NDArray[np.bool_]:
        """Where no loop is closed, [items]."""
        return np.asarray(self.n_loops == 0)

    @property
    def inked(self) -> NDArray[np.int64]:
        """Dark pixels of each row, [items, 8]."""
        return np.asarray(self.dark.sum(axis=2))

    def any_dark(self, rows: slice, columns: slice) -> NDArray[np.bool_]:
        """Where a part of the image has a dark pixel, [items]."""
        return np.asarray(self.dark[:, rows, columns].any(axis=(1, 2)))


@dataclass(frozen=True)
class DigitRule:
    """One source."""

    name: str
    words: str
    cases: Callable[[DigitImages], dict[int, NDArray[np.bool_]]]
    """The digit that is voted for where its condition, [items], is the first to hold."""

    def vote(self, images: DigitImages) -> NDArray[np.integer]:
        """Digits, or ABSTAIN where no condition holds, [items]."""
        found = self.cases(images)
        return np.select(list(found.values()), list(found), ABSTAIN)


DIGIT_RULES = (
    DigitRule(
        "loops",
        "Two closed loops are an 8, one large loop is a 0.",
        lambda d: {8: d.n_loops > 1, 0: d.loop_size >= LARGE_LOOP},
    ),
    DigitRule(
        "place_of_loop",
        "One closed loop in the upper half is a 9, in the lower half a 6.",
        lambda d: {9: (d.n_loops == 1) & (d.loop_row < UPPER), 6: (d.n_loops == 1) & (d.loop_row > LOWER)},
    ),
    DigitRule(
        "empty_middle",
        "No ink in the four middle pixels, and ink to their left and right, is a 0.",
        lambda d: {0: ~d.any_dark(MIDDLE, MIDDLE) & d.any_dark(MIDDLE, slice(0, 3)) & d.any_dark(MIDDLE, slice(5, 8))},
    ),
    DigitRule(
        "narrow",
        "All ink within three columns is a 1.",
        lambda d: {1: np.asarray(d.dark.any(axis=1)).sum(axis=1) <= NARROW},
    ),
    DigitRule(
        "one_stroke",
        "A single run of ink in every row, never wider than three pixels, is a 1.",
        lambda d: {1: (d.n_strokes.max(axis=1) == 1) & (d.widths.max(axis=1) <= NARROW)},
    ),
    DigitRule(
        "roof_and_stem",
        "A top row at least four wide over a bottom row less than three wide, without a loop, is a 7.",
        lambda d: {7: d.no_loop & (d.top(d.widths) >= WIDE) & (d.bottom(d.widths) < NARROW)},
    ),
    DigitRule(
        "flat_foot",
        "Four dark pixels or more in the lowest row, without a loop above, are a 2.",
        lambda d: {2: d.no_loop & (d.bottom(d.inked) >= WIDE)},
    ),
    DigitRule(
        "open_to_the_left",
        "Less than a quarter of the ink in the three left columns, and a bottom row at least three wide, is a 3.",
        lambda d: {3: (d.ink(ALL, slice(0, 3)) < 1 / 4) & (d.bottom(d.widths) >= NARROW)},
    ),
    DigitRule(
        "fork",
        "Two strokes in at least two of the upper four rows, one in each of the lower three, and no loop, is a 4.",
        lambda d: {
            4: d.no_loop & ((d.n_strokes[:, FIRST] > 1).sum(axis=1) > 1) & (d.n_strokes[:, 5:] <= 1).all(axis=1),
        },
    ),
    DigitRule(
        "bar_below_middle",
        "The darkest row right below the middle, with two strokes somewhere above it, is a 4.",
        lambda d: {4: np.isin(d.inked.argmax(axis=1), (4, 5)) & (d.n_strokes[:, FIRST] > 1).any(axis=1)},
    ),
    DigitRule(
        "s_shape",
        "Three fifths of the ink at the upper left and lower right are a 5, less than two fifths a 2.",
        lambda d: {
            5: d.ink(FIRST, FIRST) + d.ink(LAST, LAST) > MOST,
            2: d.ink(FIRST, FIRST) + d.ink(LAST, LAST) < LEAST,
        },
    ),
    DigitRule(
        "flag",
        "Four dark pixels in the highest row, more ink left than right just below it, and no loop, are a 5.",
        lambda d: {
            5: d.no_loop & (d.top(d.inked) >= WIDE) & (d.ink(slice(1, 4), FIRST) > d.ink(slice(1, 4), LAST)),
        },
    ),
    DigitRule(
        "heavy_end",
        "Three fifths of the ink in the lower half are a 6, in the upper half a 9.",
        lambda d: {6: d.ink(LAST, ALL) > MOST, 9: d.ink(FIRST, ALL) > MOST},
    ),
    DigitRule(
        "waist",
        "Two pixels narrower in the middle than above and than below is an 8.",
        lambda d: {
            8: (d.widths[:, 3:5].min(axis=1) + 2 <= d.widths[:, 1:3].max(axis=1))
            & (d.widths[:, 3:5].min(axis=1) + 2 <= d.widths[:, 5:7].max(axis=1)),
        },
    ),
    DigitRule(
        "back_at_the_right",
        "Ink at the right above, in the middle and below, and none at the left of the middle rows, is a 3.",
        lambda d: {
            3: d.any_dark(slice(1, 3), LAST)
            & d.any_dark(MIDDLE, slice(3, 8))
            & d.any_dark(slice(5, 7), LAST)
            & ~d.any_dark(slice(2, 6), slice(0, 3)),
        },
    ),
)
