"""The training loops that are run: the programs of clients/ with their arguments."""

from dataclasses import dataclass
from pathlib import Path

CLIENTS = Path(__file__).resolve().with_name("clients")


@dataclass(frozen=True)
class Job:
    """One rank of a training job."""

    client: str  # a program of clients/
    arguments: tuple[str, ...] = ()
    rank: int = 0
    world: int = 1
    steps: int = 8
    seconds: int = 300  # the longest that one run may take

    @property
    def command(self) -> list[str]:
        """The program and its arguments, without Python."""
        return [str(CLIENTS / f"{self.client}.py"), *self.arguments]


JOBS = {
    "megatron": Job("megatron_gpt"),
    "megatron_of_8": Job("megatron_gpt", world=8),
    "megatron_recompute": Job("megatron_gpt", ("--recompute",)),
    "megatron_moe": Job("megatron_gpt", ("--experts", "8")),
    "megatron_moe_recompute": Job("megatron_gpt", ("--experts", "8", "--recompute")),
    "megatron_pipeline": Job(
        "megatron_gpt", ("--layers", "32", "--pipeline", "2", "--virtual", "2"), rank=1, world=2
    ),
    "deepspeed_zero2": Job("deepspeed_zero", ("--stage", "2")),
    "deepspeed_zero3": Job("deepspeed_zero", ("--stage", "3")),
    "deepspeed_zero3_of_8": Job("deepspeed_zero", ("--stage", "3"), world=8),
    "fsdp2_of_2": Job("fsdp_llama", world=2, steps=16),
    "fsdp2_of_8": Job("fsdp_llama", world=8),
    "fsdp2_of_64": Job("fsdp_llama", world=64),
    "fsdp2_offload": Job("fsdp_llama", ("--wrapper", "offload"), steps=6),
    "fsdp1_of_8": Job("fsdp_llama", ("--wrapper", "fsdp1"), world=8),
    "trainer": Job("hf_trainer", steps=24),
    "trl_sft": Job("trl_trainer", ("--method", "sft"), steps=12),
    "trl_dpo": Job("trl_trainer", ("--method", "dpo"), steps=16),
    "trl_grpo": Job("trl_trainer", ("--method", "grpo")),
    "t5": Job("hf_models", ("--model", "t5"), steps=16),
    "wav2vec2": Job("hf_models", ("--model", "wav2vec2"), steps=16),
    "whisper": Job("hf_models", ("--model", "whisper"), steps=16),
    "mamba2": Job("hf_models", ("--model", "mamba2"), steps=16),
    "compiled": Job("compiled_llama", steps=10),
    "diffusers": Job("diffusers_unet", steps=12),
    "mask_rcnn": Job("mask_rcnn", steps=12),
    "graph_network": Job("graph_network", steps=16),
    "lstm": Job("lstm", steps=12),
    "fourier": Job("fourier", steps=12),
    "resnet": Job("odd_steps", ("--loop", "resnet"), steps=24),
    "gpt2": Job("odd_steps", ("--loop", "gpt2"), steps=24),
    "thawed": Job("odd_steps", ("--loop", "thawed"), steps=24),
    "rollouts": Job("odd_steps", ("--loop", "rollouts"), steps=24),
    "scaled": Job("odd_steps", ("--loop", "scaled"), steps=24),
    "segmentation": Job("segmentation", steps=24),
    "wgan": Job("wgan", steps=150),
    "lightning": Job("libraries", ("--library", "lightning"), steps=24),
    "timm": Job("libraries", ("--library", "timm"), steps=24),
    "ignite": Job("libraries", ("--library", "ignite"), steps=24),
    "x_transformers": Job("libraries", ("--library", "x_transformers"), steps=24),
    "peft": Job("libraries", ("--library", "peft"), steps=18),
    "litgpt": Job("litgpt_pretrain", steps=24),
    "nested": Job("nested", steps=24),
    "clip": Job("vision", ("--model", "clip"), steps=16),
    "videomae": Job("vision", ("--model", "videomae"), steps=16),
    "swin": Job("vision", ("--model", "swin"), steps=16),
    "maml": Job("other_fields", ("--loop", "maml"), steps=24),
    "nerf": Job("other_fields", ("--loop", "nerf"), steps=24),
    "dlrm": Job("other_fields", ("--loop", "dlrm"), steps=24),
    "detr": Job("other_fields", ("--loop", "detr"), steps=24),
    "ppo": Job("other_fields", ("--loop", "ppo"), steps=24),
    "ppo_marked": Job("other_fields", ("--loop", "ppo_marked"), steps=24),
}
