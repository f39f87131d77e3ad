"""How a workload tells of its steps."""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor


class Watch(Protocol):
    """Called around each step."""

    steps: int

    def begin(self) -> None:
        """Note that a step begins."""

    def end(self, loss: Tensor) -> None:
        """Note that it has ended, with this loss."""


def repeat(step: Callable[[], Tensor], watch: Watch) -> None:
    """Do as many steps as `watch` wants."""
    for _ in range(watch.steps):
        watch.begin()
        watch.end(step())
