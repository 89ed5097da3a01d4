"""Shards on an accelerator, by PyTorch.

The local step runs where its arrays are.  Once a sweep the model and its globals are sent there, and what is sent back
is the sum of all statistics, in one piece: between the two nothing waits for the host.  The globals' own updates stay
on the host, in double.

Shards that are more than the device may hold wait in pinned memory of the host.  Each sweep copies them one after
another on a stream of its own, while the one before is at work.
"""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.errors import MissingExtraError, ModelError
from labelfable.inference.execution import S, add_in_order
from labelfable.inference.shards import loaded
from labelfable.votes.device_maps import DeviceMaps
from labelfable.votes.maps import VoteMaps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HELD_SHARE = 0.5  # of the memory that is allowed, for shards that stay; the rest is for those at work or on their way
FREE_SHARE = 0.9  # of the memory that is free, where nothing is said
AHEAD = 1  # shards that are on their way while one is at work
MOST_ROWS, FEWEST_ROWS = 2**20, 2**14
SHARD_ENTRIES = 5 * 2**26  # of a shard's columns: a million items × 256 and a constant, so that starting costs little
UNITS = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
PRECISIONS = ("fp32", "tf32")


def torch_device(name: Any) -> Any:
    """A device that PyTorch can use."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(
            "device= needs PyTorch, which is not installed",
            hint="Install the build of PyTorch that suits your GPU, or leave device out",
        ) from error
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"device={name!r} is no device", hint="Give 'cuda', 'cuda:1' or 'cpu'") from error
    if device.type not in {"cpu", "cuda"}:
        raise ModelError(f"device={name!r} is not supported", hint="It is 'cuda', 'cuda:1' and so on, or 'cpu'")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            "there is no GPU that PyTorch can use", where=f"device={name!r}", hint="Leave device out to use the CPU"
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ModelError(f"there are {torch.cuda.device_count()} GPUs", where=f"device={name!r}")
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def bytes_allowed(given: Any, device: Any) -> float:
    """Bytes of a device that a fit may use, from a number, "16GB", or None for what is free."""
    if given is None:
        import torch

        return float("inf") if device.type == "cpu" else FREE_SHARE * torch.cuda.mem_get_info(device)[0]
    text = str(given).strip().lower()
    digits = text.rstrip("kmgtb ")
    try:
        found = float(digits) * UNITS[text[len(digits) :].strip()]
    except (ValueError, KeyError):
        found = 0.0
    if not 0 < found < float("inf"):
        raise ModelError(f"device_memory={given!r} is no amount of memory", hint="Give bytes, or '16GB'")
    return found


def shard_rows(n_columns: int) -> int:
    """Rows of a shard on a device: it depends on the model's shape alone, so that sums come out the same each time."""
    rows = MOST_ROWS
    while rows > FEWEST_ROWS and rows * n_columns > SHARD_ENTRIES:
        rows //= 2
    return rows


class DeviceEngine:
    """One shard after another on one device."""

    def __init__(self, device: Any, memory: Any = None, precision: str = "fp32") -> None:
        self.device = torch_device(device)
        self.memory = bytes_allowed(memory, self.device)
        self.precision = precision
        self.dtype: Any = None
        """Of what votes on the host say of items once they are moved; None for that of the globals."""
        self._sent: dict[int, tuple[Any, Any]] = {}

    def map(self, function: Callable[[Any], Any], work: Sequence[Any]) -> Iterator[Any]:
        """Answers in order, on the host."""
        with self._at_work():
            call = self._send(function)
        pieces = self._arriving(work) if isinstance(work, HeldShards) else map(self._read, work)
        for _ in work:
            with self._at_work():
                answer = self.to_host(call(next(pieces)))
            yield answer

    def hold(self, shards: Sequence[Any]) -> HeldShards:
        """Shards on the device as far as they fit, the others in the host's pinned memory."""
        if isinstance(shards, HeldShards):
            return shards
        held = HeldShards()
        left = HELD_SHARE * self.memory
        for shard in shards:
            with self._at_work():
                piece = self._read(shard)
            size = bytes_of(piece)
            self._check_room(size)
            if size <= left and not (held and isinstance(held[-1], _Waiting)):
                left -= size
                held.append(piece)
            else:
                held.append(_Waiting(moved(piece, self._pinned)))
        self._synchronise()
        return held

    def total(
        self, function: Callable[[Any, Any], tuple[Any, S]], held: Sequence[Any], locals_: Sequence[Any]
    ) -> tuple[list[Any], S]:
        """Item factors, and the sum of all statistics, on the host."""
        kept: list[Any] = []

        def statistics() -> Iterator[S]:
            for shard, local in zip(self._arriving(held), locals_, strict=True):
                own, found = call(shard, local)
                kept.append(own)
                yield found

        with self._at_work():
            call = self._send(function)
            found = add_in_order(statistics())
        return kept, self.to_host(found)

    def _read(self, shard: Any) -> Any:
        return self.to_device(loaded(shard))

    def to_device(self, value: Any) -> Any:
        """The same with every array on the device; a copy only where it is not there yet."""
        import torch

        def move(array: Any) -> Any:
            if isinstance(array, VoteMaps):
                return DeviceMaps.of(array, self.device, self.dtype)
            if isinstance(array, np.ndarray):
                return torch.tensor(np.ascontiguousarray(array).reshape(array.shape), device=self.device)
            return array.to(self.device, non_blocking=True)

        return moved(value, move)

    def to_host(self, value: Any) -> Any:
        """The same with every tensor as an array of NumPy and numbers as such, by one copy for each type of numbers.

        What was sent comes back as it was.
        """
        import torch

        known = {id(there): here for here, there in self._sent.values()}
        tensors = [one for one in tensors_in(value) if id(one) not in known]
        for dtype in {one.dtype for one in tensors}:
            own = [one for one in tensors if one.dtype == dtype]
            flat = torch.cat([one.reshape(-1) for one in own]).cpu().numpy()
            parts = np.split(flat, np.cumsum([one.numel() for one in own])[:-1])
            known |= {id(one): part.reshape(tuple(one.shape)) for one, part in zip(own, parts, strict=True)}

        def fetch(one: Any) -> Any:
            found = known.get(id(one), one)
            return found if np.ndim(found) else float(found)

        return moved(value, fetch)

    def _send(self, function: Any) -> Any:
        """A function with its model and globals on the device.  What was there already is not sent again."""
        before, self._sent = self._sent, {}

        def send(array: Any) -> Any:
            if not isinstance(array, np.ndarray):
                return self.to_device(array)
            pair = before.get(id(array)) or self._sent.get(id(array)) or (array, self.to_device(array))
            self._sent[id(array)] = pair
            return pair[1]

        return moved(function, send)

    def _arriving(self, held: Sequence[Any]) -> Iterator[Any]:
        """Shards in order, each on the device when it is its turn."""
        coming: deque[Any] = deque()
        done: deque[Any] = deque()
        copies = _Copies(self)
        for number in range(len(held)):
            while len(coming) <= AHEAD and number + len(coming) < len(held):
                coming.append(copies.start(held[number + len(coming)]))
            yield copies.finish(coming.popleft())
            done.append(copies.mark())
            if len(done) > AHEAD:  # memory of a shard that is done is free for the next
                copies.wait(done.popleft())

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """PyTorch's state while it works for us, as it was before afterwards."""
        import torch

        matmul = torch.backends.cuda.matmul
        before, matmul.allow_tf32 = matmul.allow_tf32, self.precision == "tf32"
        try:
            with torch.no_grad(), self.device:
                yield
        finally:
            matmul.allow_tf32 = before

    def _pinned(self, tensor: Any) -> Any:
        import torch

        is_gpu = self.device.type == "cuda"
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=is_gpu).copy_(tensor)

    def _check_room(self, size: int) -> None:
        if size * (AHEAD + 2) > self.memory:
            raise ModelError(
                f"device_memory={self.memory / 1e6:,.0f} MB is too little for shards of {size / 1e6:,.0f} MB",
                hint=f"Allow {size * (AHEAD + 2) / 1e6:,.0f} MB, or reduce the features (max_components, n_inducing)",
            )

    def _synchronise(self) -> None:
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


class HeldShards(list[Any]):
    """Shards that an engine holds."""


@dataclass(frozen=True)
class _Waiting:
    """A shard in memory of the host."""

    shard: Any


class _Copies:
    """Copies to a GPU on a stream beside that of the work; on a CPU there is nothing to overlap."""

    def __init__(self, engine: DeviceEngine) -> None:
        import torch

        self.engine = engine
        self.cuda = torch.cuda if engine.device.type == "cuda" else None
        self.stream: Any = None if self.cuda is None else self.cuda.Stream(engine.device)

    def start(self, shard: Any) -> tuple[Any, Any]:
        """A shard on its way, and what says that it has arrived."""
        if not isinstance(shard, _Waiting):
            return shard, None
        if self.cuda is None:
            return shard.shard, None
        with self.cuda.stream(self.stream):
            piece = self.engine.to_device(shard.shard)
        return piece, self.stream.record_event()

    def finish(self, coming: tuple[Any, Any]) -> Any:
        """The shard, for work that begins when it has arrived."""
        piece, arrived = coming
        if arrived is not None and self.cuda is not None:
            work = self.cuda.current_stream(self.engine.device)
            work.wait_event(arrived)
            for tensor in tensors_in(piece):
                tensor.record_stream(work)
        return piece

    def mark(self) -> Any:
        """What says that the work so far is done."""
        return None if self.cuda is None else self.cuda.current_stream(self.engine.device).record_event()

    def wait(self, event: Any) -> None:
        """Until it is."""
        if event is not None:
            event.synchronize()


def moved(value: Any, move: Callable[[Any], Any]) -> Any:
    """The same data with `move` applied to every array, tensor and pair of vote maps inside."""
    if isinstance(value, (np.ndarray, VoteMaps)) or _is_tensor(value):
        return move(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: getattr(value, part.name) for part in fields(value)}
        changed = {name: moved(part, move) for name, part in parts.items()}
        return value if all(changed[name] is parts[name] for name in parts) else replace(value, **changed)
    if isinstance(value, partial):
        return partial(moved(value.func, move), *(moved(part, move) for part in value.args))
    if isinstance(value, dict):
        return {name: moved(part, move) for name, part in value.items()}
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(moved(part, move) for part in value)
    return value


def tensors_in(value: Any) -> list[Any]:
    """All tensors inside, each once."""
    found: dict[int, Any] = {}

    def look(one: Any) -> Any:
        if _is_tensor(one):
            found[id(one)] = one
        return one

    moved(value, look)
    return list(found.values())


def bytes_of(value: Any) -> int:
    """Memory of all tensors inside, and of the dense Ψ that are made of votes."""
    return sum(int(one.numel() * one.element_size()) for one in tensors_in(value)) + _made_bytes(value)


def _made_bytes(value: Any) -> int:
    if isinstance(value, DeviceMaps):
        return int(value.made_bytes)
    if is_dataclass(value) and not isinstance(value, type):
        return sum(_made_bytes(getattr(value, part.name)) for part in fields(value))
    return 0


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "record_stream")
