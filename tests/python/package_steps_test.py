"""Where steps end: optimizers that PyTorch knows, several of them, and the user's own word."""

import gc
from collections.abc import Iterator

import pytest
from stweaver.steps import PATIENCE, StepWatch

import torch

pytestmark = pytest.mark.slow


class Optimizer:
    """Something that can step."""


class Counter:
    """Counts what a StepWatch sees."""

    def __init__(self) -> None:
        """See nothing yet."""
        self.boundaries = 0
        self.restarts: list[int] = []
        self.watch = StepWatch(self.boundary, lambda: self.restarts.append(self.boundaries))

    def boundary(self) -> None:
        """Count a step."""
        self.boundaries += 1


@pytest.fixture
def counter() -> Iterator[Counter]:
    made = Counter()
    yield made
    made.watch.detach()


def make_optimizer() -> torch.optim.SGD:
    weight = torch.ones(2, requires_grad=True)
    weight.grad = torch.ones(2)
    return torch.optim.SGD([weight], lr=0.1)


def test_each_step_of_any_optimizer_class_counts(counter: Counter) -> None:
    before, counted = make_optimizer(), counter
    counted.watch.attach()
    for _ in range(3):
        before.step()
    assert counted.boundaries == 3
    counted.watch.detach()
    before.step()
    assert counted.boundaries == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, which imports more of itself
def test_a_compiled_step_counts_too(counter: Counter) -> None:
    optimizer = make_optimizer()
    counter.watch.attach()
    step = torch.compile(optimizer.step, backend="eager")
    for _ in range(3):
        step()
    assert counter.boundaries == 3


@pytest.mark.parametrize("optimizers", [2, 300])
def test_of_several_optimizers_in_a_step_the_first_one_seen_counts(counter: Counter, optimizers: int) -> None:
    several = [Optimizer() for _ in range(optimizers)]
    for _ in range(10):
        for optimizer in several:
            counter.watch.has_stepped(optimizer)
    assert counter.boundaries == 10


def test_the_critic_of_a_gan_may_step_five_times_for_one(counter: Counter) -> None:
    generator, critic = Optimizer(), Optimizer()
    for _ in range(10):
        counter.watch.has_stepped(generator)
        for _ in range(5):
            counter.watch.has_stepped(critic)
    assert counter.boundaries == 10


def iterate(counter: Counter, paces: list[int]) -> list[int]:
    """Step a critic so often, and its generator behind it; how many boundaries each iteration had."""
    critic, generator = Optimizer(), Optimizer()
    seen = []
    for pace in paces:
        before = counter.boundaries
        for _ in range(pace):
            counter.watch.has_stepped(critic)
        counter.watch.has_stepped(generator)
        seen.append(counter.boundaries - before)
    return seen


@pytest.mark.parametrize("pace", [2, 5, PATIENCE - 1])
def test_a_generator_that_steps_once_for_several_of_its_critic_comes_to_lead(
    counter: Counter, pace: int
) -> None:
    assert iterate(counter, [pace] * 6) == [pace, 1, 1, 1, 1, 1]
    assert counter.restarts == [pace + 1], "once it has come again"


def test_a_generator_leads_once_its_critic_has_a_pace(counter: Counter) -> None:
    assert iterate(counter, [9, 3, 3, 3]) == [9, 0, 4, 1]
    assert counter.restarts == [9 + 4]


def test_an_inner_loop_with_an_optimizer_of_its_own_each_time_is_part_of_a_step(counter: Counter) -> None:
    outer = Optimizer()
    for _ in range(6):
        inner = Optimizer()
        for _ in range(5):
            counter.watch.has_stepped(inner)
        counter.watch.has_stepped(outer)
        del inner
        gc.collect()
    assert counter.boundaries == 5 + 5
    assert counter.restarts == [5 + 1]


def test_critics_that_step_in_turn_are_no_steps_either(counter: Counter) -> None:
    critics, generator = (Optimizer(), Optimizer()), Optimizer()
    for _ in range(6):
        for _ in range(5):
            for critic in critics:
                counter.watch.has_stepped(critic)
        counter.watch.has_stepped(generator)
    assert counter.boundaries == 3 * 5 + 4
    assert counter.restarts == [3 * 5 + 1]


def test_new_optimizers_behind_one_that_leads_change_nothing(counter: Counter) -> None:
    leader = Optimizer()
    for _ in range(6):
        counter.watch.has_stepped(leader)
        counter.watch.has_stepped(Optimizer())
    assert counter.boundaries == 6
    assert not counter.restarts


def test_optimizers_that_come_for_one_step_hold_little_up(counter: Counter) -> None:
    leader = Optimizer()
    others = []
    for _ in range(20):
        for _ in range(5):
            counter.watch.has_stepped(leader)
        others.append(Optimizer())
        counter.watch.has_stepped(others[-1])
    assert 20 * 5 - 2 * PATIENCE < counter.boundaries < 20 * 5
    assert not counter.restarts


def test_an_optimizer_that_misses_the_first_steps_changes_little(counter: Counter) -> None:
    # The scaler of its losses has skipped them.
    assert iterate(counter, [3] + 5 * [1]) == [3, 0, 1, 1, 1, 1]
    assert not counter.restarts


def test_all_begins_anew_once(counter: Counter) -> None:
    iterate(counter, ([100] + 5 * [5]) * 20)
    assert len(counter.restarts) == 1


def test_a_generator_that_is_gone_holds_nothing_up(counter: Counter) -> None:
    critic = Optimizer()
    for _ in range(3):
        counter.watch.has_stepped(critic)
    counter.watch.has_stepped(Optimizer())
    gc.collect()
    counter.watch.has_stepped(critic)
    assert counter.boundaries == 4


@pytest.mark.parametrize(
    ("paces", "boundaries"),
    [
        ([1] * 6, [1] * 6),
        ([2, 3, 2, 3, 2, 3], [2, 0, 2, 3, 2, 3]),
        ([5, 40, 40], [5, 40 - PATIENCE + 1, 40]),
        ([PATIENCE] * 6, [PATIENCE] * 6),
    ],
)
def test_a_critic_leads_that_its_generator_does_not_keep_pace_with(
    counter: Counter, paces: list[int], boundaries: list[int]
) -> None:
    assert iterate(counter, paces) == boundaries


def test_an_optimizer_that_stays_away_leads_no_more(counter: Counter) -> None:
    first, second = Optimizer(), Optimizer()
    counter.watch.has_stepped(first)
    for _ in range(PATIENCE + 9):
        counter.watch.has_stepped(second)
    assert counter.boundaries == 1 + 10
    counter.watch.has_stepped(first)
    assert counter.boundaries == 11, "the second leads now"


def test_an_optimizer_that_is_gone_leads_no_more(counter: Counter) -> None:
    first, second = Optimizer(), Optimizer()
    counter.watch.has_stepped(first)
    del first
    gc.collect()
    counter.watch.has_stepped(second)
    assert counter.boundaries == 2


def test_after_a_mark_only_marks_count(counter: Counter) -> None:
    optimizer = Optimizer()
    counter.watch.mark()
    counter.watch.has_stepped(optimizer)
    counter.watch.mark()
    assert counter.boundaries == 2


def test_a_step_that_an_optimizer_and_the_first_mark_end_is_one_step(counter: Counter) -> None:
    optimizer = Optimizer()
    for _ in range(3):
        counter.watch.has_stepped(optimizer)
        counter.watch.mark()
    assert counter.boundaries == 3
    assert not counter.restarts
