"""Statistics for monitors: a flat dictionary, and Prometheus' text format. One table says what there is."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from stweaver.statistics import DeviceStats

Number = int | float


class Metric(NamedTuple):
    """One number of a device. A counter only grows; a gauge does as it likes."""

    name: str
    kind: str  # "gauge" or "counter"
    meaning: str
    read: "Callable[[DeviceStats], Number]"


METRICS = (
    Metric("requested_bytes", "gauge", "asked for in living blocks", lambda d: d.requested),
    Metric("reserved_bytes", "gauge", "taken from the device", lambda d: d.reserved),
    Metric("idle_bytes", "gauge", "of the arena, in no use", lambda d: d.idle),
    Metric("waiting_bytes", "gauge", "in freed blocks that other streams still use", lambda d: d.waiting),
    Metric("arena_bytes", "gauge", "memory behind the arena", lambda d: d.arena),
    Metric(
        "fallback_reserved_bytes", "gauge", "held by PyTorch's own allocator", lambda d: d.fallback_reserved
    ),
    Metric("planned_bytes", "gauge", "asked for, at planned places", lambda d: d.planned),
    Metric("reused_bytes", "gauge", "asked for, elsewhere in the plan's range", lambda d: d.reused),
    Metric("unplanned_bytes", "gauge", "asked for, elsewhere in the arena", lambda d: d.unplanned),
    Metric("fallback_bytes", "gauge", "asked for, from PyTorch's own allocator", lambda d: d.fallback),
    Metric("blocks", "gauge", "living", lambda d: d.blocks),
    Metric(
        "peak_requested_bytes", "gauge", "the most ever asked for at one time", lambda d: d.peaks.requested
    ),
    Metric("peak_reserved_bytes", "gauge", "the most ever taken", lambda d: d.peaks.reserved),
    Metric("efficiency", "gauge", "peak requested / peak reserved, 0 to 1", lambda d: d.peaks.efficiency),
    Metric(
        "step_peak_requested_bytes",
        "gauge",
        "the most asked for in the last step",
        lambda d: d.last_step.peaks.requested,
    ),
    Metric("step_peak_reserved_bytes", "gauge", "the most taken in it", lambda d: d.last_step.peaks.reserved),
    Metric("step_efficiency", "gauge", "the same of the last step", lambda d: d.last_step.peaks.efficiency),
    Metric(
        "step_planned_share",
        "gauge",
        "requests of the last step that a plan served, 0 to 1",
        lambda d: d.last_step.served.share,
    ),
    Metric(
        "step_driver_calls", "gauge", "to map memory in the last step", lambda d: d.last_step.driver_calls
    ),
    Metric(
        "step_seconds", "gauge", "spent in STWeaver in the last step", lambda d: d.last_step.nanoseconds / 1e9
    ),
    Metric("follows_plan", "gauge", "1 while a plan is followed, else 0", lambda d: int(d.follows_plan)),
    Metric("steps", "counter", "begun", lambda d: d.steps),
    Metric("plans", "counter", "adopted", lambda d: d.plans),
    Metric("hits", "counter", "requests that a plan served", lambda d: d.served.hits),
    Metric("misses", "counter", "requests that no plan served", lambda d: d.served.misses),
    Metric("waits", "counter", "of one stream for another", lambda d: d.waits),
    Metric(
        "driver_calls", "counter", "to map and to unmap memory", lambda d: d.mapping.maps + d.mapping.unmaps
    ),
    Metric("reclaims", "counter", "times that idle memory was given to others in need", lambda d: d.reclaims),
    Metric("refusals", "counter", "times that the device had no memory for the arena", lambda d: d.refusals),
    Metric("ooms", "counter", "requests that failed", lambda d: d.ooms),
    Metric("seconds", "counter", "spent in STWeaver", lambda d: d.nanoseconds / 1e9),
)


def flat(
    devices: "Iterable[DeviceStats]", prefix: str = "", names: Collection[str] | None = None
) -> dict[str, Number]:
    """Give each metric a name of one word; that of several devices begins with the device."""
    devices = tuple(devices)
    return {
        f"{prefix}{f'device{device.device}/' if len(devices) > 1 else ''}{metric.name}": metric.read(device)
        for device in devices
        for metric in METRICS
        if names is None or metric.name in names
    }


def prometheus(devices: "Iterable[DeviceStats]", labels: Mapping[str, object]) -> str:
    """Write all metrics in Prometheus' text format, version 0.0.4; ValueError for a label that is no name."""
    for name in labels:
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) or name == "device":
            raise ValueError(f"{name!r} cannot be a label: letters, digits and _, and not 'device'")
    devices = tuple(devices)
    lines = []
    for metric in METRICS:
        name = f"stweaver_{metric.name}{'_total' if metric.kind == 'counter' else ''}"
        lines += [f"# HELP {name} {metric.meaning}", f"# TYPE {name} {metric.kind}"]
        for device in devices:
            all_labels = {"device": device.device, **labels}
            words = ",".join(f'{label}="{_escaped(str(value))}"' for label, value in all_labels.items())
            lines.append(f"{name}{{{words}}} {metric.read(device)}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
