"""One rank of a pipeline-parallel job in the order of 1F1B, alone: what peers would send is random."""

import argparse
from typing import Any

import recording
from pipeline_layers import DEVICE, DTYPE, Chunk, Experts
from recording import cuda, mark
from steps import STEPS, StepLog
from workloads.layers import GPT2_XL, LLAMA_7B, QWEN_MOE
from workloads.pipeline import EVERY_LAYER, PEERS, Job, lengths, schedule

import torch
from torch import Tensor, nn

MODELS = {"gpt2": GPT2_XL, "llama": LLAMA_7B, "moe": QWEN_MOE}
ENGINE: Any = torch.autograd.Variable._execution_engine


class Optimizer:
    """Adam for this rank's share; gradients gather in one buffer, in float32."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        """Let backward passes add to the buffer from now on."""
        size = sum(parameter.numel() for parameter in parameters)
        self.gradients = torch.zeros(size, device=DEVICE, dtype=torch.float32)
        offset = 0
        for parameter in parameters:
            end = offset + parameter.numel()
            self.collect(parameter, self.gradients[offset:end].view_as(parameter))
            offset = end
        self.share = (size + PEERS - 1) // PEERS
        self.master = torch.zeros(self.share, device=DEVICE, dtype=torch.float32)
        self.moments: tuple[Tensor, Tensor] | None = None

    @staticmethod
    def collect(parameter: nn.Parameter, total: Tensor) -> None:
        """Add each gradient of the parameter to `total` and drop it."""

        def add(done: Tensor) -> None:
            assert done.grad is not None
            total.add_(done.grad)
            done.grad = None

        untyped: Any = parameter
        untyped.register_post_accumulate_grad_hook(add)

    def step(self) -> None:
        """Clip to norm 1, update, forget the gradients."""
        gradient = self.gradients[: self.share]
        size = torch.linalg.vector_norm(self.gradients)
        gradient = gradient * (1.0 / (size + 1e-6)).clamp(max=1.0)
        if self.moments is None:
            self.moments = torch.zeros_like(self.master), torch.zeros_like(self.master)
        first, second = self.moments
        first.lerp_(gradient, 0.1)
        second.mul_(0.95).addcmul_(gradient, gradient, value=0.05)
        self.master.addcdiv_(first, second.sqrt().add_(1e-8), value=-1e-4)
        self.gradients.zero_()


class Rank:
    """The layers of this rank and their optimizer."""

    def __init__(self, job: Job) -> None:
        """Make the layers."""
        self.job = job
        self.chunks = [self.chunk(number) for number in range(job.chunks)]
        if recording.TRACE:
            for number, chunk in enumerate(self.chunks):
                mark_experts(number, chunk)
        self.optimizer = Optimizer([weight for chunk in self.chunks for weight in chunk.parameters()])

    def chunk(self, number: int) -> Chunk:
        """Make one of the parts of the rank's layers."""
        job = self.job
        return Chunk(
            job.shape,
            job.layers // job.chunks,
            first=job.rank == 0 and number == 0,
            last=job.rank == job.stages - 1 and number == job.chunks - 1,
            recompute=job.recompute > 0,
        )

    def tokens(self, length: int) -> Tensor:
        """Make random ones."""
        shape = self.job.micro_batch, length
        return torch.randint(0, self.job.shape.vocabulary, shape, device=DEVICE)

    def activations(self, length: int) -> Tensor:
        """Make random ones, or gradients of such."""
        shape = self.job.micro_batch, length, self.job.shape.hidden
        return torch.randn(shape, device=DEVICE, dtype=DTYPE)

    def step(self, length: int) -> Tensor | None:
        """All micro-batches and the optimizer. Each variable holds a tensor until it gets the next one."""
        under_way: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        loss = None
        for forward, number, micro_batch in schedule(self.job):
            mark(f"phase {'F' if forward else 'B'} chunk {number} mb {micro_batch}")
            chunk = self.chunks[number]
            if forward:
                x = self.tokens(length) if chunk.first else self.activations(length).requires_grad_()
                target = self.tokens(length) if chunk.last else None
                output = chunk(x, target)
                under_way[number, micro_batch] = x, output
                if not chunk.last:
                    output.data = torch.empty(1, device=DEVICE, dtype=DTYPE)  # only its history is needed
            else:
                x, output = under_way.pop((number, micro_batch))
                if chunk.last:
                    output.backward()
                    loss = output.detach()
                else:
                    gradient = self.activations(length)
                    options = {"allow_unreachable": True, "accumulate_grad": True}
                    ENGINE.run_backward((output,), (gradient,), False, False, (), **options)
                del x, output
        mark("phase optimizer")
        self.optimizer.step()
        return loss


def mark_experts(number: int, chunk: Chunk) -> None:
    """Mark where each mixture of experts begins and ends."""
    for name, module in chunk.named_modules():
        if isinstance(module, Experts):
            full = f"c{number}.{name}"
            module.register_forward_pre_hook(lambda *_, name=full: mark(f"module+ {name} F"))
            module.register_forward_hook(lambda *_, name=full: mark(f"module- {name} F"))
            module.register_full_backward_pre_hook(lambda *_, name=full: mark(f"module+ {name} B"))
            module.register_full_backward_hook(lambda *_, name=full: mark(f"module- {name} B"))


def arguments() -> Job:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--chunks", type=int, default=1)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--varying", action="store_true", help="each step has a length of its own")
    parser.add_argument("--recompute", action="store_const", const=EVERY_LAYER, default=0)
    chosen = parser.parse_args()
    shape = MODELS[chosen.model]
    return Job(
        shape=shape,
        layers=shape.layers // chosen.stages,
        stages=chosen.stages,
        chunks=chosen.chunks,
        micro_batches=chosen.micro_batches,
        micro_batch=chosen.micro_batch,
        sequence=chosen.sequence,
        lengths="varying" if chosen.varying else "even",
        recompute=chosen.recompute,
    )


def main() -> None:
    job = arguments()
    torch.manual_seed(0)
    recording.start()
    rank = Rank(job)
    log = StepLog()
    for step, length in zip(range(STEPS), lengths(job), strict=False):
        mark(f"iteration {step}")
        cuda.synchronize()
        rank.step(length)
        cuda.synchronize()
        log.end()
    mark("end")
    recording.save()


if __name__ == "__main__":
    main()
