"""Try PyTorch's memory features under STWeaver's two ways and under PyTorch's default; print what works.

    python3 bench/gpu/features.py --out build/gpu            a GPU, or two for NCCL and DataParallel

Most features are tried in one process for each way; what may break a process gets one of its own, and where
one ends before its time, its feature is counted as failed and the others go on. What crashes leaves its
stacks in the log of its feature in --out.
"""

import argparse
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from checks import ALONE, IN_ONE_PROCESS
from common import forked, read_lines, write_line
from crash import show_crashes
from planned_job import WAYS, Job, start

from report import table

LONGEST = 60.0  # seconds for one process
STARTED = "start"


def outcome_of(error: BaseException) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}".replace("AssertionError: ", "")


def write(out: Path, name: str, error: str, remark: str | None, seconds: float) -> None:
    write_line(out, {"feature": name, "error": error, "remark": remark or "", "seconds": round(seconds, 2)})


def try_together(way: str, names: list[str], out: Path) -> None:
    """Try features, one after the other, in this process."""
    start(way)
    job = Job(way)
    job.plan()
    write(out, STARTED, "", None, 0)
    for name in names:
        began, error, remark = time.monotonic(), "", None
        try:
            remark = IN_ONE_PROCESS[name](job)
        except Exception as raised:
            error = outcome_of(raised)
        write(out, name, error, remark, time.monotonic() - began)


def try_alone(way: str, name: str, gpus: int, out: Path) -> None:
    began, error, remark = time.monotonic(), "", None
    try:
        remark = ALONE[name](way, gpus)
    except Exception as raised:
        error = outcome_of(raised)
    write(out, name, error, remark, time.monotonic() - began)


def try_all(way: str, names: list[str], gpus: int, folder: Path, deadline: float) -> None:
    """Try every feature under one way, in as many processes as it takes."""
    out, log = folder / f"features.{way}.jsonl", folder / f"features.{way}.log"
    out.unlink(missing_ok=True)
    waiting = [name for name in IN_ONE_PROCESS if name in names]
    while waiting and time.monotonic() < deadline:
        limit = min(LONGEST, deadline - time.monotonic())
        error = forked(partial(try_together, way, waiting, out), log, limit) or "ended early"
        waiting = untried(out, waiting)
        began = not untried(out, [STARTED])
        ended = waiting[:1] if began else waiting  # the first one ended the process, or none was reached
        for name in ended:
            write(out, name, error, None, 0)
        waiting = waiting[len(ended) :]
    for name in (name for name in ALONE if name in names):
        limit = min(LONGEST, deadline - time.monotonic())
        if limit < 1:
            break
        log = folder / f"features.{way}.{list(ALONE).index(name)}.log"
        error = forked(partial(try_alone, way, name, gpus, out), log, limit)
        if untried(out, [name]):
            write(out, name, error or "ended early", None, 0)


def untried(out: Path, names: list[str]) -> list[str]:
    tried = {line["feature"] for line in read_lines(out)}
    return [name for name in names if name not in tried]


def cell(folder: Path, way: str, name: str) -> str:
    for line in read_lines(folder / f"features.{way}.jsonl"):
        if line["feature"] == name:
            return f"no: {line['error'][:70]}" if line["error"] else "yes"
    return "not tried"


def count_gpus() -> int:
    """Count without starting CUDA, which forked processes must do themselves."""
    try:
        answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except OSError:
        return 1
    return max(1, len(answer.stdout.splitlines()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for results and logs")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["wrapper", "pluggable", "default"])
    parser.add_argument("--only", nargs="+", default=[*IN_ONE_PROCESS, *ALONE], help="names of features")
    parser.add_argument("--seconds", type=float, default=150, help="time for everything")
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    show_crashes(options.out)
    began = time.monotonic()
    for way in options.ways:
        try_all(way, options.only, count_gpus(), options.out, began + options.seconds)
        print(f"{time.monotonic() - began:6.1f} s  {way}", flush=True)

    rows = [[name, *(cell(options.out, way, name) for way in options.ways)] for name in options.only]
    text = table(["feature", *options.ways], rows)
    (options.out / "features.md").write_text(text + "\n")
    for way in options.ways:
        for line in read_lines(options.out / f"features.{way}.jsonl"):
            if line["error"] or line["remark"]:
                print(f"{way}: {line['feature']}: {line['error'] or line['remark']}")
    print("\n" + text)
    return int(any("no: " in cells[1] for cells in rows))


if __name__ == "__main__":
    sys.exit(main())
