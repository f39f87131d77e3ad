"""What `stweaver run` does in each process of the job that imports torch: sitecustomize calls start()."""

import contextlib
import functools
import hashlib
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stweaver import at_exit, console, job, kept, live, pytorch, session, summary, variables
from stweaver.error import Error
from stweaver.statistics import DeviceStats, Simulated

_PATHS = ("plan", "save", "trace")
_claims: list[socket.socket] = []  # on recordings, to the end of the process


@dataclass(frozen=True)
class Files:
    """The options of a session that name files; whose they are and which folder keeps plans, if any."""

    options: dict[str, Path]
    whose: job.Job | None = None
    folder: Path | None = None

    @property
    def rank(self) -> str | None:
        """What to say with each line."""
        return None if self.whose is None else self.whose.rank

    def of_session(self, options: Mapping[str, str]) -> "Files":
        """Name those of a session: the job itself may have named others."""
        return replace(self, options={name: Path(options[name]) for name in _PATHS if name in options})


def start(process: int, folder: str, there: Sequence[str]) -> None:
    """Enable in this process as the variables say. What goes wrong is one line, and the job goes on.

    `process` is the number of the one that Python was started in, `folder` the folder that it began in,
    `there` are its arguments that named something then.
    """
    if job.is_launcher():
        return
    if job.is_forkserver() and os.getpid() == process:  # it only forks those that work, once this is imported
        os.register_at_fork(after_in_child=functools.partial(_start_below, process, folder, there))
        return
    files = Files({})
    try:
        target = live.Target.parse(variables.LIVE.value) if variables.LIVE.value else None
        files = _find_files(job.Beginning(Path(folder), frozenset(there)))
        session.enable_for_run(files.options)
        at_exit.register(functools.partial(_finish, files))
        if target is not None:
            _tell_how_it_goes(files, target)
    except Exception as error:  # whatever it is, the job must not fail for it
        what = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
        _say(f"not enabled: {what} (the job runs on plain PyTorch)", job.rank())
        with contextlib.suppress(Exception):
            _keep_facts(files, {})


def _start_below(server: int, folder: str, there: Sequence[str]) -> None:
    """Start in what the server forks, and not in what that forks in its turn."""
    if os.getppid() == server:
        start(server, folder, there)


def _tell_how_it_goes(files: Files, target: live.Target) -> None:
    """To `stweaver run --live`, if it is this rank that is shown. A job of one process is rank 0."""
    if files.whose is not None and (files.rank or "0") == str(target.rank):
        teller = live.Teller(target.path, lambda: live.Status.of(session.stats(), files.rank))
        at_exit.register(teller.stop)


def _find_files(began: job.Beginning) -> Files:
    trace = variables.RECORD.path
    if job.is_helper():  # several of them may be at the same point of the same script
        return Files({} if trace is None else {"trace": _with_process(trace)})
    this = job.describe(pytorch.find().version, pytorch.device_kind(variables.DEVICE.value), began=began)
    options = {} if trace is None else {"trace": _claimed(this.trace_path(trace))}
    if variables.PLANS.path and job.is_program():
        folder = variables.PLANS.path.absolute()
        try:
            return Files(options, _choose_plan(this, folder, options), folder)
        except OSError as error:
            _say(f"no plan is kept for the next run: {_reason(error)}", this.rank)
    return Files(options, this)


def _claimed(trace: Path) -> Path:
    """Return where to record: not where another process does, as the one that has started this one.

    The first to bind a name without a file has the trace, until it ends, however it does.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0stweaver {hashlib.sha256(bytes(trace)).hexdigest()}")
    except OSError:
        claim.close()
        return _with_process(trace)
    _claims.append(claim)
    return trace


def _with_process(trace: Path) -> Path:
    return trace.with_name(f"{trace.stem}-{os.getpid()}{trace.suffix}")


def _choose_plan(this: job.Job, folder: Path, options: dict[str, Path]) -> job.Job:
    """Add the plan to follow and where the next one goes; the job without what it wrote itself."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # a folder that is only to be read
        kept.remove_drafts(folder, this.label)
        _end_killed(this, folder)
    this = this.recognized(folder)
    kept.claim(folder, this.fingerprint)
    kept.remove_old(folder, this.label, this.fingerprint)
    plan = this.plan_path(folder)
    if _plans(plan):
        options["plan"] = plan
    options["save"] = plan
    with contextlib.suppress(OSError):  # a folder that is only to be read
        this.begin(folder)
        this.facts_path(folder).touch()  # used now
    return this


def _end_killed(this: job.Job, folder: Path) -> None:
    """Do what runs of this program that were killed did not: their plans are for other outputs, too."""
    for killed in this.killed(folder):
        if not kept.is_in_use(folder, killed.fingerprint):
            kept.claim(folder, killed.fingerprint)  # and its drafts
            _keep_facts(_leave_out_outputs(Files({}, killed, folder)), {})


def _plans(path: Path) -> list[Path]:
    """Those that are there, of all devices."""
    return sorted(path.parent.glob(path.name.replace("{device}", "*")))


def _leave_out_outputs(files: Files) -> Files:
    """Call the plans what the job's next run will look for, when what this one wrote is there."""
    if files.whose is None or files.folder is None:
        return files
    this = files.whose.without(files.whose.written())
    if this == files.whose:
        return files
    path, renamed = files.whose.plan_path(files.folder), this.plan_path(files.folder)
    if renamed != path:
        kept.claim(files.folder, this.fingerprint)
        for plan in _plans(path):
            plan.replace(plan.with_name(plan.name.replace(files.whose.fingerprint, this.fingerprint)))
        files.whose.facts_path(files.folder).unlink(missing_ok=True)
    changed = {name: renamed if option == path else option for name, option in files.options.items()}
    return replace(files, options=changed, whose=this)


def _finish(files: Files) -> None:
    """Say how it went, in one line for each device that was used; even if the job ended the session."""
    stats = session.finish()
    files = files.of_session(session.options())
    try:
        files = _leave_out_outputs(files)
    except OSError as error:  # a folder that is only to be read, say
        _say(f"the plans keep the name that this run has given them: {_reason(error)}", files.rank)
    earlier = _simulated_earlier(files)
    other = session.replaced_by()
    lines = [
        *([] if other is None else [f"off, for the program has set another CUDA allocator: {other}"]),
        *_unwritten(stats.log),
        *summary.lines(stats, lambda device: _fate(device, files), earlier),
    ]
    try:
        known = {device.device: device.simulated for device in stats.devices}
        _keep_facts(
            files, {device: simulated for device, simulated in known.items() if simulated is not None}
        )
    except OSError as error:  # a full disk, say
        _say(f"what this run was like is not kept: {_reason(error)}", files.rank)
    if variables.VERBOSE.value != "0":
        for line in lines:
            _say(line, files.rank)


def _simulated_earlier(files: Files) -> Mapping[int, Simulated]:
    """Return what earlier runs of the job know of PyTorch."""
    if files.whose is None or files.folder is None:
        return {}
    return files.whose.simulated(files.folder)


def _keep_facts(files: Files, simulated: Mapping[int, Simulated]) -> None:
    """Say beside the plans what they are of, and what is known of PyTorch; nothing where there are none."""
    if files.whose is None or files.folder is None:
        return
    if _plans(files.whose.plan_path(files.folder)):
        files.whose.keep_facts(files.folder, simulated)
    elif files.whose.facts_path(files.folder).is_file():  # in a folder that is only to be read there is none
        files.whose.facts_path(files.folder).unlink(missing_ok=True)


def _unwritten(log: Sequence[str]) -> list[str]:
    """Return what the session said of files that it could not write, unless it was said when it happened."""
    if variables.VERBOSE.value == "1":
        return []
    return [re.sub(r"^stweaver\[\d+\]: ", "", line) for line in log if ": cannot be written" in line]


def _fate(device: DeviceStats, files: Files) -> str:
    """Say what became of the plan. Whether it stays the session has judged."""
    plan, saves = (_of_device(files.options.get(name), device.device) for name in ("plan", "save"))
    began = device.saved_plan
    own = summary.fate_of(device)
    saved = f"{own}, saved {saves.name} for the next run" if saves and began.saved else own
    if plan is None:
        return f"{own}; removed the plan that it had saved" if began.removed and not began.saved else saved
    if began.removed and plan == saves and not began.saved:
        then = f"; then {own}" if device.plans > 1 else ""
        return f"did not follow {plan.name}: {began.removed}{then}; the next run makes another"
    if began.refused.startswith("steps differ") and device.plans == 0:
        return f"no plan: {began.refused}"
    if began.refused:
        return f"did not follow {plan.name}: {began.refused}{f'; {saved}' if device.plans > 0 else ''}"
    if began.slots == 0 or (device.plans == 0 and not plan.is_file()):
        return saved
    if device.served.hits + device.served.misses < began.slots:
        return f"ended before a step of {plan.name} was over"
    gone = "" if plan.is_file() else ", which is no longer there"
    return f"followed {plan.name}{gone}{_later(device)}"


def _later(device: DeviceStats) -> str:
    """Say what came after a plan that fitted."""
    if device.plans > 1:
        return f"; then {summary.fate_of(device)}"
    return f"; left it: {device.why_no_plan}" if device.why_no_plan else ""


def _of_device(path: Path | None, device: int) -> Path | None:
    return None if path is None else Path(str(path).replace("{device}", str(device)))


def _reason(error: OSError) -> str:
    """Return what is wrong, without the number and the name of a draft."""
    return error.strerror or str(error)


def _say(line: str, rank: str | None) -> None:
    who = "stweaver" if rank is None else f"stweaver, rank {rank}"
    console.say(line, who)
