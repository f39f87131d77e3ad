"""Try PyTorch's memory features under STWeaver's two ways and under PyTorch's default; print what works.

    python3 bench/gpu/features.py --out build/gpu            a GPU, or two for NCCL and DataParallel

Most features are tried in one process for each way; what may break a process gets one of its own, and where
one ends before its time, its feature is counted as failed and the others go on. What crashes leaves its
stacks in the log of its feature in --out. The exit status is 1 if a feature failed under any
way, or was not reached.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from checks import ALONE, IN_ONE_PROCESS, NotTriedError
from common import cuda, forked, last_line, read_lines, write_line
from crash import show_crashes
from planned_job import WAYS, Job, start

from report import table

LONGEST = 60.0  # seconds for one process
STARTED = "start"
YES, NO, NOT_TRIED, NOT_REACHED = "yes", "no", "not tried", "not reached"


def outcome_of(error: BaseException) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}".replace("AssertionError: ", "")


def write(out: Path, name: str, answer: str, remark: str = "", seconds: float = 0) -> None:
    write_line(out, {"feature": name, "answer": answer, "remark": remark, "seconds": round(seconds, 2)})


def try_one(name: str, check: Callable[[], str | None], out: Path) -> None:
    began = time.monotonic()
    try:
        answer, remark = YES, check() or ""
    except NotTriedError as reason:
        answer, remark = NOT_TRIED, str(reason)
    except Exception as error:
        answer, remark = NO, outcome_of(error)
    write(out, name, answer, remark, time.monotonic() - began)


def try_together(way: str, names: list[str], out: Path) -> None:
    """Try features, one after the other, in this process."""
    start(way)
    job = Job(way)
    job.plan()
    write(out, STARTED, YES)
    for name in names:
        try_one(name, partial(IN_ONE_PROCESS[name], job), out)


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
            write(out, name, NO, error)
        waiting = waiting[len(ended) :]
    for name in (name for name in ALONE if name in names):
        limit = min(LONGEST, deadline - time.monotonic())
        if limit < 1:
            break
        log = folder / f"features.{way}.{list(ALONE).index(name)}.log"
        error = forked(partial(try_one, name, partial(ALONE[name], way, gpus), out), log, limit)
        if untried(out, [name]):
            write(out, name, NO, error or "ended early")


def untried(out: Path, names: list[str]) -> list[str]:
    tried = {line["feature"] for line in read_lines(out)}
    return [name for name in names if name not in tried]


def cell(folder: Path, way: str, name: str) -> str:
    for line in read_lines(folder / f"features.{way}.jsonl"):
        if line["feature"] == name:
            return f"{line['answer']}: {line['remark'][:70]}" if line["remark"] else str(line["answer"])
    return NOT_REACHED


def count_gpus(log: Path) -> int:
    """Count in a process of its own: those that try features start CUDA themselves."""
    return 0 if forked(lambda: print(cuda.device_count()), log, LONGEST) else int(last_line(log))


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
    gpus = count_gpus(options.out / "features.gpus.log")
    for way in options.ways:
        try_all(way, options.only, gpus, options.out, began + options.seconds)
        print(f"{time.monotonic() - began:6.1f} s  {way}", flush=True)

    rows = [[name, *(cell(options.out, way, name) for way in options.ways)] for name in options.only]
    text = table(["feature", *options.ways], rows)
    (options.out / "features.md").write_text(text + "\n")
    for way in options.ways:
        for line in read_lines(options.out / f"features.{way}.jsonl"):
            if line["remark"]:
                print(f"{way}: {line['feature']}: {line['answer']}: {line['remark']}")
    print("\n" + text)
    bad = f"{NO}: ", NOT_REACHED
    return int(any(shown.startswith(bad) for _, *answers in rows for shown in answers))


if __name__ == "__main__":
    sys.exit(main())
