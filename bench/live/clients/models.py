"""Models and data that several of the training loops share: nothing is downloaded, all is made from seeds."""

import importlib
import random
from collections.abc import Iterator
from typing import Any

import torch

VOCABULARY = 32000


def small_llama(device: str, *, layers: int = 4, dtype: torch.dtype = torch.float32) -> Any:  # noqa: ANN401
    """Make a Llama of 50 million parameters a layer, with 131 million in its embeddings."""
    transformers = importlib.import_module("transformers")
    config = transformers.LlamaConfig(
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=VOCABULARY,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        dtype=dtype,
    )
    with torch.device(device):
        return transformers.LlamaForCausalLM(config).to(dtype)


def bf16() -> Any:  # noqa: ANN401  # torch has no types here
    """Make a context in which products are in bf16."""
    return torch.autocast("cuda", torch.bfloat16)


def lengths(choices: tuple[int, ...], seed: int = 0) -> Iterator[int]:
    """Draw from the choices for ever."""
    draw = random.Random(seed)
    while True:
        yield draw.choice(choices)


def tokenizer() -> Any:  # noqa: ANN401
    """Make a tokenizer of numbered words: "w17 w5" is two tokens."""
    tokenizers = importlib.import_module("tokenizers")
    transformers = importlib.import_module("transformers")
    numbers = {"<pad>": 0, "<end>": 1} | {f"w{number}": number for number in range(2, VOCABULARY)}
    split = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="<pad>"))
    split.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=split, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )


def words(count: int, draw: random.Random) -> str:
    """Make a text of so many tokens."""
    return " ".join(f"w{draw.randrange(2, VOCABULARY)}" for _ in range(count))
