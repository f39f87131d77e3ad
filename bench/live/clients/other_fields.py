"""Training loops of fields other than language models and vision, in plain PyTorch.

--loop maml  few-shot learning: gradients of five gradient steps for each of four tasks (Finn et al. 2017)
--loop nerf  a radiance field: coarse samples, and fine ones whose number differs from batch to batch; behind
             every tenth step a picture is rendered (Mildenhall et al. 2020)
--loop dlrm  recommendation: embedding tables with sparse gradients, bags of other sizes in every step
             (Naumov et al. 2019)
--loop detr  detection by a transformer, on pictures of other sizes in every step (Carion et al. 2020)
--loop ppo   reinforcement learning: texts are written, and learned from in eight updates; a reference and a
             critic beside the policy (Schulman et al. 2017)
--loop ppo_marked   the same, which tells STWeaver that such an iteration is a step
"""

import functools
import importlib
import random
import sys
from typing import Any

from models import VOCABULARY, bf16, small_llama
from steps import STEPS, StepLog, run_chosen

import torch
from torch import Tensor, nn

ADAM: Any = torch.optim.AdamW
functional = nn.functional


def zeros(count: int) -> Tensor:
    """Give labels."""
    return torch.zeros(count, dtype=torch.long, device="cuda")


def maml() -> None:
    blocks = [
        layer
        for block in range(4)
        for layer in (
            nn.Conv2d(64 if block else 3, 64, 3, padding=1),
            nn.BatchNorm2d(64, track_running_stats=False),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
    ]
    model = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(64 * 25, 5)).to("cuda")
    call: Any = importlib.import_module("torch.func").functional_call
    optimizer = ADAM(model.parameters())
    log = StepLog()

    def loss_of(parameters: dict[str, Tensor], pictures: int) -> Tensor:
        drawn = torch.randn(pictures, 3, 84, 84, device="cuda")
        return functional.cross_entropy(call(model, parameters, (drawn,)), zeros(pictures))

    for _ in range(STEPS):
        for _task in range(4):
            fast: dict[str, Tensor] = dict(model.named_parameters())
            for _inner in range(5):
                gradients = torch.autograd.grad(loss_of(fast, 25), list(fast.values()), create_graph=True)
                fast = {
                    name: old - 0.01 * new for (name, old), new in zip(fast.items(), gradients, strict=True)
                }
            loss_of(fast, 75).backward()
        optimizer.step()
        optimizer.zero_grad()
        log.end()


def nerf() -> None:
    def field() -> Any:  # noqa: ANN401
        hidden = [layer for _ in range(7) for layer in (nn.Linear(256, 256), nn.ReLU())]
        return nn.Sequential(nn.Linear(63, 256), nn.ReLU(), *hidden, nn.Linear(256, 4)).to("cuda")

    def encoded(points: Tensor) -> Tensor:
        waves = [wave(points * 2**octave) for octave in range(10) for wave in (torch.sin, torch.cos)]
        return torch.cat([points, *waves], -1)

    coarse, fine = field(), field()
    optimizer = ADAM([*coarse.parameters(), *fine.parameters()])
    log = StepLog()
    draw = random.Random(5)
    for step in range(STEPS):
        for _ in range(4):
            rays = coarse(encoded(torch.rand(4096 * 64, 3, device="cuda"))).view(4096, 64, 4)
            seen = (torch.softmax(rays[..., 3], -1)[..., None] * rays[..., :3]).sum(1)
            kept = fine(encoded(torch.rand(draw.randint(100_000, 400_000), 3, device="cuda")))
            (seen.mean() + kept.mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 9:
            with torch.no_grad():
                for _ in range(5):
                    fine(encoded(torch.rand(600_000, 3, device="cuda")))
        log.end()


def dlrm() -> None:
    rows, width, batch = 2_000_000, 64, 65536
    tables = nn.ModuleList([nn.EmbeddingBag(rows, width, sparse=True, mode="sum") for _ in range(8)])
    tables = tables.to("cuda")
    dense = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width)).to("cuda")
    wide = [nn.Linear(width + 36, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)]
    top = nn.Sequential(*wide).to("cuda")
    sgd: Any = torch.optim.SGD
    optimizers = [sgd(tables.parameters(), lr=0.1), ADAM([*dense.parameters(), *top.parameters()])]
    pairs = torch.tril_indices(9, 9, -1, device="cuda")
    log = StepLog()
    draw = random.Random(9)
    for _ in range(STEPS):
        features = [dense(torch.rand(batch, 13, device="cuda"))]
        for table in tables:
            count = draw.randint(5 * batch, 30 * batch)
            begins = torch.linspace(0, count - 1, batch, device="cuda").long()
            features.append(table(torch.randint(0, rows, (count,), device="cuda"), begins))
        together = torch.stack(features, 1)
        products = torch.bmm(together, together.transpose(1, 2))[:, pairs[0], pairs[1]]
        top(torch.cat([features[0], products], 1)).mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        log.end()


def detr() -> None:
    resnet = importlib.import_module("torchvision").models.resnet50()
    backbone = nn.Sequential(*list(resnet.children())[:-2], nn.Conv2d(2048, 256, 1)).to("cuda")
    transformer = nn.Transformer(256, 8, 6, 6, batch_first=True).to("cuda")
    queries = nn.Parameter(torch.randn(100, 256, device="cuda"))
    optimizer = ADAM([*backbone.parameters(), *transformer.parameters(), queries])
    log = StepLog()
    draw = random.Random(13)
    for _ in range(STEPS):
        height, width = 32 * draw.randint(15, 25), 32 * draw.randint(20, 36)
        features = backbone(torch.randn(4, 3, height, width, device="cuda"))
        found = transformer(features.flatten(2).transpose(1, 2), queries.expand(4, -1, -1))
        found.mean().backward()
        nn.utils.clip_grad_norm_(transformer.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        log.end()


def ppo(*, marked: bool = False) -> None:
    policy, critic = small_llama("cuda", layers=4), small_llama("cuda", layers=2)
    reference = small_llama("cuda", layers=4, dtype=torch.bfloat16).requires_grad_(requires_grad=False)
    optimizer = ADAM([*policy.parameters(), *critic.parameters()])
    log = StepLog()

    def likelihood(model: Any, texts: Tensor) -> Tensor:  # noqa: ANN401
        logits: Tensor = model(input_ids=texts, use_cache=False).logits
        return logits.log_softmax(-1).gather(-1, texts[..., None])

    def written() -> Tensor:
        tokens = torch.randint(2, VOCABULARY, (16, 128), device="cuda")
        texts, cache = [tokens], None
        for _ in range(64):
            output = policy(input_ids=tokens, past_key_values=cache, use_cache=True)
            cache, tokens = output.past_key_values, output.logits[:, -1:].argmax(-1)
            texts.append(tokens)
        return torch.cat(texts, 1)

    for _ in range(STEPS):
        with torch.no_grad(), bf16():
            texts = written()
            before, allowed = likelihood(policy, texts), likelihood(reference, texts)
        for part in [slice(first, first + 4) for _ in range(2) for first in range(0, 16, 4)]:
            with bf16():
                now = likelihood(policy, texts[part])
                hidden = critic(input_ids=texts[part], use_cache=False, output_hidden_states=True)
                gain = (now - before[part]).exp() - 0.1 * (now - allowed[part])
                loss = hidden.hidden_states[-1].mean() - gain.mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if marked and "stweaver" in sys.modules:
            sys.modules["stweaver"].mark_step()
        log.end()


if __name__ == "__main__":
    run_chosen(
        {
            "maml": maml,
            "nerf": nerf,
            "dlrm": dlrm,
            "detr": detr,
            "ppo": ppo,
            "ppo_marked": functools.partial(ppo, marked=True),
        }
    )
