"""Seconds of FABLE as published: a plain transcription of its algorithm, on made-up votes and features.

    make bench BENCH=published_dense ARGS="--items 2000,4000,8000"          two minutes on two idle cores

It does what the published program does (github.com/JieyuZ2/wrench, labelmodel/fable.py, commit ae0784e), with NumPy in
the place of PyTorch: the kernel of all pairs of items and its inverse, K·M + 1 dense matrices of items × items, and for
every component and iteration a Lanczos run against such a matrix, whose rank-50 inverse is multiplied out.  Nothing is
shared between components and nothing is left out.  Like the program it ends where it meets NaN, on most features in the
second iteration: so the table gives the set-up, one iteration, and what the published ten iterations would take.

`run(n_items)` is for other benchmarks: seconds of the set-up and of so many iterations.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.special import psi

PUBLISHED_ITERATIONS = 10


@dataclass(frozen=True)
class Timing:
    """Where the seconds went."""

    n_items: int
    setup: float
    """Kernel, inverse, and the first K·M + 1 matrices."""
    iterations: list[float]
    stopped: bool
    """Whether it met NaN."""

    @property
    def total(self) -> float:
        """Seconds of all that was run."""
        return self.setup + sum(self.iterations)

    @property
    def published(self) -> float:
        """Seconds of the published ten iterations, had it not stopped."""
        return self.setup + PUBLISHED_ITERATIONS * self.iterations[0]


def run(n_items: int, *, iterations: int = 1, **shape: int | None) -> float:
    """Seconds of the set-up and of so many iterations (fewer where it meets NaN)."""
    return measure(n_items, iterations=iterations, **shape).total


def measure(
    n_items: int,
    *,
    iterations: int = 1,
    n_classes: int = 2,
    n_subtypes: int = 3,
    n_sources: int = 10,
    n_features: int = 64,
    rank: int | None = 50,
    seed: int = 0,
) -> Timing:
    """Draw votes and features, then run the published algorithm on them; without a rank, with inverses."""
    votes, features = draw(n_items, n_classes, n_sources, n_features, seed)
    began = time.perf_counter()
    method = Published(votes, features, n_classes=n_classes, n_subtypes=n_subtypes, rank=rank, seed=seed)
    setup = time.perf_counter() - began
    seconds: list[float] = []
    stopped = False
    while len(seconds) < iterations and not stopped:
        began = time.perf_counter()
        stopped = not method.iterate()
        seconds.append(time.perf_counter() - began)
    return Timing(n_items, setup, seconds, stopped)


def draw(n_items: int, n_classes: int, n_sources: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Votes (two an item on average, −1 = abstain) and features that know the class."""
    draws = np.random.default_rng(seed)
    truth = draws.integers(n_classes, size=n_items)
    right = draws.random((n_items, n_sources)) < 0.75
    votes = np.where(right, truth[:, None], draws.integers(n_classes, size=(n_items, n_sources)))
    votes[draws.random(votes.shape) < 0.8] = -1
    centres = draws.standard_normal((n_classes, n_features))
    return votes, draws.standard_normal((n_items, n_features)) + centres[truth]


class Published:
    """The state of the published algorithm."""

    def __init__(
        self, votes: np.ndarray, features: np.ndarray, *, n_classes: int, n_subtypes: int, rank: int | None, seed: int
    ) -> None:
        n_items, n_sources = votes.shape
        self.draws = np.random.default_rng(seed)
        self.K, self.M, self.rank = n_classes, n_subtypes, rank
        self.said = [(votes == label).astype(float) for label in (*range(n_classes), -1)]
        self.β = np.ones((n_classes, n_classes + 1))
        self.β[np.diag_indices(n_classes)] = n_classes * n_subtypes * 1000 - 1
        self.β[:, -1] = self.said[-1].sum()
        units = features / np.linalg.norm(features, axis=1, keepdims=True)
        kernel = units @ units.T + 1e-3 * np.eye(n_items)
        self.inverse = np.linalg.inv(kernel)
        self.covariances = [kernel.copy() for _ in range(n_classes * n_subtypes)]
        self.mean = self.draws.random((n_items, n_classes * n_subtypes)) - 0.5
        self.shape = self.draws.random(n_items) + 1e-3
        totals = np.stack([said.sum(axis=1) for said in self.said[:-1]], axis=1) + 1e-5
        self.shares = totals / totals.sum(axis=1, keepdims=True)
        self.α = self.shares.sum(axis=0)
        self.ρ = self.draws.dirichlet(np.ones(n_subtypes), self.shares.shape) * self.shares[:, :, None]
        self.μ = np.empty((n_sources, n_classes, n_subtypes, n_classes + 1))

    def iterate(self) -> bool:
        """One iteration; False where it met NaN and left the answer as it was."""
        n_items, C = self.mean.shape
        ν = self.α + self.shares.sum(axis=0)
        for label, said in enumerate(self.said):
            for k in range(self.K):
                self.μ[:, k, :, label] = self.β[k, label] + said.T @ self.ρ[:, k, :]
        γ, c = np.empty((n_items, C)), np.empty((n_items, C))
        rate = np.exp(psi(self.shape)) / self.K
        for k in range(C):
            c[:, k] = np.minimum(np.sqrt(np.abs(self.mean[:, k] ** 2 + np.diag(self.covariances[k]))), 100)
            γ[:, k] = rate * np.exp(np.minimum(-0.5 * self.mean[:, k], 100)) / np.cosh(c[:, k])
        self.shape = γ.sum(axis=1) + 1
        φ, ξ = self.ρ.reshape(n_items, C) + 1, math.log(2) - self.mean / 2
        θ = (φ / ξ + γ) / (2 * c) * np.tanh(c / 2)
        mean = np.empty_like(self.mean)
        for k in range(C):
            self.covariances[k] = self.inverse_of(self.inverse + np.diag(θ[:, k]))
            mean[:, k] = 0.5 * self.covariances[k] @ (φ / ξ - γ)[:, k]
        self.mean = mean
        with np.errstate(invalid="ignore"):  # where the program meets NaN
            log_ρ = (psi(φ) - np.log(ξ)).reshape(n_items, self.K, self.M) + (psi(ν) - psi(ν.sum()))[None, :, None]
        logs = psi(self.μ) - psi(self.μ.sum(axis=-1, keepdims=True))
        for label, said in enumerate(self.said):
            for k in range(self.K):
                log_ρ[:, k, :] += said @ logs[:, k, :, label]
        ρ = np.exp(log_ρ)
        ρ /= ρ.sum(axis=(1, 2), keepdims=True)
        if np.isnan(ρ).any():
            return False
        self.ρ, self.shares = ρ, ρ.sum(axis=2)
        return True

    def inverse_of(self, matrix: np.ndarray) -> np.ndarray:
        """Q T⁻¹ Q', or the inverse itself."""
        if self.rank is None:
            return np.linalg.inv(matrix)
        Q, T = lanczos(matrix, self.draws.standard_normal(len(matrix)), self.rank)
        return Q @ np.linalg.inv(T) @ Q.T


def lanczos(matrix: np.ndarray, probe: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Q [n, rank] with orthonormal columns and tridiagonal T = Q' A Q, every new direction cleared of all before it."""
    rank = min(rank, len(probe))
    Q, T = np.zeros((len(probe), rank)), np.zeros((rank, rank))
    Q[:, 0] = probe / np.linalg.norm(probe)
    for step in range(rank):
        image = matrix @ Q[:, step]
        T[step, step] = Q[:, step] @ image
        if step + 1 == rank:
            break
        for _ in range(2):
            image = image - Q[:, : step + 1] @ (Q[:, : step + 1].T @ image)
        length = np.linalg.norm(image)
        if length <= 1e-6:
            return Q[:, : step + 1], T[: step + 1, : step + 1]
        T[step, step + 1] = T[step + 1, step] = length
        Q[:, step + 1] = image / length
    return Q, T


def exponent(items: list[int], seconds: list[float]) -> float:
    """Slope of log seconds against log items."""
    return float(np.polyfit(np.log(items), np.log(seconds), 1)[0])


def main() -> None:
    """Measure, print a table in Markdown, and write the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", default="2000,4000,8000")
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--subtypes", type=int, default=3)
    parser.add_argument("--exact", action="store_true", help="invert every matrix instead of 50 Lanczos steps")
    parser.add_argument("--out", type=Path, default=Path("build/bench/published_dense.json"))
    options = parser.parse_args()
    found = []
    print("| items | set-up s | one iteration s | both s | ten iterations s | matrices GB |\n|---|---|---|---|---|---|")
    for n_items in map(int, options.items.split(",")):
        rank = None if options.exact else 50
        timing = measure(n_items, n_classes=options.classes, n_subtypes=options.subtypes, rank=rank)
        found.append(timing)
        gigabytes = (options.classes * options.subtypes + 1) * n_items**2 * 8 / 1e9
        columns = (timing.setup, timing.iterations[0], timing.total, timing.published, gigabytes)
        print(f"| {n_items:,} | " + " | ".join(f"{value:.2f}" for value in columns) + " |", flush=True)
    items = [timing.n_items for timing in found]
    exponents = {}
    if len(items) > 1:
        exponents["set-up"] = exponent(items, [timing.setup for timing in found])
        exponents["one iteration"] = exponent(items, [timing.iterations[0] for timing in found])
        exponents["both"] = exponent(items, [timing.total for timing in found])
        print("seconds grow like items to the power " + ", ".join(f"{x:.2f} ({name})" for name, x in exponents.items()))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "classes": options.classes,
        "subtypes": options.subtypes,
        "exact": options.exact,
        "exponents": exponents,
    }
    document |= {"timings": [asdict(timing) for timing in found]}
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
