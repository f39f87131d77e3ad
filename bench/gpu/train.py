"""Train one workload under one allocator and write down what it took.

    python3 bench/gpu/train.py --workload gpt2 --allocator online --save gpt2.plan --out build/gpu/gpt2.json
    torchrun --nproc-per-node 2 bench/gpu/train.py --workload fsdp --allocator default --out fsdp.json

The first third of the steps is for the job to settle, the last third is the steady state, whose peaks are
counted apart. Of several ranks, each writes a file of its own (fsdp.1.json) and has its own plan.
"""

import argparse
import json
import os
import statistics
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import workloads
from common import (
    ALLOCATORS,
    choose,
    cuda,
    disable,
    driver_used,
    figure,
    hold_all_but,
    settle,
    statistics_text,
)

import torch
from report import gib
from torch import Tensor


@dataclass(frozen=True)
class Run:
    """What to train and how; 0 and "" mean: as usual."""

    workload: str
    allocator: str
    steps: int
    out: str
    plan: str = ""
    save: str = ""
    way: str = "wrapper"
    limit: float = 0  # GiB that the whole device is left with
    deterministic: bool = True
    fresh: bool = False  # what making the model left in PyTorch's cache goes back before the first step
    layers: int = 0
    micro_batch: int = 0
    sequence: int = 0
    micro_batches: int = 0
    recompute: int = 0  # layers


@dataclass
class Steps:
    """Times the steps of a workload, and reads the statistics between them."""

    steps: int
    fresh: bool = False
    seconds: list[float] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    driver: list[int] = field(default_factory=list)
    before: dict[str, int] = field(default_factory=dict)  # peaks before the steady state
    started: float = 0

    def begin(self) -> None:
        """Let earlier work end first."""
        if self.fresh and not self.seconds:
            cuda.empty_cache()
        cuda.synchronize()
        self.started = time.perf_counter()

    def end(self, loss: Tensor) -> None:
        """Wait for the step to end; what follows is not timed."""
        cuda.synchronize()
        self.seconds.append(time.perf_counter() - self.started)
        self.losses.append(float(loss.item()).hex())
        self.reserved.append(cuda.memory_reserved())
        self.driver.append(driver_used())
        if len(self.seconds) == self.steps - self.steady:
            self.before = peaks()
            cuda.reset_peak_memory_stats()

    @property
    def steady(self) -> int:
        """How many steps count as steady."""
        return max(1, self.steps // 3)


def peaks() -> dict[str, int]:
    now = cuda.memory_stats()
    return {name: now.get(f"{name}_bytes.all.peak", 0) for name in ("requested", "reserved")}


def measured(steps: Steps) -> dict[str, Any]:
    """Say what the steps took; sizes in bytes."""
    steady = peaks()
    whole = {name: max(size, steps.before.get(name, 0)) for name, size in steady.items()}
    return {
        "seconds": [round(value, 5) for value in steps.seconds],
        "first_step": steps.seconds[0],
        "step": statistics.median(steps.seconds[-steps.steady :]),
        "losses": steps.losses,
        "whole": whole,
        "steady": steady,
        "reserved": steps.reserved,
        "driver": steps.driver,
        "retries": cuda.memory_stats().get("num_alloc_retries", 0),
        "hits": figure("hits"),
        "misses": figure("misses"),
    }


def start(run: Run, rank: str) -> None:
    """Everything that comes before the first allocation."""
    choose(  # before CUDA starts, as the pluggable way needs it
        run.allocator,
        way=run.way,
        plan=ranked(run.plan, rank),
        save=ranked(run.save, rank),
    )
    cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if run.limit:
        hold_all_but(run.limit)
    settle(deterministic=run.deterministic)


def ranked(path: str, rank: str) -> str:
    """Name the path for this rank: a.json is a.1.json for rank 1."""
    if not path or rank == "0":
        return path
    return str(Path(path).with_suffix(f".{rank}{Path(path).suffix}"))


def train(run: Run) -> None:
    """Train, and write the result to `run.out`, with the error in it when there was one. Raises it again."""
    rank = os.environ.get("RANK", "0")
    result: dict[str, Any] = {"run": asdict(run), "torch": torch.__version__, "rank": rank}
    out = Path(ranked(run.out, rank))
    out.parent.mkdir(parents=True, exist_ok=True)
    steps = Steps(run.steps, run.fresh)
    try:
        start(run, rank)
        varied = {name: getattr(run, name) for name in workloads.VARIED}
        setting = workloads.Setting(**varied)
        workloads.run(run.workload, setting, steps)
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        raise
    finally:
        if steps.seconds:
            result |= measured(steps)
        result["stats"] = statistics_text()
        out.write_text(json.dumps(result, indent=1) + "\n")
    disable()  # a plan that is being saved is whole after this
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def arguments() -> Run:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--workload", required=True, choices=workloads.NAMES)
    parser.add_argument("--allocator", required=True, choices=ALLOCATORS)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--out", required=True, help="where to write the result")
    parser.add_argument("--plan", default="", help="for saved: the plan")
    parser.add_argument("--save", default="", help="for online: where to put the plan for the next run")
    parser.add_argument("--way", default="wrapper", choices=("wrapper", "pluggable"))
    parser.add_argument("--limit", type=float, default=0, help="GiB to leave free on the device")
    for name in workloads.VARIED:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=0, help="instead of the workload's own")
    return Run(**vars(parser.parse_args()))


def main() -> None:
    run = arguments()
    train(run)
    result = json.loads(Path(ranked(run.out, os.environ.get("RANK", "0"))).read_text())
    print(
        f"{run.workload} {run.allocator}: requested {gib(result['whole']['requested'])} GiB, "
        f"reserved {gib(result['whole']['reserved'])} GiB (steady {gib(result['steady']['reserved'])}), "
        f"step {1e3 * result['step']:.1f} ms, first {1e3 * result['first_step']:.0f} ms, "
        f"{result['hits']} hits, {result['misses']} misses, last loss {result['losses'][-1]}"
    )


if __name__ == "__main__":
    main()
