"""Train every workload under every allocator and print what they took, as Markdown.

    python3 bench/gpu/table.py --out build/gpu --seconds 360          one GPU, the whole table
    python3 bench/gpu/table.py --out build/gpu --losses               50 steps each: are the losses the same?
    python3 bench/gpu/table.py --out build/gpu --workloads fsdp      two GPUs

Each run is a process of its own, forked from this one so that PyTorch is imported once. A run that fails is
shown with its error and the others go on; what `--seconds` has no time left for is shown as not run. With
`--repeats` the allocators of `--paired` take turns that often: a step time is to be compared with that of
the run beside it. Losses are compared step by step and on all ranks, with those of the default.
"""

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import workloads
from common import ALLOCATORS, forked
from train import Run, ranked, train

from report import gib, table

ALL = (
    "gpt2",
    "llama",
    "llama_recompute",
    "llama_virtual",
    "llama_varying",
    "moe",
    "moe_recompute",
    "graphed",
    "trainer",
)
FIFTY = ("gpt2_small", "moe_small", "graphed")
LONGEST_RUN = 60.0  # seconds
RANKS = 2  # of the FSDP jobs


@dataclass
class Plan:
    """Which runs to do, and the time for all of them."""

    out: Path
    seconds: float
    steps: int
    not_run: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds until all must be done."""
        return self.seconds - (time.monotonic() - self.began)


@dataclass
class Outcome:
    """One run: what it wrote, or why it did not."""

    workload: str
    allocator: str
    repeat: int
    error: str = ""
    result: dict[str, Any] = field(default_factory=dict)  # of the first rank
    losses: list[tuple[str, ...]] = field(default_factory=list)  # of each step, on all ranks


def run_of(plan: Plan, workload: str, allocator: str, repeat: int) -> Run:
    saved = str(plan.out / f"{workload}.{{device}}.plan")
    return Run(
        workload=workload,
        allocator=allocator,
        steps=plan.steps,
        out=str(plan.out / f"{workload}.{allocator}.{repeat}.json"),
        plan=saved if allocator == "saved" else "",
        save=saved if allocator == "online" else "",
    )


def train_all_ranks(run: Run, ranks: int, log: Path) -> None:
    """Fork a process for each further rank, be rank 0, and wait for the others."""
    if ranks == 1:
        train(run)
        return
    others = []
    for rank in range(1, ranks):
        process = os.fork()
        if process == 0:
            be_rank(run, rank, ranks, log)
        others.append(process)
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(ranks)}
    train(run)
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in others]
    if any(codes):
        raise RuntimeError(f"other ranks ended with {codes}")


def be_rank(run: Run, rank: int, ranks: int, log: Path) -> None:
    """Train as another rank, in a process that ends here."""
    with Path(ranked(str(log), str(rank))).open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    code = 1
    try:
        train(run)
        code = 0
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
    finally:
        sys.stdout.flush()
        os._exit(code)


def do(plan: Plan, workload: str, allocator: str, repeat: int) -> Outcome:
    run = run_of(plan, workload, allocator, repeat)
    outcome = Outcome(workload, allocator, repeat)
    ranks = RANKS if workload in workloads.FSDP else 1
    paths = [Path(ranked(run.out, str(rank))) for rank in range(ranks)]
    for path in paths:
        path.unlink(missing_ok=True)
    log = paths[0].with_suffix(".log")
    work = partial(train_all_ranks, run, ranks, log)
    outcome.error = forked(work, log, min(LONGEST_RUN, plan.left))
    results = [json.loads(path.read_text()) for path in paths if path.exists()]
    if results:
        outcome.result = results[0]
        outcome.error = outcome.result.get("error", outcome.error)
        outcome.losses = list(zip(*(result.get("losses", []) for result in results), strict=False))
    done = f"{workload} {allocator} {repeat}: {outcome.error or 'ok'}"
    print(f"{plan.seconds - plan.left:6.1f} s  {done}", flush=True)
    return outcome


def do_all(
    plan: Plan, names: list[str], allocators: list[str], repeats: int, paired: list[str]
) -> list[Outcome]:
    """Every workload under every allocator once, before any is repeated."""
    tasks = [(name, allocator, 0) for name in names for allocator in allocators]
    for repeat in range(1, repeats):
        for name in names:
            turns = paired if repeat % 2 == 0 else paired[::-1]  # neither always goes first
            tasks += [(name, allocator, repeat) for allocator in turns]
    outcomes = []
    for task in tasks:
        if plan.left < 5:
            plan.not_run.append(" ".join(map(str, task)))
        else:
            outcomes.append(do(plan, *task))
    return outcomes


# ---- the table ----

HEAD = (
    "job",
    "allocator",
    "requested GiB",
    "reserved GiB",
    "efficiency %",
    "steady GiB",
    "steady %",
    "driver GiB",
    "hits",
    "misses",
    "first step s",
    "step ms",
    "of default's",
    "losses",
)


def percent(peaks: dict[str, int]) -> str:
    return f"{100 * peaks['requested'] / peaks['reserved']:.2f}" if peaks["reserved"] else "-"


def same_losses(run: Outcome, defaults: list[Outcome]) -> str:
    """How many steps have, bit for bit, the losses that PyTorch's default had."""
    if not defaults or defaults[0].error:
        return "-"
    same = sum(one == other for one, other in zip(run.losses, defaults[0].losses, strict=False))
    return f"{same}/{len(run.losses)} same"


def step_ratio(runs: list[Outcome], defaults: list[Outcome]) -> str:
    """Take the median over the repeats of step time / that of the default run beside it."""
    beside = {run.repeat: run.result["step"] for run in defaults if run.result.get("step")}
    ratios = [
        run.result["step"] / beside[run.repeat]
        for run in runs
        if run.result.get("step") and run.repeat in beside
    ]
    return f"{statistics.median(ratios):.4f}" if ratios else "-"


def row(runs: list[Outcome], defaults: list[Outcome]) -> list[str]:
    first = runs[0]
    result = first.result
    if first.error or not result.get("seconds"):
        return [first.workload, first.allocator, "failed", *["-"] * (len(HEAD) - 3)]
    return [
        first.workload,
        first.allocator,
        gib(result["whole"]["requested"]),
        gib(result["whole"]["reserved"]),
        percent(result["whole"]),
        gib(result["steady"]["reserved"]),
        percent(result["steady"]),
        gib(max(result["driver"])),
        str(result["hits"]),
        str(result["misses"]),
        f"{result['first_step']:.2f}",
        f"{1e3 * statistics.median(run.result['step'] for run in runs if run.result.get('step')):.1f}",
        step_ratio(runs, defaults),
        same_losses(first, defaults),
    ]


def rows(outcomes: list[Outcome]) -> list[list[str]]:
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.workload, outcome.allocator), []).append(outcome)
    return [row(runs, groups.get((name, "default"), [])) for (name, _), runs in groups.items()]


def comparison(outcomes: list[Outcome]) -> tuple[list[str], list[str]]:
    """List the runs whose losses are not all those of the default, and the jobs that have no such run."""
    done = [run for run in outcomes if not run.error]
    default = {run.workload: run.losses for run in reversed(done) if run.allocator == "default"}
    different = [
        f"{run.workload} {run.allocator} {run.repeat}"
        for run in done
        if run.workload in default and run.losses != default[run.workload]
    ]
    return different, sorted({run.workload for run in done} - set(default))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for results and logs")
    parser.add_argument("--seconds", type=float, default=360, help="time for everything")
    parser.add_argument("--steps", type=int, default=0, help="default 10; 50 with --losses")
    parser.add_argument("--workloads", nargs="+", choices=workloads.NAMES, default=[])
    parser.add_argument("--allocators", nargs="+", choices=ALLOCATORS, default=[])
    parser.add_argument("--losses", action="store_true", help="the small workloads, 50 steps, no expandable")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--paired", nargs="+", choices=ALLOCATORS, default=["default", "saved"])
    options = parser.parse_args()

    names = options.workloads or list(FIFTY if options.losses else ALL)
    allocators = options.allocators or [
        name for name in ALLOCATORS if not (options.losses and name == "expandable")
    ]
    steps = options.steps or (50 if options.losses else 10)
    options.out.mkdir(parents=True, exist_ok=True)
    plan = Plan(options.out, options.seconds, steps)
    outcomes = do_all(plan, names, allocators, options.repeats, options.paired)

    different, alone = comparison(outcomes)
    answer = [
        table(HEAD, rows(outcomes)),
        "",
        *[f"{run.workload} {run.allocator} {run.repeat}: {run.error}" for run in outcomes if run.error],
        *([f"not run, no time left: {', '.join(plan.not_run)}"] if plan.not_run else []),
        *([f"losses not compared, no run of the default: {', '.join(alone)}"] if alone else []),
        f"losses differ from the default's: {', '.join(different) or 'nowhere'}",
    ]
    (options.out / "table.md").write_text("\n".join(answer) + "\n")
    print("\n" + "\n".join(answer))
    return int(bool(different or plan.not_run) or any(outcome.error for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
