"""TRL's trainers: supervised fine-tuning with LoRA on texts of differing lengths, DPO, or GRPO.

GRPO generates with transformers' plain generate() and rewards short texts.
"""

import argparse
import importlib
import random
from typing import Any

from models import small_llama, tokenizer, words
from steps import STEPS, trainer_arguments, trainer_callback

import torch

TEXTS = 16  # of a micro-batch of fine-tuning
PAIRS = 4  # of a micro-batch of DPO
GROUP = 8  # completions of a prompt
ACCUMULATED = 2


def shared_arguments(batch: int) -> dict[str, Any]:
    return trainer_arguments(batch) | {
        "gradient_accumulation_steps": ACCUMULATED,
        "gradient_checkpointing": True,
    }


def make_sft(trl: Any) -> Any:  # noqa: ANN401
    """Train adapters of rank 16 on all linear layers; the weights are bf16."""
    datasets, peft = importlib.import_module("datasets"), importlib.import_module("peft")
    draw = random.Random(0)
    texts = [{"text": words(draw.randrange(256, 4096), draw)} for _ in range(ACCUMULATED * TEXTS * STEPS)]
    return trl.SFTTrainer(
        model=small_llama("cuda", layers=16, dtype=torch.bfloat16),
        args=trl.SFTConfig(**shared_arguments(TEXTS), max_length=4096),
        train_dataset=datasets.Dataset.from_list(texts),
        processing_class=tokenizer(),
        peft_config=peft.LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"),
        callbacks=[trainer_callback()],
    )


def make_dpo(trl: Any) -> Any:  # noqa: ANN401
    """Train all weights on pairs of answers, beside a model that stays as it is."""
    datasets = importlib.import_module("datasets")
    draw = random.Random(0)
    longest = {"prompt": 512, "chosen": 1024, "rejected": 1024}
    texts = [
        {name: words(draw.randrange(64, most), draw) for name, most in longest.items()}
        for _ in range(ACCUMULATED * PAIRS * STEPS)
    ]
    return trl.DPOTrainer(
        model=small_llama("cuda", layers=16, dtype=torch.bfloat16),
        ref_model=small_llama("cuda", layers=16, dtype=torch.bfloat16),
        args=trl.DPOConfig(**shared_arguments(PAIRS)),
        train_dataset=datasets.Dataset.from_list(texts),
        processing_class=tokenizer(),
        callbacks=[trainer_callback()],
    )


def make_grpo(trl: Any) -> Any:  # noqa: ANN401
    """Train all weights on groups of completions."""
    datasets = importlib.import_module("datasets")
    draw = random.Random(0)
    prompts = [{"prompt": words(draw.randrange(64, 512), draw)} for _ in range(ACCUMULATED * STEPS)]
    return trl.GRPOTrainer(
        model=small_llama("cuda", layers=8, dtype=torch.bfloat16),
        reward_funcs=reward,
        args=trl.GRPOConfig(**shared_arguments(GROUP), num_generations=GROUP, max_completion_length=128),
        train_dataset=datasets.Dataset.from_list(prompts),
        processing_class=tokenizer(),
        callbacks=[trainer_callback()],
    )


def reward(completions: list[str], **_: Any) -> list[float]:  # noqa: ANN401
    """Prefer short texts."""
    return [1 / (1 + len(text)) for text in completions]


def main() -> None:
    makers = {"sft": make_sft, "dpo": make_dpo, "grpo": make_grpo}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--method", choices=makers, default="sft")
    chosen = parser.parse_args()
    torch.manual_seed(0)
    makers[chosen.method](importlib.import_module("trl")).train()


if __name__ == "__main__":
    main()
