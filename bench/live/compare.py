"""Set two live.json of run.py side by side: what was reserved after each step.

The first may be of null CUDA and the second of the GPU: compare.py null/live.json device/live.json
Below the table stand the runs that failed, those of other lengths, and those that only one of the two has.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from report import Run, gib, table

NEAR = 0.002  # what counts as the same
Runs = dict[tuple[str, str], Run]  # by job and allocator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--steps", action="store_true", help="print every step, too")
    chosen = parser.parse_args()
    print(comparison(runs_of(chosen.first), runs_of(chosen.second), chosen.steps))


def runs_of(path: Path) -> Runs:
    jobs = json.loads(path.read_text())["jobs"]
    return {(name, allocator): run for name, job in jobs.items() for allocator, run in job["runs"].items()}


def comparison(first: Runs, second: Runs, steps: bool) -> str:
    """Make the table of what both have, and the notes below it."""
    head = ["job", "allocator", "first", "second", "differs most by", "steps within 0.2 %"]
    rows = [row(key, first[key], run, steps) for key, run in second.items() if key in first]
    found = list(notes(first, second))
    return "\n".join([table(head, rows), *([""] if found else []), *found])


def row(key: tuple[str, str], one: Run, other: Run, show: bool) -> list[str]:
    """Compare two runs; peaks are those of the reserve."""
    if one["error"] or other["error"]:
        return [*key, *("failed" if run["error"] else gib(run["peak"]) for run in (one, other)), "-", "-"]
    pairs = list(zip(one["reserved_by_step"], other["reserved_by_step"], strict=False))
    apart = [difference(*pair) for pair in pairs]
    if show:
        steps = [
            [str(step), gib(left), gib(right), percent(part)]
            for step, ((left, right), part) in enumerate(zip(pairs, apart, strict=True), start=1)
        ]
        print(f"{', '.join(key)}: GiB reserved after each step")
        print(table(["step", "first", "second", "difference"], steps), end="\n\n")
    near = f"{sum(part <= NEAR for part in apart)} of {len(apart)}"
    return [*key, gib(one["peak"]), gib(other["peak"]), percent(max(apart)), near]


def notes(first: Runs, second: Runs) -> Iterator[str]:
    """Say what the table cannot."""
    for key in dict.fromkeys([*first, *second]):
        name = ", ".join(key)
        runs = [("first", first.get(key)), ("second", second.get(key))]
        for which, run in runs:
            if run is None:
                yield f"{name}: not in the {which}"
            elif run["error"]:
                yield f"{name}, {which}: {run['error']}"
        lengths = [len(run["reserved_by_step"]) for _, run in runs if run and not run["error"]]
        if len(set(lengths)) > 1:
            yield f"{name}: {lengths[0]} steps in the first, {lengths[1]} in the second"


def difference(one: int, other: int) -> float:
    """Relative to the larger."""
    return abs(one - other) / max(one, other, 1)


def percent(part: float) -> str:
    return f"{100 * part:.2f} %"


if __name__ == "__main__":
    main()
