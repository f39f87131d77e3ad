"""What a session knows of itself, as typed values. Sizes are bytes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from stweaver import metrics

GIB = 1 << 30


def _share(part: int, whole: int) -> float:
    """Divide; of nothing everything."""
    return part / whole if whole > 0 else 1.0


@dataclass(frozen=True)
class Served:
    """Requests, by what became of them."""

    planned: int  # hits at the place that the plan has for them
    reused: int  # other hits, in space that the plan leaves idle
    hits: int
    misses: int  # served by no plan: elsewhere in the arena, or by PyTorch's own allocator
    missed: Mapping[str, int]  # misses by reason

    @property
    def share(self) -> float:
        """Hits of all requests, 0 to 1."""
        return _share(self.hits, self.hits + self.misses)


@dataclass(frozen=True)
class Peaks:
    """The most at one time."""

    requested: int  # what the job asked for, before any rounding
    reserved: int  # what was taken from the device: arena and PyTorch's own reserve
    fallback_reserved: int  # the latter alone

    @property
    def efficiency(self) -> float:
        """Peak requested / peak reserved."""
        return _share(self.requested, self.reserved)


@dataclass(frozen=True)
class Step:
    """One step alone."""

    served: Served
    peaks: Peaks
    driver_calls: int  # to map and to unmap memory
    nanoseconds: int  # spent in STWeaver; of calls that need no driver one in 64 is timed


@dataclass(frozen=True)
class ArenaMapping:
    """What the driver did for the arena."""

    maps: int  # calls that put memory behind it
    unmaps: int  # calls that took it away
    idle_waits: int  # of the host for work that used idle memory, before it was taken away
    nanoseconds: int  # that all of them took


@dataclass(frozen=True)
class Simulated:
    """What PyTorch's CUDA allocator alone would have reserved for the job's first steps, as simulated."""

    steps: int
    requested: int  # asked for in them at most
    reserved: int


@dataclass(frozen=True)
class SavedPlan:
    """What became of the plan that a device was to begin with, and of the one for its next run."""

    slots: int = 0  # of the one to begin with; 0 where there is none that can be read
    refused: str = ""  # why it was not followed; empty where it was, or may be yet
    removed: str = ""  # why the session removed it, or the other; empty where it did not
    saved: bool = False  # one for the next run, that is there


@dataclass(frozen=True)
class DeviceStats:
    """One device, since the session first served it."""

    device: int
    stage: str  # "recording", "planning", "waiting", "following", "resting" or "off"
    why_no_plan: str  # empty while one is followed, or made for the first time
    follows_plan: bool
    served: Served
    peaks: Peaks
    step: Step  # the one that runs
    last_step: Step
    requested: int  # now, as all from here on
    reserved: int
    arena: int
    idle: int  # of it, in no use
    waiting: int  # of it, in freed blocks that other streams still use
    fallback_reserved: int
    planned: int  # bytes in use, as asked for: at the places that the plan has for them
    reused: int  # elsewhere in the plan's range
    unplanned: int  # elsewhere in the arena: the recorded steps above all
    fallback: int  # from PyTorch's own allocator
    blocks: int
    steps: int
    plans: int  # adopted
    waits: int  # for another stream
    reclaims: int
    refusals: int  # times the device had no memory for the arena
    ooms: int
    nanoseconds: int  # spent in STWeaver, as in Step
    mapping: ArenaMapping
    saved_plan: SavedPlan = SavedPlan()
    simulated: Simulated | None = None  # where the job's first steps were recorded, on a GPU

    @property
    def saved(self) -> int:
        """Bytes that the last step left to others, of what the job has reserved at its worst."""
        return max(0, self.peaks.reserved - self.last_step.peaks.reserved) if self.follows_plan else 0

    def __str__(self) -> str:
        """Write three lines to read."""
        last = self.last_step
        return (
            f"device {self.device}: {_peaks(self.peaks)}; "
            f"{self.served.hits} requests planned, {self.served.misses} unplanned in {self.steps} steps; "
            f"{'follows a plan' if self.follows_plan else 'no plan'}, {self.stage}"
            f"{': ' + self.why_no_plan if self.why_no_plan else ''}\n"
            f"  last step: {_peaks(last.peaks)}; {last.served.hits} planned, {last.served.misses} unplanned; "
            f"{self.saved / GIB:.2f} GiB saved\n"
            f"  now in use: {self.planned / GIB:.2f} GiB planned, {self.reused / GIB:.2f} GiB reused, "
            f"{self.unplanned / GIB:.2f} GiB unplanned, {self.fallback / GIB:.2f} GiB from PyTorch's own "
            "allocator"
        )


@dataclass(frozen=True)
class Stats:
    """All devices of the process; the properties are their sums."""

    devices: tuple[DeviceStats, ...]
    log: tuple[str, ...]  # the latest transitions, oldest first
    seconds: float = 0.0  # since the session began
    hold: int = 0  # bytes of each device that may be held before memory is moved; 0: hardly more than used

    @property
    def hits(self) -> int:
        """Requests that a plan served."""
        return sum(device.served.hits for device in self.devices)

    @property
    def misses(self) -> int:
        """Requests that no plan served."""
        return sum(device.served.misses for device in self.devices)

    @property
    def reserved(self) -> int:
        """Bytes taken from the devices, now."""
        return sum(device.reserved for device in self.devices)

    @property
    def peak_requested(self) -> int:
        """The most bytes that were asked for at one time, of each device."""
        return sum(device.peaks.requested for device in self.devices)

    @property
    def peak_reserved(self) -> int:
        """The most bytes that were taken at one time, of each device."""
        return sum(device.peaks.reserved for device in self.devices)

    @property
    def efficiency(self) -> float:
        """Peak requested / peak reserved, of the job from its first request on; 1 before that."""
        return _share(self.peak_requested, self.peak_reserved)

    @property
    def saved(self) -> int:
        """Bytes that the last step left to others, of what the job has reserved at its worst."""
        return sum(device.saved for device in self.devices)

    def flat(self, prefix: str = "", names: Collection[str] | None = None) -> dict[str, int | float]:
        """Give numbers by name, for wandb, TensorBoard, MLflow and the like: {prefix + name: number}.

        Args:
            prefix: put before each name, as in "stweaver/".
            names: only these; None: all (docs/python.md lists them).

        Of several devices a name begins with the device: "device0/reserved_bytes".
        """
        return metrics.flat(self.devices, prefix, names)

    def prometheus(self, labels: Mapping[str, object] | None = None) -> str:
        """Write the same numbers in Prometheus' text format, with a label `device` and `labels` beside it.

        Raises:
            ValueError: a label's name is none.
        """
        return metrics.prometheus(self.devices, labels or {})

    def __str__(self) -> str:
        """Write a few lines to read."""
        return "\n".join(map(str, self.devices)) or "nothing has been allocated yet"


def _peaks(peaks: Peaks) -> str:
    return (
        f"{peaks.requested / GIB:.2f} GiB requested, {peaks.reserved / GIB:.2f} GiB reserved "
        f"({100 * peaks.efficiency:.2f} %)"
    )


def parse(document: Mapping[str, Any], seconds: float = 0.0) -> Stats:
    """Read what stweaver_statistics() (torch/control.h) answers, `seconds` after the session began."""
    devices = tuple(_device(device) for device in document.get("devices", []))
    return Stats(devices, tuple(document.get("log", [])), seconds)


def _device(fields: Mapping[str, Any]) -> DeviceStats:
    plain = {name: value for name, value in fields.items() if type(value) in (int, str)}
    return DeviceStats(
        **_known(DeviceStats, plain)
        | {
            "follows_plan": bool(fields["follows_plan"]),
            "served": _served(fields["served"]),
            "peaks": _peaks_of(fields["peaks"]),
            "step": _step(fields["step"]),
            "last_step": _step(fields["last_step"]),
            "mapping": ArenaMapping(**_known(ArenaMapping, fields["mapping"])),
            "saved_plan": _saved_plan(fields.get("saved_plan", {})),
            "simulated": parse_simulated(fields.get("simulated")),
        }
    )


def _saved_plan(fields: Mapping[str, Any]) -> SavedPlan:
    return SavedPlan(**_known(SavedPlan, fields) | {"saved": bool(fields.get("saved"))})


def parse_simulated(fields: Mapping[str, Any] | None) -> Simulated | None:
    """Read what asdict() or the library made of it; None for None."""
    return None if fields is None else Simulated(**_known(Simulated, fields))


def _step(fields: Mapping[str, Any]) -> Step:
    return Step(
        _served(fields["served"]), _peaks_of(fields["peaks"]), fields["driver_calls"], fields["nanoseconds"]
    )


def _served(fields: Mapping[str, Any]) -> Served:
    return Served(**_known(Served, fields))


def _peaks_of(fields: Mapping[str, Any]) -> Peaks:
    return Peaks(**_known(Peaks, fields))


def _known(kind: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the fields that a dataclass has: the library may know more."""
    return {name: value for name, value in fields.items() if name in kind.__annotations__}
