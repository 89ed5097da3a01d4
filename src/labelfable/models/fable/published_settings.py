"""Settings of inference="published": those of the paper's experiments, unless told otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

from labelfable.errors import ModelError
from labelfable.models.fable.published_rules import Variant

if TYPE_CHECKING:
    from collections.abc import Mapping

WHERE = "inference='published'"
CHOICES = {
    "variant": ("paper", "code"),
    "kernel": ("cosine", "linear"),
    "class_prior": ("votes", "uniform"),
    "missing": ("error", "ignore"),
}


@dataclass(frozen=True)
class PublishedSettings:
    """How the published method is run."""

    n_subtypes: int = 3
    """Subtypes of each class, M."""
    variant: Variant = "paper"
    """In γ and in the prior of the votes: as the paper prints them, or as the published program has them."""
    correct_votes: float = 1000.0
    """Right votes that each source is credited with, times N·M (paper) or K·M (code)."""
    kernel: Literal["cosine", "linear"] = "cosine"
    """The paper's, or the one of the published example, which hands "cosine" to scikit-learn's PairwiseKernel as gamma
    and so gets the default, a linear one.  Where all rows have length 1 the two are the same."""
    rank: int | None = 50
    """Lanczos vectors for each component's covariance; None inverts the matrices."""
    class_prior: Literal["votes", "uniform"] = "votes"
    """α of the class proportions: the totals of the votes' shares, as in the published experiments, or 1."""
    max_iter: int = 10
    """Most iterations."""
    tolerance: float = 0.01
    """Stop when no class probability moves by more (the program's rule); 0 runs all iterations."""
    missing: Literal["error", "ignore"] = "error"
    """Items without features: refuse, or let them be like no other item, as the published program does."""
    max_items: int = 10_000
    """Most items: matrices of items × items are formed.  The paper cuts sets above 20,000 into batches of 10,000."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("n_subtypes", "rank", "max_iter", "max_items"):
            given = getattr(self, name)
            if given is None and name == "rank":
                continue
            if isinstance(given, bool) or not isinstance(given, Integral) or given < 1:
                raise ModelError(f"{name}={given!r} is not a whole number from 1", where=WHERE)
        for name, floor in (("correct_votes", "more than 1"), ("tolerance", "from 0")):
            given = getattr(self, name)
            least = 1 if name == "correct_votes" else 0
            number = float(given) if isinstance(given, Real) else -1.0
            if not least <= number < float("inf") or number == 1 == least:
                raise ModelError(f"{name}={given!r} is not a finite number {floor}", where=WHERE)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                hint = f"It is {' or '.join(map(repr, choices))}"
                raise ModelError(f"{name}={getattr(self, name)!r} is unknown", where=WHERE, hint=hint)

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> PublishedSettings:
        """From a dictionary of the settings that are to differ from the paper's."""
        unknown = sorted(set(given or {}) - set(cls.__dataclass_fields__))
        if unknown:
            hint = f"Its settings are {', '.join(cls.__dataclass_fields__)}"
            raise ModelError(f"there is no setting {unknown[0]!r}", where=WHERE, hint=hint)
        return cls(**(given or {}))

    def refuse_size(self, n_items: int) -> None:
        """An error where matrices of items × items would be larger than allowed."""
        if n_items > self.max_items:
            gigabytes = n_items**2 * 8 / 1e9
            raise ModelError(
                f"{n_items:,} items are more than max_items={self.max_items:,}: the published rules invert matrices of "
                f"items × items, of {gigabytes:.1f} GB each",
                where=WHERE,
                hint="inference='variational' forms none; else raise max_items, or fit batches of items",
            )
