"""Tell what allocators take of the host's time, by samples of Linux's perf, as Markdown.

    python3 bench/live/host_time.py trainer t5 whisper

Each job runs on null CUDA under the allocators `default`, `first` and `held` of run.py. No driver works there
and no values are known, so that no call takes longer because something watches it; jobs that read numbers of
the device fail. Printed are milliseconds per step in libc10_cuda (PyTorch's allocator, its streams and
guards) and STWeaver together, in the threads of forward and backward. All steps count but the first, with
which the set-up ends; so do those before there is a plan.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import environment
import run
from jobs import JOBS

import report

HERTZ = 4000
ALLOCATORS = ("default", "first", run.HELD)
SAMPLE = re.compile(r"^\s*(\S.*?)\s+(\d+)/(\d+)\s+([\d.]+):\s+[0-9a-f]+ \((.*)\)$", re.MULTILINE)
LIBRARIES = ("libc10_cuda", "libstweaver", "cuda_wrapper")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", nargs="+", metavar="JOB", choices=JOBS, help="a job of run.py")
    parser.add_argument("--out", type=Path, default=environment.ROOT / "build" / "live" / "host_time")
    chosen = parser.parse_args()
    if shutil.which("perf") is None:
        sys.exit("host_time: perf is missing; install linux-perf")
    setting = run.Setting(str(environment.ensure()), chosen.out.resolve(), "h200", device=False, values=False)
    rows = [[name, *measure(name, setting)] for name in chosen.jobs]
    print(report.table(["job", *ALLOCATORS], rows))


def measure(name: str, setting: run.Setting) -> list[str]:
    """Run the job under each allocator: milliseconds per step, or "failed"."""
    folder, samples = setting.out / name, setting.out / f"{name}.perf"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    clock = ("--clockid", "CLOCK_MONOTONIC")  # that of the step log
    recorder = ("perf", "record", "--quiet", *clock, "-F", str(HERTZ), "-o", str(samples), "--")
    os.environ["LIVE_NULL_CUDA"] = shlex.join([*recorder, setting.python, "-m", "nullcuda"])
    cells: list[str] = []
    held = 0
    for allocator in ALLOCATORS:
        done = run.run(JOBS[name], allocator, folder, setting, held if allocator == run.HELD else 0)
        if done["error"]:
            print(f"{name} {allocator}: {done['error']}", file=sys.stderr)
            return [*cells, *(["failed"] * (len(ALLOCATORS) - len(cells)))]
        if allocator == "default":
            held = done["peak"]
        ends = [step["ended"] for step in report.read(folder / f"{allocator}-{JOBS[name].rank}.jsonl")]
        count = in_allocators(script(samples), ends[0], ends[-1])
        cells.append(f"{1e3 * count / HERTZ / (len(ends) - 1):.1f}")
    return cells


def script(samples: Path) -> str:
    """Let perf write the samples as text."""
    command = ("perf", "script", "-i", str(samples), "-F", "comm,pid,tid,time,ip,dso")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def in_allocators(text: str, begin: float, end: float) -> int:
    """Count the samples in allocators, of the threads of forward and backward, between two times."""
    return sum(
        Path(library).name.startswith(LIBRARIES)
        for name, process, thread, seconds, library in SAMPLE.findall(text)
        if (process == thread or name.startswith("pt_autograd")) and begin < float(seconds) <= end
    )


if __name__ == "__main__":
    main()
