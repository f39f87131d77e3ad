"""A callback for Lightning's Trainer."""

from collections.abc import Collection
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

import stweaver
from stweaver.integrations import LOGGED, enable, numbers


class StweaverCallback(Callback):
    """Enables STWeaver before the model is put on the GPU, marks steps, and logs its numbers."""

    def __init__(
        self,
        names: Collection[str] | None = LOGGED,
        **options: Any,  # noqa: ANN401  (those of enable)
    ) -> None:
        """Take what setup() needs: options of enable(), and `names` as of Stats.flat()."""
        self._names = names
        self._options = options
        self._steps = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:  # noqa: ARG002
        """Enable in this process: some strategies start others. Error as of enable()."""
        enable(**self._options)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *_: object, **__: object
    ) -> None:
        """Mark a step where one has ended: not at each batch of a gradient accumulation."""
        if trainer.global_step != self._steps:
            self._steps = trainer.global_step
            stweaver.mark_step()
        pl_module.log_dict(numbers(self._names))
