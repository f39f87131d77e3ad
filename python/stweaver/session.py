"""Switching STWeaver on and off in this process."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stweaver import adapter, at_exit, console, layout, pluggable, pytorch, statistics, variables
from stweaver import hold as hold_of
from stweaver import summary as summary_of
from stweaver.error import Error
from stweaver.library import Adapter, Library
from stweaver.steps import StepWatch
from stweaver.version import __version__

PathLike = str | os.PathLike[str]
WAYS = ("wrapper", "pluggable")
_FORKED = "STWeaver was enabled before this process was forked; start it by spawn to enable it here"


@dataclass(frozen=True)
class Running:
    """A session of this process; `watch` is None when it has ended."""

    adapter: Adapter
    kind: str
    way: str
    watch: StepWatch | None
    options: Mapping[str, str]  # as of control.h
    began: float = field(default_factory=time.monotonic)

    @property
    def library(self) -> Library:
        """The core."""
        return self.adapter.library

    @property
    def hold(self) -> int:
        """Bytes; 0: no more than is used, and a little."""
        return int(self.options.get("hold", 0))


_latest: Running | None = None  # a process has one allocator, so one of these
_is_forked = False  # while STWeaver was enabled
_of_run: Mapping[str, PathLike] = {}  # what `stweaver run` names: for each call that names no other


def enable(
    device: str | None = None,
    way: str | None = None,
    plan: PathLike | None = None,
    save: PathLike | None = None,
    trace: PathLike | None = None,
    record_steps: int | None = None,
    hold: float | None = None,
    verbose: bool | None = None,
    summary: bool = False,
) -> None:
    """Record a few steps of the job, plan them in the background, and follow the plan.

    Steps are seen through the optimizers of PyTorch. Does nothing when enabled already, unless record() did
    that or an argument asks for something: then the session begins anew with these arguments, or goes on
    where only `hold` and `verbose` are others. Under `stweaver run` paths that are not among them stay those
    of the run.

    Args:
        device: "cuda" or "cpu"; None: $STWEAVER_DEVICE, else "cuda" where PyTorch sees a GPU.
        way: "wrapper", built on this machine when first used, or "pluggable", which needs no building, but
            must come before CUDA is used and stays to the end; None: $STWEAVER_WAY, else "wrapper".
        plan: follow this plan from the first request on.
        save: keep a plan for the whole job here, for its next run.
        trace: record the job's first steps into this file.
        record_steps: whole steps to record before planning; None: 2.
        hold: GiB of a device's memory that may be held before any is moved to where it is needed: less time
            where steps differ, for more memory. None: $STWEAVER_HOLD, else what is used, and a little.
        verbose: a line on standard error for each transition; None: $STWEAVER_VERBOSE is 1.
        summary: a line at exit for each device, on standard error. `stweaver run` writes it anyway.

    In paths "{device}" stands for the device's number. Where a process sees several devices and a path to
    write has no "{device}", it is put before the suffix: job.trace becomes job-device0.trace.

    Raises:
        Error: something is missing or does not fit; one line says what, and what to do. The job can go on,
            and so does a session that runs.
    """
    at_exit.register(end)  # behind the summary, which is of a session that runs
    if summary and variables.RUN.value != "1":
        at_exit.register(_write_summary)
    paths = {"plan": plan, "save": save, "trace": trace}
    only_records = is_enabled() and options().get("follow") == "0"
    begins_anew = only_records or record_steps is not None or any(path is not None for path in paths.values())
    changes = begins_anew or any(argument is not None for argument in (device, way, hold, verbose))
    kind = pytorch.device_kind(device or variables.DEVICE.value)  # under `stweaver run` this may enable
    if is_enabled() and not changes:
        return
    if begins_anew or not is_enabled():
        _keep_recording_of_run()
    paths = {name: _of_run.get(name) if path is None else path for name, path in paths.items()}
    _start(kind, way or variables.WAY.value or "wrapper", _options(kind, paths, record_steps, hold, verbose))


def enable_for_run(paths: Mapping[str, PathLike]) -> None:
    """Enable with these paths, by the names of enable()'s arguments; they also hold where the job enables."""
    global _of_run
    _of_run = paths
    enable()


def _keep_recording_of_run() -> None:
    """Let the session that is about to begin record beside the one that has recorded the first steps."""
    global _of_run
    if _latest is None or "trace" not in _of_run or not stats().devices:
        return
    first = Path(_of_run["trace"])
    _of_run = {**_of_run, "trace": first.with_name(f"{first.stem}-again{first.suffix}")}


def disable() -> None:
    """Plan, follow and record no more: PyTorch's own allocator serves again. Tensors stay where they are.

    Raises:
        Error: the allocator cannot be taken out, as when another one was put before it.
    """
    if _latest is None:
        return
    adapter = _latest.adapter
    _end(Library.stop)
    adapter.remove()  # also where a session could not start and left it idle


def record(path: PathLike, device: str | None = None) -> None:
    """Only record the job into `path`, until enable(), disable() or its end; raises what enable() does."""
    at_exit.register(end)
    kind = pytorch.device_kind(device or variables.DEVICE.value)
    options = _options(kind, {"plan": None, "save": None, "trace": path}, None, None, None)
    recorded = {name: options[name] for name in ("settings", "trace", "verbose") if name in options}
    _start(kind, variables.WAY.value or "wrapper", recorded | {"follow": "0"})


def install(plan: PathLike, device: str | None = None) -> None:
    """Follow the plan in the file `plan` from now on: enable() with that plan."""
    enable(device=device, plan=plan)


def mark_step() -> None:
    """Say that a training step has ended, where no optimizer of PyTorch says it or not the right one does.

    From the first call on optimizers are ignored. Does nothing when not enabled.
    """
    if _latest is not None and _latest.watch is not None:
        _latest.watch.mark()


def is_enabled() -> bool:
    """Whether a session runs in this process."""
    return _latest is not None and _latest.watch is not None


def is_forked() -> bool:
    """Whether this process was forked from one in which STWeaver was enabled: it cannot be here."""
    return _is_forked


def stats() -> statistics.Stats:
    """Tell what was served, from where, and what is reserved; also after disable().

    Raises:
        Error: nothing was enabled in this process.
    """
    if _latest is None:
        raise Error(
            _FORKED if _is_forked else "STWeaver is not enabled in this process; call stweaver.enable() first"
        )
    document = _latest.library.statistics(_latest.adapter.session)
    return replace(statistics.parse(document, time.monotonic() - _latest.began), hold=_latest.hold)


def replaced_by() -> str | None:
    """Name the CUDA allocator that the program has set in STWeaver's place, if any: it serves everything."""
    if _latest is None or (_latest.kind, _latest.way) != ("cuda", "wrapper"):
        return None
    name = str(pytorch.load().cuda.memory.get_allocator_backend())
    return None if name == "native" else name


def report() -> str:
    """Write stats() as a few lines to read, sizes in GiB."""
    return str(stats())


def end() -> None:
    """End the session at the end of the process, and finish its files."""
    _end(Library.finish)


def _end(how: Callable[[Library, int], None]) -> None:
    """End the session; what it put into PyTorch's way stays there."""
    global _latest
    if _latest is None or _latest.watch is None:
        return
    _latest.watch.detach()
    how(_latest.library, _latest.adapter.session)
    _latest = replace(_latest, watch=None)


def options() -> Mapping[str, str]:
    """Those of the session, or of the last one when it has ended, by their names in control.h."""
    return {} if _latest is None else _latest.options


def finish() -> statistics.Stats:
    """End the session with the process, and tell how it went: what it was about, and what was done."""
    before = stats()
    end()
    after = stats()
    done = {device.device: device for device in after.devices}
    devices = (
        replace(
            device,
            simulated=done[device.device].simulated,
            saved_plan=done[device.device].saved_plan,
        )
        for device in before.devices
    )
    return replace(before, devices=tuple(devices), log=after.log)


# ---- underneath ----


def open_library() -> Library:
    """Load the core; Error when it is missing or of another version."""
    library = Library(layout.find_library())
    if library.version != __version__:
        raise Error(
            f"{library.path} is of version {library.version}, this package of {__version__}; build it again"
        )
    return library


def _options(
    kind: str,
    paths: Mapping[str, PathLike | None],
    record_steps: int | None,
    hold: float | None,
    verbose: bool | None,
) -> Mapping[str, str]:
    """Name what is asked for, here or by variables, as control.h does."""
    plan, save, trace = (paths[name] for name in ("plan", "save", "trace"))
    held = variables.HOLD.value if hold is None else hold
    verbose = variables.VERBOSE.value == "1" if verbose is None else verbose
    options = {
        "settings": pytorch.allocator_settings(),
        "plan": None if plan is None else str(_to_read(plan)),
        "save": None if save is None else _to_write(save, kind),
        "trace": None if trace is None else _to_write(trace, kind),
        "record_steps": None if record_steps is None else str(record_steps),
        "hold": None if held is None else str(hold_of.bytes_of(held)),
        "verbose": "1" if verbose else None,
        # Of PyTorch's allocators only the one for CUDA keeps memory that nobody uses.
        "simulate": "1" if kind == "cuda" else None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _start(kind: str, way: str, options: Mapping[str, str]) -> None:
    global _latest
    if _is_forked:
        raise Error(_FORKED)
    if way not in WAYS:
        raise Error(f"way={way!r}: must be one of {', '.join(WAYS)}")
    opened = _open(kind, way)
    opened.library.start(opened.session, options)  # options that it refuses end no session
    before = _latest
    try:
        _give_way_to(opened)
        _latest = Running(opened, kind, way, _put_in_the_way(opened, before), options)
        if before is not None and before.adapter.path == opened.path:
            _latest = replace(_latest, began=before.began)  # it counts on from there
    except Error:
        opened.library.stop(opened.session)
        if before is not None and before.watch is not None:
            _latest = _begun_again(before)
        raise


def _open(kind: str, way: str) -> Adapter:
    library = open_library()
    return (
        pluggable.open_adapter(kind, library) if way == "pluggable" else adapter.open_adapter(kind, library)
    )


def _give_way_to(opened: Adapter) -> None:
    """Let go of what ran until now; what is its own adapter has begun anew already."""
    if _latest is None:
        return
    if _latest.adapter.path != opened.path:
        disable()
    elif _latest.watch is not None:
        _latest.watch.detach()


def _put_in_the_way(opened: Adapter, before: Running | None) -> StepWatch:
    """Begin to serve, and to see steps: by the user's word where the session before has had it."""
    is_marked = before is not None and before.watch is not None and before.watch.is_marked
    watch = StepWatch(
        lambda: opened.library.begin_step(opened.session),
        lambda: opened.library.restart(opened.session),
        is_marked=is_marked,
    )
    opened.install()
    watch.attach()
    return watch


def _begun_again(session: Running) -> Running:
    """Return the session with its options, from their beginning; ended if even that cannot be any more."""
    try:
        session.library.start(session.adapter.session, session.options)
        return replace(session, watch=_put_in_the_way(session.adapter, session))
    except Error:
        return replace(session, watch=None)


def _write_summary() -> None:
    """In a forked child there is none."""
    if _latest is None:
        return
    for line in summary_of.lines(finish()):
        console.say(line)


def _to_read(path: PathLike) -> Path:
    """Error when there is no such file; one for each device cannot be known yet."""
    path = Path(path).absolute()
    if "{device}" not in path.name and not path.is_file():
        raise Error(f"no such plan: {path}; make one: stweaver plan TRACE -o {path.name}")
    return path


def _to_write(path: PathLike, kind: str) -> str:
    path = Path(path).absolute()
    if not path.parent.is_dir():
        raise Error(f"no such folder: {path.parent}; make it first")
    if "{device}" not in path.name and pytorch.device_count(kind) > 1:
        path = path.with_name(f"{path.stem}-device{{device}}{path.suffix}")
    return str(path)


def _forget() -> None:
    """In a forked child nothing runs: the adapter itself stands aside there, and its threads are gone."""
    global _latest, _is_forked
    _is_forked = _is_forked or _latest is not None
    if _latest is not None and _latest.watch is not None:
        _latest.watch.detach()
    _latest = None


os.register_at_fork(after_in_child=_forget)
