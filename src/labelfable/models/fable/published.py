"""inference="published": the paper's rules as printed, stopped with a warning where they break down.

    start    ρ = shares of the votes × random shares of subtypes,  m̂ and a at random,  Σ̂ = Σ = cosine kernel + 0.001 I
    repeat   ν, μ  →  c  →  γ, a  →  φ, ξ  →  θ  →  Σ̂, m̂  →  ρ

Where print and program differ it was decided like this.  a_i = Σγ + 1: the appendix and the program, the text has + 2.
φ = ρ + 1: the paper and the program's last version, its first had 2.  Start, prior of abstaining, 0.001 and stopping
rule: the program.  γ and the prior of right votes: `variant`.  Unlike the program, everything is float64, γ and ρ are
computed from logarithms (the program's ρ may underflow to 0/0), and nothing is clipped.

ρ sees the features through the m̂ of the iteration before.  So where the rules break down in their second iteration, as
they do on real features, the answer is the votes' alone, with random numbers where there are none.

The paper does not define labels of new items.  The program does, and so does this: the same iterations on the new items
alone, with q(τ) and q(v) held and a Gaussian process of their own.  Those of the fit keep the fit's answer.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from labelfable.errors import LabelfableWarning
from labelfable.models.fable.published_settings import PublishedSettings
from labelfable.models.fable.published_steps import BrokenDownError, Held, PublishedSteps
from labelfable.votes.features import Features, read_features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable


@dataclass(frozen=True)
class PublishedFit:
    """The answer, and what is needed to label other items."""

    probabilities: NDArray[np.floating]
    """[n, K], of the last sound iteration."""
    history: list[dict[str, float]]
    """For each sound iteration: largest change of a class probability, smallest ξ, largest |m̂|."""
    stopped: str | None
    """Where and why the rules broke down; None where they did not."""
    iterations: int
    """Number of sound iterations; 0 is the start."""
    converged: bool
    """Whether the last sound iteration moved no class probability by more than the tolerance."""
    shared: Held
    """q(τ) and q(v)."""
    fingerprint: str
    """Of the votes and features."""

    @property
    def outcome(self) -> str:
        """How it ended, in a few words."""
        if self.stopped is not None:
            return self.stopped
        moved = (
            f"the last of {self.iterations} iterations moved a probability by {self.history[-1]['largest change']:.2g}"
        )
        return f"published rules: {moved}" + ("" if self.converged else ", more than their tolerance")


def fit_published(
    rows: VoteTable,
    features: Any,
    settings: PublishedSettings,
    seed: int,
    *,
    gold: NDArray[np.integer] | None = None,
    held: Held | None = None,
) -> PublishedFit:
    """Run the printed rules; with `held`, under the q(τ) and q(v) of another fit.

    Without features the kernel is the identity, as in the published program.  Known gold labels, of which the published
    method knows nothing, hold their items' responsibilities fixed.
    """
    settings.refuse_size(rows.n_items)
    known = None if features is None else read_features(features, rows.n_items)
    if known is not None and settings.missing == "error":
        known.refuse_missing()
    steps = PublishedSteps(rows, known, settings, seed, gold=gold, held=held)
    state = steps.start()
    probabilities = steps.class_sum(state.responsibilities)
    history: list[dict[str, float]] = []
    stopped, converged = None, False
    while len(history) < settings.max_iter and not converged:
        shared = steps.shared_factors(state.responsibilities)
        try:
            state, measured = steps.iterate(state, shared)
        except BrokenDownError as broken:
            stopped = _account(broken, len(history))
            warnings.warn(stopped, LabelfableWarning, stacklevel=5)  # who called fit, or predict_proba
            break
        before, probabilities = probabilities, steps.class_sum(state.responsibilities)
        change = float(np.abs(probabilities - before).max())
        history.append({"largest change": change, **measured})
        converged = change <= settings.tolerance
    return PublishedFit(probabilities, history, stopped, len(history), converged, shared, fingerprint(rows, known))


def predict_published(
    fit: PublishedFit, rows: VoteTable, features: Any, settings: PublishedSettings, seed: int
) -> NDArray[np.floating]:
    """The fit's own answer for its own items, in its order; else that of the same iterations on these items alone."""
    known = None if features is None else read_features(features, rows.n_items)
    if fingerprint(rows, known) == fit.fingerprint:
        return fit.probabilities
    return fit_published(rows, known, settings, seed, held=fit.shared).probabilities


def fingerprint(rows: VoteTable, features: Features | None) -> str:
    """Equal for equal votes and features, however they are stored."""
    digest = hashlib.sha256()
    votes = rows.plain_incidence
    for part in (votes.shape, votes.indptr, votes.indices):
        digest.update(np.asarray(part, dtype=np.int64).tobytes())
    digest.update(np.asarray(votes.data, dtype=np.float64).tobytes())
    if features is not None:
        digest.update(np.asarray((features.n_items, features.n_columns), dtype=np.int64).tobytes())
        digest.update(features.missing.tobytes())
        for _, block in features.blocks():
            dense = block.toarray() if sp.issparse(block) else block
            digest.update(np.ascontiguousarray(dense, dtype=np.float64).tobytes())
    return digest.hexdigest()


def _account(broken: BrokenDownError, n_sound: int) -> str:
    """What the user is told."""
    answers = ["the start, the shares of the votes", "iteration 1, which the features have not reached yet"]
    answer = answers[n_sound] if n_sound < len(answers) else f"iteration {n_sound}"
    return (
        f"FABLE's published rules break down in iteration {n_sound + 1}: {broken}. "
        f"The answer is that of {answer}. inference='variational' has rules that cannot break down like this"
    )
