"""torch.compile of a transformers Llama: bf16 by autocast, fused AdamW, two accumulated batches."""

from typing import Any

from models import VOCABULARY, small_llama
from steps import STEPS, StepLog

import torch

BATCH, LENGTH, ACCUMULATED = 4, 2048, 2
ADAMW: Any = torch.optim.AdamW


def main() -> None:
    torch.manual_seed(0)
    model = small_llama("cuda", layers=16)
    compiled: Any = torch.compile(model.train())
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
        log.end()


if __name__ == "__main__":
    main()
