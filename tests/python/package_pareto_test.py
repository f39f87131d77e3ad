"""`stweaver.pareto`: the search with objectives in Python, evaluated here, by threads and by processes."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from stweaver import Error, pareto
from stweaver.pareto import Categorical, Integer, Point, Problem, Real, minimize

VARIABLES: dict[str, pareto.Variable] = {
    "x": Real(0, 1),
    "n": Integer(1, 64),
    "kind": Categorical(["slow", "quick", "odd"]),
}


def cost(point: Point) -> tuple[float, float]:
    delay = {"slow": 3.0, "quick": 0.0, "odd": 1.0}[point["kind"]]
    return point["x"] + point["n"] / 64 + delay, (1 - point["x"]) * 64 / point["n"] + delay


def cost_of_all(points: list[Point]) -> list[tuple[float, float]]:
    return [cost(point) for point in points]


PROBLEM = Problem(VARIABLES, objectives=2, evaluate=cost)
BATCHES = Problem(VARIABLES, objectives=2, evaluate_batch=cost_of_all)
few = partial(minimize, evaluations=300, seed=7)


def test_points_have_the_values_of_their_variables() -> None:
    result = few(PROBLEM)
    assert result.end == "evaluations"
    assert 300 <= result.evaluations < 350
    for solution in (*result.front, *result.population, *result.corners):
        point = solution.variables
        assert isinstance(point["x"], float)
        assert isinstance(point["n"], int)
        assert 0 <= point["x"] <= 1 <= point["n"] <= 64
        assert solution.objectives == cost(point)
        assert solution.violation == 0
    assert {solution.variables["kind"] for solution in result.corners} == {"quick"}


def test_nothing_on_the_front_is_dominated() -> None:
    front = [solution.objectives for solution in few(PROBLEM).front]
    assert front == sorted(front)
    for before, after in pairwise(front):
        assert before[0] < after[0]
        assert before[1] > after[1]


@pytest.mark.parametrize(
    ("problem", "batch"), [(PROBLEM, None), (BATCHES, None), (BATCHES, 7)], ids=["single", "whole", "pieces"]
)
def test_a_seed_gives_the_same_front_wherever_points_are_evaluated(
    problem: Problem, batch: int | None
) -> None:
    here = few(PROBLEM)
    spawn = get_context("spawn")
    executors: list[Executor] = [ThreadPoolExecutor(4), ProcessPoolExecutor(2, mp_context=spawn)]
    for executor in executors:
        with executor:
            there = few(problem, batch=batch, executor=executor)
        assert (there.front, there.population) == (here.front, here.population)
    assert few(problem, batch=batch).front == here.front
    assert few(problem, batch=batch, seed=8).front != here.front


def test_threads_evaluate_a_generation_at_once() -> None:
    everyone = threading.Barrier(8, timeout=60)

    def evaluate(point: Point) -> tuple[float, float]:
        everyone.wait()
        return cost(point)

    problem = Problem(VARIABLES, objectives=2, evaluate=evaluate)
    with ThreadPoolExecutor(8) as executor:
        assert minimize(problem, evaluations=16, population=8, executor=executor).evaluations == 16


def test_constraints_hold_on_the_front() -> None:
    def evaluate(point: Point) -> tuple[Sequence[float] | None, Sequence[float]]:
        excess = (point["n"] - 32, 0.25 - point["x"])
        return (None if max(excess) > 0 else cost(point), excess)

    result = few(Problem(VARIABLES, objectives=2, evaluate=evaluate, constraints=2), evaluations=2000)
    assert result.front
    for solution in result.front:
        assert solution.variables["n"] <= 32
        assert solution.variables["x"] >= 0.25
        assert solution.violation == 0
    assert min(solution.variables["x"] for solution in result.front) < 0.3


def test_a_search_ends_with_its_last_point_or_when_nothing_moves() -> None:
    small = Problem({"n": Integer(0, 5)}, objectives=2, evaluate=lambda point: (point["n"], -point["n"]))
    assert few(small).end == "no new points"
    assert few(small).evaluations == 6
    flat = Problem({"x": Real(0, 1)}, objectives=1, evaluate=lambda _: (1.0,))
    result = minimize(flat, stagnation=100)
    assert result.end == "stagnation"
    assert result.evaluations < 200


@pytest.mark.parametrize("threads", [0, 2])
def test_a_search_ends_in_time_with_what_it_has(threads: int) -> None:
    def evaluate(point: Point) -> tuple[float, float]:
        time.sleep(0.02)
        return cost(point)

    problem = Problem(VARIABLES, objectives=2, evaluate=evaluate)
    executor = ThreadPoolExecutor(threads) if threads else None
    result = minimize(problem, seconds=0.3, executor=executor)
    if executor:
        executor.shutdown()
    assert result.end == "seconds"
    assert 1 <= result.evaluations <= 15 * max(threads, 1)
    assert result.front


@pytest.mark.parametrize("threads", [0, 2])
def test_an_exception_ends_the_search(threads: int) -> None:
    calls = []

    def evaluate(point: Point) -> tuple[float, float]:
        calls.append(point)
        if len(calls) >= 3:
            raise ZeroDivisionError("of ours")
        return cost(point)

    problem = Problem(VARIABLES, objectives=2, evaluate=evaluate)
    executor = ThreadPoolExecutor(threads) if threads else None
    with pytest.raises(ZeroDivisionError, match="of ours"):
        minimize(problem, executor=executor)
    if executor:
        executor.shutdown()
    assert len(calls) < 50, "the rest of the generation is not begun"


def test_an_interrupt_gives_the_best_so_far() -> None:
    calls = []

    def evaluate(point: Point) -> tuple[float, float]:
        calls.append(point)
        if len(calls) == 60:
            raise KeyboardInterrupt
        return cost(point)

    result = minimize(Problem(VARIABLES, objectives=2, evaluate=evaluate))
    assert result.end == "interrupt"
    assert result.evaluations == 59
    assert result.front


# As from a terminal: every process of the group gets the signal.
INTERRUPTED = """
import signal, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from stweaver.pareto import Problem, Real, minimize

def evaluate(point):
    time.sleep(0.01)
    return point["x"], -point["x"]

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever was inherited
    problem = Problem({"x": Real(0, 1)}, objectives=2, evaluate=evaluate)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        executor.submit(evaluate, {"x": 0}).result()
        print("ready", flush=True)
        result = minimize(problem, evaluations=10**6, executor=executor)
    print(result.end, result.evaluations > 0, len(result.front) > 0)
"""


@pytest.mark.slow
def test_ctrl_c_reaches_processes_too_and_gives_the_best_so_far(tmp_path: Path) -> None:
    program = tmp_path / "interrupted.py"
    program.write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # of processes that were interrupted
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        start_new_session=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupt True True\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ((1.0, float("nan")), "objective 1 is nan"),
        ((float("inf"), 1.0), "objective 0 is inf"),
        ((1.0,), "1 objectives, not 2"),
        (None, "no sequence of numbers"),
        (("a", "b"), "no sequence of numbers"),
        ("12", "no sequence of numbers"),
        (("1", "2"), "no sequence of numbers"),
        ({1.0, 2.0}, "no sequence of numbers"),
        ((10**400, 1.0), "no sequence of numbers"),
    ],
)
def test_an_answer_that_is_none_is_an_error_that_names_the_point(
    answer: Any,  # noqa: ANN401  (that is the point)
    complaint: str,
) -> None:
    problem = Problem(VARIABLES, objectives=2, evaluate=lambda _: answer)
    with pytest.raises(Error, match=complaint) as error:
        few(problem)
    assert re.search(r"at the point {'x': 0\.\d+, 'n': \d+, 'kind': '\w+'}", str(error.value))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("problem", "options", "complaint"),
    [
        (Problem(VARIABLES, 2), {}, "one of evaluate and evaluate_batch"),
        (Problem(VARIABLES, 2, cost, cost_of_all), {}, "one of evaluate and evaluate_batch"),
        (Problem({}, 2, cost), {}, "no variables"),
        (Problem(VARIABLES, 0, cost), {}, "objectives=0: must be 1 to"),
        (Problem({"x": Real(1, 0)}, 2, cost), {}, r"variable x lies in \[1, 0\]"),
        (Problem({"x": Real(0, float("inf"))}, 2, cost), {}, "finite bounds"),
        (Problem({"k": Categorical([])}, 2, cost), {}, "variable k has no choices"),
        (Problem(VARIABLES, 2, lambda _: [1.0], constraints=1), {}, "no pair"),
        (Problem(VARIABLES, 2, evaluate_batch=lambda _: []), {}, "0 answers for 50 points"),
        (PROBLEM, {"batch": 2}, "needs evaluate_batch"),
        (PROBLEM, {"seconds": -1}, "seconds=-1"),
        (PROBLEM, {"seconds": "5"}, "seconds='5': must be 0 or more"),
        (BATCHES, {"batch": 2.0}, "batch=2.0: must be a whole number"),
        (BATCHES, {"batch": 0}, "batch=0: must be 1 to"),
        (PROBLEM, {"population": 0.0}, "population=0.0: must be a whole number"),
        (PROBLEM, {"executor": ThreadPoolExecutor}, "it has no submit"),
        (PROBLEM, {"evaluations": 0}, "evaluations=0: must be 1 to"),
        (PROBLEM, {"evaluations": 2**64 + 5}, "evaluations=18446744073709551621: must be 1 to"),
        (PROBLEM, {"evaluations": 1e4}, "evaluations=10000.0: must be a whole number"),
        (PROBLEM, {"population": 2**31}, "population=2147483648: must be 0 to"),
        (PROBLEM, {"seed": -1}, "seed=-1: must be 0 to"),
        (PROBLEM, {"executor": 4}, "executor=4: it has no submit"),
        (Problem(VARIABLES, 2**32 + 2, cost), {}, "objectives=4294967298: must be"),
        (Problem(VARIABLES, 2, cost, constraints=-1), {}, "constraints=-1: must be"),
        (Problem({"x": (0, 1)}, 2, cost), {}, "variable x is .0, 1.: give a Real"),  # type: ignore[dict-item]
        (Problem([Real(0, 1)], 2, cost), {}, "no dictionary"),  # type: ignore[arg-type]
        (Problem({"k": Categorical({1, 2})}, 2, cost), {}, "no order"),  # type: ignore[arg-type]
        (Problem({"k": Categorical(5)}, 2, cost), {}, "no order"),  # type: ignore[arg-type]
        (Problem({"x": Real("0", "1")}, 2, cost), {}, "a bound of variable x is '0'"),  # type: ignore[arg-type]
        (Problem(VARIABLES, 2, evaluate=5), {}, "are functions"),  # type: ignore[arg-type]
        (Problem(VARIABLES, 2, evaluate_batch=lambda _: {(1.0, 2.0)}), {}, "no sequence of answers"),  # type: ignore[arg-type, return-value]
        (
            Problem(VARIABLES, 2, lambda _: ((1.0, 2.0), [float("nan")]), constraints=1),
            {},
            "a constraint is nan",
        ),
        (Problem({"n": Integer(2**53 + 1, 2**53 + 1)}, 2, cost), {}, "a bound of variable n=9007"),
        (Problem({"n": Integer(0.5, 3)}, 2, cost), {}, "a bound of variable n=0.5"),  # type: ignore[arg-type]
        (Problem(VARIABLES, 2, evaluate_batch=lambda _: None), {}, "no sequence of answers"),  # type: ignore[arg-type, return-value]
    ],
)
def test_what_makes_no_sense_is_an_error_of_one_line(
    problem: Problem, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(Error, match=complaint) as error:
        minimize(problem, **options)
    assert "\n" not in str(error.value)


def test_a_point_that_a_constraint_rules_out_may_have_any_objectives() -> None:
    def evaluate(point: Point) -> tuple[tuple[float, float] | None, list[float]]:
        if point["x"] < 0.3:
            return (float("nan"), 1.0), [1.0, 0.0]
        if point["x"] < 0.5:
            return (1.0, float("inf")), [1e308, float("inf")]
        if point["x"] < 0.6:
            return None, [-float("inf"), 1.0]
        return (point["x"], 1 - point["x"]), [0.0, -1.0]

    result = minimize(Problem({"x": Real(0, 1)}, 2, evaluate, constraints=2), evaluations=500)
    assert result.front
    assert all(solution.variables["x"] >= 0.6 for solution in result.front)


def test_whole_numbers_of_real_variables_are_floats() -> None:
    seen: list[Any] = []

    def evaluate(point: Point) -> tuple[float, float]:
        seen.append(point["x"])
        return point["x"], 4 - point["x"]

    result = minimize(Problem({"x": Real(0, 4)}, 2, evaluate), evaluations=500)
    assert 0 in seen
    assert {type(value) for value in seen} == {float}
    assert {type(value) for solution in result.front for value in solution.objectives} == {float}


class Done:
    """A future that is done: with an error, or cancelled."""

    def __init__(self, error: BaseException) -> None:
        """End so."""
        self.error = error

    def done(self) -> bool:
        """Whether it is."""
        return True

    def result(self) -> Any:  # noqa: ANN401  (as the protocol)
        """Raise it."""
        raise self.error

    def cancel(self) -> None:
        """Change nothing."""


class Never(Done):
    """One that is not."""

    def done(self) -> bool:
        """Whether it is."""
        return False


class Slow:
    """An executor whose first work never ends, and all other work in an error."""

    def __init__(self, error: BaseException) -> None:
        """End work so."""
        self.error, self.submitted = error, 0

    def submit(self, *_: Any) -> pareto.Future:  # noqa: ANN401  (as the protocol)
        """Take it."""
        self.submitted += 1
        return Never(self.error) if self.submitted == 1 else Done(self.error)


def test_what_a_function_raises_comes_out_although_time_is_up() -> None:
    executor = Slow(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        minimize(PROBLEM, seconds=2, executor=executor)


def test_a_function_without_a_length_is_one() -> None:
    class Cost:
        def __len__(self) -> int:
            return 0

        def __call__(self, point: Point) -> tuple[float, float]:
            return cost(point)

    assert few(Problem(VARIABLES, 2, Cost())).front == few(PROBLEM).front


def test_work_that_others_have_cancelled_counts_for_nothing_when_time_is_up() -> None:
    result = minimize(PROBLEM, seconds=2, executor=Slow(CancelledError()))
    assert (result.end, result.evaluations) == ("seconds", 0)


def test_what_a_sequence_of_answers_raises_comes_out() -> None:
    def answers(points: list[Point]) -> Any:  # noqa: ANN401  (a generator)
        yield cost(points[0])
        raise TypeError("broken")

    with pytest.raises(TypeError, match="broken"):
        few(Problem(VARIABLES, 2, evaluate_batch=answers))


def test_an_executor_without_work_is_one() -> None:
    class Empty(ThreadPoolExecutor):
        submitted = 0

        def __len__(self) -> int:
            return 0

        def submit(self, *arguments: Any, **others: Any) -> Any:  # noqa: ANN401  (as its base)
            self.submitted += 1
            return super().submit(*arguments, **others)

    with Empty(1) as executor:
        result = few(PROBLEM, executor=executor)
    assert executor.submitted == result.evaluations


def test_without_an_archive_the_front_is_that_of_the_population() -> None:
    whole, last = few(PROBLEM), few(PROBLEM, archive=False)
    assert last.population == whole.population
    assert all(solution in whole.population for solution in last.front)
    assert len(last.front) <= len(whole.front)
    front = [solution.objectives for solution in last.front]
    assert front == sorted(front)
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(front))


def test_the_example_of_the_document_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/pareto.md").read_text(), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(block, {"__name__": "__main__"})
    assert "evaluations" in capsys.readouterr().out


def test_the_package_offers_the_search() -> None:
    import stweaver

    assert stweaver.pareto is pareto
