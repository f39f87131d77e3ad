"""Run training loops of other libraries under each allocator and print what they reserve, as Markdown.

    python3 bench/live/run.py                                   all jobs, on null CUDA: no GPU is needed
    python3 bench/live/run.py fsdp2_of_8 trainer --allocators default,first
    python3 bench/live/run.py --device                          on the GPU that is here, for comparison
    python3 bench/live/run.py trainer --steps 100 --allocators recorded --out FOLDER

`default` and `expandable` are PyTorch's own; `first` is STWeaver without a plan, `second` the same command
again, which finds the plan that the first run kept. `held` is `first` where as much may be held as `default`,
which must stand before it, reserved (`stweaver run --hold`). `recorded` is the default once more, with every
request written into FOLDER/JOB/JOB.stw, which `stweaver replay --online` and the programs of
build/release/bench take. FOLDER/live.json has every step of every run, and keeps those of jobs that are not
run again; compare.py sets two of them side by side. The jobs of many ranks are one rank of them; on real GPUs
they need as many. The exit status is 1 if a run failed.

What the training loops need on null CUDA is installed into build/live/venv first, once; on a GPU this Python
must have it. $LIVE_NULL_CUDA is the command that starts null CUDA where it is not "python -m nullcuda".
"""

import argparse
import contextlib
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import environment
from jobs import JOBS, Job

import report

ALLOCATORS = ("default", "expandable", "first", "second")
HELD = "held"
STWEAVER = ("first", "second", HELD)
NEEDS = {"second": ("first", "finds the plan that it kept"), HELD: ("default", "holds as much as it")}
RECORDED = "recorded"
ALLOCATOR_SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
OURS = [str(environment.ROOT / part) for part in ("python", "nullcuda/python")]
HOST_MEMORY = 12 << 30  # bytes: a wrong count on null CUDA may ask for anything


@dataclass(frozen=True)
class Setting:
    """Where the jobs run."""

    python: str
    out: Path
    gpu: str  # that null CUDA pretends to be
    device: bool  # a real one
    values: bool = True  # whether null CUDA knows the numbers that jobs read


def main() -> int:
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that what runs now is ended, too
    setting = Setting(python_of(chosen), chosen.out.resolve(), chosen.gpu, chosen.device)
    here = gpus(setting) if setting.device else 0
    path = setting.out / "live.json"
    document = kept(path, "device" if setting.device else setting.gpu)
    done: dict[str, Any] = {}
    for name in chosen.jobs or JOBS:
        if setting.device and JOBS[name].world > here:
            print(f"{name}: needs {JOBS[name].world} GPUs", file=sys.stderr)
            continue
        job = replace(JOBS[name], steps=chosen.steps or JOBS[name].steps)
        done[name] = run_job(name, job, chosen.allocators, setting)
        path.write_text(json.dumps(document | {"jobs": document["jobs"] | done}, indent=1) + "\n")
    print(report.summary({"jobs": done}))
    return int(any(run["error"] for job in done.values() for run in job["runs"].values()))


def kept(path: Path, gpu: str) -> dict[str, Any]:
    """Read what earlier runs left there; on another GPU they do not go together with those to come."""
    if not path.exists():
        return {"gpu": gpu, "jobs": {}}
    document: dict[str, Any] = json.loads(path.read_text())
    if document["gpu"] != gpu:
        raise SystemExit(f"{path}: has runs on {document['gpu']}, not {gpu}; give another --out")
    return document


def arguments() -> argparse.Namespace:
    summary, _, details = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of: {', '.join(JOBS)}; default: all")
    parser.add_argument("--allocators", type=allocators, default=ALLOCATORS, help="default: all four")
    parser.add_argument("--steps", type=int, help="of each job; default: as many as it has")
    parser.add_argument("--out", type=Path, default=environment.ROOT / "build" / "live" / "runs")
    parser.add_argument("--gpu", default="h200", help="what null CUDA pretends to be; default: %(default)s")
    parser.add_argument("--device", action="store_true", help="run on the real GPU")
    parser.add_argument("--python", help="of an environment that has the libraries already")
    chosen = parser.parse_args()
    if chosen.steps is not None and chosen.steps < 1:
        parser.error("--steps takes a whole number from 1 on")
    if unknown := set(chosen.jobs) - set(JOBS):
        parser.error(f"no such job: {', '.join(sorted(unknown))}")
    return chosen


def python_of(chosen: argparse.Namespace) -> str:
    """Say what runs the jobs: our own environment has no libraries of CUDA, so it is for null CUDA alone."""
    return chosen.python or (sys.executable if chosen.device else str(environment.ensure()))


def allocators(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - {*ALLOCATORS, HELD, RECORDED}:
        raise argparse.ArgumentTypeError(f"not an allocator: {', '.join(sorted(unknown))}")
    for name, (needed, why) in NEEDS.items():
        if name in names and needed not in names[: names.index(name)]:
            raise argparse.ArgumentTypeError(f"{name}: {needed} must stand before it; it {why}")
    return names


def gpus(setting: Setting) -> int:
    """Count them, in a process that ends."""
    count = [setting.python, "-c", "import torch; print(torch.cuda.device_count())"]
    return int(subprocess.run(count, check=True, capture_output=True, text=True).stdout)


# ---- one job ----


def run_job(name: str, job: Job, wanted: list[str], setting: Setting) -> dict[str, object]:
    """Run it under each of the allocators, one after the other."""
    folder = setting.out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    runs: dict[str, report.Run] = {}
    for allocator in wanted:
        needed, _ = NEEDS.get(allocator, ("", ""))
        if needed and runs[needed]["error"]:
            print(f"{name} {allocator}: not run, for {needed} failed", file=sys.stderr, flush=True)
            continue
        hold = runs["default"]["peak"] if allocator == HELD else 0
        runs[allocator] = run(job, allocator, folder, setting, hold)
        print(f"{name} {allocator}: {report.line(runs[allocator])}", file=sys.stderr, flush=True)
    return {"job": asdict(job), "runs": runs}


def run(job: Job, allocator: str, folder: Path, setting: Setting, hold: int = 0) -> report.Run:
    """Run it once: what each step reserved, and what it cost. `hold`: bytes that may be; 0: as always."""
    log, steps = folder / f"{allocator}.log", folder / f"{allocator}-{job.rank}.jsonl"
    inherited = {name: value for name, value in os.environ.items() if name not in ALLOCATOR_SETTINGS}
    variables = inherited | {
        "PYTHONPATH": os.pathsep.join([*OURS, os.environ.get("PYTHONPATH", "")]),
        "LIVE_STEPS": str(job.steps),
        "LIVE_OUT": str(folder / f"{allocator}-{{rank}}.jsonl"),
        "HF_HUB_OFFLINE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    if allocator == RECORDED:
        variables["LIVE_RECORD"] = str(folder / f"{folder.name}.stw")
    if allocator == "expandable":
        variables["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    began = time.monotonic()
    start = command(job, allocator, folder, setting, hold)
    failure = execute(start, variables, log, job.seconds, limited=not setting.device)
    done = report.read(steps)
    if not failure and len(done) != job.steps:
        failure = f"{len(done)} of {job.steps} steps: {report.last_line(log, report.FAILURE)}"
    if not failure and allocator in STWEAVER and "hits" not in done[-1]:
        failure = report.last_line(log, "stweaver")  # why it was not enabled
    return report.figures(done) | {
        "wall_seconds": round(time.monotonic() - began, 1),
        "error": failure,
    }


def command(job: Job, allocator: str, folder: Path, setting: Setting, hold: int) -> list[str]:
    """Say how the job starts under the allocator."""
    start = [setting.python]
    if setting.device and job.world > 1:
        # "--": else torchrun takes the job's options for its own.
        start += ["-m", "torch.distributed.run", "--nproc-per-node", str(job.world), "--"]
    start += job.command
    if allocator in STWEAVER:
        start = [
            *(setting.python, "-m", "stweaver", "run"),
            *(
                ("--no-plan", "--hold", f"{hold / report.GIB:.3f}")
                if hold
                else ("--plans", str(folder / "plans"))
            ),
            "--",
            *start,
        ]
    return start if setting.device else [*null_cuda(job, setting), *start]


def null_cuda(job: Job, setting: Setting) -> list[str]:
    """Give what stands before a command that is to run on null CUDA. Nothing else here knows of it."""
    started = os.environ.get("LIVE_NULL_CUDA", f"{shlex.quote(setting.python)} -m nullcuda")
    options = ["--gpu", setting.gpu, *(["--values"] if setting.values else [])]
    if job.world > 1:
        options += ["--devices", str(min(job.world, 8)), "--rank", str(job.rank), "--world", str(job.world)]
    return [*shlex.split(started), "run", *options, "--"]


def execute(start: list[str], variables: dict[str, str], log: Path, seconds: float, *, limited: bool) -> str:
    """Run a command within its time, and HOST_MEMORY if limited; "" when it went well, else what happened."""
    with log.open("w") as file:
        process = subprocess.Popen(
            start,
            cwd=log.parent,
            env=variables,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that a time limit ends what it started, too
            preexec_fn=limit_memory if limited else None,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end(process)
    if code == 0:
        return ""
    what = f"not done after {seconds:.0f} s" if code is None else f"exit {code}"
    return f"{what}: {report.last_line(log, report.FAILURE)}"


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (HOST_MEMORY, HOST_MEMORY))


def end(process: subprocess.Popen[bytes]) -> None:
    """End whatever the process left running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    sys.exit(main())
