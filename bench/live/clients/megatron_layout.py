"""A Llama of megatron-core in any layout: one rank of tensor, sequence, pipeline and data parallelism.

What megatron-core leaves to Transformer Engine comes from PyTorch: norms that may see a part of the sequence,
and flash attention.
"""

import argparse
from typing import Any

import megatron_gpt as gpt
from megatron_gpt import core
from ranks import join

import torch
from torch import Tensor

attend = torch.nn.functional.scaled_dot_product_attention


class Norm:
    """RMSNorm, whose weights' gradients are summed where ranks see different tokens."""

    def __new__(cls, config: Any, hidden_size: int, eps: float) -> Any:  # noqa: ANN401
        """Make PyTorch's."""
        norm = torch.nn.RMSNorm(hidden_size, eps)
        norm.weight.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]
        return norm


class FlashAttention(torch.nn.Module):
    """PyTorch's flash attention, causal; tensors are [sequence, batch, heads, width]."""

    def __init__(self, **_: object) -> None:
        """Need nothing of what megatron-core tells."""
        super().__init__()

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *_: object, **__: object) -> Tensor:
        """Attend; a group of queries has one key and one value."""
        split = [part.permute(1, 2, 0, 3) for part in (query, key, value)]
        result = attend(split[0], split[1], split[2], is_causal=True, enable_gqa=True)
        return result.permute(2, 0, 1, 3).reshape(*query.shape[:2], -1)


def layer(chosen: argparse.Namespace) -> Any:  # noqa: ANN401
    """Say what a layer is made of."""
    make = core("models.gpt.gpt_layer_specs").get_gpt_layer_local_spec
    spec = make(num_experts=chosen.experts or None, normalization="RMSNorm")
    parts = spec.submodules
    parts.input_layernorm = parts.pre_mlp_layernorm = Norm
    if chosen.attention == "flash":
        parts.self_attention.submodules.core_attention = FlashAttention
    # 0.16.1 takes the default, False, for fp8, which needs Transformer Engine.
    core("tensor_parallel.random").CheckpointWithoutOutput.__init__.__defaults__ = (None,)
    return spec


def transformer_config(chosen: argparse.Namespace) -> Any:  # noqa: ANN401
    recompute: dict[str, dict[str, Any]] = {
        "none": {},
        "selective": {"recompute_granularity": "selective", "recompute_modules": ["layernorm"]},
        "full": {
            "recompute_granularity": "full",
            "recompute_method": "block",
            "recompute_num_layers": chosen.recompute_layers,
        },
    }
    experts = {
        "num_moe_experts": chosen.experts,
        "moe_router_topk": 2,
        "moe_token_dispatcher_type": "alltoall",
        "moe_aux_loss_coeff": 0.01,
        "expert_model_parallel_size": chosen.expert_parallel,
        "expert_tensor_parallel_size": 1,
    }
    return core("transformer.transformer_config").TransformerConfig(
        num_layers=chosen.layers,
        hidden_size=chosen.hidden,
        ffn_hidden_size=chosen.ffn,
        num_attention_heads=chosen.heads,
        num_query_groups=chosen.groups,
        normalization="RMSNorm",
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        bias_activation_fusion=True,
        hidden_dropout=0,
        attention_dropout=0,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        tensor_model_parallel_size=chosen.tensor,
        sequence_parallel=chosen.sequence_parallel,
        pipeline_model_parallel_size=chosen.pipeline,
        deallocate_pipeline_outputs=True,  # here and below as Megatron-LM does
        overlap_p2p_comm=chosen.virtual > 0,
        batch_p2p_comm=not chosen.virtual,
        virtual_pipeline_model_parallel_size=chosen.virtual or None,
        **recompute[chosen.recompute],
        **(experts if chosen.experts else {}),
    )


def make_model(config: Any, chosen: argparse.Namespace, number: int) -> Any:  # noqa: ANN401
    """Make the model of one virtual stage."""
    stages = core("parallel_state")
    stage = number if chosen.virtual else None
    block = core("transformer.transformer_block")
    count = block.get_num_layers_to_build(config, stage)
    return core("models.gpt.gpt_model").GPTModel(
        config,
        block.TransformerBlockSubmodules([layer(chosen)] * count, Norm),
        chosen.vocabulary,
        chosen.sequence,
        pre_process=stages.is_pipeline_first_stage(ignore_virtual=False, vp_stage=stage),
        post_process=stages.is_pipeline_last_stage(ignore_virtual=False, vp_stage=stage),
        parallel_output=True,
        share_embeddings_and_output_weights=False,
        position_embedding_type="rope",
        vp_stage=stage,
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    sizes = {
        "layers": 32,
        "hidden": 4096,
        "ffn": 14336,
        "heads": 32,
        "groups": 8,
        "vocabulary": 128256,
        "sequence": 4096,
    }
    layout = {"tensor": 1, "pipeline": 1, "virtual": 0, "experts": 0, "expert-parallel": 1, "zero": 1}
    step = {"micro-batch": 1, "micro-batches": 8, "recompute-layers": 1}
    for name, size in (sizes | layout | step).items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--sequence-parallel", action="store_true")
    parser.add_argument("--attention", choices=["flash", "unfused"], default="flash")
    parser.add_argument("--recompute", choices=["none", "selective", "full"], default="none")
    return parser.parse_args()


def main() -> None:
    chosen = arguments()
    join()
    core("parallel_state").initialize_model_parallel(
        tensor_model_parallel_size=chosen.tensor,
        pipeline_model_parallel_size=chosen.pipeline,
        virtual_pipeline_model_parallel_size=chosen.virtual or None,
        expert_model_parallel_size=chosen.expert_parallel,
        expert_tensor_parallel_size=1,
        create_gloo_process_groups=False,
    )
    core("tensor_parallel.random").model_parallel_cuda_manual_seed(1)
    gpt.allow_experts()
    config = transformer_config(chosen)
    models = [make_model(config, chosen, number) for number in range(max(1, chosen.virtual))]
    batch = gpt.Batch(chosen.micro_batch, chosen.micro_batches, chosen.sequence, chosen.vocabulary)
    gpt.train(models, config, batch, sharded=chosen.zero > 0)


if __name__ == "__main__":
    main()
