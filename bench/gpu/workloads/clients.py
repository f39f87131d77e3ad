"""A Llama of transformers: trained by a hand-written FSDP2 loop, or by transformers' own Trainer."""

import importlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from workloads.watch import Watch


def llama(device: str = "cuda") -> Any:  # noqa: ANN401  # transformers may not be installed
    """1.2 billion parameters."""
    transformers = importlib.import_module("transformers")
    sizes = (2048, 8192, 16, 32, 8, 128256)
    names = (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "vocab_size",
    )
    config = transformers.LlamaConfig(
        **dict(zip(names, sizes, strict=True)), max_position_embeddings=8192, tie_word_embeddings=True
    )
    with torch.device(device):
        return transformers.LlamaForCausalLM(config)


# ---- FSDP2 ----


def join() -> None:
    """Join the processes that torchrun, or whoever set its variables, started; else be alone."""
    if torch.distributed.is_initialized():
        return
    for name, value in {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29511",
    }.items():
        os.environ.setdefault(name, value)
    torch.distributed.init_process_group("nccl")


def make_fsdp(batch: int, length: int) -> Callable[[], Tensor]:
    """One step: two accumulated batches, layers recomputed, AdamW."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    join()
    mesh = init_device_mesh("cuda", (torch.distributed.get_world_size(),))
    model = llama()
    model.gradient_checkpointing_enable()
    model.train()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in [*model.model.layers, model]:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    torch.manual_seed(1 + torch.distributed.get_rank())

    def step() -> Tensor:
        for _ in range(2):
            tokens = torch.randint(0, model.config.vocab_size, (batch, length), device="cuda")
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
            torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        result: Tensor = loss.detach()
        return result

    return step


# ---- Trainer ----


def texts(count: int, longest: int, vocabulary: int) -> list[dict[str, Tensor]]:
    """Random texts of random lengths."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(longest // 8, longest, (count,), generator=generator).tolist()
    tokens = [torch.randint(0, vocabulary, (length,), generator=generator) for length in lengths]
    return [{"input_ids": text, "labels": text} for text in tokens]


def collate(batch: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Pad to the longest."""
    pad = torch.nn.utils.rnn.pad_sequence
    return {
        "input_ids": pad([text["input_ids"] for text in batch], batch_first=True),
        "labels": pad([text["labels"] for text in batch], batch_first=True, padding_value=-100),
    }


def run_trainer(watch: Watch) -> None:
    """Do steps of two accumulated batches of 4 texts, bf16, layers recomputed; lengths vary."""
    transformers = importlib.import_module("transformers")
    model = llama()
    callback: Any = transformers.TrainerCallback
    base: Any = transformers.Trainer

    class Reporter(callback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
            watch.begin()

        def on_step_end(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
            watch.end(trainer.loss)

    class Trainer(base):  # type: ignore[misc]
        def training_step(self, *arguments: Any, **named: Any) -> Tensor:  # noqa: ANN401
            loss: Tensor = super().training_step(*arguments, **named)
            self.loss = loss
            return loss

    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=watch.steps,
        bf16=True,
        gradient_checkpointing=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1_000_000,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=texts(8 * watch.steps, 4096, model.config.vocab_size),
        data_collator=collate,
        callbacks=[Reporter()],
    )
    trainer.train()
