"""A small dense model whose layers, forward and backward, are replayed as CUDA graphs."""

from collections.abc import Callable
from typing import Any

from torch.nn import functional

import torch
from torch import Tensor, nn
from workloads.layers import Block, Place, Shape, rotary_table


def make(shape: Shape, place: Place, batch: int, length: int) -> Callable[[], Tensor]:
    """Return a function that does one step: embedding, loss and optimizer run eagerly around the graphs."""
    table = rotary_table(length, shape.hidden // shape.heads, place)
    embedding = nn.Embedding(shape.vocabulary, shape.hidden, device=place.device, dtype=place.dtype)
    blocks = nn.Sequential(*[Block(shape, place, table) for _ in range(shape.layers)])
    head = place.linear(shape.hidden, shape.vocabulary)
    parameters = [*embedding.parameters(), *blocks.parameters(), *head.parameters()]
    sample = torch.randn(batch, length, shape.hidden, device=place.device, dtype=place.dtype)
    cuda: Any = torch.cuda
    body: Callable[[Tensor], Tensor] = cuda.make_graphed_callables(blocks, (sample.requires_grad_(),))
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)

    def step() -> Tensor:
        tokens = torch.randint(0, shape.vocabulary, (batch, length + 1), device=place.device)
        logits = head(body(embedding(tokens[:, :-1]))).float()
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        torch.autograd.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step
