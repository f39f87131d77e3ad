"""Draw what each allocator reserves over the steps of one workload, from the results of table.py.

    python3 bench/gpu/picture.py --out build/gpu --workload trainer --picture docs/results/trainer.svg

Needs matplotlib. The dashed line is the most that the job asked for at one time.
"""

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

from common import ALLOCATORS

from report import GIB

COLOURS = {"default": "tab:red", "expandable": "tab:orange", "online": "tab:blue", "saved": "tab:green"}


def results(folder: Path, workload: str) -> dict[str, dict[str, Any]]:
    """Read the first run under each allocator that was tried."""
    paths = {name: folder / f"{workload}.{name}.0.json" for name in ALLOCATORS}
    found = {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    if not found:
        raise SystemExit(f"no results of {workload} in {folder}: run table.py --workloads {workload} first")
    return found


def draw(workload: str, found: dict[str, dict[str, Any]], picture: Path) -> None:
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.rcParams["svg.hashsalt"] = workload  # the same results make the same file
    figure: Any = importlib.import_module("matplotlib.figure").Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for name, result in found.items():
        reserved = [size / GIB for size in result["reserved"]]
        axes.step(range(1, len(reserved) + 1), reserved, where="mid", color=COLOURS[name], label=name)
    requested = max(result["whole"]["requested"] for result in found.values()) / GIB
    axes.axhline(requested, color="black", linestyle="--", linewidth=1, label="asked for, at most")
    axes.set(xlabel="step", ylabel="GiB reserved after the step", title=workload, ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(picture, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder with the results of table.py")
    parser.add_argument("--workload", required=True)
    parser.add_argument("--picture", type=Path, required=True, help="where to write it: .svg or .png")
    options = parser.parse_args()
    draw(options.workload, results(options.out, options.workload), options.picture)


if __name__ == "__main__":
    main()
