"""A decoder on texts of all lengths in one jagged nested tensor: 16,384 tokens or a few more in each step."""

import random
from typing import Any

from models import VOCABULARY
from steps import STEPS, StepLog

import torch
from torch import Tensor, nn

WIDTH = 1024
ATTENTION: Any = nn.functional.scaled_dot_product_attention


class Layer(nn.Module):
    """Attention and a network behind it; texts in, texts out."""

    def __init__(self) -> None:
        """Of 16 heads."""
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.projection = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.between = nn.LayerNorm(WIDTH)
        self.network = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, texts: Tensor) -> Tensor:
        """Change texts in a jagged tensor (texts, tokens, WIDTH)."""
        parts = self.projection(self.before(texts)).chunk(3, -1)
        heads = [part.unflatten(-1, (16, -1)).transpose(1, 2) for part in parts]
        texts = texts + self.output(ATTENTION(*heads, is_causal=True).transpose(1, 2).flatten(-2))
        changed: Tensor = texts + self.network(self.between(texts))
        return changed


def texts_of(tokens: int, draw: random.Random) -> list[Tensor]:
    """Draw texts of 32 to 2048 tokens, most of some 400, until there are so many tokens."""
    texts: list[Tensor] = []
    while sum(len(text) for text in texts) < tokens:
        length = min(2048, max(32, int(draw.lognormvariate(6, 0.8))))
        texts.append(torch.randint(0, VOCABULARY, (length,), device="cuda"))
    return texts


def main() -> None:
    layers = [Layer() for _ in range(16)]
    words = nn.Linear(WIDTH, VOCABULARY, bias=False)
    model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *layers, nn.LayerNorm(WIDTH), words)
    model.to("cuda", torch.bfloat16)
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-4)
    draw = random.Random(0)
    log = StepLog()
    for _ in range(STEPS):
        texts = texts_of(16384, draw)
        logits = model(torch.nested.nested_tensor(texts, layout=torch.jagged)).values()
        nn.functional.cross_entropy(logits[:-1].float(), torch.cat(texts)[1:]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        log.end()


if __name__ == "__main__":
    main()
