"""One rank of a pipeline-parallel job, alone: what would come from other ranks is random."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from workloads.layers import Place, Shape, Stage

PEERS = 8  # data-parallel ranks that share the optimizer's states, of which one is here
EVERY_LAYER = 1 << 20


@dataclass(frozen=True)
class Job:
    """What this rank does in each step."""

    shape: Shape
    layers: int  # on this rank
    stages: int = 4
    rank: int = 0
    chunks: int = 1  # parts of the rank's layers between which micro-batches alternate
    micro_batches: int = 8
    micro_batch: int = 1
    sequence: int = 4096
    lengths: str = "even"  # of the steps' sequences, by SHARES
    recompute: int = 0  # the first so many layers of each chunk


def schedule(job: Job) -> Iterator[tuple[bool, int, int]]:
    """Yield (forward, chunk, micro-batch) in the order of 1F1B, interleaved where there are chunks.

    Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters (SC 2021), section 2.2.
    """
    total = job.micro_batches * job.chunks
    ahead = job.stages - job.rank - 1
    if job.chunks > 1:
        ahead = 2 * ahead + (job.chunks - 1) * job.stages
    ahead = min(ahead, total)

    def unit(index: int, forward: bool) -> tuple[bool, int, int]:
        if job.chunks == 1:
            return forward, 0, index
        group, within = divmod(index, job.stages * job.chunks)
        chunk, offset = divmod(within, job.stages)
        return forward, chunk if forward else job.chunks - 1 - chunk, group * job.stages + offset

    for index in range(total + ahead):
        if index < total:
            yield unit(index, True)
        if index >= ahead:
            yield unit(index - ahead, False)


class FlatParameters:
    """All parameters in one buffer, and their gradients, in float32, in another."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        """Move `parameters` into the buffer; backward passes add to `gradients` from now on."""
        size = sum(parameter.numel() for parameter in parameters)
        some = parameters[0]
        self.weights = torch.empty(size, device=some.device, dtype=some.dtype)
        self.gradients = torch.zeros(size, device=some.device, dtype=torch.float32)
        offset = 0
        for parameter in parameters:
            part = slice(offset, offset + parameter.numel())
            offset += parameter.numel()
            self._move(parameter, part)

    def _move(self, parameter: nn.Parameter, part: slice) -> None:
        home = self.weights[part].view_as(parameter)
        home.copy_(parameter.detach())
        parameter.data = home
        total = self.gradients[part].view_as(parameter)

        def add(done: Tensor) -> None:
            assert done.grad is not None
            total.add_(done.grad)
            done.grad = None

        untyped: Any = parameter
        untyped.register_post_accumulate_grad_hook(add)


class ShardedAdam(torch.optim.Optimizer):
    """Adam in float32 for the share of the parameters that is this rank's among its data-parallel peers."""

    def __init__(self, flat: FlatParameters, peers: int) -> None:
        """Own the first of `peers` equal parts."""
        super().__init__([flat.weights], {"lr": 1e-4})
        self.flat = flat
        self.share = -(-flat.weights.numel() // peers)
        self.master = flat.weights[: self.share].float()
        self.moments: tuple[Tensor, Tensor] | None = None
        self.norm = torch.zeros(())

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Clip to norm 1, update, forget the gradients; moments are made by the first call, as usual."""
        assert closure is None
        self.norm = torch.linalg.vector_norm(self.flat.gradients)
        gradient = self.flat.gradients[: self.share] * (1 / (self.norm + 1e-6)).clamp(max=1)
        if self.moments is None:
            self.moments = torch.zeros_like(self.master), torch.zeros_like(self.master)
        first, second = self.moments
        first.lerp_(gradient, 0.1)
        second.mul_(0.95).addcmul_(gradient, gradient, value=0.05)
        self.master.addcdiv_(first, second.sqrt().add_(1e-8), value=-self.defaults["lr"])
        self.flat.weights[: self.share].copy_(self.master)
        self.flat.gradients.zero_()


class Rank:
    """The rank's layers and what it does with one micro-batch."""

    def __init__(self, job: Job, place: Place) -> None:
        """Make the layers."""
        self.job, self.place = job, place
        self.chunks = [self._stage(chunk) for chunk in range(job.chunks)]
        parameters = [parameter for chunk in self.chunks for parameter in chunk.parameters()]
        self.optimizer = ShardedAdam(FlatParameters(parameters), PEERS)
        self.under_way: dict[tuple[int, int], Tensor] = {}
        self.losses: list[Tensor] = []

    def _stage(self, chunk: int) -> Stage:
        job = self.job
        return Stage(
            job.shape,
            self.place,
            job.layers // job.chunks,
            job.sequence,
            first=job.rank == 0 and chunk == 0,
            last=job.rank == job.stages - 1 and chunk == job.chunks - 1,
            recompute=job.recompute,
        )

    def _tokens(self, length: int) -> Tensor:
        shape = (self.job.micro_batch, length)
        return torch.randint(0, self.job.shape.vocabulary, shape, device=self.place.device)

    def _activations(self, length: int) -> Tensor:
        shape = (self.job.micro_batch, length, self.job.shape.hidden)
        return torch.randn(shape, device=self.place.device, dtype=self.place.dtype)

    def forward(self, chunk: int, micro_batch: int, length: int) -> None:
        """Go through one chunk and keep what the backward pass needs."""
        stage = self.chunks[chunk]
        inputs = (
            self._activations(length).requires_grad_() if stage.embedding is None else self._tokens(length)
        )
        target = None if stage.head is None else self._tokens(length)
        self.under_way[chunk, micro_batch] = stage(inputs, target)

    def backward(self, chunk: int, micro_batch: int, length: int) -> None:
        """Go back through the chunk and drop what was kept."""
        output = self.under_way.pop((chunk, micro_batch))
        if self.chunks[chunk].head is None:
            torch.autograd.backward(output, self._activations(length))
        else:
            torch.autograd.backward(output)
            self.losses.append(output.detach())

    def step(self, length: int) -> Tensor:
        """All micro-batches and the optimizer; the mean loss, or the gradient's norm where others know it."""
        for forward, chunk, micro_batch in schedule(self.job):
            (self.forward if forward else self.backward)(chunk, micro_batch, length)
        self.optimizer.step()
        if not self.losses:
            return self.optimizer.norm
        loss = torch.stack(self.losses).mean()
        self.losses.clear()
        return loss


# The share of its longest sequence that each step has; always the same ones.


def even() -> Iterator[float]:
    """All steps are alike."""
    return itertools.repeat(1.0)


def varying() -> Iterator[float]:
    """Draw each length, from 0.4 to 1."""
    generator = torch.Generator().manual_seed(1)
    while True:
        yield 0.4 + 0.6 * torch.rand((), generator=generator).item()


def growing() -> Iterator[float]:
    """Make each of 24 steps longer than any before: no plan made from earlier ones holds the next."""
    return (min(0.4 + 0.025 * step, 1.0) for step in itertools.count(1))


def alternating() -> Iterator[float]:
    """Let two jobs take turns."""
    return itertools.cycle((1.0, 0.45))


def unseen() -> Iterator[float]:
    """Never repeat a length, and spread them evenly."""
    golden = (math.sqrt(5) - 1) / 2
    return (0.4 + 0.6 * (step * golden % 1) for step in itertools.count())


SHARES = {share.__name__: share for share in (even, varying, growing, alternating, unseen)}


def lengths(job: Job) -> Iterator[int]:
    """Yield the sequence length of each step."""
    return (max(8, int(job.sequence * share) // 8 * 8) for share in SHARES[job.lengths]())


def make(job: Job, place: Place) -> Callable[[], Tensor]:
    """Return a function that does one step."""
    rank = Rank(job, place)
    each = lengths(job)
    return lambda: rank.step(next(each))
