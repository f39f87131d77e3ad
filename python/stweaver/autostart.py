"""What `stweaver run` does in each process of the job that imports torch: sitecustomize calls start()."""

import atexit
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from stweaver import job, pytorch, session, variables
from stweaver.error import Error
from stweaver.statistics import GIB, DeviceStats

# A saved plan that served fewer of its run's requests is of no use to the next.
GOOD_SHARE = 0.5


@dataclass(frozen=True)
class Files:
    """The options of a session that name files, and what to say of them."""

    options: dict[str, Path]
    rank: int | None


def start() -> None:
    """Enable in this process as the variables say. What goes wrong is one line, and the job goes on."""
    if job.is_launcher():
        return
    try:
        files = _find_files()
        session.enable(
            plan=files.options.get("plan"),
            save=files.options.get("save"),
            trace=files.options.get("trace"),
            verbose=variables.VERBOSE.value == "1",
        )
        atexit.register(_finish, os.getpid(), files)
    except Exception as error:  # whatever it is, the job must not fail for it
        what = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
        _say(f"not enabled: {what} (the job runs on plain PyTorch)", job.rank())


def _find_files() -> Files:
    trace = Path(variables.RECORD.value) if variables.RECORD.value else None
    if job.is_helper():  # several of them may be at the same point of the same script
        options = (
            {} if trace is None else {"trace": trace.with_name(f"{trace.stem}-{os.getpid()}{trace.suffix}")}
        )
        return Files(options, None)
    this = job.describe(pytorch.find().version, pytorch.device_kind(variables.DEVICE.value))
    options = {} if trace is None else {"trace": this.trace_path(trace)}
    if variables.PLANS.value:
        folder = Path(variables.PLANS.value)
        folder.mkdir(parents=True, exist_ok=True)
        plan = this.plan_path(folder)
        if any(folder.glob(plan.name.replace("{device}", "*"))):
            options["plan"] = plan
        else:
            plan.with_name(plan.name.replace("-device{device}.plan", ".json")).write_text(
                json.dumps(this.facts, indent=2) + "\n"
            )
        options["save"] = plan
    return Files(options, this.rank)


def _finish(process: int, files: Files) -> None:
    """Say how it went, in one line for each device that was used."""
    if os.getpid() != process or not session.is_enabled():
        return
    before = session.stats()
    session.end()  # a plan may still be on its way to its file
    for device in before.devices:
        if device.served.hits + device.served.misses > 0:
            line = _summary(device, files)
            if variables.VERBOSE.value != "0":
                _say(line, files.rank)


def _summary(device: DeviceStats, files: Files) -> str:
    peaks, last = device.peaks, device.last_step.peaks
    return (
        f"device {device.device}: {peaks.requested / GIB:.2f} GiB asked for, "
        f"{peaks.reserved / GIB:.2f} GiB reserved ({100 * peaks.efficiency:.1f} %; "
        f"last step {100 * last.efficiency:.1f} %); "
        f"{device.served.hits} hits, {device.served.misses} misses; {_fate(device, files)}"
    )


def _fate(device: DeviceStats, files: Files) -> str:
    """Say what became of the plan. One that fitted badly is removed, so that the next run makes a new one."""
    path = Path(str(files.options.get("save", "")).replace("{device}", str(device.device)))
    if "plan" in files.options and path.is_file():
        if device.served.share >= GOOD_SHARE:
            return f"followed {path.name}"
        path.unlink()
        return f"{path.name} did not fit, the next run makes another"
    made = "followed a plan made on the way" if device.follows_plan else "made no plan"
    return made + (f", saved {path.name} for the next run" if path.is_file() else "")


def _say(line: str, rank: int | None) -> None:
    who = "stweaver" if rank is None else f"stweaver, rank {rank}"
    print(f"{who}: {line}", file=sys.stderr, flush=True)
