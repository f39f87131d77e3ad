"""A callback for transformers' Trainer, and for those made of it, such as TRL's."""

from collections.abc import Collection
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import stweaver
from stweaver.integrations import LOGGED, enable, numbers


class StweaverCallback(TrainerCallback):
    """Enables STWeaver, marks steps, and adds its numbers to what the Trainer logs.

    Make it before the Trainer, which puts the model on the GPU. Give it to the Trainer as one of `callbacks`,
    or, where wandb, TensorBoard or another reporter is to get the numbers, by add_to().
    """

    def __init__(
        self,
        names: Collection[str] | None = LOGGED,
        **options: Any,  # noqa: ANN401  (those of enable)
    ) -> None:
        """Enable now, with these options of enable(). `names` as of Stats.flat(). Error as of enable()."""
        self._names = names
        enable(**options)

    def add_to(self, trainer: Trainer) -> None:
        """Stand before the trainer's reporters: one behind them adds to what they have reported already."""
        trainer.callback_handler.callbacks.insert(0, self)

    def on_step_end(self, *_: object, **__: object) -> None:
        """Mark a step: all micro-batches of a gradient accumulation are one."""
        stweaver.mark_step()

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        logs: dict[str, Any],
        **_: object,
    ) -> None:
        """Add our numbers to what is logged, and to the history that is saved with the model."""
        ours = numbers(self._names)
        logs.update(ours)
        state.log_history[-1].update(ours)
