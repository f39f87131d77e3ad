"""transformers' own Trainer on texts of varying lengths."""

from steps import STEPS, StepLog
from workloads.clients import run_trainer

import torch
from torch import Tensor


class Watch:
    """Passes the Trainer's steps on."""

    steps = STEPS

    def __init__(self) -> None:
        """Begin a log."""
        self.log = StepLog()

    def begin(self) -> None:
        """Do nothing: a step begins where the last one ended."""

    def end(self, loss: Tensor) -> None:  # noqa: ARG002  # reading it would wait for the device
        """Note that a step has ended."""
        self.log.end()


if __name__ == "__main__":
    torch.manual_seed(0)
    run_trainer(Watch())
