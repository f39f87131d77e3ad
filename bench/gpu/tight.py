"""Where memory is tight: the longest sequences that each allocator trains, and how fast.

    python3 bench/gpu/tight.py --out build/gpu
    python3 bench/gpu/tight.py --out build/gpu --job gpt2 --vary micro_batch --base 6

One run without a limit says what the job asks for at its usual size. Then all but 1.06 times that is
taken from the device, behind every allocator's back, and each allocator's largest size is searched. A plan is
saved by a run without a limit and used by one with it. A run that fails in another way than by lack of memory
ends its search. Last, the largest size that STWeaver trains without ever emptying PyTorch's cache is tried
under the default.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import workloads
from common import ALLOCATORS, forked, ran_out
from train import Run, train
from workloads import pipeline

from report import GIB, table

LONGEST = 45.0  # seconds for one run
MARGIN = 1.06  # limit / what the base asks for


@dataclass(frozen=True)
class Probe:
    """One run of the job at one size."""

    error: str
    flushes: int = 0  # of PyTorch's cache, because the driver had nothing left
    tokens_per_second: float = 0.0


@dataclass(frozen=True)
class Largest:
    """The largest size that was found to train; 0: none."""

    size: int
    stopped: str = ""  # why the search did not come to its end


@dataclass
class Search:
    """What is searched, and what was found so far."""

    job: str
    vary: str  # "sequence" or "micro_batch"
    layers: int
    steps: int
    out: Path
    deadline: float
    limit: float = 0  # GiB
    probes: dict[tuple[str, int], Probe] = field(default_factory=dict)

    def run(
        self, allocator: str, size: int, *, limit: float, plan: str = "", save: str = ""
    ) -> dict[str, Any]:
        """Train in a process of its own; the result, with "error" in it when it failed."""
        name = f"tight.{self.job}.{allocator}.{size}" + ("" if limit else ".free")
        run = Run(
            workload=self.job,
            allocator=allocator,
            steps=self.steps if limit or allocator == "default" else min(self.steps, 4),
            out=str(self.out / f"{name}.json"),
            plan=plan,
            save=save,
            limit=limit,
            layers=self.layers,
            micro_batch=size if self.vary == "micro_batch" else 0,
            sequence=size if self.vary == "sequence" else 0,
        )
        Path(run.out).unlink(missing_ok=True)
        left = max(1.0, min(LONGEST, self.deadline - time.monotonic()))
        error = forked(partial(train, run), self.out / f"{name}.log", left)
        if not Path(run.out).exists():
            return {"error": error}
        result: dict[str, Any] = json.loads(Path(run.out).read_text())
        return {"error": error} | result

    def probe(self, allocator: str, size: int) -> Probe:
        """Train under the limit, once."""
        key = allocator, size
        if key not in self.probes:
            self.probes[key] = self._probe(allocator, size)
            print(f"{allocator} {self.vary} {size}: {self.probes[key]}", flush=True)
        return self.probes[key]

    def _probe(self, allocator: str, size: int) -> Probe:
        plan = str(self.out / f"tight.{self.job}.{size}.{{device}}.plan") if allocator == "saved" else ""
        if plan:
            recorded = self.run("online", size, limit=0, save=plan)
            if recorded["error"]:
                return Probe(f"recording: {recorded['error']}")
        result = self.run(allocator, size, limit=self.limit, plan=plan)
        if result["error"]:
            return Probe(str(result["error"])[:100], result.get("retries", 0))
        return Probe("", result["retries"], self.speed(size, result["seconds"]))

    def speed(self, size: int, seconds: list[float]) -> float:
        """Tokens per second, without the first steps."""
        setting = workloads.Setting(layers=self.layers, **{self.vary: size})
        job = workloads.job_of(self.job, setting)
        settled = slice(len(seconds) // 3, None)
        lengths = list(islice(pipeline.lengths(job), len(seconds)))[settled]
        return sum(lengths) * job.micro_batches * job.micro_batch / sum(seconds[settled])

    def largest(self, allocator: str, sizes: list[int]) -> Largest:
        """Bisect for the largest of `sizes` that trains."""
        good, bad, stopped = -1, len(sizes), ""
        while bad - good > 1 and not stopped:
            middle = (good + bad) // 2
            if time.monotonic() >= self.deadline:
                stopped = f"no time left for {sizes[middle]}"
            elif not (error := self.probe(allocator, sizes[middle]).error):
                good = middle
            elif ran_out(error):
                bad = middle
            else:
                stopped = f"{sizes[middle]}: {error}"
        return Largest(sizes[good] if good >= 0 else 0, stopped)


def sizes_around(vary: str, base: int) -> list[int]:
    if vary == "micro_batch":
        return list(range(max(1, base - 4), base + 4))
    return [base * sixteenths // 16 // 8 * 8 for sixteenths in range(10, 18)]


def compare(search: Search, best: dict[str, Largest]) -> str:
    """Try under the default what STWeaver trains without a flush."""
    for allocator in ("saved", "online"):
        size = best[allocator].size if allocator in best else 0
        if size and search.probe(allocator, size).flushes == 0:
            default = search.probe("default", size)
            what = default.error or f"trains, after {default.flushes} flushes of its cache"
            return f"{search.vary} {size}: {allocator} trains without a flush; default: {what}"
    return "STWeaver trains no size without a flush"


def report(search: Search, best: dict[str, Largest]) -> str:
    rows = []
    for allocator, largest in best.items():
        probe = search.probes[allocator, largest.size] if largest.size else Probe("none trains")
        found = [str(largest.size), f"{probe.tokens_per_second:.0f}", str(probe.flushes)]
        rows.append([allocator, *found, largest.stopped or probe.error or "ok"])
    return table(("allocator", f"largest {search.vary}", "tokens/s there", "flushes there", ""), rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for results and logs")
    parser.add_argument("--job", default="llama_varying", choices=workloads.JOBS)
    parser.add_argument("--vary", default="sequence", choices=("sequence", "micro_batch"))
    parser.add_argument("--base", type=int, default=4096, help="the size that the limit is made for")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--allocators", nargs="+", default=list(ALLOCATORS), choices=ALLOCATORS)
    parser.add_argument("--seconds", type=float, default=170, help="time for everything")
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + options.seconds
    search = Search(options.job, options.vary, options.layers, options.steps, options.out, deadline)
    free = search.run("default", options.base, limit=0)
    if free["error"]:
        print(f"the job does not train without a limit: {free['error']}", file=sys.stderr)
        return 1
    search.limit = MARGIN * free["whole"]["requested"] / GIB
    print(f"limit: {search.limit:.2f} GiB beside the context", flush=True)
    sizes = sizes_around(options.vary, options.base)
    best = {allocator: search.largest(allocator, sizes) for allocator in options.allocators}
    text = f"limit {search.limit:.2f} GiB\n\n{report(search, best)}\n\n{compare(search, best)}"
    (options.out / f"tight.{options.job}.md").write_text(text + "\n")
    print("\n" + text)
    return int(any(largest.stopped for largest in best.values()))


if __name__ == "__main__":
    sys.exit(main())
