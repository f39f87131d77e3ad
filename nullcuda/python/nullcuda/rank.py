"""One process as rank r of N: its peers do not exist, and do and hold what this one does and holds.

NULLCUDA_WORLD is N, NULLCUDA_RANK is r. torch.distributed is real but for the store through which ranks find
each other and for gloo, which would look for the peers. What collectives leave in memory the observer says,
so NULLCUDA_VALUES=1 belongs to it.
"""

import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace

import torch.distributed as dist
from torch._C._distributed_c10d import FakeProcessGroup, Store
from torch.distributed import distributed_c10d

rendezvous = importlib.import_module("torch.distributed.rendezvous")  # a function of that name hides it

STORES = ("TCPStore", "FileStore", "HashStore")  # those through which ranks may find each other
LACKING = ("_set_default_timeout", "_set_sequence_number_for_group")  # what gloo can do and the fake cannot
UNKNOWN = b"\1" * 128  # as long as the name of a communicator, which is what NCCL asks for


class PeerlessStore(Store):
    """Holds what this rank has written; absent ones "have written" the same under keys of their own."""

    def __init__(self, world: int) -> None:
        """Of `world` ranks each adds to every counter."""
        super().__init__()
        self._world = world
        self._values: dict[str, bytes] = {}
        self._alike: dict[str, bytes] = {}  # by the key without its numbers
        self._queues: dict[str, list[bytes]] = {}
        self._lock = threading.RLock()

    def set(self, key: str, value: str | bytes) -> None:
        """Write a value."""
        with self._lock:
            self._values[key] = self._alike[_without_numbers(key)] = _bytes(value)

    def get(self, key: str) -> bytes:
        """Return a value, at once: that of a peer is what this rank wrote under the key of its own."""
        with self._lock:
            return self._values.get(key, self._alike.get(_without_numbers(key), UNKNOWN))

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, to which every peer adds as much."""
        with self._lock:
            total = int(self._values.get(key, b"0")) + amount * self._world
            self._values[key] = str(total).encode()
            return total

    def append(self, key: str, value: str | bytes) -> None:
        """Write behind what is there."""
        with self._lock:
            self.set(key, self._values.get(key, b"") + _bytes(value))

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Write a value if the one that is there, or none, is as expected; return what is there then."""
        with self._lock:
            if self._values.get(key, b"") == _bytes(expected):
                self.set(key, desired)
            return self._values.get(key, _bytes(expected))

    def check(self, keys: list[str]) -> bool:
        """Say whether this rank has written them: many a key is a cry for help that nobody utters."""
        with self._lock:
            return all(key in self._values for key in keys)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Return: peers are never late."""

    def delete_key(self, key: str) -> bool:
        """Forget a value."""
        with self._lock:
            return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """Count the values."""
        return len(self._values)

    def list_keys(self) -> list[str]:
        """Name the values."""
        return list(self._values)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """Return several values."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        """Write several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of a queue."""
        with self._lock:
            self._queues.setdefault(key, []).append(_bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:  # noqa: ARG002  # never blocks
        """Take the first value of a queue."""
        with self._lock:
            queue = self._queues.get(key)
            return queue.pop(0) if queue else UNKNOWN

    def queue_len(self, key: str) -> int:
        """Count the values of a queue."""
        return len(self._queues.get(key, []))

    def has_extended_api(self) -> bool:
        """Say that it can do all that stores can."""
        return True

    def set_timeout(self, timeout: timedelta) -> None:
        """Nothing takes time."""

    def clone(self) -> "PeerlessStore":
        """Return the same: there is no connection to have another of."""
        return self


def _without_numbers(key: str) -> str:
    return re.sub(r"\d+", "#", key)


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


# ---- what stands in the place of torch.distributed's own ----


class _StandIn(type):
    """The type of a class that makes objects of another one, and takes them for its own."""

    made: type
    make: Callable[..., object]

    def __call__(cls, *args: object, **named: object) -> object:
        """Make an object."""
        return cls.make(*args, **named)

    def __instancecheck__(cls, instance: object) -> bool:
        """Say whether it could have been made here."""
        return isinstance(instance, cls.made)


def _stand_in(real: type, made: type, make: Callable[..., object]) -> type:
    """Return a class with the name and the attributes of the real one."""
    names = {name: value for name, value in vars(real).items() if not name.startswith("__")}
    return _StandIn(real.__name__, (), {**names, "made": made, "make": staticmethod(make)})


def _make_gloo(_store: object, rank: int, size: int, *_: object, **__: object) -> object:
    """Make a backend for CPU tensors that neither sends nor waits."""
    made: object = getattr(FakeProcessGroup, "_create_internal", FakeProcessGroup)(rank, size)
    return made


def _split_group(
    parent_pg: dist.ProcessGroup | None = None,
    split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
    **_: object,
) -> dist.ProcessGroup | None:
    """Make new groups in the place of parts of one."""
    parent = dist.get_process_group_ranks(parent_pg or dist.group.WORLD)
    mine = None
    for part in split_ranks or []:
        ranks = [parent[rank] for rank in part]
        group = dist.new_group(ranks, timeout, pg_options=pg_options, group_desc=group_desc)
        mine = group if dist.get_rank() in ranks else mine
    return mine


def _do_nothing(*_: object, **__: object) -> None:
    """Take the place of what would ask the peers."""


def _replacements(store: PeerlessStore) -> dict[str, object]:
    """Return what takes the places of names in torch.distributed."""
    found: dict[str, object] = {
        name: _stand_in(getattr(dist, name), PeerlessStore, lambda *_, **__: store)
        for name in STORES
        if hasattr(dist, name)
    }
    if hasattr(dist, "ProcessGroupGloo"):
        found["ProcessGroupGloo"] = _stand_in(dist.ProcessGroupGloo, FakeProcessGroup, _make_gloo)
    # A part of a communicator does not know how many ranks it has: each group gets a communicator of its own.
    found["_get_split_source"] = _do_nothing
    return {**found, "split_group": _split_group, "monitored_barrier": _do_nothing}


def install(rank: int, world: int) -> None:
    """Make this process rank `rank` of `world` for whatever it asks of torch.distributed."""
    store = PeerlessStore(world)

    def meet(_url: str, **_options: object) -> Iterator[tuple[Store, int, int]]:
        yield store, rank, world

    for scheme in ("env", "tcp", "file"):
        rendezvous._rendezvous_handlers[scheme] = meet
    lacking: dict[str, object] = dict.fromkeys(LACKING, _do_nothing)
    if not hasattr(FakeProcessGroup, "options"):  # up to 2.8; they are written and never read
        lacking["options"] = SimpleNamespace()
    for name, stand_in in lacking.items():
        setattr(FakeProcessGroup, name, stand_in)
    modules = [module for name, module in sys.modules.items() if name.startswith("torch.distributed")]
    for name, replacement in _replacements(store).items():
        real = getattr(distributed_c10d, name, getattr(dist, name, None))
        for module in modules:  # some have taken the name over
            if real is not None and vars(module).get(name) is real:
                setattr(module, name, replacement)
