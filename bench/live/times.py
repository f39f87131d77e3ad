"""Set the step times of several rounds of run.py side by side, as Markdown.

    python3 bench/live/times.py OUT/1/live.json OUT/2/live.json ...

Per job and allocator: the median step of the second half of a run, divided by the default's in the same
round; of these ratios the median, the least and the most over the rounds, none where the default was not
run; and per step, also in the second half, the milliseconds that all threads were busy, those inside
STWeaver, those of them inside the driver's calls that move memory, how many such calls there were, and how
often the host waited for work before memory was taken away.
"""

import json
import statistics
import sys
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


def main() -> None:
    documents = [json.loads(Path(path).read_text())["jobs"] for path in sys.argv[1:]]
    rows = []
    for job in dict.fromkeys(name for document in documents for name in document):
        rounds = [document[job]["runs"] for document in documents if job in document]
        for allocator in dict.fromkeys(name for runs in rounds for name in runs):
            found = ratios(rounds, allocator)
            runs = [some[allocator] for some in rounds if allocator in some and not some[allocator]["error"]]
            if not runs:
                continue
            seconds = statistics.median(late(run["seconds_by_step"]) for run in runs)
            costs = [
                f"{statistics.median(late(run[figure]) for run in runs) / unit:.{digits}f}"
                for figure, unit, digits in COSTS
            ]
            times = (
                [f"{value:.3f}" for value in (statistics.median(found), min(found), max(found))]
                if found
                else [""] * 3
            )
            rows.append([job, allocator, str(len(runs)), f"{1e3 * seconds:.0f}", *times, *costs])
    head = ["job", "allocator", "rounds", "ms", "of default", "least", "most"]
    print(report.table([*head, "cpu ms", "inside ms", "driver ms", "calls", "waits"], rows))


if __name__ == "__main__":
    main()
