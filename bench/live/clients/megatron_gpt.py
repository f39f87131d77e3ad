"""A GPT of megatron-core, with its data parallelism, distributed optimizer and pipeline schedules.

Each stage of a pipeline is a rank: torchrun --nproc-per-node 2 megatron_gpt.py --pipeline 2 --virtual 2
"""

import argparse
import functools
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from models import VOCABULARY
from ranks import join
from steps import STEPS, StepLog

import torch
from torch import Tensor

HIDDEN, HEADS = 2048, 16


@dataclass(frozen=True)
class Batch:
    """What a step takes."""

    micro: int  # sequences of a micro-batch
    count: int  # of them
    length: int  # tokens of a sequence
    vocabulary: int


BATCH = Batch(micro=4, count=4, length=2048, vocabulary=VOCABULARY)


def core(name: str) -> Any:  # noqa: ANN401  # it may not be installed
    return importlib.import_module(f"megatron.core.{name}")


def allow_experts() -> None:
    """Let routers work without Transformer Engine: 0.16.1 asks whether this name is None, and forgets it."""
    core("transformer.moe.moe_utils").te_general_gemm = None


def transformer_config(chosen: argparse.Namespace) -> Any:  # noqa: ANN401
    recompute = {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    experts = {
        "num_moe_experts": chosen.experts,
        "moe_router_topk": 2,
        "moe_token_dispatcher_type": "alltoall",
        "moe_aux_loss_coeff": 0.01,
        "moe_ffn_hidden_size": HIDDEN,
        "add_bias_linear": False,
    }
    return core("transformer.transformer_config").TransformerConfig(
        num_layers=chosen.layers,
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        pipeline_model_parallel_size=chosen.pipeline,
        virtual_pipeline_model_parallel_size=chosen.virtual or None,
        **(recompute if chosen.recompute else {}),
        **(experts if chosen.experts else {}),
    )


def make_models(config: Any, chosen: argparse.Namespace) -> list[Any]:  # noqa: ANN401
    """Make this rank's part of the model, one chunk for each virtual stage."""
    stages = core("parallel_state")
    spec = core("models.gpt.gpt_layer_specs").get_gpt_layer_local_spec(num_experts=chosen.experts or None)
    models = []
    for number in range(max(1, chosen.virtual)):
        stage = number if chosen.virtual else None
        model = core("models.gpt.gpt_model").GPTModel(
            config,
            spec,
            VOCABULARY,
            BATCH.length,
            pre_process=stages.is_pipeline_first_stage(ignore_virtual=False, vp_stage=stage),
            post_process=stages.is_pipeline_last_stage(ignore_virtual=False, vp_stage=stage),
            position_embedding_type="rope",
            vp_stage=stage,
        )
        models.append(model)
    return models


# ---- training, of any model of megatron-core ----


def wrap(models: list[Any], config: Any, sharded: bool) -> list[Any]:  # noqa: ANN401
    """Wrap each chunk for data parallelism; `sharded`: ranks share the optimizer's states."""
    data_parallel, half = core("distributed"), core("transformer.module").Float16Module
    settings = data_parallel.DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, overlap_grad_reduce=True, use_distributed_optimizer=sharded
    )
    return [
        data_parallel.DistributedDataParallel(
            config, settings, half(config, model.cuda()), disable_bucketing=number > 0
        )
        for number, model in enumerate(models)
    ]


def make_optimizer(config: Any, chunks: list[Any], sharded: bool) -> Any:  # noqa: ANN401
    """Make Megatron's Adam, and let the schedules use it."""
    optimizers = core("optimizer")
    settings = optimizers.OptimizerConfig(
        optimizer="adam", lr=1e-4, bf16=True, use_distributed_optimizer=sharded, clip_grad=1.0
    )
    optimizer = optimizers.get_megatron_optimizer(settings, chunks, use_gloo_process_groups=False)
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = core("distributed").finalize_model_grads
    no_syncs = [chunk.no_sync for chunk in chunks]
    config.no_sync_func = no_syncs if len(chunks) > 1 else no_syncs[0]
    return optimizer


def batches(batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """Make random tokens for ever."""
    shape = (batch.micro, batch.length)
    positions = torch.arange(batch.length, device="cuda").expand(shape)
    while True:
        yield torch.randint(0, batch.vocabulary, shape, device="cuda"), positions


def forward_step(data: Any, model: Any) -> tuple[Tensor, Any]:  # noqa: ANN401
    """Do the forward pass of one micro-batch, as a schedule asks for it."""
    tokens, positions = next(data)
    losses = model(tokens, positions, None, labels=tokens)
    return losses, functools.partial(mean_loss)


def mean_loss(losses: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    loss = losses.float().mean()
    return loss, {"loss": loss.detach()}


def train(models: list[Any], config: Any, batch: Batch, sharded: bool = True) -> None:  # noqa: ANN401
    """Train the chunks of this rank."""
    chunks = wrap(models, config, sharded)
    optimizer = make_optimizer(config, chunks, sharded)
    schedule = core("pipeline_parallel").get_forward_backward_func()
    data = [batches(batch) for _ in chunks]
    log = StepLog()
    for _ in range(STEPS):
        for chunk in chunks:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        schedule(
            forward_step_func=forward_step,
            data_iterator=data if len(chunks) > 1 else data[0],
            model=chunks if len(chunks) > 1 else chunks[0],
            num_microbatches=batch.count,
            seq_length=batch.length,
            micro_batch_size=batch.micro,
            forward_only=False,
        )
        optimizer.step()
        log.end()
    torch.distributed.destroy_process_group()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--experts", type=int, default=0)
    parser.add_argument("--pipeline", type=int, default=1, help="stages")
    parser.add_argument("--virtual", type=int, default=0, help="virtual stages of each rank")
    return parser.parse_args()


def main() -> None:
    chosen = arguments()
    join()
    core("parallel_state").initialize_model_parallel(
        pipeline_model_parallel_size=chosen.pipeline,
        virtual_pipeline_model_parallel_size=chosen.virtual or None,
        create_gloo_process_groups=False,
    )
    core("tensor_parallel.random").model_parallel_cuda_manual_seed(1)
    allow_experts()
    config = transformer_config(chosen)
    train(make_models(config, chosen), config, BATCH)


if __name__ == "__main__":
    main()
