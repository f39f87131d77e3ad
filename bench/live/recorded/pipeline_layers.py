"""The layers of pipeline_rank.py.

Which tensor lives how long is part of the recordings, down to the order in which a function lets go of its
variables: that is the order of their first assignments.
"""

import functools

import recording  # noqa: F401  # says where the workloads are
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from workloads.layers import Shape

import torch
from torch import Tensor, nn

DTYPE = torch.bfloat16
DEVICE = "cuda"


def linear(inputs: int, outputs: int, bias: bool = False) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=bias, device=DEVICE, dtype=DTYPE)


class RmsNorm(nn.Module):
    """Normalize in float32, as Llama does."""

    def __init__(self, size: int) -> None:
        """Begin with the identity."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, device=DEVICE, dtype=DTYPE))

    def forward(self, x: Tensor) -> Tensor:
        """Of the last dimension."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (wide.to(x.dtype)) * self.weight


def norm(shape: Shape) -> nn.Module:
    if shape.gated:
        return RmsNorm(shape.hidden)
    return nn.LayerNorm(shape.hidden, device=DEVICE, dtype=DTYPE)


@functools.cache
def rotary_table(length: int, width: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines, which all layers share."""
    frequency = 1e4 ** (-torch.arange(0, width, 2, device=DEVICE).float() / width)
    angle = torch.outer(torch.arange(length, device=DEVICE).float(), frequency)
    return torch.cat([angle.cos()] * 2, -1).to(DTYPE), torch.cat([angle.sin()] * 2, -1).to(DTYPE)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cosine + torch.cat([-x[..., half:], x[..., :half]], -1) * sine


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, shape: Shape) -> None:
        """Llama's has rotary positions, GPT-2's has biases."""
        super().__init__()
        self.gated, self.heads, self.width = shape.gated, shape.heads, shape.hidden // shape.heads
        self.inputs = linear(shape.hidden, 3 * shape.hidden, not shape.gated)
        self.output = linear(shape.hidden, shape.hidden, not shape.gated)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, hidden) -> the same."""
        batch, length, hidden = x.shape
        query, key, value = self.inputs(x).split([hidden] * 3, -1)
        query = query.view(batch, length, self.heads, self.width).transpose(1, 2)
        key = key.view(batch, length, self.heads, self.width).transpose(1, 2)
        value = value.view(batch, length, self.heads, self.width).transpose(1, 2)
        if self.gated:
            cosine, sine = rotary_table(length, self.width)
            query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, length, -1))
        return result


class FeedForward(nn.Module):
    """Two matrices around a non-linearity."""

    def __init__(self, shape: Shape, inner: int) -> None:
        """Gated: the first matrix makes the gate as well."""
        super().__init__()
        self.gated = shape.gated
        self.up = linear(shape.hidden, inner * (2 if shape.gated else 1), not shape.gated)
        self.down = linear(inner, shape.hidden, not shape.gated)

    def forward(self, x: Tensor) -> Tensor:
        """(..., hidden) -> the same."""
        inner = self.up(x)
        if self.gated:
            gate, other = inner.chunk(2, -1)
            inner = functional.silu(gate) * other
        else:
            inner = functional.gelu(inner)
        result: Tensor = self.down(inner)
        return result


class Experts(nn.Module):
    """Each token goes through the experts its router likes best, and through a shared one."""

    def __init__(self, shape: Shape) -> None:
        """Make the router and the experts."""
        super().__init__()
        self.each = shape.experts_per_token
        self.router = linear(shape.hidden, shape.experts)
        self.experts = nn.ModuleList(FeedForward(shape, shape.feed_forward) for _ in range(shape.experts))
        self.shared = FeedForward(shape, shape.shared_feed_forward)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, hidden) -> the same."""
        batch, length, hidden = x.shape
        x = x.reshape(-1, hidden)
        weight, expert = self.router(x).float().softmax(-1).topk(self.each, -1)
        flat = expert.flatten()
        order = flat.argsort()
        loads = torch.bincount(flat, minlength=len(self.experts)).tolist()
        token = order // self.each
        parts = torch.split(x[token], loads)
        done = [one(part) for one, part in zip(self.experts, parts, strict=True)]
        y = torch.zeros_like(x).index_add(
            0, token, torch.cat(done) * weight.flatten()[order].unsqueeze(-1).to(x.dtype)
        )
        result: Tensor = (y + self.shared(x)).view(batch, length, hidden)
        return result


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, shape: Shape) -> None:
        """Of the kind that `shape` says."""
        super().__init__()
        self.first_norm, self.second_norm = norm(shape), norm(shape)
        self.attention = Attention(shape)
        self.rest: nn.Module = Experts(shape) if shape.experts else FeedForward(shape, shape.feed_forward)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, hidden) -> the same."""
        x = x + self.attention(self.first_norm(x))
        result: Tensor = x + self.rest(self.second_norm(x))
        return result


class Chunk(nn.Module):
    """Consecutive layers; the first of a model embeds tokens, the last computes the loss."""

    def __init__(self, shape: Shape, layers: int, *, first: bool, last: bool, recompute: bool) -> None:
        """Make `layers` layers; `recompute` keeps only the input of each."""
        super().__init__()
        self.first, self.last, self.recompute = first, last, recompute
        if first:
            self.embedding = nn.Embedding(shape.vocabulary, shape.hidden, device=DEVICE, dtype=DTYPE)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(layers))
        if last:
            self.norm = RmsNorm(shape.hidden)
            self.head = linear(shape.hidden, shape.vocabulary)

    def forward(self, x: Tensor, target: Tensor | None = None) -> Tensor:
        """Tokens or activations -> activations or the loss."""
        if self.first:
            x = self.embedding(x)
        for block in self.blocks:
            again = self.recompute and torch.is_grad_enabled()
            x = checkpoint(block, x, use_reentrant=True) if again else block(x)
        if target is None:
            return x
        return functional.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), target.flatten())
