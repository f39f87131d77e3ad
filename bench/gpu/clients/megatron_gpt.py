"""A GPT of megatron-core, with its data parallelism, distributed optimizer and pipeline schedules.

Each stage of a pipeline is a rank: torchrun --nproc-per-node 2 megatron_gpt.py --pipeline 2 --virtual 2
"""

import argparse
import functools
import importlib
from typing import Any

from models import VOCABULARY
from ranks import join
from steps import STEPS, StepLog

import torch
from torch import Tensor

HIDDEN, HEADS, LENGTH = 2048, 16, 2048
MICRO_BATCH, MICRO_BATCHES = 4, 4


def core(name: str) -> Any:  # noqa: ANN401  # it may not be installed
    return importlib.import_module(f"megatron.core.{name}")


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


def make_chunks(config: Any, chosen: argparse.Namespace) -> list[Any]:  # noqa: ANN401
    """Make this rank's part of the model, one chunk for each virtual stage."""
    stages = core("parallel_state")
    # 0.16.1 forgets this name where Transformer Engine is not installed, and then asks whether it is None.
    core("transformer.moe.moe_utils").te_general_gemm = None
    spec = core("models.gpt.gpt_layer_specs").get_gpt_layer_local_spec(num_experts=chosen.experts or None)
    data_parallel = core("distributed")
    settings = data_parallel.DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, overlap_grad_reduce=True, use_distributed_optimizer=True
    )
    chunks = []
    for number in range(max(1, chosen.virtual)):
        stage = number if chosen.virtual else None
        model = core("models.gpt.gpt_model").GPTModel(
            config,
            spec,
            VOCABULARY,
            LENGTH,
            pre_process=stages.is_pipeline_first_stage(ignore_virtual=False, vp_stage=stage),
            post_process=stages.is_pipeline_last_stage(ignore_virtual=False, vp_stage=stage),
            position_embedding_type="rope",
            vp_stage=stage,
        )
        model = core("transformer.module").Float16Module(config, model.cuda())
        wrapped = data_parallel.DistributedDataParallel(config, settings, model, disable_bucketing=number > 0)
        chunks.append(wrapped)
    return chunks


def make_optimizer(config: Any, chunks: list[Any]) -> Any:  # noqa: ANN401
    """Make Megatron's distributed Adam, and let the schedules use it."""
    optimizers = core("optimizer")
    settings = optimizers.OptimizerConfig(
        optimizer="adam", lr=1e-4, bf16=True, use_distributed_optimizer=True, clip_grad=1.0
    )
    optimizer = optimizers.get_megatron_optimizer(settings, chunks, use_gloo_process_groups=False)
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = core("distributed").finalize_model_grads
    no_syncs = [chunk.no_sync for chunk in chunks]
    config.no_sync_func = no_syncs if len(chunks) > 1 else no_syncs[0]
    return optimizer


def batches() -> Any:  # noqa: ANN401
    """Make random tokens for ever."""
    positions = torch.arange(LENGTH, device="cuda").expand(MICRO_BATCH, LENGTH)
    while True:
        tokens = torch.randint(0, VOCABULARY, (MICRO_BATCH, LENGTH), device="cuda")
        yield tokens, positions


def forward_step(data: Any, model: Any) -> tuple[Tensor, Any]:  # noqa: ANN401
    """Do the forward pass of one micro-batch, as a schedule asks for it."""
    tokens, positions = next(data)
    losses = model(tokens, positions, None, labels=tokens)
    return losses, functools.partial(mean_loss)


def mean_loss(losses: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    loss = losses.float().mean()
    return loss, {"loss": loss.detach()}


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
    config = transformer_config(chosen)
    chunks = make_chunks(config, chosen)
    optimizer = make_optimizer(config, chunks)
    schedule = core("pipeline_parallel").get_forward_backward_func()
    data = [batches() for _ in chunks]
    log = StepLog()
    for _ in range(STEPS):
        for chunk in chunks:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        schedule(
            forward_step_func=forward_step,
            data_iterator=data if len(chunks) > 1 else data[0],
            model=chunks if len(chunks) > 1 else chunks[0],
            num_microbatches=MICRO_BATCHES,
            seq_length=LENGTH,
            micro_batch_size=MICRO_BATCH,
            forward_only=False,
        )
        optimizer.step()
        log.end()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
