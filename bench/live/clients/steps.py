"""What a training loop that is not ours tells of its steps: one line of JSON at the end of each."""

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "gpu"))  # for its workloads

STEPS = int(os.environ.get("LIVE_STEPS", "8"))
OUT = os.environ.get("LIVE_OUT", "")  # "{rank}" in it stands for the rank

cuda: Any = torch.cuda  # most of it has no types

if trace := os.environ.get("LIVE_RECORD"):  # a file for every request from here on
    importlib.import_module("stweaver").record(trace)


class StepLog:
    """Writes a line for each step, to the file $LIVE_OUT or standard output.

    It never waits for the device and never asks for its memory, so the job does what it does without it.
    """

    def __init__(self) -> None:
        """Begin the first step."""
        self.steps = 0
        self.started = time.perf_counter()
        self.busy = time.process_time()

    def end(self) -> None:
        """Note that a step has ended."""
        self.steps += 1
        now, busy = time.perf_counter(), time.process_time()
        times = {"ended": now, "seconds": round(now - self.started, 4)}
        times["cpu_seconds"] = round(busy - self.busy, 4)
        line = json.dumps({"step": self.steps, **times, **memory(), **stweaver_figures()})
        self.started, self.busy = now, busy
        if not OUT:
            print(line, flush=True)
            return
        path = Path(OUT.replace("{rank}", os.environ.get("RANK", "0")))
        with path.open("a") as file:
            file.write(line + "\n")


def memory() -> dict[str, int]:
    """Bytes asked for and taken from the driver, now and at most, and how often the driver was called."""
    now: dict[str, int] = cuda.memory_stats()
    return {
        "requested": now["requested_bytes.all.current"],
        "reserved": now["reserved_bytes.all.current"],
        "peak_requested": now["requested_bytes.all.peak"],
        "peak_reserved": now["reserved_bytes.all.peak"],
        "driver_calls": now["num_device_alloc"] + now["num_device_free"],
    }


def stweaver_figures() -> dict[str, int]:
    """Count the driver's calls for STWeaver's arena, their nanoseconds, and those of all that it does.

    Nothing where it does not run.
    """
    stweaver: Any = sys.modules.get("stweaver")
    if stweaver is None or not stweaver.is_enabled():
        return {}
    stats = stweaver.stats()
    mapping = [device.mapping for device in stats.devices]
    return {
        "arena_calls": sum(calls.maps + calls.unmaps for calls in mapping),
        "arena_waits": sum(calls.idle_waits for calls in mapping),
        "arena_nanoseconds": sum(calls.nanoseconds for calls in mapping),
        "nanoseconds": sum(device.nanoseconds for device in stats.devices),
        "hits": stats.hits,
        "misses": stats.misses,
    }


def run_chosen(loops: Mapping[str, Callable[[], None]]) -> None:
    """Run the loop that the command line names, from a fixed seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", choices=loops, required=True)
    chosen = parser.parse_args()
    torch.manual_seed(0)
    loops[chosen.loop]()


def trainer_arguments(batch: int) -> dict[str, Any]:
    """Give what the loops of transformers' Trainer and of what inherits from it have in common."""
    return {
        "output_dir": tempfile.mkdtemp(),
        "per_device_train_batch_size": batch,
        "max_steps": STEPS,
        "bf16": True,
        "learning_rate": 1e-5,
        "report_to": [],
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
    }


def trainer_callback() -> Any:  # noqa: ANN401  # transformers may not be installed
    """Make a callback that tells of the steps of transformers' Trainer and of what inherits from it."""
    base: Any = importlib.import_module("transformers").TrainerCallback

    class Reporter(base):  # type: ignore[misc]
        def __init__(self) -> None:
            self.log = StepLog()

        def on_step_end(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
            self.log.end()

    return Reporter()
