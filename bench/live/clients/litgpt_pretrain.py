"""Pretraining by litgpt: a compiled Pythia, two micro-batches; behind each sixth step a validation."""

import importlib
import tempfile
from pathlib import Path
from typing import Any

from steps import STEPS, StepLog

import torch

LENGTH, BATCH, VOCABULARY = 1024, 8, 50254


def main() -> None:
    lightning: Any = importlib.import_module("lightning")
    pretrain: Any = importlib.import_module("litgpt.pretrain")
    arguments: Any = importlib.import_module("litgpt.args")
    data: Any = importlib.import_module("litgpt.data")
    config: Any = importlib.import_module("litgpt").Config
    log = StepLog()

    class Texts(data.DataModule):  # type: ignore[misc]  # the library may not be here
        def connect(self, **_: object) -> None:
            pass

        def setup(self, *_: object, **__: object) -> None:
            pass

        def train_dataloader(self) -> Any:  # noqa: ANN401
            texts: Any = torch.randint(0, VOCABULARY, (16 * (STEPS + 1), LENGTH + 1))
            return torch.utils.data.DataLoader(texts, batch_size=BATCH)

        val_dataloader = train_dataloader

    lightning.Fabric.log_dict = lambda _, metrics, **__: log.end() if "loss" in metrics else None
    pretrain.save_hyperparameters = lambda *_, **__: None
    pretrain.save_checkpoint = lambda *_, **__: None
    pretrain.setup(
        "pythia-160m",
        model_config=config.from_name("pythia-160m", block_size=LENGTH),
        out_dir=Path(tempfile.mkdtemp()),
        data=Texts(),
        train=arguments.TrainArgs(
            save_interval=None,
            log_interval=1,
            global_batch_size=2 * BATCH,
            micro_batch_size=BATCH,
            max_tokens=STEPS * 2 * BATCH * LENGTH,
            max_norm=1.0,
            min_lr=4e-5,
            lr_warmup_steps=1,
            tie_embeddings=False,
        ),
        eval=arguments.EvalArgs(interval=6, max_iters=3, final_validation=False),
        precision="bf16-mixed",
        devices=1,
        logger_name="csv",
    )


if __name__ == "__main__":
    main()
