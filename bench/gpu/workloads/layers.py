"""Transformer layers, dense and mixture of experts, in plain PyTorch."""

from dataclasses import dataclass

from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """Sizes of one model."""

    hidden: int
    feed_forward: int
    heads: int
    layers: int
    vocabulary: int
    gated: bool = True  # Llama's way: gated feed-forward, RMS norm, rotary positions; else GPT-2's
    experts: int = 0
    experts_per_token: int = 0
    shared_feed_forward: int = 0


GPT2_XL = Shape(hidden=1600, feed_forward=6400, heads=25, layers=48, vocabulary=50304, gated=False)
LLAMA_7B = Shape(hidden=4096, feed_forward=11008, heads=32, layers=32, vocabulary=32000)
LLAMA_1B = Shape(hidden=2048, feed_forward=5504, heads=16, layers=24, vocabulary=32000)  # Sheared-LLaMA
LLAMA_3B = Shape(hidden=2560, feed_forward=6912, heads=20, layers=32, vocabulary=32000)  # the same
QWEN_MOE = Shape(
    hidden=2048,
    feed_forward=1408,
    heads=16,
    layers=24,
    vocabulary=151936,
    experts=60,
    experts_per_token=4,
    shared_feed_forward=5632,
)
TINY_MOE = Shape(64, 32, 4, 4, 128, experts=8, experts_per_token=2, shared_feed_forward=96)


@dataclass(frozen=True)
class Place:
    """Where parameters are made, and of what type."""

    device: str
    dtype: torch.dtype = torch.bfloat16

    def linear(self, inputs: int, outputs: int, bias: bool = False) -> nn.Linear:
        """Make a linear layer here."""
        return nn.Linear(inputs, outputs, bias=bias, device=self.device, dtype=self.dtype)


class RmsNorm(nn.Module):
    """Normalize in float32, as Llama does."""

    def __init__(self, size: int, place: Place) -> None:
        """Begin with the identity."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, device=place.device, dtype=place.dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Of the last dimension."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return wide.to(x.dtype) * self.weight


def norm(shape: Shape, place: Place) -> nn.Module:
    if shape.gated:
        return RmsNorm(shape.hidden, place)
    return nn.LayerNorm(shape.hidden, device=place.device, dtype=place.dtype)


def rotary_table(length: int, width: int, place: Place) -> tuple[Tensor, Tensor]:
    """Cosines and sines for `length` positions."""
    frequency = 10000.0 ** (-torch.arange(0, width, 2, device=place.device).float() / width)
    angle = torch.outer(torch.arange(length, device=place.device).float(), frequency).repeat(1, 2)
    return angle.cos().to(place.dtype), angle.sin().to(place.dtype)


def rotate(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    cosine, sine = (part[: x.shape[-2]] for part in table)
    low, high = x.chunk(2, -1)
    return x * cosine + torch.cat([-high, low], -1) * sine


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, shape: Shape, place: Place, table: tuple[Tensor, Tensor] | None) -> None:
        """Share `table` with all other layers; None for no rotary positions."""
        super().__init__()
        self.heads = shape.heads
        self.table = table
        self.inputs = place.linear(shape.hidden, 3 * shape.hidden, bias=not shape.gated)
        self.output = place.linear(shape.hidden, shape.hidden, bias=not shape.gated)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, hidden) -> the same."""
        split = self.inputs(x).unflatten(-1, (3, self.heads, -1)).transpose(1, 3)
        query, key, value = split.unbind(2)
        if self.table is not None:
            query, key = rotate(query, self.table), rotate(key, self.table)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result


class FeedForward(nn.Module):
    """Two matrices around a non-linearity."""

    def __init__(self, hidden: int, inner: int, gated: bool, place: Place) -> None:
        """Gated: the first matrix makes the gate as well."""
        super().__init__()
        self.gated = gated
        self.up = place.linear(hidden, inner * (2 if gated else 1), bias=not gated)
        self.down = place.linear(inner, hidden, bias=not gated)

    def forward(self, x: Tensor) -> Tensor:
        """(..., hidden) -> the same."""
        inner = self.up(x)
        if self.gated:
            gate, inner = inner.chunk(2, -1)
            inner = functional.silu(gate) * inner
        else:
            inner = functional.gelu(inner)
        result: Tensor = self.down(inner)
        return result


class Experts(nn.Module):
    """Each token goes through the experts its router likes best, and through a shared one."""

    def __init__(self, shape: Shape, place: Place) -> None:
        """Weigh experts at random, so that their loads differ and change from batch to batch."""
        super().__init__()
        self.each = shape.experts_per_token
        self.router = place.linear(shape.hidden, shape.experts)
        self.experts = nn.ModuleList(
            FeedForward(shape.hidden, shape.feed_forward, True, place) for _ in range(shape.experts)
        )
        self.shared = FeedForward(shape.hidden, shape.shared_feed_forward, True, place)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, hidden) -> the same."""
        tokens = x.flatten(0, 1)
        weight, expert = self.router(tokens).float().softmax(-1).topk(self.each, -1)
        order = expert.flatten().argsort(stable=True)
        loads = torch.bincount(expert.flatten(), minlength=len(self.experts)).tolist()
        source = order // self.each
        parts = torch.split(tokens[source], loads)
        done = torch.cat([one(part) for one, part in zip(self.experts, parts, strict=True)])
        weighted = done * weight.flatten()[order].unsqueeze(-1).to(done.dtype)
        result: Tensor = torch.zeros_like(tokens).index_add(0, source, weighted) + self.shared(tokens)
        return result.view_as(x)


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, shape: Shape, place: Place, table: tuple[Tensor, Tensor] | None) -> None:
        """Of the kind that `shape` says."""
        super().__init__()
        self.first_norm, self.second_norm = norm(shape, place), norm(shape, place)
        self.attention = Attention(shape, place, table)
        self.rest: nn.Module = (
            Experts(shape, place)
            if shape.experts
            else FeedForward(shape.hidden, shape.feed_forward, shape.gated, place)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, hidden) -> the same."""
        x = x + self.attention(self.first_norm(x))
        result: Tensor = x + self.rest(self.second_norm(x))
        return result


class Stage(nn.Module):
    """Consecutive layers; the first of a model embeds tokens, the last computes the loss."""

    def __init__(
        self,
        shape: Shape,
        place: Place,
        layers: int,
        length: int,
        *,
        first: bool,
        last: bool,
        recompute: int,
    ) -> None:
        """For sequences of at most `length` tokens; the first `recompute` layers keep only their input."""
        super().__init__()
        table = rotary_table(length, shape.hidden // shape.heads, place) if shape.gated else None
        self.recompute = recompute
        self.embedding = (
            nn.Embedding(shape.vocabulary, shape.hidden, device=place.device, dtype=place.dtype)
            if first
            else None
        )
        self.blocks = nn.ModuleList(Block(shape, place, table) for _ in range(layers))
        self.norm = norm(shape, place) if last else None
        self.head = place.linear(shape.hidden, shape.vocabulary) if last else None

    def forward(self, x: Tensor, target: Tensor | None = None) -> Tensor:
        """Tokens or activations -> activations or the loss."""
        if self.embedding is not None:
            x = self.embedding(x)
        for index, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if index < self.recompute else block(x)
        if self.head is None or self.norm is None or target is None:
            return x
        logits = self.head(self.norm(x)).float()
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten())
