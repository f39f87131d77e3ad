"""Many-objective search: the points that no other beats in all objectives at once; docs/pareto.md says how.

from stweaver import pareto

def evaluate(point):
    return point["x"] ** 2, (point["x"] - 2) ** 2

problem = pareto.Problem({"x": pareto.Real(-10, 10)}, objectives=2, evaluate=evaluate)
for solution in pareto.minimize(problem, evaluations=2000).front:
    print(solution.variables, solution.objectives)
"""

import contextlib
import math
import numbers
import operator
import sys
import time
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from stweaver.error import Error
from stweaver.library import Library
from stweaver.session import open_library

Point = dict[str, Any]  # a value for each variable: a float, an int, one of the choices

# What a point is: its objectives; with constraints these and the constraints' values.
Outcome = Sequence[float] | tuple[Sequence[float] | None, Sequence[float]]

End = Literal["evaluations", "no new points", "stagnation", "seconds", "interrupt"]


@dataclass(frozen=True)
class Real:
    """A number between bounds."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Integer:
    """A whole number; bounds are inclusive."""

    lower: int
    upper: int


@dataclass(frozen=True)
class Categorical:
    """One of several things that have no order."""

    choices: Sequence[Any]


Variable = Real | Integer | Categorical


@dataclass(frozen=True)
class Problem:
    """What is searched: variables, and a function from their values to objectives, all to be minimised.

    Either `evaluate` takes one point or `evaluate_batch` a list of them, which it answers in their order. A
    point's answer is a sequence of as many numbers as there are objectives. With `constraints` it is a pair:
    the objectives and as many numbers, each at most 0 where its constraint holds, and not NaN; where one does
    not, the objectives may be None, NaN or infinite.
    """

    variables: Mapping[str, Variable]
    objectives: int
    evaluate: Callable[[Point], Outcome] | None = None
    evaluate_batch: Callable[[list[Point]], Sequence[Outcome]] | None = None
    constraints: int = 0


@dataclass(frozen=True)
class Solution:
    """A point with what it is."""

    variables: Point
    objectives: tuple[float, ...]  # zeros where a constraint is violated and they were none, or not finite
    violation: float  # sum of what exceeds 0 of each constraint


@dataclass(frozen=True)
class Result:
    """What a search found."""

    # Of all feasible points seen (without `archive`, of the population) those that none dominates, by first
    # objective; of equal ones the last.
    front: tuple[Solution, ...]
    # Feasible members of the population that are best in all objectives but one, and those best in one that
    # reach beyond these. What differs by less than 1/10000 of the front's extent counts as equal.
    corners: tuple[Solution, ...]
    population: tuple[Solution, ...]  # the last generation, dominated members among it
    evaluations: int
    generations: int
    seconds: float
    end: End  # why the search was over


class Future(Protocol):
    """What a search needs to know of work that was submitted."""

    def done(self) -> bool:
        """Whether result() would not wait."""

    def result(self) -> Any:  # noqa: ANN401  (what the work returned)
        """Wait for what the work returns, or raise what it raised."""

    def cancel(self) -> Any:  # noqa: ANN401  (whatever: it may be too late)
        """Do not begin the work."""


class Executor(Protocol):
    """`concurrent.futures.Executor`, and whatever else submits work and gives back a Future."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future:  # noqa: ANN401  (any work)
        """Have the work done, some time, somewhere."""


def minimize(
    problem: Problem,
    *,
    evaluations: int = 10_000,
    seconds: float | None = None,
    stagnation: int | None = None,
    seed: int = 1,
    population: int | None = None,
    executor: Executor | None = None,
    batch: int | None = None,
    archive: bool = True,
) -> Result:
    """Search a problem's Pareto front with MaOEA-CS.

    A generation's points are evaluated one after another, or submitted to an executor all at once; results
    are taken in the order of points. So the same seed gives the same result wherever points are evaluated,
    unless time or Ctrl-C ends the search. What the executor still runs then is left to it.

    Args:
        problem: what to search.
        evaluations: points to evaluate; the last generation may exceed that by less than a population.
        seconds: ends the search then; what is evaluated by then counts.
        stagnation: ends the search after so many evaluations that did not move the ends of the front.
        seed: of random numbers.
        population: members of a generation; None: 25 for each objective.
        executor: where points are evaluated: threads, processes, a cluster. None: here.
        batch: points of one call of `evaluate_batch`; None: a whole generation.
        archive: keep all that no point seen dominates. That may be half of the points where there are many
            objectives, and each new one is compared with them. False: the front is that of the last
            population.

    Returns:
        The front. Ctrl-C ends the search and gives the best so far.

    Raises:
        Error: the problem or an argument makes no sense, or a feasible point has no objectives that are
            finite; one line says which.
        Exception: whatever the function or the executor raised.
    """
    return _Run(problem, executor, batch, seconds).result(
        {
            "evaluations": _whole("evaluations", evaluations, 1, _MOST_INT64),
            "seed": _whole("seed", seed, 0, 2**64 - 1),
            "population": _whole("population", 0 if population is None else population, 0, _MOST_INT),
            "stagnation": _whole("stagnation", 0 if stagnation is None else stagnation, 0, _MOST_INT64),
            "archive": archive,
        }
    )


_POLL = 0.005  # seconds between two looks at work that has a deadline

# What C's numbers hold, and up to where a double holds every whole number.
_MOST_INT = 2**31 - 1
_MOST_INT64 = 2**63 - 1
_MOST_WHOLE = 2**53

_Row = list[float]


class _Run:
    """One search."""

    def __init__(
        self, problem: Problem, executor: Executor | None, batch: int | None, seconds: float | None
    ) -> None:
        if (problem.evaluate is None) == (problem.evaluate_batch is None):
            raise Error("a problem has one of evaluate and evaluate_batch")
        for function in (problem.evaluate, problem.evaluate_batch):
            if function is not None and not callable(function):
                raise _complaint(f"evaluate and evaluate_batch are functions, not {function!r}")
        if batch is not None:
            _whole("batch", batch, 1, _MOST_INT64)
            if problem.evaluate_batch is None:
                raise Error(f"batch={batch}: the problem needs evaluate_batch")
        if seconds is not None and not (isinstance(seconds, numbers.Real) and seconds >= 0):
            raise _complaint(f"seconds={seconds!r}: must be 0 or more")
        if executor is not None and (isinstance(executor, type) or not hasattr(executor, "submit")):
            raise _complaint(f"executor={executor!r}: it has no submit()")
        if not isinstance(problem.variables, Mapping):
            raise Error("the variables are no dictionary: give each a name")
        _whole("objectives", problem.objectives, 1, _MOST_INT)
        _whole("constraints", problem.constraints, 0, _MOST_INT)
        self.problem = problem
        self.executor = executor
        self.batch = batch
        self.begin = time.monotonic()
        self.deadline = math.inf if seconds is None else self.begin + seconds

    def result(self, options: dict[str, Any]) -> Result:
        variables = [_numbers(name, variable) for name, variable in self.problem.variables.items()]
        library = open_library()
        search = library.begin_search(variables, self.problem.objectives, **options)
        try:
            end = self._search(library, search)
            found = library.search_result(search)
        finally:
            library.end_search(search)
        return Result(
            front=tuple(sorted(self._solutions(found["front"]), key=lambda each: each.objectives)),
            corners=self._solutions(found["corners"]),
            population=self._solutions(found["population"]),
            evaluations=found["evaluations"],
            generations=found["generations"],
            seconds=time.monotonic() - self.begin,
            end=end or found["end"],
        )

    def _search(self, library: Library, search: int) -> End | None:
        """Search to the end; None where the search itself knows why that is."""
        try:
            while time.monotonic() < self.deadline:
                asked = library.ask(search)
                if not asked:
                    return None
                rows: list[_Row] = []
                try:
                    self._evaluate(asked, rows)
                finally:  # however that ended, what is known is known
                    library.tell(search, rows)
        except KeyboardInterrupt:
            return "interrupt"
        return "seconds"

    def _evaluate(self, asked: list[_Row], rows: list[_Row]) -> None:
        """Append what is found out of the points in time."""
        size = 1 if self.problem.evaluate is not None else self.batch or len(asked)
        pieces = [asked[i : i + size] for i in range(0, len(asked), size)]
        if self.executor is not None:
            self._submit(self.executor, pieces, rows)
            return
        for piece in pieces:
            if time.monotonic() >= self.deadline:
                return
            work, argument = self._work(piece)
            rows += self._rows(piece, work(argument))

    def _submit(self, executor: Executor, pieces: list[list[_Row]], rows: list[_Row]) -> None:
        waiting: list[tuple[list[_Row], Future]] = []
        try:
            for piece in pieces:
                waiting.append((piece, executor.submit(*self._work(piece))))
            while waiting and self._is_done_in_time(waiting[0][1]):
                piece, future = waiting[0]
                answer = future.result()
                del waiting[0]
                rows += self._rows(piece, answer)
            waiting = _done_of(waiting)
            while waiting:
                piece, future = waiting.pop(0)
                with contextlib.suppress(CancelledError):  # by others
                    rows += self._rows(piece, future.result())
        except BaseException:
            # Others may have ended in the same way: Ctrl-C reaches processes of ours as well.
            for piece, future in _done_of(waiting):
                with contextlib.suppress(BaseException):
                    rows += self._rows(piece, future.result())
            raise

    def _is_done_in_time(self, future: Future) -> bool:
        while self.deadline < math.inf and not future.done():
            if time.monotonic() >= self.deadline:
                return False
            time.sleep(_POLL)
        return True

    def _work(self, piece: list[_Row]) -> tuple[Callable[[Any], Any], Any]:
        """Return the problem's own function and what to call it with: nothing of ours goes elsewhere."""
        points = [self._point(row) for row in piece]
        if self.problem.evaluate is not None:
            return self.problem.evaluate, points[0]
        return cast(Callable[[Any], Any], self.problem.evaluate_batch), points

    def _rows(self, piece: list[_Row], answer: Any) -> list[_Row]:  # noqa: ANN401  (what the problem says)
        if self.problem.evaluate is None and not _is_sequence(answer):
            raise _complaint(f"evaluate_batch gave no sequence of answers: {answer!r}")
        outcomes = list(answer) if self.problem.evaluate is None else [answer]
        if len(outcomes) != len(piece):
            raise Error(f"evaluate_batch gave {len(outcomes)} answers for {len(piece)} points")
        return [
            [*row, *self._values(self._point(row), outcome)]
            for row, outcome in zip(piece, outcomes, strict=True)
        ]

    def _values(self, point: Point, outcome: Any) -> list[float]:  # noqa: ANN401  (what the problem says)
        """Check a point's answer; returns objectives and violation."""
        objectives, constraints = outcome, ()
        if self.problem.constraints:
            try:
                objectives, constraints = outcome
            except (TypeError, ValueError):
                raise _error(point, "the answer is no pair of objectives and constraints") from None
        exceeded = _numbers_of(point, "constraint", constraints, self.problem.constraints)
        if any(map(math.isnan, exceeded)):
            raise _error(point, "a constraint is nan")
        violation = min(sum(max(0.0, value) for value in exceeded), sys.float_info.max)
        none = [0.0] * self.problem.objectives
        if violation > 0 and objectives is None:
            return [*none, violation]
        values = _numbers_of(point, "objective", objectives, self.problem.objectives)
        for index, value in enumerate(values):
            if not math.isfinite(value):
                if violation > 0:
                    return [*none, violation]
                raise _error(point, f"objective {index} is {value}")
        return [*values, violation]

    def _point(self, row: Sequence[float]) -> Point:
        return {
            name: _value(variable, number)
            for (name, variable), number in zip(self.problem.variables.items(), row, strict=False)
        }

    def _solutions(self, rows: list[_Row]) -> tuple[Solution, ...]:
        width = len(self.problem.variables)
        return tuple(
            Solution(self._point(row), tuple(map(float, row[width:-1])), float(row[-1])) for row in rows
        )


def _done_of(waiting: list[tuple[list[_Row], Future]]) -> list[tuple[list[_Row], Future]]:
    """Return those that are done, and cancel the others."""
    done = []
    for piece, future in waiting:
        if future.done():
            done.append((piece, future))
        else:
            future.cancel()
    return done


def _whole(name: str, value: Any, least: int, most: int) -> int:  # noqa: ANN401  (what was given)
    try:
        number = operator.index(value)
    except TypeError:
        raise _complaint(f"{name}={value!r}: must be a whole number") from None
    if not least <= number <= most:
        raise Error(f"{name}={number}: must be {least} to {most}")
    return number


def _numbers(name: str, variable: Variable) -> tuple[int, float, float]:
    """Say a variable as kind, lower and upper bound."""
    if isinstance(variable, Categorical):
        if not _is_sequence(variable.choices) or not hasattr(variable.choices, "__len__"):
            raise Error(f"variable {name}: its choices have no order: give a list")
        if not len(variable.choices):
            raise Error(f"variable {name} has no choices: give one at least")
        return 2, 0, len(variable.choices) - 1
    if not isinstance(variable, Real | Integer):
        raise _complaint(f"variable {name} is {variable!r}: give a Real, an Integer or a Categorical")
    for bound in (variable.lower, variable.upper):
        if not isinstance(bound, numbers.Real):
            raise _complaint(f"a bound of variable {name} is {bound!r}: give a number")
    if not variable.lower <= variable.upper:
        raise Error(
            f"variable {name} lies in [{variable.lower}, {variable.upper}]: give the lower bound first"
        )
    if isinstance(variable, Integer):
        for bound in (variable.lower, variable.upper):
            _whole(f"a bound of variable {name}", bound, -_MOST_WHOLE, _MOST_WHOLE)
    return int(isinstance(variable, Integer)), variable.lower, variable.upper


def _value(variable: Variable, number: float) -> Any:  # noqa: ANN401  (a choice may be anything)
    if isinstance(variable, Categorical):
        return variable.choices[int(number)]
    return int(number) if isinstance(variable, Integer) else float(number)


def _is_sequence(values: Any) -> bool:  # noqa: ANN401  (what the problem says)
    return hasattr(values, "__iter__") and not isinstance(values, str | bytes | bytearray | Set | Mapping)


def _numbers_of(point: Point, kind: str, values: Any, count: int) -> list[float]:  # noqa: ANN401  (as above)
    if not _is_sequence(values):
        raise _error(point, f"the {kind}s are no sequence of numbers: {values!r}")
    given = list(values)
    try:
        if any(isinstance(value, str | bytes) for value in given):
            raise TypeError
        found = [float(value) for value in given]
    except (TypeError, ValueError, OverflowError):
        raise _error(point, f"the {kind}s are no sequence of numbers: {values!r}") from None
    if len(found) != count:
        raise _error(point, f"{len(found)} {kind}s, not {count}")
    return found


def _error(point: Point, problem: str) -> Error:
    return _complaint(
        f"at the point {point}: {problem}; give finite numbers, or let a constraint rule the point out"
    )


def _complaint(words: str) -> Error:
    """Return an error of one line, whatever is named in it."""
    return Error(" ".join(words.split()))
