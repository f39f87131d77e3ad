"""How well the time model of `advise` predicts steps that it was not fitted on.

python3 bench/advise.py FOLDER, which holds tables of measured steps: vtrain_single.csv, vtrain_multi.csv,
bridge.csv, torchtitan.csv. Constants are fitted on a part of each, named below, and judged on the rest.
"""

import argparse
import csv
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMAND = Path(__file__).resolve().parents[1] / "build/release/stweaver"
Row = dict[str, str]
Part = Callable[[int, Row], bool]

LAYOUT = ["model", "task", "gpu", "precision", "gpus", "gbs", "mbs", "seq"]
LAYOUT += ["fsdp", "tp", "pp", "cp", "vp", "ep"]
SAME = {"FP8-CS": "FP8", "FP8-MX": "MXFP8", "": "0"}


def every_second_configuration() -> Part:
    """Keep the measurements of one configuration in several releases in one part."""
    seen: dict[tuple[str, ...], int] = {}

    def chosen(_: int, row: Row) -> bool:
        key = tuple(SAME.get(row[column], row[column]) for column in LAYOUT)
        return seen.setdefault(key, len(seen)) % 2 == 0

    return chosen


# What constants are fitted on; the rest is what they are judged on.
PARTS: dict[str, Part] = {
    "vtrain_single": lambda _, row: row["layers"] in ("12", "20"),
    "vtrain_multi": lambda number, _: number % 5 == 0,
    "bridge": every_second_configuration(),
    "torchtitan": lambda number, _: number % 4 in (0, 3),
}


def split(table: Path, part: Part, folder: Path) -> tuple[Path, Path]:
    """Write the two parts of a table."""
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    fitted = [part(number, row) for number, row in enumerate(rows)]
    paths = folder / f"{table.stem}_fit.csv", folder / f"{table.stem}_rest.csv"
    for path, keep in zip(paths, (True, False), strict=True):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(row for row, mark in zip(rows, fitted, strict=True) if mark == keep)
    return paths


def advise(*arguments: str | Path) -> Any:  # noqa: ANN401  (a JSON document)
    """Run the command and return its document."""
    command = [COMMAND, "advise", *arguments, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Fit, judge, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    data = parser.parse_args().folder
    print("| table | fitted on | judged on | mean error | median | rank correlation | loss | worst loss |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        single = folder / "vtrain_single.json"
        for table, part in PARTS.items():
            fit, rest = split(data / f"{table}.csv", part, folder)
            constants = folder / f"{table}.json"
            # Between nodes, one constant more; the rest stays what a single node said.
            more: list[str | Path] = []
            if table == "vtrain_multi":
                more = ["--only", "several_nodes", "--constants", single]
            fitted = advise("--fit", fit, "-o", constants, *more)
            judged = advise("--predict", rest, "--constants", constants)
            errors = f"{judged['mean_absolute_error']:.1%} | {judged['median_absolute_error']:.1%}"
            loss = f"{judged['loss']:.1%} | {judged['worst_loss']:.1%}"
            rank = f"{judged['rank_correlation']:.3f}"
            print(f"| {table} | {fitted['rows']} | {judged['rows']} | {errors} | {rank} | {loss} |")


if __name__ == "__main__":
    main()
