"""Training loops of transformers' vision models, in bf16, on pictures of one size.

--model clip      CLIP (ViT-L and a text model), with texts of other lengths in each step
--model videomae  VideoMAE, base: masked videos
--model swin      Swin, base, whose blocks are dropped at random
"""

import argparse
import importlib
import random
from collections.abc import Callable
from typing import Any

from models import VOCABULARY
from steps import STEPS, StepLog

import torch
from torch import Tensor, nn

ADAM: Any = torch.optim.AdamW
HF: Any = importlib.import_module("transformers")


def pictures(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda")


def train(model: Any, loss_of: Callable[[], Tensor]) -> None:  # noqa: ANN401  # torch has no types here
    optimizer = ADAM(model.parameters(), lr=1e-5)
    log = StepLog()
    for _ in range(STEPS):
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        log.end()


def clip() -> None:
    text = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
    vision = {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16, "patch_size": 14}
    config = HF.CLIPConfig(
        text_config=text, vision_config=vision | {"intermediate_size": 4096}, projection_dim=512
    )
    with torch.device("cuda"):
        model = HF.CLIPModel(config)
    draw = random.Random(1)

    def loss_of() -> Tensor:
        tokens = torch.randint(2, VOCABULARY, (128, draw.randrange(16, 77)), device="cuda")
        seen = torch.ones_like(tokens)
        loss: Tensor = model(
            input_ids=tokens, pixel_values=pictures(128, 3, 224, 224), attention_mask=seen, return_loss=True
        ).loss
        return loss

    train(model, loss_of)


def videomae() -> None:
    with torch.device("cuda"):
        model = HF.VideoMAEForPreTraining(HF.VideoMAEConfig())
    patches = 8 * 14 * 14
    hidden = torch.zeros(8, patches, dtype=torch.bool, device="cuda")

    def loss_of() -> Tensor:
        hidden.zero_()
        hidden[:, torch.randperm(patches)[: patches * 9 // 10]] = True
        loss: Tensor = model(pictures(8, 16, 3, 224, 224), bool_masked_pos=hidden).loss
        return loss

    train(model, loss_of)


def swin() -> None:
    config = {"depths": [2, 2, 18, 2], "embed_dim": 128, "num_heads": [4, 8, 16, 32], "drop_path_rate": 0.3}
    with torch.device("cuda"):
        model = HF.SwinForImageClassification(HF.SwinConfig(num_labels=1000, **config))
    labels = torch.zeros(48, dtype=torch.long, device="cuda")
    train(model, lambda: model(pixel_values=pictures(48, 3, 224, 224), labels=labels).loss)


def main() -> None:
    models = {"clip": clip, "videomae": videomae, "swin": swin}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=models, required=True)
    chosen = parser.parse_args()
    torch.manual_seed(0)
    models[chosen.model]()


if __name__ == "__main__":
    main()
