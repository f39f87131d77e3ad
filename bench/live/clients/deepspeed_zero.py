"""DeepSpeed's engine, ZeRO 2 or 3, on a transformers Llama; each micro-batch has a length of its own."""

import argparse
import importlib
from typing import Any

from models import VOCABULARY, lengths, small_llama
from ranks import join
from steps import STEPS, StepLog

import torch

MICRO_BATCH, ACCUMULATED = 4, 2
ADAMW: Any = torch.optim.AdamW


def settings(stage: int) -> dict[str, Any]:
    return {
        "train_micro_batch_size_per_gpu": MICRO_BATCH,
        "gradient_accumulation_steps": ACCUMULATED,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage, "overlap_comm": True},
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 1_000_000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=int, choices=(2, 3), default=3)
    stage = parser.parse_args().stage
    deepspeed = importlib.import_module("deepspeed")
    torch.manual_seed(0)
    join()
    model = small_llama("cuda", layers=16)
    model.gradient_checkpointing_enable()
    model.train()
    # DeepSpeed's own Adam has to be compiled first; PyTorch's does the same.
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=ADAMW(model.parameters(), lr=1e-4), config=settings(stage)
    )
    length = lengths((1024, 2048, 3072, 4096))
    log = StepLog()
    for _ in range(STEPS):
        for _ in range(ACCUMULATED):
            tokens = torch.randint(0, VOCABULARY, (MICRO_BATCH, next(length)), device="cuda")
            engine.backward(engine(input_ids=tokens, labels=tokens, use_cache=False).loss)
            engine.step()
        log.end()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
