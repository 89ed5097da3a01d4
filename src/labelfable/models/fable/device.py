"""FABLE on an accelerator: the same sweeps over shards whose columns are made, and stay, on the device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_cupy_array, is_torch_array

from labelfable.errors import InputError, ModelError
from labelfable.inference.convergence import Stopping
from labelfable.inference.device_engine import DeviceEngine, shard_rows
from labelfable.inference.shards import Shard, cut_stored
from labelfable.models.checkpoint import keeper_of
from labelfable.models.fable.items import cut_items, features_or_none
from labelfable.models.fable.projection import Projected, Projection
from labelfable.models.fable.search import Start, climb_best, sampled
from labelfable.models.fable.starts import subtype_starts
from labelfable.models.fable.steps import FableShard
from labelfable.models.report import Answer, Course
from labelfable.numerics.kernels import squares
from labelfable.numerics.random import seed_of
from labelfable.votes.device_maps import DeviceMaps
from labelfable.votes.features import LARGEST, Features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.models.fable.estimator import FABLE
    from labelfable.models.fable.factors import GlobalFactors
    from labelfable.models.fable.steps import FableSweeps
    from labelfable.numerics.namespace import Array
    from labelfable.votes.table import VoteTable

SEEN_ITEMS = 2**18  # of features on a device, from which their scale and inducing points are taken
PROJECTED_ROWS = 2**16  # at once: what is made of them is in double
TWO_AXES = 2


def device_for(model: FABLE, features: Any) -> Any:
    """Where the sweeps of a model are to run: None for NumPy."""
    if model.device is None and not _is_elsewhere(features):
        return None
    if model.engine is not None or model.inference == "published":
        setting = "engine=" if model.engine is not None else "inference='published'"
        raise ModelError(f"{setting} runs on the CPU", hint="Leave device= out, and give features as NumPy arrays")
    return str(_tensor(features).device) if model.device is None else model.device


def engine_on(model: FABLE, features: Any) -> DeviceEngine:
    """The engine of that device."""
    return DeviceEngine(device_for(model, features), model.device_memory, model.precision)


def engine_for_files(model: FABLE, dtype: Any) -> DeviceEngine | None:
    """The engine for shards that are read from files, their columns made on the host; None without a device."""
    if device_for(model, None) is None:
        return None
    import torch

    engine = engine_on(model, None)
    engine.dtype = torch.float32 if dtype == np.float32 else torch.float64
    return engine


def class_shares(sweeps: FableSweeps, global_: GlobalFactors, shard: FableShard) -> Array:
    """Responsibilities with the globals held, summed over subtypes.  [n, K].                Equations (A)-(D)"""
    unknown = replace(shard, votes=replace(shard.votes, gold=None))
    items, _ = sweeps.item_factors(unknown, global_)
    return sweeps.reading.class_sum(items.responsibilities)


def probabilities_on(
    model: FABLE, table: VoteTable, features: Any, held: tuple[DeviceEngine, Any] | None = None
) -> NDArray[np.floating]:
    """`FABLE._probabilities` of these items on a device, where their shards may be held already."""
    rows = model._heard(table)  # noqa: SLF001 (one model in two files)
    if held is None:
        engine = engine_on(model, features)
        known = features_on(features, model.projection_, table.n_items, engine.device)
        held = engine, DeviceItems(rows, known, None, model.projection_, engine.device).shards(None)
    engine, shards = held
    layout = rows.layout.single
    global_ = replace(model.globals_, packed_votes=layout.pack(model.globals_.votes.logs))
    call = partial(class_shares, replace(model.sweeps_, layout=layout), global_)
    answer, first = np.empty((table.n_items, table.n_classes)), 0
    for part in engine.map(call, shards):
        answer[first : first + len(part)] = part
        first += len(part)
    return answer


def _is_elsewhere(features: Any) -> bool:
    """Whether features lie on an accelerator already."""
    return is_cupy_array(features) or (is_torch_array(features) and features.device.type != "cpu")


def _tensor(features: Any) -> Any:
    """A tensor of PyTorch that shares the memory of an array on an accelerator."""
    import torch

    found = torch.from_dlpack(features) if is_cupy_array(features) else features.detach()
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != TWO_AXES or not (found.is_floating_point() or found.dtype in {torch.int8, torch.uint8}):
        raise InputError(
            f"features on a device have shape {tuple(found.shape)} and {found.dtype}",
            hint="Give a matrix of floating-point numbers, items × features",
        )
    return found if found.dtype in {torch.float32, torch.float64} else found.float()


@dataclass(frozen=True, eq=False)
class DeviceFeatures:
    """Features that lie on an accelerator."""

    numbers: Any
    """[n, d]"""

    @property
    def dtype(self) -> Any:
        """Of the numbers."""
        return self.numbers.dtype

    @property
    def n_items(self) -> int:
        """Number of rows."""
        return int(self.numbers.shape[0])

    @cached_property
    def missing(self) -> Any:
        """Items with a number missing, [n]; an error where a number is infinite."""
        absent = self.numbers.isnan().any(dim=1)
        limit = min(LARGEST, float(np.finfo(str(self.dtype).rsplit(".", maxsplit=1)[-1]).max))
        if bool((self.numbers.abs() > limit).any()):
            raise InputError(
                "a feature is infinite or too large to be squared", hint="Clip it, or mark the item with NaN"
            )
        return absent

    def some(self, rows: NDArray[np.integer] | None) -> NDArray[np.floating]:
        """Rows on the host."""
        return np.asarray((self.numbers if rows is None else self.numbers[rows]).cpu().numpy())

    def block(self, rows: slice | NDArray[np.integer]) -> tuple[Any, Any]:
        """Numbers of some rows, and which are missing."""
        return self.numbers[rows], self.missing[rows]


@dataclass(frozen=True, eq=False)
class HostFeatures:
    """Features in memory of the host."""

    features: Features
    place: Any

    @property
    def dtype(self) -> Any:
        """Of the numbers."""
        import torch

        return torch.float32 if self.features.dtype == np.float32 else torch.float64

    @property
    def n_items(self) -> int:
        """Number of rows."""
        return self.features.n_items

    def some(self, rows: NDArray[np.integer] | None) -> Features:
        """Rows on the host."""
        return self.features if rows is None else self.features.take(rows)

    def block(self, rows: slice | NDArray[np.integer]) -> tuple[Any, Any]:
        """Numbers of some rows on the device, and which are missing."""
        import torch

        numbers = self.features.numbers[rows]
        numbers = numbers.toarray() if sp.issparse(numbers) else numbers
        return torch.tensor(numbers, device=self.place), torch.tensor(self.features.missing[rows], device=self.place)


def features_on(features: Any, projection: Projection, n_items: int, place: Any) -> DeviceFeatures | HostFeatures:
    """Features of items, wherever they lie."""
    if not _is_elsewhere(features):
        return HostFeatures(projection.read(features_or_none(features, n_items), n_items), place)
    found = DeviceFeatures(_tensor(features).to(place))
    if found.n_items != n_items or found.numbers.shape[1] != projection.scaling.n_columns:
        raise InputError(
            f"features have shape {tuple(found.numbers.shape)}",
            hint=f"Expected {n_items} items × {projection.scaling.n_columns} features",
        )
    if projection.missing == "error" and bool(found.missing.any()):
        raise InputError(
            f"{int(found.missing.sum())} of {n_items} items have no features or only some of them",
            hint="Fill them in, or set missing='ignore': votes alone then decide such items",
        )
    return found


def seen_features(features: Any, seed: int, *, whole: bool) -> Any:
    """What a projection is chosen from: the features themselves, or a sample of those that lie on a device."""
    if not _is_elsewhere(features):
        return features
    known = DeviceFeatures(_tensor(features))
    if whole or known.n_items <= SEEN_ITEMS:
        return known.some(None)
    return known.some(np.sort(np.random.default_rng([seed, 7]).choice(known.n_items, SEEN_ITEMS, replace=False)))


@dataclass(frozen=True, eq=False)
class DeviceItems:
    """Where shards on a device are made from: votes on the host, and features wherever they lie."""

    rows: VoteTable
    """As the emission hears them."""
    features: DeviceFeatures | HostFeatures
    chosen: NDArray[np.integer] | None
    """Numbers of the items among the features; None for all."""
    projection: Projection
    place: Any

    def load(self, start: int, stop: int, gold: NDArray[np.integer] | None) -> FableShard:
        """The shard of the items [start, stop)."""
        stop = min(stop, self.rows.n_items)
        maps = DeviceMaps.of(self.rows.maps(start, stop), self.place, self.features.dtype)
        shard: Any = Shard(start, maps, np.broadcast_to(1.0, stop - start), gold)  # type: ignore[arg-type]  # maps of the device
        return FableShard(shard, self.projected(start, stop))

    def projected(self, start: int, stop: int) -> Projected:
        """φ and d of those items."""
        import torch

        phi = torch.zeros((stop - start, self.projection.n_columns), dtype=self.features.dtype, device=self.place)
        residual = torch.zeros(stop - start, dtype=self.features.dtype, device=self.place)
        for first in range(start, stop, PROJECTED_ROWS):
            last = min(first + PROJECTED_ROWS, stop)
            rows: Any = slice(first, last) if self.chosen is None else self.chosen[first:last]
            found = project_rows(self.projection, *self.features.block(rows))
            phi[first - start : last - start] = found.phi
            residual[first - start : last - start] = found.residual
        return Projected(phi, residual)

    def sample(self, some: NDArray[np.integer]) -> Projected:
        """φ and d of some of the items, by the host."""
        numbers = some if self.chosen is None else self.chosen[some]
        return self.projection.project(self.features.some(numbers))

    def shards(self, gold: NDArray[np.integer] | None) -> list[Any]:
        """All items."""
        return list(cut_stored(self, self.rows.n_items, gold, shard_rows(self.projection.n_columns)))


def project_rows(projection: Projection, block: Array, missing: Array) -> Projected:
    """φ and d of some items, in double.  Shapes: [n, d], [n].                             Equation (GP.5)"""
    xp, place = array_namespace(block), device(block)

    def there(values: Any) -> Array:
        return xp.asarray(np.asarray(values, dtype=np.float64), device=place)

    kernel = projection.kernel
    scaled = _scaled(projection, xp.astype(block, xp.float64), there)
    if projection.points is None:
        columns = scaled * there(np.sqrt(kernel.variance) / np.asarray(kernel.lengthscale))
        columns = columns if projection.weights is None else columns @ there(projection.weights)
        residual = xp.zeros_like(columns[:, :1])[:, 0] if columns.shape[1] else xp.zeros_like(missing, dtype=xp.float64)
        alone = 0.0
    else:
        origin, points = kernel.origin(projection.points), projection.points
        embedded = scaled if origin is None else scaled - there(origin)
        embedded = embedded * there(1 / np.asarray(kernel.lengthscale))
        anchors = there(kernel.embed(points, origin))
        sizes = squares(embedded)
        values = kernel.from_products(embedded @ anchors.T, sizes, squares(anchors))
        columns = values @ there(projection.weights)
        residual = xp.clip(kernel.diagonal_from_squares(sizes) - xp.vecdot(columns, columns), 0.0, None)
        alone = kernel.variance
    constant = xp.zeros_like(missing, dtype=xp.float64)[:, None] + np.sqrt(projection.constant)
    columns = xp.where(missing[:, None], xp.zeros_like(columns), columns)
    parts = (columns, constant) if projection.constant > 0 else (columns,)
    return Projected(xp.concat(parts, axis=1), xp.where(missing, xp.full_like(residual, alone), residual))


def _scaled(projection: Projection, values: Array, there: Any) -> Array:
    """Scaled rows, as `Scaling.rows` has them.  [n, d] -> [n, d or r]."""
    xp, scaling = array_namespace(values), projection.scaling
    if scaling.kind == "normalise":
        lengths = xp.sqrt(squares(values))[:, None]
        return xp.where(lengths > 0, values / xp.where(lengths > 0, lengths, xp.ones_like(lengths)), 0 * values)
    if scaling.mean is None:
        return values
    values = (values - there(scaling.mean)) * there(scaling.factor)
    return values if scaling.rotation is None else values @ there(scaling.rotation)


def fit_on_device(
    model: FABLE, table: VoteTable, gold: NDArray[np.integer] | None, features: Any
) -> tuple[Course, Answer]:
    """The fit of `FABLE._fit_table`, on an accelerator."""
    engine, seed = engine_on(model, features), seed_of(model.random_state)
    notes = [] if features is not None else ["no features were given: the votes alone decide"]
    whole = model.kernel != "linear" and model.method != "inducing"
    seen = features_or_none(seen_features(features, seed, whole=whole), table.n_items)
    model.projection_ = model._build_projection(seen, seed)  # noqa: SLF001 (one model in two files)
    if not (model._is_learned() or model.projection_.n_kernel_columns):  # noqa: SLF001 (as above)
        model._hold_constants()  # noqa: SLF001 (as above)
    known_features = features_on(features, model.projection_, table.n_items, engine.device)
    if model.learn:
        notes.append(model._learn(table, gold, known_features, seed))  # noqa: SLF001 (as above)
    chosen = model._fitted_items(table, gold)  # noqa: SLF001 (as above)
    is_all = len(chosen) == table.n_items
    rows, known = (table, gold) if is_all else (table.rows(chosen), None if gold is None else gold[chosen])
    heard = model._heard(rows)  # noqa: SLF001 (as above)
    items = DeviceItems(heard, known_features, None if is_all else chosen, model.projection_, engine.device)
    sample = sampled(rows.n_items, model.projection_.n_columns, seed)
    some = np.arange(rows.n_items) if sample is None else sample
    scene = rows.rows(some), None if known is None else known[some], items.sample(some)
    starts = (
        Start(
            replace(sweeps_for(model, heard, known, n_subtypes), copies=rows.n_items / len(some)),
            cut_items(model._heard(scene[0]), *scene[1:], start),  # noqa: SLF001 (as above)
        )
        for n_subtypes, start in subtype_starts(*scene[:2], scene[2].phi, (model.n_subtypes, model.n_init, seed))
    )
    shards = None if sample is None else engine.hold(items.shards(known))
    keep = keeper_of(model, rows, known, scene[2].phi)
    best = climb_best(starts, engine, Stopping(model.tol, model.max_iter, rows.n_items), shards, keep)
    model._keep_alone(best, rows.n_items, notes, "a device fits once")  # noqa: SLF001 (as above)
    model.sweeps_ = replace(best.sweeps, layout=heard.layout)
    model.globals_ = replace(best.factors, packed_votes=heard.layout.pack(best.factors.votes.logs))
    held = (engine, shards) if is_all and shards is not None else None
    probabilities = probabilities_on(model, table, features, held)
    if model._is_learned():  # noqa: SLF001 (as above)
        model.class_prior_ = probabilities[chosen].mean(axis=0)
    answer = Answer.of(table, np.ones(table.n_items), gold, probabilities, model.n_jobs)
    return Course(best.fit.history, best.fit.converged, notes), answer


def sweeps_for(
    model: FABLE, rows: VoteTable, gold: NDArray[np.integer] | None, n_subtypes: int, *, there: bool = True
) -> FableSweeps:
    """The sweep model for these votes; on a device their maps have a column a (source, label)."""
    sweeps = model._sweeps(rows, gold, n_subtypes)  # noqa: SLF001 (one model in two files)
    return replace(sweeps, layout=sweeps.layout.single) if there else sweeps
