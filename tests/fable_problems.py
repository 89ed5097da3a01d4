"""FABLE's sweep and its oracle side by side: small problems in every reading, emission and kind of process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from labelfable.inference.execution import add_in_order
from labelfable.inference.shards import cut
from labelfable.models.fable.emission import Emission, VotePrior
from labelfable.models.fable.emission_hierarchy import Hierarchy
from labelfable.models.fable.projection import Projected
from labelfable.models.fable.reading import Reading
from labelfable.models.fable.steps import FableShard, FableSweeps
from labelfable.votes import read_votes
from tests.ascent import MATRIX, REAL, Update
from tests.crowds import planted_votes, soft_of, some_gold
from tests.oracles import fable as oracle
from tests.oracles.confusion import spoken_of, spoken_of_soft
from tests.oracles.kernels import kernel_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

READINGS = ("joint", "base", "conditional")
EMISSIONS = ("pattern", "fired", "silence", "rates")
TILTS = ("posterior", "mean")
PROCESSES = ("exact", "inducing")
NORMALISERS = ("factored", "collapsed")


@dataclass(frozen=True)
class Case:
    """What a problem is like."""

    reading: str = "joint"
    emission: str = "fired"
    tilt: str = "posterior"
    process: str = "exact"
    tables: str = "posterior"
    n_classes: int = 2
    n_subtypes: int = 2
    learned: bool = True
    """Class proportions, where the reading has them."""
    weight: float = 1.0
    silence_weight: float = 1.0
    firmness: float | None = None
    """Of the prior's strengths, where they are learned."""
    is_held: bool = False
    """Their sum, so that the accuracy alone is learned."""
    normaliser: str = "factored"
    kind: str = "hard"
    """Of the votes: hard, soft, or with exclusions ("not class 0", the label after the classes')."""
    has_gold: bool = False
    n_items: int = 7
    n_sources: int = 3
    shard_items: int = 4
    seed: int = 0
    dtype: str = "float64"

    def __str__(self) -> str:
        """Settings that differ from the usual ones."""
        usual = Case()
        return " ".join(f"{getattr(self, name)}" for name in vars(self) if getattr(self, name) != getattr(usual, name))

    def problem(self) -> FableProblem:
        """Drawn anew: no test changes another's."""
        return FableProblem(self)


def every_case() -> list[Case]:
    """All readings, emissions, tilts, processes and normalisers; other settings take turns, so that all pairs occur."""
    cases = []
    crossed = product(READINGS, EMISSIONS, TILTS, PROCESSES, NORMALISERS)
    for number, (reading, emission, tilt, process, normaliser) in enumerate(crossed):
        turn = number + number // 4 + number // 16 + number // 32
        cases.append(
            Case(
                reading,
                emission,
                tilt,
                process,
                normaliser=normaliser,
                tables=("posterior", "point")[turn % 2],
                n_subtypes=(2, 1, 3)[turn % 3],
                n_classes=3 if turn % 3 == 1 else 2,
                learned=turn // 2 % 2 == 0,
                weight=(1.0, 0.7)[turn // 3 % 2],
                silence_weight=(0.4, 1.0, 0.0)[turn % 3],
                firmness=(None, 3.0)[number // 2 % 2],
                is_held=turn % 5 > 2,
                has_gold=turn % 5 == 0,
                seed=number,
            )
        )
    return cases


class FableProblem:
    """What the sweep is given and what the oracle is given."""

    event_axes: ClassVar = {"ρ": 1, "m": REAL, "S": MATRIX, "accuracy": 0} | dict.fromkeys(
        ("t", "γ", "a", "b", "μ", "rate", "speech", "strengths", "ν")
    )

    def __init__(self, case: Case) -> None:
        self.case = case
        self.draws = np.random.default_rng(case.seed)
        accuracies = [0.9, 0.7, 0.6, 0.8, 0.75][: case.n_sources]
        if case.n_classes > 1:
            self.votes, self.truth = planted_votes(
                case.n_items, accuracies, case.n_classes, coverage=0.75, seed=case.seed
            )
        else:
            self.truth = np.zeros(case.n_items, dtype=np.int64)
            self.votes = np.where(self.draws.random((case.n_items, case.n_sources)) < 0.75, 0, -1)
        if case.n_items > 2:
            self.votes[2] = -1  # an item without votes
        self.gold = some_gold(self.truth, 3) if case.has_gold else None
        self.reading = Reading(case.reading, case.n_classes, case.n_subtypes)
        self.phi, self.residual = self._columns()
        self.soft = soft_of(self.votes, case.n_classes, seed=case.seed)
        if case.kind == "exclusions":
            self.votes[(self.votes > 0) & (self.draws.random(self.votes.shape) < 0.5)] = case.n_classes
        n_labels = case.n_classes + (case.kind == "exclusions") + (case.emission == "silence")
        shape = (case.n_sources, n_labels, self.reading.n_components)
        β = self.draws.uniform(0.3, 1.2, size=shape)
        for k, m in np.ndindex(case.n_classes, case.n_subtypes):
            β[:, k, k * case.n_subtypes + m] += 1.5
        rate = self.draws.uniform(1, 3, size=shape[2]) if case.emission == "rates" else None
        self.prior = VotePrior(β, rate) if case.firmness is None else self._learned_prior(β, rate)
        self.process_mean = self.draws.normal(scale=0.7, size=shape[2])
        self.start = self.draws.dirichlet(np.full(shape[2], 2.0), size=case.n_items)
        if self.gold is not None:
            self._clamp_start()

    def _learned_prior(self, β: NDArray[np.floating], rate: NDArray[np.floating] | None) -> VotePrior:
        right, start = self.draws.uniform(0.2, 0.9, size=β.shape), (1.3, 0.6)
        hierarchy = Hierarchy(β * right, β * (1 - right), 0.05, start, self.case.firmness, rate, self.case.is_held)
        return VotePrior(hierarchy.concentration(start), hierarchy.rate(start), hierarchy)

    def _clamp_start(self) -> None:
        of_component = np.repeat(np.arange(self.case.n_classes), self.case.n_subtypes)
        for i in np.flatnonzero(self.gold >= 0):
            self.start[i, of_component != self.gold[i]] = 0
            self.start[i] /= self.start[i].sum()

    def _columns(self) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Φ and the residual variance: the whole kernel matrix, a few inducing points, or weights of the features."""
        n = self.case.n_items
        self.features = self.draws.normal(size=(n, 2))
        if self.case.process == "flat":
            return np.zeros((n, 0)), np.zeros(n)
        if self.case.process == "linear":
            return np.column_stack((2 * self.features, np.full(n, 1.5))), np.zeros(n)
        if self.case.process == "exact":
            return np.linalg.cholesky(kernel_matrix("rbf", self.features, self.features, 3.0)), np.zeros(n)
        points = self.draws.normal(size=(3, 2))
        lower = np.linalg.cholesky(kernel_matrix("rbf", points, points, 3.0))
        phi = np.linalg.solve(lower, kernel_matrix("rbf", points, self.features, 3.0)).T
        return phi, 3.0 - np.sum(phi**2, axis=1)

    @cached_property
    def shares(self) -> NDArray[np.floating] | None:
        """Class proportions where they are given."""
        case = self.case
        if case.reading == "joint" or case.learned:
            return None
        shares = np.arange(1.0, case.n_classes + 1)
        return shares / shares.sum()

    @cached_property
    def class_prior(self) -> NDArray[np.floating] | None:
        """Their Dirichlet prior where they are not."""
        case = self.case
        return np.linspace(1, 2, case.n_classes) if case.reading != "joint" and case.learned else None

    # -- src's side ---------------------------------------------------------------------------------------------------

    @cached_property
    def table(self) -> Any:
        names = [f"class {k}" for k in range(self.case.n_classes)]
        votes, classes, exclusions = self.votes, list(range(self.case.n_classes)), None
        if self.case.kind == "soft":
            votes = self.soft
        if self.case.kind == "exclusions":
            votes = np.array([*names, "not class 0", None], dtype=object)[self.votes]
            classes, exclusions = names, {"not class 0": "class 0"}
        table = read_votes(votes, classes=classes, exclusions=exclusions)
        return table.with_abstain_as_label() if self.case.emission == "silence" else table

    @cached_property
    def sweeps(self) -> FableSweeps:
        shares = np.full(self.case.n_classes, 1 / self.case.n_classes) if self.shares is None else self.shares
        return FableSweeps(
            reading=self.reading,
            emission=Emission(self.case.emission, self.case.tables == "point", self.case.silence_weight),
            layout=self.table.layout,
            vote_prior=self.prior,
            process_mean=self.process_mean,
            class_prior=self.class_prior,
            log_proportions=np.log(shares),
            evidence_weight=self.case.weight,
            is_point=self.case.tilt == "mean",
            normaliser=self.case.normaliser,
        )

    @cached_property
    def shards(self) -> list[FableShard]:
        return self.shards_of(self.case.shard_items)

    def shards_of(self, rows_each: int, table: Any = None) -> list[FableShard]:
        """The items in shards of so many."""
        table = self.table if table is None else table
        phi, residual = (x.astype(self.case.dtype) for x in (self.phi, self.residual))
        return [
            FableShard(shard, Projected(phi[here], residual[here]), self.start[here])
            for shard in cut(table, np.ones(table.n_items), self.gold, rows_each)
            for here in [slice(shard.start, shard.stop)]
        ]

    def first_globals(self) -> Any:
        """The globals after the start."""
        return self.sweeps.global_step(add_in_order(self.sweeps.start(shard)[1] for shard in self.shards))

    def statistics(self, global_: Any) -> Any:
        """A local step, added over shards."""
        return add_in_order(self.sweeps.local_step(shard, None, global_)[1] for shard in self.shards)

    def run(self, n_sweeps: int) -> tuple[Any, list[float]]:
        """The globals of the last local step, and the bound after each."""
        global_, totals = self.first_globals(), []
        for sweep in range(n_sweeps):
            statistics = self.statistics(global_)
            totals.append(sum(self.sweeps.bound(statistics, global_).values()))
            if sweep + 1 < n_sweeps:
                global_ = self.sweeps.global_step(statistics)
        return global_, totals

    def item_factors(self, global_: Any, start: bool = False) -> dict[str, Any]:
        """t, γ, a, b and ρ of all items."""
        parts = [self.sweeps.item_factors(shard, global_, shard.start if start else None)[0] for shard in self.shards]
        found = {
            name: np.concatenate([getattr(part, field) for part in parts])
            for name, field in (("t", "tilt"), ("γ", "poisson"), ("a", "rate_shape"), ("ρ", "responsibilities"))
        }
        if self.case.normaliser == "collapsed":
            return found | {"a": None, "b": None}
        return found | {"b": np.full(found["a"].shape, self.reading.mass)}

    def global_factors(self, global_: Any) -> dict[str, Any]:
        """m, S, μ, rate, speech, strengths (of points the accuracy alone) and ν."""
        weights, votes = global_.weights, global_.votes
        strengths = None if votes.strengths is None else np.array(votes.strengths)
        is_held = strengths is not None and (self.case.is_held or self.case.tables == "point")
        return {
            "m": weights.mean,
            "S": weights.covariance,
            "μ": votes.concentration,
            "rate": votes.rate,
            "speech": votes.speech,
            "strengths": None if is_held else strengths,
            "accuracy": strengths / sum(self.prior.hierarchy.start) if is_held else None,
            "ν": global_.classes,
        }

    def updates(self, n_sweeps: int) -> list[Update]:
        """Every single update: from the start, then factor after factor, as steps.py makes them."""
        global_ = self.sweeps.prior_globals(self.shards[0])
        factors = self.item_factors(global_, start=True) | self.global_factors(global_)
        found = [Update(name, factors) for name in ("t", "γ", "a", "b") if factors[name] is not None]
        statistics = add_in_order(self.sweeps.start(shard)[1] for shard in self.shards)
        for _ in range(n_sweeps):
            global_ = self.sweeps.global_step(statistics)
            after = self.global_factors(global_)
            for block in (("m",), ("S",), ("μ", "rate", "speech"), ("strengths", "accuracy"), ("ν",)):
                factors = self._replaced(found, factors, after, block)
            after = self.item_factors(global_)
            for block in (("t",), ("γ", "a", "b"), ("ρ",)):
                factors = self._replaced(found, factors, after, block)
            statistics = self.statistics(global_)
        return found

    @staticmethod
    def _replaced(
        found: list[Update], factors: dict[str, Any], after: dict[str, Any], block: tuple[str, ...]
    ) -> dict[str, Any]:
        """One block of factors that change at once; each must be stationary after it."""
        factors = factors | {name: after[name] for name in block}
        found += [Update(name, factors) for name in block if after[name] is not None]
        return factors

    # -- the oracle's side --------------------------------------------------------------------------------------------

    @cached_property
    def model(self) -> oracle.Model:
        case = self.case
        return oracle.Model(
            reading=case.reading,
            n_classes=case.n_classes,
            n_subtypes=case.n_subtypes,
            emission=case.emission,
            spoken=self.spoken(),
            phi=self.phi,
            residual=self.residual,
            process_mean=self.process_mean,
            concentration=self.prior.concentration,
            rate=self.prior.rate,
            class_prior=self.class_prior,
            proportions=self.shares,
            weight=case.weight,
            point_tables=case.tables == "point",
            point_processes=case.tilt == "mean",
            gold=self.gold,
            is_collapsed=case.normaliser == "collapsed",
            silence_weight=case.silence_weight,
            learned=None if self.prior.hierarchy is None else oracle.Learned(**vars(self.prior.hierarchy)),
        )

    def spoken(self) -> Any:
        """The votes as the oracle reads them."""
        silence = self.prior.concentration.shape[1] - 1 if self.case.emission == "silence" else None
        if self.case.kind != "soft":
            return spoken_of(self.votes, silence)
        soft = spoken_of_soft(self.soft)
        if silence is not None:
            for entries, row in zip(soft, self.votes, strict=True):
                entries += [(j, silence, 1.0) for j in np.flatnonzero(row < 0).tolist()]
        return soft

    def objective(self, **factors: Any) -> float:
        """The whole bound, by the oracle."""
        return oracle.bound(self.model, **factors)

    def terms(self, **factors: Any) -> dict[str, float]:
        """The same, term by term."""
        return oracle.terms(self.model, **factors)
