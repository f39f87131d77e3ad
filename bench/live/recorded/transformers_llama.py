"""A Llama of transformers: trained by a hand-written FSDP2 loop, or by transformers' own Trainer."""

import argparse
import importlib
import os
import tempfile
from typing import Any

import recording
from recording import cuda, mark
from steps import STEPS, StepLog
from workloads.clients import collate, llama

import torch
from torch import Tensor, distributed

BATCH, LENGTH, ACCUMULATED = 4, 4096, 2
ADAMW: Any = torch.optim.AdamW


def train_sharded() -> None:
    """Shard each layer over the ranks; full recomputation, gradients clipped."""
    fsdp: Any = importlib.import_module("torch.distributed.fsdp")
    cuda.set_device(int(os.environ["RANK"]))
    distributed.init_process_group("nccl")
    recording.start()
    torch.manual_seed(0)
    model = llama()
    model.gradient_checkpointing_enable()
    model.train()
    policy = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in [*model.model.layers, model]:
        fsdp.fully_shard(part, mp_policy=policy)
    optimizer = ADAMW(model.parameters(), lr=1e-4)
    log = StepLog()
    for step in range(STEPS):
        mark(f"iteration {step}")
        cuda.synchronize()
        for _ in range(ACCUMULATED):
            tokens = torch.randint(0, model.config.vocab_size, (BATCH, LENGTH), device="cuda")
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        cuda.synchronize()
        log.end()
    mark("end")
    recording.save()
    distributed.barrier()
    distributed.destroy_process_group()


def texts(vocabulary: int) -> list[dict[str, Tensor]]:
    """Random texts of random lengths, as many as the steps take."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(BATCH * ACCUMULATED * STEPS):
        length = int(torch.randint(LENGTH // 8, LENGTH, (1,), generator=generator))
        text = torch.randint(0, vocabulary, (length,), generator=generator)
        made.append({"input_ids": text, "labels": text})
    return made


def marker(log: StepLog) -> Any:  # noqa: ANN401  # transformers may not be here
    """Make a callback that marks the steps."""
    base: Any = importlib.import_module("transformers").TrainerCallback

    class Marker(base):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
            mark(f"iteration {log.steps}")
            cuda.synchronize()

        def on_step_end(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
            cuda.synchronize()
            log.end()

    return Marker()


def train_by_trainer() -> None:
    """Pad each batch to its longest text; the weights are made on the CPU."""
    transformers = importlib.import_module("transformers")
    recording.start()
    model = llama("cpu")
    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=ACCUMULATED,
        max_steps=STEPS,
        bf16=True,
        gradient_checkpointing=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1000,
        disable_tqdm=True,
    )
    transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=texts(model.config.vocab_size),
        data_collator=collate,
        callbacks=[marker(StepLog())],
    ).train()
    mark("end")
    recording.save()


def main() -> None:
    trainings = {"fsdp2": train_sharded, "trainer": train_by_trainer}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("training", choices=trainings)
    trainings[parser.parse_args().training]()


if __name__ == "__main__":
    main()
