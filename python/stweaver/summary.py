"""What a job is told at its end: one line for each device that it used."""

from collections.abc import Callable, Iterator, Mapping

from stweaver.statistics import GIB, DeviceStats, Simulated, Stats


def fate_of(device: DeviceStats) -> str:
    """Say whether a plan was followed, and if not, or not to the end, why."""
    why = device.why_no_plan
    if device.plans > 0:
        return f"left the plan made on the way: {why}" if why else "followed a plan made on the way"
    if not why and device.steps == 0:  # the optimizer is not PyTorch's, say
        why = "no step was seen; call stweaver.mark_step() at the end of each"
    return f"followed no plan{': ' + why if why else ''}"


def lines(
    stats: Stats,
    fate: Callable[[DeviceStats], str] = fate_of,
    earlier: Mapping[int, Simulated] | None = None,
) -> Iterator[str]:
    """Write a line for each device that was asked for memory.

    Args:
        stats: how it went.
        fate: says what became of the device's plan.
        earlier: by device, what an earlier run of the job has simulated.
    """
    for device in stats.devices:
        if device.served.hits + device.served.misses > 0:
            alone = _alone(device, (earlier or {}).get(device.device))
            parts = (
                _memory(device, stats.hold),
                alone,
                _time(device, stats.seconds),
                _planned(device),
                fate(device),
            )
            yield f"device {device.device}: {'; '.join(filter(None, parts))}"


def _memory(device: DeviceStats, hold: int) -> str:
    peaks, last = device.peaks, device.last_step.peaks
    allowed = f" of {hold / GIB:.2f} GiB to hold" if hold else ""
    late = f"; last step {100 * last.efficiency:.1f} %" if device.steps > 0 else ""
    return (
        f"{peaks.requested / GIB:.2f} GiB asked for, {peaks.reserved / GIB:.2f} GiB reserved{allowed} "
        f"({100 * peaks.efficiency:.1f} %{late})"
    )


def _alone(device: DeviceStats, earlier: Simulated | None) -> str:
    """Say what PyTorch would have reserved, where that is known."""
    known = device.simulated or earlier
    if known is None:
        return ""
    asked = (
        f", with {known.requested / GIB:.2f} GiB asked for"
        if known.requested < 0.99 * device.peaks.requested
        else ""
    )
    return (
        f"PyTorch alone would have reserved {known.reserved / GIB:.2f} GiB in the first {known.steps} steps"
        f"{asked} (simulated{'' if device.simulated else ' in an earlier run'})"
    )


def _time(device: DeviceStats, seconds: float) -> str:
    spent = device.nanoseconds / 1e9
    share = f" ({100 * spent / seconds:.1f} % of the run)" if seconds > 0 else ""
    return f"{spent:.1f} s in STWeaver{share}"


def _planned(device: DeviceStats) -> str:
    requests = device.served.hits + device.served.misses
    return f"{100 * device.served.share:.0f} % of {requests} requests planned"
