"""What every label model promises, and the plumbing that they share."""

from __future__ import annotations

import copy
import time
import warnings
from abc import abstractmethod
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from labelfable.errors import InputError, ModelError
from labelfable.models.report import TIE, Answer, Course, FitReport, warn_of
from labelfable.numerics.random import block_generators, seed_of
from labelfable.votes.alphabet import Expected
from labelfable.votes.census import census_of
from labelfable.votes.encode import short_list
from labelfable.votes.read import read_gold, read_stored, read_votes
from labelfable.votes.stored import StoredVotes

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from labelfable.votes.table import VoteTable

CLASS_PRIOR = ["array-like", StrOptions({"votes", "uniform", "learned"})]
POSITIVE = [Interval(Real, 0, None, closed="neither")]
NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]
AT_LEAST_ONE = [Interval(Integral, 1, None, closed="left")]
N_JOBS = [Integral, None]
ENGINE = [None, str, HasMethods(["submit", "gather"])]
DEVICE = [None, str]
CHECKPOINT = [None, str, PathLike]
ABSTAIN = [StrOptions({"auto", "missing", "label"})]
Ties = Literal["random", "first", "abstain"]


@runtime_checkable
class LabelModel(Protocol):
    """All that users, the benchmark and the command line see of a model."""

    classes_: NDArray[Any]
    report_: FitReport

    def fit(self, votes: Any, y: Any = None, *, features: Any = None) -> Self:
        """Learn from the votes; `y` may hold known gold labels, −1 where unknown."""
        ...

    def predict_proba(self, votes: Any, *, features: Any = None) -> NDArray[np.floating]:
        """Probability of each class for each item; rows sum to 1."""
        ...

    def predict(self, votes: Any, *, features: Any = None, ties: Ties = "random") -> NDArray[Any]:
        """The most probable class of each item."""
        ...


class BaseLabelModel(ClassifierMixin, BaseEstimator):
    """Votes in, labels out.

    A model of votes alone adds `_fit_rows` and `_row_probabilities`, both of which see distinct rows.  A model that
    uses features overrides `_fit_table` and `_table_probabilities`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    random_state: Any = 0

    def fit(self, votes: Any, y: Any = None, *, features: Any = None) -> Self:
        """Fit to the votes, which may be anything that `read_votes` takes.

        `y` holds gold labels where they are known and −1 (or None) elsewhere: those items' labels are held fixed.
        `features` are accepted and ignored by models of votes alone.
        """
        self._validate_params()
        if len(getattr(y, "shape", ())) == 2:  # noqa: PLR2004 (one column)
            said = "A column-vector y was passed when a 1d array was expected: y.ravel() makes one."
            warnings.warn(said, DataConversionWarning, stacklevel=2)
        began = time.perf_counter()
        table: VoteTable | StoredVotes
        if isinstance(votes, StoredVotes):
            table, gold = read_gold(y, votes)
            self._keep_names(table.names)
            course, answer = self._fit_stored(table, gold, features)
        else:
            table, gold = read_gold(y, read_votes(votes, copy=False))
            self._keep_names(table)
            course, answer = self._fit_table(table, gold, features)
        self._report(table, answer, course, time.perf_counter() - began)
        warn_of(self.report_)
        return self

    def predict_proba(self, votes: Any, *, features: Any = None) -> NDArray[np.floating]:
        """Probability of each class for each item, [items, classes], in the order of `classes_`."""
        table = self._read_like_fit(votes)
        if isinstance(table, StoredVotes):
            from labelfable.models.stored import stored_probabilities

            return stored_probabilities(self, table, features)
        return self._table_probabilities(table, features)

    def predict(self, votes: Any, *, features: Any = None, ties: Ties = "random") -> NDArray[Any]:
        """The most probable class of each item, [items].

        `ties` says what happens where several classes are equally probable, as on items without votes: "random" draws
        one (seeded by `random_state`), "first" takes the first in `classes_`, "abstain" gives −1 (None where classes
        are names).
        """
        return self._decide(self.predict_proba(votes, features=features), ties)

    def fit_predict(self, votes: Any, y: Any = None, *, features: Any = None, ties: Ties = "random") -> NDArray[Any]:
        """Fit, then label the same items; where `y` knows the label, that is the label."""
        table = votes if isinstance(votes, StoredVotes) else read_votes(votes)
        labels = self.fit(table, y, features=features).predict(table, features=features, ties=ties)
        if y is not None:
            named: Any = table.with_classes(self.classes_)
            gold = read_gold(y, named)[1]
            if gold is not None:
                labels[gold >= 0] = self.classes_[gold[gold >= 0]]
        return labels

    def label_table(self, votes: Any, *, features: Any = None, ties: Ties = "random") -> Any:
        """Labels as a table: item, label, covered, and each class's probability.

        It is of the kind that the votes came in; votes that were no table give a pyarrow table.
        """
        from labelfable.votes.frames import frame_from

        table = self._read_like_fit(votes)
        if isinstance(table, StoredVotes):
            raise InputError("these votes are too many for a table of labels", hint="label_file writes them to a file")
        probabilities = self.predict_proba(table, features=features)
        columns = self._label_columns(table, probabilities, ties, seed_of(self.random_state))
        return frame_from(columns, table.frame_backend or "pyarrow")

    def label_file(self, votes: Any, path: str | Path, *, features: Any = None, ties: Ties = "random") -> None:
        """Write the labels of stored votes (`open_votes`) to a Parquet file, with the columns of `label_table`.

        A run of items at a time, in their order; the file stands there once it is whole, or not at all.
        """
        from labelfable.models.stored import write_labels

        stored = self._read_like_fit(votes)
        if not isinstance(stored, StoredVotes):
            raise InputError("these votes are in memory", hint="label_table makes a table of their labels")
        write_labels(self, stored, path, features=features, ties=ties, seed=seed_of(self.random_state))

    def _label_columns(
        self, table: VoteTable, probabilities: NDArray[np.floating], ties: Ties, seed: int, start: int = 0
    ) -> dict[str, Any]:
        """Columns of `label_table` for consecutive items, of which `start` is the first one's number."""
        items = np.arange(start, start + table.n_items) if table.items is None else table.items
        labels = self._decide(probabilities, ties, seed, start)
        columns: dict[str, Any] = {"item": items.tolist(), "label": labels.tolist()}
        columns["covered"] = table.covered.tolist()
        return columns | {f"p({name})": probabilities[:, k].tolist() for k, name in enumerate(self.classes_)}

    def __sklearn_clone__(self) -> Self:
        """A model of the same settings; a Dask client is shared, because it cannot be copied."""
        engine = getattr(self, "engine", None)
        if engine is None or isinstance(engine, str):
            return super().__sklearn_clone__()  # type: ignore[no-any-return]
        bare: Any = copy.copy(self)
        bare.engine = None
        twin: Any = BaseEstimator.__sklearn_clone__(bare)
        twin.engine = engine
        return twin  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Tags:
        """What scikit-learn and its tools may assume: votes are labels, may be missing, and need no gold."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True  # soft votes
        tags.target_tags.required = False
        tags.classifier_tags.poor_score = True  # it is the votes that are right or wrong, `y` is not learned from
        return tags

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder: arrays and JSON, no pickle.  `labelfable.load` reads it back."""
        from labelfable.models.state import save_model

        save_model(self, path)

    def _fit_table(self, table: VoteTable, gold: NDArray[np.integer] | None, features: Any) -> tuple[Course, Answer]:
        """Fit to all items."""
        del features  # a model of votes alone
        rows, number, weights = table.distinct(gold)
        known = None if gold is None else _shared_value(number, gold, rows.n_items)
        course = self._fit_rows(rows, weights, known)
        return course, Answer.of(rows, weights, known, self._row_probabilities(rows), getattr(self, "n_jobs", None))

    def _fit_stored(self, votes: StoredVotes, gold: NDArray[np.integer] | None, features: Any) -> tuple[Course, Answer]:
        """Fit to votes on disk: to their distinct rows where those fit in memory, else over the files."""
        from labelfable.models import stored

        del features  # a model of votes alone
        if type(self)._fit_table is not BaseLabelModel._fit_table:  # noqa: SLF001 (its own)
            raise ModelError(
                f"{type(self).__name__} needs votes and features in memory",
                hint="FABLE takes files",
            )
        engine = stored.engine_for(self)
        found = stored.distinct_rows(votes, gold, engine)
        if found is not None:
            rows, weights, known = found
            course = self._fit_rows(rows, weights, known)
            return course, Answer.of(rows, weights, known, self._row_probabilities(rows), getattr(self, "n_jobs", None))
        stored.refuse_many_rows(self, votes)
        census = census_of(votes, stored.count_votes(votes, gold, engine))
        course = self._fit_rows(census, np.broadcast_to(1.0, census.n_items), gold)
        return course, Answer(votes.n_items, stored.compare_stored(self, votes, None, gold))

    def _table_probabilities(self, table: VoteTable, features: Any) -> NDArray[np.floating]:
        """Class probabilities of items, [items, classes]."""
        del features  # a model of votes alone
        rows, number, _ = table.distinct()
        probabilities = self._row_probabilities(rows)
        return probabilities if rows is table else np.take(probabilities, number, axis=0)

    @abstractmethod
    def _fit_rows(self, rows: VoteTable, weights: NDArray[np.floating], gold: NDArray[np.integer] | None) -> Course:
        """Fit to distinct rows, each of which stands for `weights` items; `gold` is −1 where unknown."""

    @abstractmethod
    def _row_probabilities(self, rows: VoteTable) -> NDArray[np.floating]:
        """Class probabilities of distinct rows, [rows, classes]."""

    def _keep_names(self, table: VoteTable) -> None:
        self.classes_ = table.classes
        self.sources_ = np.asarray(table.sources)
        self.labels_ = list(table.labels[: table.n_spoken])  # whether silence is one more is each model's to say
        self.meaning_ = table.meaning[: table.n_spoken]
        self.n_features_in_ = table.n_sources

    def _report(self, table: VoteTable | StoredVotes, answer: Answer, course: Course, seconds: float) -> None:
        found = answer.comparison
        silent = [table.sources[j] for j in np.flatnonzero(found.given == 0)]
        notes = list(course.notes)
        if silent:
            notes.insert(0, f"{len(silent)} of {table.n_sources} sources never vote: {short_list(silent)}")
        if course.history is not None:
            self.n_iter_ = len(course.history.terms)
        self.report_ = FitReport(
            model=type(self).__name__,
            n_items=table.n_items,
            n_covered=round(found.covered),
            n_distinct=answer.n_rows,
            n_sources=table.n_sources,
            n_classes=table.n_classes,
            seconds=seconds,
            converged=course.converged,
            stopped=course.stopped,
            history=course.history.terms if course.history else [],
            changed_share=found.changed_share,
            contradicted=round(found.contradicted),
            collapsed=found.collapsed(table.classes),
            notes=notes,
        )

    def _read_like_fit(self, votes: Any) -> VoteTable | StoredVotes:
        """New votes, with the classes, labels and sources of the fit."""
        check_is_fitted(self)
        exclusions = dict(
            zip(self.labels_[len(self.classes_) :], _ruled_out(self.meaning_, self.classes_), strict=True)
        )
        # sources of an array have no names: their number alone must agree
        named = not all(name == str(number) for number, name in enumerate(self.sources_.tolist()))
        sources = self.sources_.tolist() if named and not _is_unnamed(votes) else None
        if isinstance(votes, StoredVotes):
            table: VoteTable | StoredVotes = read_stored(
                votes, Expected.of(self.classes_.tolist(), sources, None, exclusions)
            )
        else:
            names = self.classes_.tolist()  # no copy of the votes: the table ends with the call
            table = read_votes(votes, classes=names, sources=sources, exclusions=exclusions, copy=False)
        if table.n_sources != len(self.sources_):
            raise InputError(
                # the first sentence is scikit-learn's, which its own checks and tools look for
                f"X has {table.n_sources} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                f"features as input: the votes come from {table.n_sources} sources, the fit saw {len(self.sources_)}",
                hint=f"The sources of the fit are {short_list(self.sources_.tolist())}",
            )
        return table

    def _decide(
        self, probabilities: NDArray[np.floating], ties: Ties, seed: int | None = None, start: int = 0
    ) -> NDArray[Any]:
        """Labels of consecutive items from their probabilities, with the rule for ties."""
        if ties not in {"random", "first", "abstain"}:
            raise InputError(f"ties={ties!r} is unknown", hint="It is 'random', 'first' or 'abstain'")
        best = probabilities >= probabilities.max(axis=1, keepdims=True) - TIE
        chosen = best.argmax(axis=1)
        tied = best.sum(axis=1) > 1
        if ties == "random" and tied.any():
            seed = seed_of(self.random_state) if seed is None else seed
            for rows, generator in block_generators(seed, start, start + len(best)):
                draws = generator.random((rows.stop - rows.start, best.shape[1]))
                chosen[rows] = np.where(tied[rows], (best[rows] * (1 + draws)).argmax(axis=1), chosen[rows])
        labels = self.classes_[chosen]
        if ties == "abstain" and tied.any():
            labels = labels.copy() if labels.dtype.kind in "iu" else labels.astype(object)
            labels[tied] = -1 if labels.dtype.kind in "iu" else None
        return np.asarray(labels)


def _is_unnamed(votes: Any) -> bool:
    """Whether the votes carry no names of sources."""
    return isinstance(votes, (np.ndarray, list, tuple)) or hasattr(votes, "tocoo")


def _shared_value(number: NDArray[Any], values: NDArray[Any], n_rows: int) -> NDArray[Any]:
    """The value that each distinct row's items share.  Shapes: [items], [items] -> [rows]."""
    shared = np.empty(n_rows, dtype=values.dtype)
    shared[number] = values
    return shared


def _ruled_out(meaning: NDArray[np.floating], classes: NDArray[Any]) -> list[Any]:
    """The class that each exclusion label rules out."""
    return [classes[int(np.argmin(row))].item() for row in meaning[len(classes) :]]
