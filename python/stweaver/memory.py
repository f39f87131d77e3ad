"""torch.cuda's memory statistics where PyTorch itself has none: under a pluggable allocator."""

from collections.abc import Mapping
from typing import Any

from stweaver.library import Library

_KINDS = ("all", "small_pool", "large_pool")
# PyTorch's names for what meters() counts.
_COUNTED = {
    "allocation": "blocks",
    "active": "blocks",
    "allocated_bytes": "bytes",
    "active_bytes": "bytes",
    "requested_bytes": "requested",
}
# What an allocator without PyTorch's segments has none of.
_SEGMENTS = ("segment", "inactive_split", "inactive_split_bytes")
_NOTHING = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}


def supply(torch: Any, library: Library, session: int) -> None:  # noqa: ANN401  (a module)
    """Let torch.cuda.memory_stats(), all that is made of it, and its resets ask the session."""
    memory = torch.cuda.memory

    def number(device: object) -> int:
        return int(torch.cuda._utils._get_device_index(device, optional=True))

    def memory_stats_as_nested_dict(device: object = None) -> dict[str, Any]:
        ours = library.statistics(session).get("devices", [])
        events: dict[str, Any] = next((each for each in ours if each["device"] == number(device)), {})
        return as_torch(library.meters(session, number(device)), events)

    def reset_peak_memory_stats(device: object = None) -> None:
        library.reset_peaks(session, number(device))

    def reset_accumulated_memory_stats(device: object = None) -> None:
        library.reset_accumulated(session, number(device))

    for function in (memory_stats_as_nested_dict, reset_peak_memory_stats, reset_accumulated_memory_stats):
        for module in (memory, torch.cuda):
            setattr(module, function.__name__, function)


def as_torch(meters: Mapping[str, Any], events: Mapping[str, Any]) -> dict[str, Any]:
    """Arrange meters() as memory_stats_as_nested_dict() does; `events` are a device's statistics."""
    stats: dict[str, Any] = {
        name: {kind: meters.get(kind, {}).get(counted, _NOTHING) for kind in _KINDS}
        for name, counted in _COUNTED.items()
    }
    stats |= {name: dict.fromkeys(_KINDS, _NOTHING) for name in _SEGMENTS}
    reserved = _NOTHING | dict(meters.get("reserved", {}))
    stats["reserved_bytes"] = {"all": reserved, "small_pool": _NOTHING, "large_pool": reserved}
    return stats | {
        "oversize_allocations": _NOTHING,
        "oversize_segments": _NOTHING,
        "num_alloc_retries": events.get("reclaims", 0),
        "num_ooms": events.get("ooms", 0),
        "num_sync_all_streams": 0,
        "num_device_alloc": 0,
        "num_device_free": 0,
        "max_split_size": -1,
    }
