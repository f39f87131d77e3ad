"""Plan every example (or what is given) and print size, bound, peak, ratio, winner, seconds, memory."""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MIB = 1024 * 1024
GOOD_RATIO = 1.0005


@dataclass
class Row:
    """What one run of `stweaver plan` said, and what it cost."""

    name: str
    requests: int
    lower_bound: int  # bytes, or the instance's own unit
    peak: int
    ratio: float
    winner: str
    threads: int
    seconds: float  # planning alone, as the command says
    total_seconds: float  # the whole process, reading included
    memory: int  # bytes: the largest resident set of the process


def examples() -> list[Path]:
    """Find every trace that ships with the project."""
    return sorted((ROOT / "examples" / "traces").glob("*.pickle.xz"))


def files(paths: list[Path]) -> list[Path]:
    """Put the planning instances below each folder in its place."""
    found = []
    for path in paths:
        some = sorted(path.rglob("*.csv")) if path.is_dir() else [path]
        if not some:
            raise SystemExit(f"bench: {path}: no .csv below this folder; name traces one by one")
        found += some
    return found


def measure(command: Path, path: Path, timeout: float) -> Row:
    """Run the planner once on a file, in a process of its own."""
    begin = time.perf_counter()
    call = [str(command), "plan", str(path), "--json", "--timeout", str(timeout)]
    with subprocess.Popen(call, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    total = time.perf_counter() - begin
    if process.returncode != 0:
        raise SystemExit(f"bench: {command} plan {path} ended with status {process.returncode}")
    said = json.loads(output)
    return Row(
        name=path.name.split(".pickle")[0].removesuffix(".csv"),
        requests=said["requests"],
        lower_bound=said["lower_bound"],
        peak=said["peak"],
        ratio=said["ratio"],
        winner=said["winner"],
        threads=said["threads"],
        seconds=said["seconds"],
        total_seconds=total,
        memory=usage.ru_maxrss * 1024,
    )


HEADER = (
    f"{'instance':23} {'n':>7} {'bound':>14} {'peak':>14} {'ratio':>9}"
    f" {'seconds':>8} {'total':>8} {'MiB':>7}  winner"
)


def line(row: Row) -> str:
    """Lay out one row of the table."""
    return (
        f"{row.name:23} {row.requests:7d} {row.lower_bound:14d} {row.peak:14d} {row.ratio:9.6f}"
        f" {row.seconds:8.3f} {row.total_seconds:8.3f} {row.memory / MIB:7.1f}  {row.winner}"
    )


def print_summary(rows: list[Row]) -> None:
    """Count, for each family of names that differ in what follows the last underscore."""
    families: dict[str, list[float]] = {}
    for row in rows:
        families.setdefault(row.name.rpartition("_")[0], []).append(row.ratio)
    print(f"{'family':23} {'jobs':>5} {'at the bound':>13} {'above 1.0005':>13} {'worst':>9}")
    for family, ratios in families.items():
        met = sum(ratio == 1 for ratio in ratios)
        above = sum(ratio > GOOD_RATIO for ratio in ratios)
        print(f"{family:23} {len(ratios):5d} {met:13d} {above:13d} {max(ratios):9.6f}")


def main() -> int:
    """Measure and print, row by row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "paths", nargs="*", type=Path, help="traces, CSV instances, folders of these (default: all examples)"
    )
    parser.add_argument(
        "--command", type=Path, default=ROOT / "build/release/stweaver", help="the stweaver to run"
    )
    parser.add_argument("--timeout", type=float, default=1, help="seconds for each search (default: 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument(
        "--summary", action="store_true", help="print how many are good, by family, at the end"
    )
    options = parser.parse_args()
    if not options.command.is_file():
        raise SystemExit(f"bench: {options.command} is missing: run make build")
    paths = files(options.paths) or examples()
    rows = []
    if not options.json:
        print(HEADER)
    for path in paths:
        rows.append(measure(options.command.resolve(), path, options.timeout))
        if not options.json:
            print(line(rows[-1]), flush=True)
    if options.json:
        json.dump([asdict(row) for row in rows], sys.stdout, indent=2)
        print()
    elif options.summary:
        print_summary(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
