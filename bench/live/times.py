"""Set the step times of several rounds of run.py side by side, as Markdown.

    python3 bench/live/times.py OUT/1/live.json OUT/2/live.json ...
    python3 bench/live/times.py --by-job OUT/*/live.json             a row for each job, memory too

Per job and allocator: the rounds that went well, of how many where some failed; the median step of the second
half of a run, divided by the default's in the same round; of these ratios the median, the least and the most
over the rounds; and per step, also in the second half, the milliseconds that all threads were busy, those
inside STWeaver, those of them inside the driver's calls that move memory, how many such calls there were, and
how often the host waited for work before memory was taken away.

By job: GiB asked for, GiB reserved under each allocator and the one as a share of the other, the default's
step, the ratio of each other allocator, and the milliseconds inside STWeaver and the calls of a step in its
runs, one allocator after the other; where there are several rounds, what is reserved and all times in the
median. "-" stands for what did not run, and for ratios where the default did not.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import report

# By step: a figure of report.figures(), what it is shown in, and the digits behind the point.
COSTS = (
    ("cpu_seconds_by_step", 1e-3, 0),
    ("nanoseconds_by_step", 1e6, 1),
    ("arena_nanoseconds_by_step", 1e6, 1),
    ("arena_calls_by_step", 1, 0),
    ("arena_waits_by_step", 1, 1),
)
INSIDE, CALLS = COSTS[1], COSTS[3]
NONE = "-"
Runs = dict[str, list[report.Run]]  # of each allocator that was tried, those that went well


def late(values: list[float]) -> float:
    return statistics.median(values[len(values) // 2 :])


def ratios(rounds: list[dict[str, Any]], allocator: str) -> list[float]:
    """Divide the allocator's step by the default's, in each round that has both."""
    pairs = [
        (runs[allocator]["seconds_by_step"], runs["default"]["seconds_by_step"])
        for runs in rounds
        if all(name in runs and not runs[name]["error"] for name in (allocator, "default"))
    ]
    return [late(ours) / late(default) for ours, default in pairs]


def milliseconds(runs: list[report.Run]) -> str:
    """Of a step."""
    if not runs:
        return NONE
    return f"{1e3 * statistics.median(late(run['seconds_by_step']) for run in runs):.0f}"


def cost(runs: list[report.Run], figure: str, unit: float, digits: int) -> str:
    if not runs:
        return NONE
    return f"{statistics.median(late(run[figure]) for run in runs) / unit:.{digits}f}"


def rows_by_allocator(job: str, rounds: list[dict[str, Any]], runs: Runs) -> list[list[str]]:
    """Make a row for each allocator that the job ran under."""
    rows = []
    for allocator, some in runs.items():
        found = ratios(rounds, allocator)
        times = [statistics.median(found), min(found), max(found)] if found else []
        texts = [f"{value:.3f}" for value in times] or [NONE] * 3
        costs = [cost(some, *figure) for figure in COSTS]
        tried = sum(allocator in one for one in rounds)
        went = str(tried) if len(some) == tried else f"{len(some)} of {tried}"
        rows.append([job, allocator, went, milliseconds(some), *texts, *costs])
    return rows


def reserve(runs: list[report.Run]) -> str:
    """Of the run in the middle."""
    return report.cell(sorted(runs, key=lambda run: run["peak"])[len(runs) // 2]) if runs else "failed"


def row_by_job(job: str, rounds: list[dict[str, Any]], runs: Runs, columns: list[str]) -> list[str]:
    """Make one row of all its runs; `columns` are allocators."""
    reserved = [reserve(runs[name]) if name in runs else "not run" for name in columns]
    times = [
        f"{statistics.median(found):.3f}" if (found := ratios(rounds, name)) else NONE for name in columns[1:]
    ]
    ours = [runs.get(name, []) for name in columns if name not in ("default", "expandable")]
    costs = [", ".join(cost(some, *figure) for some in ours) for figure in (INSIDE, CALLS)]
    asked = report.asked({name: some[0] for name, some in runs.items() if some})
    return [job, asked, *reserved, milliseconds(runs.get("default", [])), *times, *costs]


def gathered(documents: list[dict[str, Any]]) -> dict[str, tuple[list[dict[str, Any]], Runs]]:
    """Set the rounds of each job beside the runs of each allocator that went well."""
    jobs = {}
    for job in dict.fromkeys(name for document in documents for name in document):
        rounds = [document[job]["runs"] for document in documents if job in document]
        runs: Runs = {}
        for name, run in (pair for some in rounds for pair in some.items()):
            runs.setdefault(name, []).extend([] if run["error"] else [run])
        jobs[job] = rounds, runs
    return jobs


def main() -> None:
    summary, _, details = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("documents", nargs="+", type=Path, metavar="LIVE.json", help="a round of run.py")
    parser.add_argument("--by-job", action="store_true", help="a row for each job, memory too")
    chosen = parser.parse_args()
    jobs = gathered([json.loads(path.read_text())["jobs"] for path in chosen.documents])
    if chosen.by_job:
        columns = list(dict.fromkeys(["default", *(name for _, runs in jobs.values() for name in runs)]))
        head = ["job", "asked", *columns, "default, ms", *(f"{name} / default" for name in columns[1:])]
        rows = [row_by_job(job, rounds, runs, columns) for job, (rounds, runs) in jobs.items()]
        print(report.table([*head, "inside, ms", "calls"], rows))
        return
    head = ["job", "allocator", "rounds", "ms", "of default", "least", "most"]
    rows = [row for job, (rounds, runs) in jobs.items() for row in rows_by_allocator(job, rounds, runs)]
    print(report.table([*head, "cpu ms", "inside ms", "driver ms", "calls", "waits"], rows))


if __name__ == "__main__":
    main()
