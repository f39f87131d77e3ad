"""A language model of four LSTM layers (cuDNN's), on texts of varying lengths."""

from typing import Any

from models import VOCABULARY, lengths
from steps import STEPS, StepLog

import torch
from torch import Tensor, nn

BATCH, WIDTH = 64, 2048
ADAM: Any = torch.optim.Adam


class LanguageModel(nn.Module):
    """Embedding, LSTM, head."""

    def __init__(self) -> None:
        """Make all of them random."""
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.LSTM(WIDTH, WIDTH, num_layers=4, batch_first=True, dropout=0.1)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Guess each next token."""
        hidden, _ = self.layers(self.embedding(tokens))
        logits: Tensor = self.head(hidden)
        return logits


def main() -> None:
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = LanguageModel()
    optimizer = ADAM(model.parameters(), lr=1e-4)
    length = lengths((256, 384, 512, 768))
    log = StepLog()
    for _ in range(STEPS):
        tokens = torch.randint(0, VOCABULARY, (BATCH, next(length) + 1), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        log.end()


if __name__ == "__main__":
    main()
