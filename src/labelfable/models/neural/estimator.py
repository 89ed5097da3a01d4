"""What the two neural models share: settings, reading, training, answers.  PyTorch is imported when a fit begins."""

from __future__ import annotations

import copy
from abc import abstractmethod
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from labelfable.errors import InputError, ModelError
from labelfable.inference.convergence import History
from labelfable.models.protocol import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, BaseLabelModel
from labelfable.models.registry import require_extra
from labelfable.models.report import Answer, Course
from labelfable.numerics.random import seed_of
from labelfable.numerics.scaling import Scaling, fit_scaling
from labelfable.votes.features import Features, read_features

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

SHARE = [Interval(Real, 0, 1, closed="both")]
NEURAL_SETTINGS: dict[str, list[Any]] = {
    "answer": [StrOptions({"classifier", "votes", "surer"})],
    "hidden": AT_LEAST_ONE,
    "dropout": [Interval(Real, 0, 1, closed="left")],
    "scaling": [StrOptions({"standardise", "normalise", "none"})],
    "learning_rate": POSITIVE,
    "weight_decay": NOT_NEGATIVE,
    "batch_size": [Interval(Integral, 2, None, closed="left")],
    "stopping": [StrOptions({"auto", "fixed"})],
    "held_out": [Interval(Real, 0, 1, closed="neither")],
    "patience": AT_LEAST_ONE,
    "max_iter": AT_LEAST_ONE,
    "device": [str],
    "progress": [callable, None],
    "random_state": ["random_state"],
}


class NeuralModel(BaseLabelModel):
    """A classifier over features and a network that weighs votes, trained together."""

    _stored_types: ClassVar[tuple[type, ...]] = (Scaling,)
    answer: str
    dropout: float
    hidden: int
    scaling: str
    learning_rate: float
    weight_decay: float
    batch_size: int
    stopping: str
    held_out: float
    patience: int
    max_iter: int
    device: str
    progress: Any

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder: arrays and JSON, no pickle.  The progress callback is left out."""
        twin = copy.copy(self)
        twin.progress = None
        super(NeuralModel, twin).save(path)

    @abstractmethod
    def _network(self, sizes: Any) -> Any:
        """A network with the layers of these sizes."""

    @abstractmethod
    def _objective(self, network: Any, items: Any, gold: NDArray[np.integer] | None, generator: Any) -> Any:
        """What is minimised."""

    def _fit_table(self, table: VoteTable, gold: NDArray[np.integer] | None, features: Any) -> tuple[Course, Answer]:
        require_extra(type(self).__name__, "neural")
        from labelfable.models.neural.items import Items, Rows
        from labelfable.models.neural.networks import Sizes
        from labelfable.models.neural.training import seeded

        plain, read = self._plain_votes(table), self._read_features(features, table)
        if not plain.covered.any():
            raise ModelError("no item has a vote, so that there is nothing to learn from", hint="Give votes")
        device, seed = self._device(), seed_of(self.random_state)
        self.scaling_ = fit_scaling(read, self.scaling, 0, seed)
        self.feature_names_ = None if read.names is None else list(read.names)
        rows = Rows(plain, read, self.scaling_)
        with seeded(seed, device):
            network = self._network(Sizes(read.n_columns, plain.n_sources, plain.n_classes, self.hidden)).to(device)
            course = self._train(network, Items.of(rows, device), gold, seed)
        probabilities = self._probabilities(rows)
        return course, Answer.of(table, np.ones(table.n_items), gold, probabilities)

    def _train(self, network: Any, items: Any, gold: NDArray[np.integer] | None, seed: int) -> Course:
        """Minimise, and keep the weights of the best epoch."""
        import torch

        from labelfable.models.neural.stopping import choose_criterion
        from labelfable.models.neural.training import Schedule, train

        table = items.rows.table
        chance = np.random.default_rng(seed)
        criterion, learned = choose_criterion(table, gold, self.held_out, chance, fixed=self.stopping == "fixed")
        generator = torch.Generator().manual_seed(seed)
        schedule = Schedule(
            self.learning_rate, self.weight_decay, self.batch_size, self.max_iter, self.patience, self.progress
        )
        objective = self._objective(network, items, gold, generator)
        done = train(objective, torch.from_numpy(learned).to(items.device), schedule, generator, criterion)
        self.weights_ = done.weights
        self.scores_ = [score[0] for score in done.scores]
        self.best_iter_ = done.best
        kept = f"the weights of epoch {done.best} of {len(done.history)} were kept"
        notes = [kept + (f", by the {criterion.about}" if criterion else ", the last")]
        return Course(History(done.history), done.converged, notes)

    def _table_probabilities(self, table: VoteTable, features: Any) -> NDArray[np.floating]:
        require_extra(type(self).__name__, "neural")
        from labelfable.models.neural.items import Rows

        names = None if self.feature_names_ is None else tuple(self.feature_names_)
        read = self._read_features(features, table).named_like(names, self.scaling_.n_columns)
        return self._probabilities(Rows(self._plain_votes(table), read, self.scaling_))

    def _probabilities(self, rows: Any) -> NDArray[np.floating]:
        """Class probabilities in float64 on the CPU: the same wherever and in whatever company they are asked for."""
        import torch

        from labelfable.models.neural.networks import Sizes, answers

        first = self.weights_["classifier.0.weight"]
        table = rows.table
        with torch.device("meta"):  # where first weights are neither stored nor drawn
            network = self._network(Sizes(first.shape[1], table.n_sources, table.n_classes, first.shape[0]))
        stored = {name: torch.from_numpy(value) for name, value in self.weights_.items()}
        network.load_state_dict(stored, assign=True)
        network.double().eval()
        with torch.no_grad():
            parts = [answers(network, rows.batch(block), self.answer).numpy() for block in rows.blocks()]
        return np.concatenate(parts)

    def _read_features(self, features: Any, table: VoteTable) -> Features:
        if features is None:
            raise InputError(
                f"{type(self).__name__} learns from features, and there are none",
                hint="Give features=, one row an item; DawidSkene and others need votes alone",
            )
        read = read_features(features, table.n_items)
        if read.missing.any() or not read.n_columns:
            what = "some features are missing" if read.n_columns else "the features have no column"
            where = f"the first is item {int(read.missing.argmax())}" if read.n_columns else ""
            raise InputError(what, where=where, hint="Fill them in, or leave such items out")
        return read

    def _plain_votes(self, table: VoteTable) -> VoteTable:
        """Votes that each name one class; other kinds are refused."""
        table = table.without_abstain_label()
        kind = "soft votes" if not table.is_hard else "" if table.is_plain else "exclusion votes"
        if kind:
            raise ModelError(f"{type(self).__name__} cannot read {kind}", hint="FABLE, DawidSkene and MajorityVote can")
        return table

    def _device(self) -> Any:
        """The device by its name, or an error that says why not."""
        import torch

        try:
            device = torch.device(self.device)
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ModelError(f"device={self.device!r} cannot be used", hint=f"PyTorch says: {reason}") from error
        return device
