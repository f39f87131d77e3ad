"""Run pymoo's NSGA-III on the MaF problems of `bench/maf`, with the same budgets: IGD and speed.

pymoo is no dependency of the project: `pip install pymoo` where this runs. Populations are those
of the reference directions, in two layers where one would be too large: 126, 275 and 135 for 5, 10
and 15 objectives. MaF9 is left out: its points need a repair.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pymoo.algorithms.moo.nsga3 import NSGA3
from pymoo.core.problem import Problem
from pymoo.optimize import minimize
from pymoo.util.ref_dirs import get_reference_directions

COMMAND = Path(__file__).resolve().parents[1] / "build/release/bench/maf"
MAF9 = 9
PROBLEMS = 15
# Parts of the outer and the inner layer of reference directions.
LAYERS = {5: (5, 0), 10: (3, 2), 15: (2, 1)}


class Maf(Problem):  # type: ignore[misc]
    """A MaF problem whose objectives `bench/maf --answer` computes."""

    def __init__(self, name: str, objectives: int) -> None:
        """Start the process that answers."""
        arguments = [str(COMMAND), "--problem", name, "--objectives", str(objectives)]
        front = subprocess.run([*arguments, "--front"], check=True, capture_output=True, text=True).stdout
        lower, upper, *points = ([float(value) for value in line.split()] for line in front.splitlines())
        self.front = np.array(points)
        super().__init__(n_var=len(lower), n_obj=objectives, xl=np.array(lower), xu=np.array(upper))
        self.process = subprocess.Popen(
            [*arguments, "--answer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def _evaluate(self, x: Any, out: dict[str, Any], *_: Any, **__: Any) -> None:  # noqa: ANN401
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        rows = []
        # A few at a time, so that neither pipe fills up.
        for row in np.ascontiguousarray(np.clip(x, self.xl, self.xu), dtype=np.float64):
            self.process.stdin.write(row.tobytes())
            answer = b""
            while len(answer) < 8 * self.n_obj:
                part = self.process.stdout.read(8 * self.n_obj - len(answer))
                if not part:
                    sys.exit("bench/maf gave no answer: is it built?")
                answer += part
            rows.append(np.frombuffer(answer))
        out["F"] = np.array(rows)

    def close(self) -> None:
        """End the process that answers."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def distance(front: Any, found: Any) -> float:  # noqa: ANN401
    """Mean distance of the front's points to the nearest found: the IGD."""
    return float(np.mean([np.sqrt(((found - point) ** 2).sum(axis=1).min()) for point in front]))


def directions(objectives: int) -> Any:  # noqa: ANN401
    outer, inner = LAYERS[objectives]
    points = get_reference_directions("das-dennis", objectives, n_partitions=outer)
    if inner:
        within = get_reference_directions("das-dennis", objectives, n_partitions=inner, scaling=0.5)
        points = np.vstack([points, within])
    return points


def run(problem: Maf, evaluations: int, seed: int) -> float:
    """Search once, and return the IGD of the last population."""
    algorithm = NSGA3(ref_dirs=directions(problem.n_obj))
    result = minimize(problem, algorithm, ("n_eval", evaluations), seed=seed, verbose=False)
    return distance(problem.front, result.pop.get("F"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", nargs="*", help="MaF1 to MaF15 (default: all but MaF9)")
    parser.add_argument("--objectives", type=int, default=5, choices=sorted(LAYERS))
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    names = options.problem or [f"MaF{i}" for i in range(1, PROBLEMS + 1) if i != MAF9]
    print(f"{'problem':<8}{'M':>4}{'runs':>6}{'mean IGD':>12}{'deviation':>12}{'eval/s':>10}")
    for name in names:
        problem = Maf(name, options.objectives)
        evaluations = max(100_000, 10_000 * problem.n_var)
        begin = time.process_time()  # objectives are computed in another process
        values = [run(problem, evaluations, seed) for seed in range(1, options.runs + 1)]
        speed = options.runs * evaluations / (time.process_time() - begin)
        problem.close()
        deviation = statistics.stdev(values) if options.runs > 1 else 0
        print(
            f"{name:<8}{options.objectives:>4}{options.runs:>6}{statistics.mean(values):>12.5g}"
            f"{deviation:>12.3g}{speed:>10.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
