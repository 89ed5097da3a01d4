"""When to stop, and the history of what was raised, term by term."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stopping:
    """Stop when a sweep gains less than `tolerance` an item, or after `max_iter` sweeps."""

    tolerance: float
    max_iter: int
    n_items: float

    def is_met(self, history: History) -> bool:
        """Whether the last sweep gained too little to go on."""
        if len(history.totals) < 2:  # noqa: PLR2004 (a gain needs two)
            return False
        return self.is_near(history.totals[-2], history.totals[-1])

    def is_near(self, before: float, after: float) -> bool:
        """Whether one total lies too little under another to go on, or above it."""
        return bool(after - before <= self.tolerance * max(self.n_items, 1.0))  # a plain one, which JSON can say


@dataclass
class History:
    """The objective after each sweep, as the sum of its named terms."""

    terms: list[dict[str, float]] = field(default_factory=list)

    def record(self, terms: dict[str, float]) -> None:
        """Add one sweep."""
        self.terms.append({name: float(value) for name, value in terms.items()})

    @property
    def totals(self) -> list[float]:
        """The objective after each sweep."""
        return [sum(terms.values()) for terms in self.terms]
