"""A small training job with a block of known size in each step, and how to get it to run under a plan."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from common import MIB, choose, cuda, figure, require

import torch
from torch import Tensor

WAYS = ("default", "wrapper", "pluggable")
PROBE = 3 * MIB  # bytes; a multiple of every rounding of PyTorch's
T = TypeVar("T")


def start(way: str) -> None:
    """Put the allocator of `way` in place; the first thing that a process does with CUDA."""
    choose("default" if way == "default" else "online", way=way)


class Job:
    """Trains a few layers; each step allocates the probe between forward and backward pass."""

    def __init__(self, way: str) -> None:
        """Make the model on the current device; start() has been called."""
        self.way = way
        torch.manual_seed(0)
        layers = [torch.nn.Linear(512, 512, device="cuda") for _ in range(4)]
        model = torch.nn.Sequential(*layers)
        self.model: Callable[[Tensor], Tensor] = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        self.prepare: Callable[[], object] = lambda: None  # called before the probe is made
        self.look: Callable[[Tensor], object] = lambda _: None  # called with it
        self.probe_was_hit = False

    def step(self) -> Tensor:
        """Do one training step."""
        loss = self.model(torch.randn(256, 512, device="cuda")).square().mean()
        self.prepare()
        hits = figure("hits")
        probe = torch.empty(PROBE, dtype=torch.uint8, device="cuda")
        self.probe_was_hit = figure("hits") > hits
        self.look(probe)
        del probe
        torch.autograd.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def is_planned(self) -> bool:
        """Do one step; whether nearly all of its requests were hits. Always true without STWeaver."""
        hits, misses = figure("hits"), figure("misses")
        self.step()
        cuda.synchronize()
        return self.way == "default" or figure("hits") - hits > 10 * (figure("misses") - misses)

    def plan(self) -> None:
        """Train until the steps run under a plan."""
        for _ in range(100):
            if self.is_planned() and self.is_planned():
                return
            time.sleep(0.02)
        raise AssertionError(f"100 steps and no plan is followed: {figure('hits')} hits")

    def visit(self, look: Callable[[Tensor], T], prepare: Callable[[], object] = lambda: None) -> T:
        """Do one step and return what `look` made of the probe.

        The probe is a hit; steps in which it was not do not count.
        """
        seen: list[T] = []
        for _ in range(20):
            self.prepare, self.look = prepare, lambda probe: seen.append(look(probe))
            self.step()
            self.prepare, self.look = lambda: None, lambda _: None
            cuda.synchronize()
            if self.probe_was_hit or self.way == "default":
                return seen[-1]
            self.plan()
        raise AssertionError("the block was never planned")


class StreamJob(Job):
    """Each step also frees a block that a second stream still reads, and allocates the like again."""

    def __init__(self, way: str) -> None:
        """Begin with a second stream that reads at once."""
        super().__init__(way)
        self.side = cuda.Stream()
        self.cycles = 1000  # that the second stream waits before it reads
        self.reader = torch.zeros(PROBE, dtype=torch.uint8, device="cuda")

    def step(self) -> Tensor:
        """Do one training step."""
        read_late(self.side, self.cycles, self.reader, records=True)
        torch.full((PROBE,), 2, dtype=torch.uint8, device="cuda")
        return super().step()


def read_late(side: Any, cycles: int, reader: Tensor, records: bool) -> None:  # noqa: ANN401
    """Let `side` copy a block full of ones to `reader` after a while, and free the block at once."""
    block = torch.ones_like(reader)
    with cuda.stream(side):
        cuda.current_stream().wait_stream(cuda.default_stream())
        cuda._sleep(cycles)
        reader.copy_(block)
    if records:
        block.record_stream(side)


def all_ones(reader: Tensor) -> bool:
    cuda.synchronize()
    require(int(reader.min()) >= 1, "the second stream has not read at all")
    return int(reader.max()) == 1
