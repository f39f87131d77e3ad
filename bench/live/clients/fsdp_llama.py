"""A transformers Llama of 1.2 billion parameters, sharded by PyTorch's FSDP.

    torchrun --nproc-per-node 2 fsdp_llama.py --wrapper fsdp2

`fsdp2` is the loop of ../workloads; `fsdp1` the older wrapper; `offload` FSDP2 with weights, gradients and
optimizer in the host's memory, and a model small enough for that.
"""

import argparse
import functools
import importlib
from collections.abc import Callable
from typing import Any

from models import small_llama
from ranks import join
from steps import STEPS, StepLog, cuda
from workloads.clients import llama, make_fsdp

import torch
from torch import Tensor

BATCH, LENGTH, ACCUMULATED = 4, 4096, 2
ADAMW: Any = torch.optim.AdamW


def make_fsdp1() -> Callable[[], Tensor]:
    """Mixed precision, gradients gathered ahead, layers recomputed, clipped."""
    fsdp: Any = importlib.import_module("torch.distributed.fsdp")
    wrap: Any = importlib.import_module("torch.distributed.fsdp.wrap")
    model = llama()
    model.gradient_checkpointing_enable()
    vocabulary = model.config.vocab_size
    kinds = {type(model.model.layers[0])}
    sharded = fsdp.FullyShardedDataParallel(
        model.train(),
        auto_wrap_policy=functools.partial(wrap.transformer_auto_wrap_policy, transformer_layer_cls=kinds),
        mixed_precision=fsdp.MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        device_id=cuda.current_device(),
        use_orig_params=True,
        limit_all_gathers=True,
    )
    return train(sharded, vocabulary, clip=sharded.clip_grad_norm_)


def make_offloaded() -> Callable[[], Tensor]:
    """Shard what lies on the host; the device has a layer at a time."""
    fsdp: Any = importlib.import_module("torch.distributed.fsdp")
    model = small_llama("cpu")
    model.gradient_checkpointing_enable()
    options = {
        "mp_policy": fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        "offload_policy": fsdp.CPUOffloadPolicy(),
    }
    for layer in [*model.model.layers, model]:
        fsdp.fully_shard(layer, **options)
    return train(model.train(), model.config.vocab_size, clip=None)


def train(model: Any, vocabulary: int, clip: Any) -> Callable[[], Tensor]:  # noqa: ANN401
    """One step: accumulated batches, AdamW."""
    optimizer = ADAMW(model.parameters(), lr=1e-4)

    def step() -> Tensor:
        for _ in range(ACCUMULATED):
            tokens = torch.randint(0, vocabulary, (BATCH, LENGTH), device="cuda")
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
            loss.backward()
        if clip is not None:
            clip(1.0)
        optimizer.step()
        optimizer.zero_grad()
        result: Tensor = loss.detach()
        return result

    return step


def main() -> None:
    makers: dict[str, Callable[[], Callable[[], Tensor]]] = {
        "fsdp2": lambda: make_fsdp(BATCH, LENGTH),
        "fsdp1": make_fsdp1,
        "offload": make_offloaded,
    }
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--wrapper", choices=makers, default="fsdp2")
    chosen = parser.parse_args()
    torch.manual_seed(0)
    join()
    step = makers[chosen.wrapper]()
    log = StepLog()
    for _ in range(STEPS):
        step()
        log.end()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
