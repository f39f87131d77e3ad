"""A small Llama of transformers: under DeepSpeed's ZeRO-3, or compiled by torch.compile."""

import argparse
import importlib
from typing import Any

import recording
from models import VOCABULARY, lengths
from ranks import join
from steps import STEPS, StepLog

import torch

BATCH, LENGTH, ACCUMULATED = 4, 2048, 2
LENGTHS = (1024, 2048, 3072, 4096)
ADAMW: Any = torch.optim.AdamW


def llama() -> Any:  # noqa: ANN401  # transformers may not be here
    transformers = importlib.import_module("transformers")
    config = transformers.LlamaConfig(
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=16,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=VOCABULARY,
    )
    with torch.device("cuda"):
        return transformers.LlamaForCausalLM(config)


def train_by_deepspeed() -> None:
    """Shard weights, gradients and optimizer over one rank; each micro-batch has a length of its own."""
    deepspeed = importlib.import_module("deepspeed")
    join()
    recording.start()
    torch.manual_seed(0)
    model = llama()
    model.gradient_checkpointing_enable()
    model.train()
    settings = {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": ACCUMULATED,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3, "overlap_comm": True},
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 1_000_000,
    }
    # DeepSpeed's own Adam has to be compiled first; PyTorch's does the same.
    optimizer = ADAMW(model.parameters(), lr=1e-4)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    length = lengths(LENGTHS, seed=11)
    log = StepLog()
    for _ in range(STEPS):
        for _ in range(ACCUMULATED):
            tokens = torch.randint(0, VOCABULARY, (BATCH, next(length)), device="cuda")
            loss = engine(input_ids=tokens, labels=tokens, use_cache=False).loss
            engine.backward(loss)
            engine.step()
        loss.item()
        log.end()
    recording.save()


def train_compiled() -> None:
    """Autocast to bf16, AdamW in one kernel."""
    recording.start()
    torch.manual_seed(0)
    model = llama()
    model.train()
    compiled: Any = torch.compile(model)
    optimizer = ADAMW(model.parameters(), lr=1e-4, fused=True)
    log = StepLog()
    for _ in range(STEPS):
        for _ in range(ACCUMULATED):
            tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH), device="cuda")
            with torch.autocast("cuda", torch.bfloat16):
                loss = compiled(input_ids=tokens, labels=tokens, use_cache=False).loss
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        log.end()
    recording.save()


def main() -> None:
    trainings = {"deepspeed": train_by_deepspeed, "compiled": train_compiled}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("training", choices=trainings)
    trainings[parser.parse_args().training]()


if __name__ == "__main__":
    main()
