"""Run the recorded jobs again on null CUDA and compare them with their recordings on an H200, as Markdown.

    python3 bench/live/traces.py                            all recordings in examples/traces
    python3 bench/live/traces.py llama7b_N moe_R --json table.json
    python3 bench/live/traces.py --traces FOLDER            recordings that lie elsewhere, with their manifest

Compared are all events of the allocator, in their order: allocations and frees by the number of the
allocation in the place of its address, streams by the order in which they appear. The programs of the jobs
are in recorded/; what they need is installed as for run.py. A job that fails is named, and the others go on;
the exit status is 1 then.
"""

import argparse
import json
import lzma
import os
import pickle
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import environment
import run
from jobs import Job

import report

PROGRAMS = Path(__file__).with_name("recorded")
SUFFIX = ".pickle.xz"
PIPELINE, LLAMA, LOOPS = "pipeline_rank", "transformers_llama", "loops"
TRANSFORMERS = "5.18.0"  # as when the jobs were recorded: later ones compute rotary positions in another way


@dataclass(frozen=True)
class Recorded(Job):
    """A job whose recording exists; `client` is a program of recorded/, values and even routing are given."""

    expandable_steps: int = 0  # where expandable segments were measured over more steps than recorded
    routed: bool = False  # sizes follow the experts that tokens go to, which no dry run knows

    @property
    def command(self) -> list[str]:
        """The program and its arguments, without Python."""
        return [str(PROGRAMS / f"{self.client}.py"), *self.arguments]


def pipeline(arguments: str, steps: int = 4, routed: bool = False) -> Recorded:
    return Recorded(PIPELINE, tuple(arguments.split()), steps=steps, routed=routed)


JOBS = {
    "llama7b_N": pipeline("llama"),
    "llama7b_R": pipeline("llama --micro-batches 16 --micro-batch 4 --recompute"),
    "llama7b_VR": pipeline("llama --chunks 4 --micro-batch 2 --recompute"),
    "llama7b_varlen": pipeline("llama --varying", steps=8),
    "gpt2_15b_N": pipeline("gpt2 --stages 1 --micro-batches 2 --micro-batch 8 --sequence 1024"),
    "moe_N": pipeline("moe --micro-batches 4", routed=True),
    "moe_R": pipeline("moe --micro-batch 2 --recompute", routed=True),
    "fsdp2_llama1b": Recorded(LLAMA, ("fsdp2",), world=2, steps=5),
    "hf_trainer_varlen": Recorded(LLAMA, ("trainer",), steps=24),
    "deepspeed_z3": Recorded(LOOPS, ("deepspeed",), steps=6, expandable_steps=8),
    "compiled": Recorded(LOOPS, ("compiled",), steps=6, expandable_steps=10),
}


def main() -> int:
    chosen = arguments()
    python = chosen.python or str(environment.ensure())
    setting = run.Setting(python, chosen.out.resolve(), gpu="h200", device=False)
    manifest = json.loads((chosen.traces / "manifest.json").read_text())
    build(setting)
    os.environ["LIVE_PACKAGES"] = str(transformers(setting))
    results: dict[str, dict[str, Any]] = {}
    for name in chosen.names:
        try:
            results[name] = repeat(name, chosen.traces / f"{name}{SUFFIX}", setting) | {
                "recorded_expandable": round(manifest[name]["expandable"]["reserved_gib"] * report.GIB)
            }
        except Exception as error:  # a recording that cannot be read, say
            results[name] = {"error": f"{type(error).__name__}: {error}"}
        print(f"{name}: {verdict(results[name])}", file=sys.stderr, flush=True)
        if chosen.json:
            chosen.json.write_text(json.dumps(results, indent=1) + "\n")
    print(summary(results))
    return int(any(result["error"] for result in results.values()))


def arguments() -> argparse.Namespace:
    first, _, details = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=first, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(JOBS)}; default: all")
    parser.add_argument("--traces", type=Path, default=environment.ROOT / "examples" / "traces")
    parser.add_argument("--out", type=Path, default=environment.ROOT / "build" / "live" / "traces")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table's figures there, too")
    parser.add_argument("--python", help="of an environment that has the libraries already")
    chosen = parser.parse_args()
    there = {path.name.removesuffix(SUFFIX) for path in chosen.traces.glob(f"*{SUFFIX}")}
    chosen.names = chosen.names or [name for name in JOBS if name in there]
    for name in chosen.names:
        if name not in JOBS:
            parser.error(f"no such job: {name}")
        if name not in there:
            parser.error(f"no {name}{SUFFIX} in {chosen.traces}")
    return chosen


# ---- one job ----


def build(setting: run.Setting) -> None:
    """Let null CUDA build its libraries, so that no job's seconds have that in them."""
    setting.out.mkdir(parents=True, exist_ok=True)
    start = [*run.null_cuda(Recorded(""), setting), setting.python, "-c", "import torch; torch.cuda.init()"]
    packages = {"PYTHONPATH": str(environment.ROOT / "nullcuda" / "python")}
    if failure := run.execute(start, os.environ | packages, setting.out / "build.log", 600, limited=True):
        raise SystemExit(f"null CUDA does not run: {failure}")


def repeat(name: str, recording: Path, setting: run.Setting) -> dict[str, Any]:
    """Run a job with the default allocator, which its recording is of, and with expandable segments."""
    job, folder = JOBS[name], setting.out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    trace = folder / "trace.pickle"
    os.environ["LIVE_TRACE"] = str(trace)
    default = run.run(job, "default", folder, setting)
    del os.environ["LIVE_TRACE"]
    longer = replace(job, steps=job.expandable_steps or job.steps)
    expandable = run.run(longer, "expandable", folder, setting)
    result: dict[str, Any] = {
        "error": default["error"] or expandable["error"],
        "seconds": default["wall_seconds"],
        "expandable": expandable["peak"],
    }
    if not result["error"]:
        result |= compare(load(recording), load(trace), job.routed)
    return result


def transformers(setting: run.Setting) -> Path:
    """Install the version of the recordings beside the one that is there; its folder."""
    folder = setting.out / f"transformers-{TRANSFORMERS}"
    if not folder.is_dir():
        part = folder.with_name(f"{folder.name}.part")
        wanted = f"transformers=={TRANSFORMERS}"
        environment.install(Path(setting.python), "--no-deps", "--target", str(part), wanted)
        part.rename(folder)
    return folder


# ---- events ----


class Event(NamedTuple):
    """What the allocator did."""

    action: str
    number: int  # of the allocation; -1 for a segment, and for what was allocated before
    size: int  # bytes
    stream: int


def load(path: Path) -> list[Event]:
    """Read the events of the device that has the most."""
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        trace = max(pickle.load(file)["device_traces"], key=len)
    live: dict[int, int] = {}
    streams: dict[int, int] = {}
    allocations = 0
    events = []
    for entry in trace:
        action, address = entry["action"], entry["addr"]
        stream = streams.setdefault(entry["stream"], len(streams))
        if action == "alloc":
            live[address] = allocations
            allocations += 1
        number = -1 if action.startswith("segment") else live.get(address, -1)
        events.append(Event(action, number, entry["size"], stream))
        if action == "free_completed":
            live.pop(address, None)
    return events


def is_free(event: Event) -> bool:
    return event.action.startswith("free")


def sorted_frees(events: list[Event]) -> list[Event]:
    """Put frees that follow each other in the order of their allocations."""
    done: list[Event] = []
    frees: list[Event] = []
    for event in events:
        if is_free(event):
            frees.append(event)
        else:
            done += [*sorted(frees), event]
            frees = []
    return done + sorted(frees)


def structure(events: list[Event]) -> list[Event]:
    """Leave out all sizes, and segments, which follow from sizes."""
    return [event._replace(size=0) for event in events if not event.action.startswith("segment")]


def peaks(events: list[Event]) -> dict[str, int]:
    """Say how many bytes were requested, and reserved, at most at once."""
    signs = {"alloc": (1, 0), "free_completed": (-1, 0), "segment_alloc": (0, 1), "segment_free": (0, -1)}
    requested = reserved = most_requested = most_reserved = 0
    for event in events:
        request, reserve = signs.get(event.action, (0, 0))
        requested += request * event.size
        reserved += reserve * event.size
        most_requested, most_reserved = max(most_requested, requested), max(most_reserved, reserved)
    return {"requested": most_requested, "reserved": most_reserved}


# ---- comparison ----


def compare(recorded: list[Event], here: list[Event], routed: bool) -> dict[str, Any]:
    """Say how much of a job's recording happens here, too; of sizes nothing where they follow a routing."""
    one, other = (structure(recorded), structure(here)) if routed else (recorded, here)
    result: dict[str, Any] = {
        "recorded": peaks(recorded),
        "here": peaks(here),
        "sizes_compared": not routed,
        "events": len(one),
        "events_here": len(other),
        "identical": len(one) if one == other else in_common(one, other),
        "exact": recorded == here,
    }
    if result["exact"]:
        return result
    first = prefix(recorded, here)
    return result | {
        "identical_with_frees_in_any_order": sorted_frees(recorded) == sorted_frees(here),
        "identical_prefix": first,
        "first_difference": [at(recorded, first), at(here, first)],
    }


def prefix(one: list[Event], other: list[Event]) -> int:
    """Count the events before the first difference."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))


def at(events: list[Event], index: int) -> str:
    """Write an event in words."""
    if index >= len(events):
        return "the end"
    event = events[index]
    of = f" of allocation {event.number}" if event.number >= 0 else ""
    return f"{event.action}{of}, {event.size} bytes, stream {event.stream}"


WINDOWS, ALIKE = (200, 20_000), 8  # how far to look for events that match again, and how many have to


def in_common(recorded: list[Event], here: list[Event]) -> int:
    """Count events that are in both in the same order; frees side by side may be in any.

    A free counts where it is of the same allocation in both.
    """
    one, other = sorted_frees(recorded), sorted_frees(here)
    pairs = {-1: -1}  # the number of each allocation that is in both, by its number here
    same = 0
    for i, j in aligned(*([event._replace(number=0) for event in events] for events in (one, other))):
        if one[i].action == "alloc":
            pairs[other[j].number] = one[i].number
        same += pairs.get(other[j].number) == one[i].number
    return same


def aligned(one: list[Event], other: list[Event]) -> Iterator[tuple[int, int]]:
    """Yield the places of events that belong together.

    After a difference it goes on where the next few events of both are alike, at the latest where both are
    the same up to their ends.
    """
    end = prefix(one[::-1], other[::-1])
    one, other = one[: len(one) - end], other[: len(other) - end]
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            yield i, j
            i, j = i + 1, j + 1
        else:
            i, j = meeting(one, other, i, j)
    yield from zip(range(len(one), len(one) + end), range(len(other), len(other) + end), strict=True)


def meeting(one: list[Event], other: list[Event], i: int, j: int) -> tuple[int, int]:
    """Say where behind i and j both are alike again; the ends where they are not."""
    for window in WINDOWS:
        some = {tuple(other[k : k + ALIKE]): k for k in reversed(range(j, min(j + window, len(other))))}
        found = [
            (k + some[next_few], k, some[next_few])
            for k in range(i, min(i + window, len(one)))
            if (next_few := tuple(one[k : k + ALIKE])) in some
        ]
        if found:
            return min(found)[1:]
    return len(one), len(other)


# ---- text ----


def summary(results: dict[str, dict[str, Any]]) -> str:
    """Make the table, and below it what is not identical; a star stands for "apart from sizes"."""
    head = [
        "job",
        "events identical / all",
        "requested",
        "here",
        "default",
        "here",
        "expandable",
        "here",
        "s",
    ]
    rows = [[name, *cells(result)] for name, result in results.items()]
    notes = [f"- {name}: {verdict(result)}" for name, result in results.items() if not result.get("exact")]
    return "\n".join([report.table(head, rows), *([""] if notes else []), *notes])


def cells(result: dict[str, Any]) -> list[str]:
    if result["error"]:
        return ["failed", *["-"] * 7]
    recorded, here = result["recorded"], result["here"]
    aside = "" if result["sizes_compared"] else "*"
    return [
        f"{result['identical']} / {result['events']}{aside}",
        *(gib(side[what]) for what in ("requested", "reserved") for side in (recorded, here)),
        gib(result["recorded_expandable"]),
        gib(result["expandable"]),
        f"{result['seconds']:.0f}",
    ]


def gib(size: int) -> str:
    return f"{size / report.GIB:.3f}"


def verdict(result: dict[str, Any]) -> str:
    """Say in words how a job compares."""
    if result["error"]:
        return str(result["error"])
    if result["exact"]:
        return f"all {result['events']} events identical"
    if result["identical_with_frees_in_any_order"]:
        return "identical but for the order of frees that follow each other"
    recorded, here = result["first_difference"]
    words = [
        f"{result['identical']} of {result['events']} events identical",
        f"here are {result['events_here']}, of which the first {result['identical_prefix']} are the same",
        f"then recorded: {recorded}; here: {here}",
    ]
    if not result["sizes_compared"]:
        words[0] += " apart from sizes"
    return "; ".join(words)


if __name__ == "__main__":
    sys.exit(main())
