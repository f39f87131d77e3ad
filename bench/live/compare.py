"""Set two live.json of run.py side by side: what was reserved after each step.

The first may be of null CUDA and the second of the GPU: compare.py null/live.json device/live.json
"""

import argparse
import json
from pathlib import Path

from report import Run, gib, table

NEAR = 0.002  # what counts as the same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--steps", action="store_true", help="print every step, too")
    chosen = parser.parse_args()
    one, other = (json.loads(path.read_text())["jobs"] for path in (chosen.first, chosen.second))
    rows = [
        row(name, allocator, one[name]["runs"][allocator], run, chosen.steps)
        for name, job in other.items()
        for allocator, run in job["runs"].items()
        if name in one and allocator in one[name]["runs"]
    ]
    print(table(["job", "allocator", "first", "second", "differs most by", "steps within 0.2 %"], rows))


def row(name: str, allocator: str, one: Run, other: Run, show: bool) -> list[str]:
    """Compare two runs; peaks are those of the reserve."""
    pairs = list(zip(one["reserved_by_step"], other["reserved_by_step"], strict=False))
    apart = [difference(*pair) for pair in pairs]
    if show:
        steps = [
            [str(step), gib(left), gib(right), percent(part)]
            for step, ((left, right), part) in enumerate(zip(pairs, apart, strict=True), start=1)
        ]
        print(f"{name}, {allocator}: GiB reserved after each step")
        print(table(["step", "first", "second", "difference"], steps), end="\n\n")
    if not apart:
        return [name, allocator, "-", "-", one["error"] or other["error"], "-"]
    near = sum(part <= NEAR for part in apart)
    return [
        name,
        allocator,
        gib(one["peak"]),
        gib(other["peak"]),
        percent(max(apart)),
        f"{near} of {len(apart)}",
    ]


def difference(one: int, other: int) -> float:
    """Relative to the larger."""
    return abs(one - other) / max(one, other, 1)


def percent(part: float) -> str:
    return f"{100 * part:.2f} %"


if __name__ == "__main__":
    main()
