"""transformers' Trainers on models whose sizes follow more than one length, or none.

--model t5        Seq2SeqTrainer: encoder and decoder have lengths of their own; behind every fourth step an
                  evaluation that generates
--model wav2vec2  Trainer: recordings of 1 to 16 seconds, a loss over paths (CTC)
--model whisper   Seq2SeqTrainer: the encoder's length is fixed, the decoder's is not; two batches accumulated
--model mamba2    Trainer: texts cut into chunks of 256, in plain operators of PyTorch
"""

import argparse
import importlib
import random
from collections.abc import Callable
from typing import Any

from steps import STEPS, trainer_arguments, trainer_callback

import torch
from torch import Tensor

IGNORED = -100  # what no loss counts
Rows = list[dict[str, int]]  # the lengths that a sample has
Batch = dict[str, Tensor]


def padded(rows: list[Tensor], value: int = 0) -> Tensor:
    padded: Tensor = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)
    return padded


def tokens(length: int, largest: int) -> Tensor:
    return torch.randint(2, largest, (length,))


def drawn(count: int, **ranges: tuple[int, int]) -> Rows:
    """Draw lengths for so many samples."""
    draw = random.Random(0)
    return [{name: draw.randrange(*bounds) for name, bounds in ranges.items()} for _ in range(count)]


def arguments(batch: int) -> dict[str, Any]:
    """Say that samples, which are lengths that no model takes, are not to be dropped."""
    return trainer_arguments(batch) | {"remove_unused_columns": False}


def made(model: Callable[[Any], Any], config: object) -> Any:  # noqa: ANN401  # transformers has no types here
    with torch.device("cuda"):
        return model(config)


def t5(hf: Any) -> Any:  # noqa: ANN401
    def collate(rows: Rows) -> Batch:
        ids = padded([tokens(row["source"], 32000) for row in rows])
        labels = padded([tokens(row["target"], 32000) for row in rows], IGNORED)
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}

    config = hf.T5Config(
        d_model=1024,
        d_ff=2816,
        num_layers=24,
        num_heads=16,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
    )
    settings = hf.Seq2SeqTrainingArguments(
        **arguments(16),
        eval_strategy="steps",
        eval_steps=4,
        per_device_eval_batch_size=16,
        predict_with_generate=True,
        generation_max_length=24,
    )
    return hf.Seq2SeqTrainer(
        model=made(hf.T5ForConditionalGeneration, config),
        args=settings,
        train_dataset=drawn(16 * STEPS, source=(32, 768), target=(16, 256)),
        eval_dataset=drawn(32, source=(32, 768), target=(16, 256)),
        data_collator=collate,
        callbacks=[trainer_callback()],
    )


def wav2vec2(hf: Any) -> Any:  # noqa: ANN401
    def collate(rows: Rows) -> Batch:
        sound = padded([torch.randn(row["samples"]) for row in rows])
        labels = padded([tokens(row["letters"], 31) for row in rows], IGNORED)
        return {"input_values": sound, "labels": labels}

    config = hf.Wav2Vec2Config(
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        feat_extract_norm="layer",
        do_stable_layer_norm=True,
        apply_spec_augment=False,
        ctc_zero_infinity=True,
    )
    model = made(hf.Wav2Vec2ForCTC, config)
    model.freeze_feature_encoder()
    return hf.Trainer(
        model=model,
        args=hf.TrainingArguments(**arguments(8)),
        train_dataset=drawn(8 * STEPS, samples=(16_000, 256_000), letters=(8, 40)),
        data_collator=collate,
        callbacks=[trainer_callback()],
    )


def whisper(hf: Any) -> Any:  # noqa: ANN401
    def collate(rows: Rows) -> Batch:
        labels = padded([tokens(row["target"], 50_000) for row in rows], IGNORED)
        return {"input_features": torch.randn(len(rows), 80, 3000), "labels": labels}

    config = hf.WhisperConfig(
        d_model=1024,
        encoder_layers=24,
        decoder_layers=24,
        encoder_attention_heads=16,
        decoder_attention_heads=16,
        encoder_ffn_dim=4096,
        decoder_ffn_dim=4096,
    )
    return hf.Seq2SeqTrainer(
        model=made(hf.WhisperForConditionalGeneration, config),
        args=hf.Seq2SeqTrainingArguments(**arguments(8), gradient_accumulation_steps=2),
        train_dataset=drawn(16 * STEPS, target=(16, 440)),
        data_collator=collate,
        callbacks=[trainer_callback()],
    )


def mamba2(hf: Any) -> Any:  # noqa: ANN401
    def collate(rows: Rows) -> Batch:
        ids = padded([tokens(row["length"], 31_000) for row in rows])
        return {"input_ids": ids, "labels": ids}

    config = hf.Mamba2Config(
        hidden_size=1024, num_heads=32, num_hidden_layers=24, vocab_size=32000, state_size=64, n_groups=1
    )
    return hf.Trainer(
        model=made(hf.Mamba2ForCausalLM, config),
        args=hf.TrainingArguments(**arguments(4)),
        train_dataset=drawn(4 * STEPS, length=(64, 1024)),
        data_collator=collate,
        callbacks=[trainer_callback()],
    )


def main() -> None:
    makers = {"t5": t5, "wav2vec2": wav2vec2, "whisper": whisper, "mamba2": mamba2}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=makers, required=True)
    chosen = parser.parse_args()
    torch.manual_seed(0)
    makers[chosen.model](importlib.import_module("transformers")).train()


if __name__ == "__main__":
    main()
