"""From the lines that a job wrote at its steps to figures, and from figures to a table."""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

GIB = 1 << 30
FAILURE = r"(Error|Exception)\b.*:|^Killed|Segmentation"  # what the last words of a program look like
Run = dict[str, Any]


def read(steps: Path) -> list[dict[str, Any]]:
    """Read a line for each step."""
    return [json.loads(line) for line in steps.read_text().splitlines()] if steps.exists() else []


def figures(steps: list[dict[str, Any]]) -> Run:
    """Say what a run took; sizes in bytes, `by_step` lists with an entry for each step."""
    last = steps[-1] if steps else {}

    def by_step(figure: str) -> list[int]:
        return [after - before for before, after in pairwise([0, *[step.get(figure, 0) for step in steps]])]

    return {
        "asked": last.get("peak_requested", 0),
        "peak": last.get("peak_reserved", 0),
        "reserved_by_step": [step["reserved"] for step in steps],
        "requested_by_step": [step["requested"] for step in steps],
        "seconds_by_step": [step["seconds"] for step in steps],
        "cpu_seconds_by_step": [step["cpu_seconds"] for step in steps],
        "nanoseconds_by_step": by_step("nanoseconds"),
        "arena_nanoseconds_by_step": by_step("arena_nanoseconds"),
        "arena_calls_by_step": by_step("arena_calls"),
        "arena_waits_by_step": by_step("arena_waits"),
        "driver_calls": last.get("driver_calls", 0),
        "arena_calls": last.get("arena_calls", 0),
        "arena_waits": last.get("arena_waits", 0),
        "hits": last.get("hits", 0),
        "misses": last.get("misses", 0),
    }


def last_line(log: Path, pattern: str) -> str:
    """Find the last line of a log that has the pattern; the last one where none has it."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    found = [line for line in lines if re.search(pattern, line)]
    return (found or lines or ["no output"])[-1][:300]


# ---- text ----


def line(run: Run) -> str:
    """Say what a run took, in one line."""
    what = (
        f"{gib(run['asked'])} GiB asked, {gib(run['peak'])} reserved, "
        f"{len(run['reserved_by_step'])} steps, {run['wall_seconds']:.0f} s"
    )
    return f"{what}; {run['error']}" if run["error"] else what


def summary(document: dict[str, Any]) -> str:
    """Make a table of all jobs: the most that each allocator reserved, and the share of it asked for."""
    jobs = document["jobs"]
    columns = list(dict.fromkeys(name for job in jobs.values() for name in job["runs"]))
    rows = [
        [name, asked(job["runs"]), *[cell(job["runs"].get(column)) for column in columns]]
        for name, job in jobs.items()
    ]
    failures = [
        f"{name}, {allocator}: {run['error']}"
        for name, job in jobs.items()
        for allocator, run in job["runs"].items()
        if run["error"]
    ]
    return "\n".join([table(["job", "asked", *columns], rows), *([""] if failures else []), *failures])


def asked(runs: dict[str, Run]) -> str:
    """Give what the job asked for where it went well."""
    sizes = [run["asked"] for run in runs.values() if not run["error"]]
    return gib(sizes[0]) if sizes else "-"


def cell(run: Run | None) -> str:
    if run is None:
        return "not run"
    if run["error"]:
        return "failed"
    return f"{gib(run['peak'])} {100 * run['asked'] / run['peak']:.1f} %"


def gib(size: float) -> str:
    return f"{size / GIB:.2f}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Make a Markdown table; numbers to the right."""
    lines = [list(head), *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]

    def text(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(cells, widths, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = f"| {' | '.join('-' * width for width in widths)} |"
    return "\n".join([text(lines[0]), rule, *map(text, lines[1:])])
