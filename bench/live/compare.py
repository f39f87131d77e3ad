"""Set two live.json of run.py side by side: what was reserved after each step.

The first may be of null CUDA and the second of the GPU: compare.py null/live.json device/live.json
"""

import argparse
import json
from pathlib import Path
from typing import Any

from report import gib, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    chosen = parser.parse_args()
    one, other = (json.loads(path.read_text())["jobs"] for path in (chosen.first, chosen.second))
    worst = {name: compare(name, one[name]["runs"], other[name]["runs"]) for name in one if name in other}
    print(table(["job", "largest difference"], [[name, percent(size)] for name, size in worst.items()]))


def compare(name: str, one: dict[str, Any], other: dict[str, Any]) -> float:
    """Print every step of a job; the largest relative difference."""
    worst = 0.0
    for allocator in one:
        if allocator not in other:
            continue
        pairs = list(
            zip(one[allocator]["reserved_by_step"], other[allocator]["reserved_by_step"], strict=False)
        )
        apart = [difference(*pair) for pair in pairs]
        worst = max([worst, *apart])
        print(f"{name}, {allocator}: GiB reserved after each step")
        rows = [
            [str(step), gib(left), gib(right), percent(part)]
            for step, ((left, right), part) in enumerate(zip(pairs, apart, strict=True), start=1)
        ]
        print(table(["step", "first", "second", "difference"], rows), end="\n\n")
    return worst


def difference(one: int, other: int) -> float:
    """Relative to the larger."""
    return abs(one - other) / max(one, other, 1)


def percent(part: float) -> str:
    return f"{100 * part:.2f} %"


if __name__ == "__main__":
    main()
