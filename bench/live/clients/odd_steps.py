"""Training loops whose steps are alike, but for some.

--loop resnet    ResNet-50 (torchvision), whose gradients are let go behind the forward pass; behind every
                 eighth step an evaluation on larger pictures
--loop gpt2      GPT-2 (transformers); behind every fifth step an evaluation that also generates
--loop thawed    Llama (transformers), of which the head alone is trained in the first nine steps
--loop rollouts  Llama, which writes texts of other lengths in front of every fourth step and learns from them
--loop scaled    a vision transformer (torchvision) in float16: the optimizer is left out of the first four
                 steps, as where scaled gradients are infinite; behind every sixth step an evaluation
"""

import importlib
import random
from collections.abc import Callable
from typing import Any

from models import VOCABULARY, bf16, small_llama
from steps import STEPS, StepLog, run_chosen

import torch
from torch import Tensor, nn

ADAM: Any = torch.optim.AdamW
functional = nn.functional


def drawn_tokens(rows: int, length: int) -> Tensor:
    return torch.randint(2, VOCABULARY, (rows, length), device="cuda")


def train(model: Any, loss_of: Callable[[int], Tensor], behind: Callable[[int], None]) -> None:  # noqa: ANN401
    optimizer = ADAM(model.parameters(), lr=1e-5)
    log = StepLog()
    for step in range(STEPS):
        with bf16():
            loss = loss_of(step)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        behind(step)
        log.end()


def written(model: Any, rows: int, length: int, more: int) -> Tensor:  # noqa: ANN401
    """Make a text of drawn tokens, and so many more of the model's own."""
    model.eval()
    tokens = drawn_tokens(rows, length)
    texts, cache = [tokens], None
    with torch.no_grad(), bf16():
        for _ in range(more):
            output = model(input_ids=tokens, past_key_values=cache, use_cache=True)
            cache, tokens = output.past_key_values, output.logits[:, -1:].argmax(-1)
            texts.append(tokens)
    model.train()
    return torch.cat(texts, 1)


def resnet() -> None:
    model = importlib.import_module("torchvision").models.resnet50().to("cuda")
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    log = StepLog()
    for step in range(STEPS):
        labels = torch.zeros(128, dtype=torch.long, device="cuda")
        with bf16():
            loss = functional.cross_entropy(model(torch.randn(128, 3, 224, 224, device="cuda")), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 7:
            model.eval()
            with torch.no_grad(), bf16():
                for pictures in (256, 256, 256, 100):
                    model(torch.randn(pictures, 3, 256, 256, device="cuda"))
            model.train()
        log.end()


def gpt2() -> None:
    hf = importlib.import_module("transformers")
    with torch.device("cuda"):
        model = hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=1024, n_layer=24, n_head=16))

    def loss_of(_: int) -> Tensor:
        tokens = drawn_tokens(8, 1024)
        loss: Tensor = model(input_ids=tokens, labels=tokens).loss
        return loss

    def evaluate(step: int) -> None:
        if step % 5 != 4:
            return
        model.eval()
        with torch.no_grad(), bf16():
            for _ in range(3):
                tokens = drawn_tokens(16, 1024)
                model(input_ids=tokens, labels=tokens)
        written(model, 16, 128, 48)

    train(model, loss_of, evaluate)


def thawed() -> None:
    model = small_llama("cuda", layers=8)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("head" in name)

    def loss_of(_: int) -> Tensor:
        tokens = drawn_tokens(4, 1024)
        loss: Tensor = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        return loss

    def thaw(step: int) -> None:
        if step == 8:
            model.requires_grad_(True)

    train(model, loss_of, thaw)


def rollouts() -> None:
    model = small_llama("cuda", layers=6)
    draw = random.Random(1)
    texts = torch.empty(0)

    def loss_of(step: int) -> Tensor:
        nonlocal texts
        turn = step % 4
        if turn == 0:
            texts = written(model, 16, draw.randrange(64, 256), draw.randrange(32, 192))
        part = texts[4 * turn : 4 * turn + 4]
        logits: Tensor = model(input_ids=part, use_cache=False).logits[:, :-1]
        return functional.cross_entropy(logits.flatten(0, 1).float(), part[:, 1:].flatten())

    train(model, loss_of, lambda _: None)


def scaled() -> None:
    model = importlib.import_module("torchvision").models.vit_b_16().to("cuda")
    optimizer = ADAM(model.parameters(), lr=1e-4)
    log = StepLog()

    def predicted(rows: int) -> Tensor:
        with torch.autocast("cuda", torch.float16):
            logits: Tensor = model(torch.randn(rows, 3, 224, 224, device="cuda"))
        return logits

    for step in range(STEPS):
        labels = torch.zeros(96, dtype=torch.long, device="cuda")
        (1024 * functional.cross_entropy(predicted(96), labels)).backward()
        if step >= 4:
            optimizer.step()
        optimizer.zero_grad()
        if step % 6 == 5:
            model.eval()
            with torch.no_grad():
                for rows in (256, 256, 128):
                    predicted(rows)
            model.train()
        log.end()


if __name__ == "__main__":
    run_chosen({"resnet": resnet, "gpt2": gpt2, "thawed": thawed, "rollouts": rollouts, "scaled": scaled})
