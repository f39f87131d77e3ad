"""A training job for the tests of the package: a small transformer on the CPU. Prints one JSON document.

python small_transformer.py plain|enable|record FILE|install FILE [--steps N] [--longer-from STEP]
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

WIDTH, HEADS, WORDS, BATCH = 64, 4, 200, 8


class Transformer(nn.Module):
    """Two blocks of attention between an embedding and its words."""

    def __init__(self) -> None:
        """Make the weights."""
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.1, batch_first=True)
            for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Predict, of each word, the next."""
        hidden = self.embedding(words)
        for block in self.blocks:
            hidden = block(hidden)
        prediction: torch.Tensor = self.head(hidden)
        return prediction


def train(steps: int, longer_from: int, settle: Callable[[], None]) -> list[float]:
    """Return the loss of each step; from `longer_from` on sequences are longer. Each ends with `settle`."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for step in range(steps):
        words = torch.randint(WORDS, (BATCH, 48 if step < longer_from else 80))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        settle()
    return losses


def linger() -> None:
    """Let a step take as long as one of a real job, so that the planner is done in a few of them."""
    import stweaver

    if any(device.stage == "planning" for device in stweaver.stats().devices):
        time.sleep(0.3)


def main() -> None:
    """Train as the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=("plain", "enable", "record", "install"))
    parser.add_argument("file", nargs="?")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--log", help="file to write the answer to, too")
    parser.add_argument("--longer-from", type=int, default=1 << 30)
    options = parser.parse_args()
    answer: dict[str, object] = {}
    if options.how == "plain":
        answer["losses"] = train(options.steps, options.longer_from, settle=lambda: None)
    else:
        import stweaver

        if options.how == "enable":
            stweaver.enable(device="cpu")
        elif options.how == "record":
            stweaver.record(options.file, device="cpu")
        else:
            stweaver.install(options.file, device="cpu")
        answer["losses"] = train(options.steps, options.longer_from, settle=linger)
        (device,) = stweaver.stats().devices
        answer |= {
            "hits": device.served.hits,
            "misses": device.served.misses,
            "last_step_hits": device.last_step.served.hits,
            "last_step_misses": device.last_step.served.misses,
            "requested": device.peaks.requested,
            "reserved": device.peaks.reserved,
            "plans": device.plans,
            "steps": device.steps,
            "report": stweaver.report(),
        }
        stweaver.disable()
        answer["enabled"] = stweaver.is_enabled()
        answer["sum"] = torch.ones(1 << 16).sum().item()  # PyTorch's own allocator serves again
    answer["process_peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    print(json.dumps(answer))
    if options.log:
        Path(options.log).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
