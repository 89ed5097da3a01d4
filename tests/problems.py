"""Votes, models and their oracles side by side: the cases that the tests of Dawid-Skene, iBCC and EBCC go through."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from labelfable import EBCC, IBCC, DawidSkene
from labelfable.errors import LabelfableWarning
from labelfable.models import dawid_skene
from labelfable.models.bcc import estimator as bcc
from tests.ascent import Update
from tests.crowds import planted_votes, soft_of, some_gold
from tests.oracles import confusion as oracle
from tests.walk import setting_of

if TYPE_CHECKING:
    from labelfable.models.protocol import BaseLabelModel

N_CLASSES = 3
VOTES, TRUTH = planted_votes(20, [0.9, 0.7, 0.5, 0.8], N_CLASSES)
REPEATED, REPEATED_TRUTH = planted_votes(50, [0.8, 0.7], N_CLASSES)  # at most 16 rows that differ
GOLD = some_gold(TRUTH, 4)
REPEATED_GOLD = some_gold(REPEATED_TRUTH, 4)
SOFT = soft_of(VOTES, N_CLASSES)

ROWS_AS_PUBLISHED = {"abstain": "missing", "class_prior": "learned"}
WITH_SILENCE = {"abstain": "label", "class_prior": "learned"}
FIRM = {"right": 2.0, "wrong": 0.5}

# name: model, votes, gold
DAWID_SKENE_CASES: dict[str, tuple[Any, Any, Any]] = {
    "published": (DawidSkene(smoothing=0, **ROWS_AS_PUBLISHED), VOTES, None),
    "smoothed": (DawidSkene(smoothing=0.3, **ROWS_AS_PUBLISHED), VOTES, None),
    "fixed prior": (DawidSkene(abstain="missing", class_prior="votes", smoothing=0.3), VOTES, None),
    "prior given": (DawidSkene(abstain="missing", class_prior=[0.5, 0.2, 0.3], smoothing=0.1), VOTES, None),
    "silence": (DawidSkene(smoothing=0.3, **WITH_SILENCE), VOTES, None),
    "some gold": (DawidSkene(smoothing=0.3, **ROWS_AS_PUBLISHED), VOTES, GOLD),
    "repeated rows": (DawidSkene(smoothing=0.3, **WITH_SILENCE), REPEATED, None),
    "repeated rows, some gold": (DawidSkene(abstain="missing"), REPEATED, REPEATED_GOLD),
    "soft votes": (DawidSkene(**ROWS_AS_PUBLISHED), SOFT, None),
}
BCC_CASES: dict[str, tuple[Any, Any, Any]] = {
    "iBCC as published": (IBCC(**ROWS_AS_PUBLISHED), VOTES, None),
    "iBCC, prior fixed": (IBCC(abstain="missing", class_prior="votes"), VOTES, None),
    "iBCC, silence": (IBCC(**WITH_SILENCE, **FIRM), VOTES, None),
    "iBCC, some gold": (IBCC(**ROWS_AS_PUBLISHED), VOTES, GOLD),
    "iBCC, soft votes": (IBCC(**ROWS_AS_PUBLISHED), SOFT, None),
    "iBCC, repeated rows": (IBCC(class_concentration=2.0, **WITH_SILENCE), REPEATED, None),
    "EBCC as published": (EBCC(2, **ROWS_AS_PUBLISHED), VOTES, None),
    "EBCC, prior given": (EBCC(3, abstain="missing", class_prior=[0.5, 0.2, 0.3], **FIRM), VOTES, None),
    "EBCC, silence, some gold": (EBCC(2, **WITH_SILENCE), VOTES, GOLD),
    "EBCC, repeated rows": (
        EBCC(2, class_concentration=2.0, subtype_concentration=0.7, **WITH_SILENCE),
        REPEATED,
        REPEATED_GOLD,
    ),
}


def fitted(model: Any, votes: Any, y: Any = None, **params: Any) -> BaseLabelModel:
    """A few sweeps: enough for a difference to show, too few for rounding to grow into one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        return model.set_params(**{"max_iter": 8, "tol": 0, **params}).fit(votes, y)


class Problem:
    """What the model is given and what the oracle is given."""

    def __init__(self, module: Any, case: tuple[Any, Any, Any]) -> None:
        self.model, self.votes, self.gold = case
        self.learned = self.model.class_prior == "learned"
        silence = int(self.model.abstain == "label")
        self.shape = (self.votes.shape[1], N_CLASSES + silence)
        if self.is_soft:
            self.spoken = oracle.spoken_of_soft(self.votes)
        else:
            self.spoken = oracle.spoken_of(self.votes, N_CLASSES if silence else None)
        self.meaning = np.vstack((np.eye(N_CLASSES), np.zeros((silence, N_CLASSES))))
        self.setting = setting_of(self.model, module, self.votes, self.gold)

    @property
    def is_soft(self) -> bool:
        """Whether votes are weights, so that there is no likelihood."""
        return self.votes.ndim == 3

    def updates(self, n_sweeps: int) -> list[Update]:
        """Every single update: the responsibilities, then the other factors one after the other."""
        found: list[Update] = []
        for state in self.setting.walk(n_sweeps):
            after = {"ρ": state.responsibilities, **self.factors_of(state.global_)}
            for name in ["ρ"] if state.after == "local" else list(after)[1:]:
                if self.moves(name, after):
                    before = found[-1].factors if found else after
                    found.append(Update(name, {**before, name: after[name]}))
        return found


class DawidSkeneProblem(Problem):
    """EM: tables and proportions are points."""

    event_axes: ClassVar = {"ρ": 1, "confusion": 1, "proportions": 0}

    def __init__(self, name: str) -> None:
        super().__init__(dawid_skene, DAWID_SKENE_CASES[name])

    @staticmethod
    def factors_of(global_: Any) -> dict[str, Any]:
        """Tables and proportions as probabilities."""
        return {"confusion": np.exp(global_.log_confusion), "proportions": np.exp(global_.logs.components)}

    def moves(self, name: str, _factors: dict[str, Any]) -> bool:
        """Whether the factor is inferred."""
        return name != "proportions" or self.learned

    def objective(self, ρ: Any, confusion: Any, proportions: Any) -> float:
        """What EM raises, by the oracle."""
        return oracle.dawid_skene_objective(
            self.spoken, ρ, confusion, proportions, self.model.smoothing, learned=self.learned, gold=self.gold
        )


class BCCProblem(Problem):
    """Mean field: tables and proportions are Dirichlet factors."""

    event_axes: ClassVar = {"ρ": 1, "μ": None, "η": None, "ν": None}

    def __init__(self, name: str) -> None:
        super().__init__(bcc, BCC_CASES[name])
        self.prior = prior_of(self.model, self.votes, None if self.learned else self.setting.sweeps.proportions)

    @staticmethod
    def factors_of(global_: Any) -> dict[str, Any]:
        """Dirichlet parameters."""
        return {"μ": global_.votes, "η": global_.subtypes, "ν": global_.classes}

    def moves(self, name: str, factors: dict[str, Any]) -> bool:
        """Whether the factor is inferred."""
        return factors[name] is not None

    def objective(self, ρ: Any, μ: Any, η: Any, ν: Any) -> float:
        """The whole bound, by the oracle."""
        return oracle.bcc_bound(self.spoken, ρ, μ, η, ν, prior=self.prior, gold=self.gold)


def prior_of(model: Any, votes: Any, proportions: Any = None, n_classes: int = N_CLASSES) -> oracle.Prior:
    """The prior of iBCC and EBCC, written from the description of their settings."""
    silence = int(model.abstain == "label")
    n_subtypes = getattr(model, "n_subtypes", 1)
    β = np.full((votes.shape[1], n_classes + silence, n_classes * n_subtypes), float(model.wrong))
    for k in range(n_classes):
        for m in range(n_subtypes):
            β[:, k, k * n_subtypes + m] = model.right
    β[:, n_classes:, :] = model.right  # silence speaks for every class
    η = np.full((n_classes, n_subtypes), float(model.subtype_concentration))
    ν = np.full(n_classes, float(model.class_concentration)) if proportions is None else None
    return oracle.Prior(β, η, ν, proportions)
