"""How much of an advisor's front searches find: MaOEA-CS, NSGA-III and random search, as a table.

pymoo, whose NSGA-III this is, is no dependency of the project: `pip install pymoo` where this runs. All see
points mended in the same way and are judged by everything feasible that they evaluated.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from pymoo.algorithms.moo.nsga3 import NSGA3
from pymoo.core.problem import Problem
from pymoo.core.repair import Repair
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM
from pymoo.operators.repair.rounding import RoundingRepair
from pymoo.operators.sampling.rnd import IntegerRandomSampling
from pymoo.optimize import minimize
from pymoo.util.ref_dirs import get_reference_directions

COMMAND = Path(__file__).resolve().parents[1] / "build/release/bench/fronts"
# Parts of the reference directions: 91 points of three objectives, 84 of four.
PARTITIONS = {3: 12, 4: 6}


class Answers:
    """`bench/fronts --answer`: mends and evaluates points."""

    def __init__(self, name: str) -> None:
        """Start it."""
        self.process = subprocess.Popen(
            [COMMAND, "--answer", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        variables = int(self.read(1)[0])
        self.upper = self.read(variables)
        self.objectives = int(self.read(1)[0])
        self.known: dict[bytes, Any] = {}

    def read(self, count: int) -> Any:  # noqa: ANN401
        """So many numbers."""
        assert self.process.stdout is not None
        answer = self.process.stdout.read(8 * count)
        if len(answer) < 8 * count:
            sys.exit("bench/fronts gave no answer: is it built?")
        return np.frombuffer(answer)

    def mended(self, point: Any) -> Any:  # noqa: ANN401
        """Return a point that can run; what it costs is known from then on."""
        assert self.process.stdin is not None
        self.process.stdin.write(np.asarray(point, dtype=np.float64).tobytes())
        self.process.stdin.flush()
        variables = len(self.upper)
        answer = self.read(variables + 1 + self.objectives)
        self.known[answer[:variables].tobytes()] = answer[variables:]
        return answer[:variables]

    def shares(self) -> Any:  # noqa: ANN401
        """End it; returns the shares of volume and of points that were found."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        shares = self.read(2)
        self.process.wait()
        return shares


class Mend(Repair):  # type: ignore[misc]
    """Round, then mend."""

    def _do(self, problem: Any, points: Any, **_: Any) -> Any:  # noqa: ANN401
        return np.array([problem.answers.mended(point) for point in np.rint(points)])


class Advisor(Problem):  # type: ignore[misc]
    """A problem that `bench/fronts` answers for."""

    def __init__(self, answers: Answers) -> None:
        """Take its shape from there."""
        self.answers = answers
        super().__init__(
            n_var=len(answers.upper),
            n_obj=answers.objectives,
            n_ieq_constr=1,
            xl=np.zeros(len(answers.upper)),
            xu=answers.upper,
            vtype=int,
        )

    def _evaluate(self, x: Any, out: dict[str, Any], *_: Any, **__: Any) -> None:  # noqa: ANN401
        rows = np.array([self.answers.known[np.asarray(row, dtype=np.float64).tobytes()] for row in x])
        out["G"] = rows[:, :1]
        out["F"] = rows[:, 1:]


def nsga3(name: str, evaluations: int, seed: int) -> Any:  # noqa: ANN401
    """Shares of volume and points that NSGA-III finds."""
    answers = Answers(name)
    directions = get_reference_directions(
        "das-dennis", answers.objectives, n_partitions=PARTITIONS[answers.objectives]
    )
    algorithm = NSGA3(
        ref_dirs=directions,
        sampling=IntegerRandomSampling(),
        crossover=SBX(repair=RoundingRepair(), vtype=float),
        mutation=PM(repair=RoundingRepair(), vtype=float),
        repair=Mend(),
    )
    minimize(Advisor(answers), algorithm, ("n_eval", evaluations), seed=seed, verbose=False)
    return answers.shares()


def cell(values: list[float]) -> str:
    """Mean and deviation, in per cent."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0
    return f"{100 * statistics.mean(values):.1f} ± {100 * deviation:.1f}"


def main() -> None:
    """Search, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    command = [str(COMMAND), "--seeds", str(seeds)]
    cases = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print("| problem | configurations | front | evaluations | search | hypervolume | front's points |")
    print("|---|---|---|---|---|---|---|")
    for case in cases:
        what = f"{case['model']}, {case['gpus']} {case['gpu']}, M = {case['objectives']}"
        for budget in case["budgets"]:
            evaluations = budget["evaluations"]
            shares = [nsga3(case["problem"], evaluations, seed) for seed in range(1, seeds + 1)]
            budget["NSGA-III"] = {"volume": [s[0] for s in shares], "found": [s[1] for s in shares]}
            for search in ("MaOEA-CS", "NSGA-III", "random"):
                found = budget[search]
                print(
                    f"| {what} | {case['configurations']} | {case['front']} | {evaluations} | {search} "
                    f"| {cell(found['volume'])} | {cell(found['found'])} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
