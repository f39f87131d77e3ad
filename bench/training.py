"""Write synthetic training traces as planning instances: id,lower,upper,size with half-open lifespans.

Each holds the activations and temporaries of the first rank of a pipeline (no weights, no optimizer): what a
planner has to place when the schedule, recomputation and the lengths of micro-batches vary. Every operation
has a time step of its own. The same family, size and seed give the same file on every machine.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

BF16 = 2  # bytes
FP32 = 4


@dataclass(frozen=True)
class Op:
    """One operation of a layer: what it keeps for its backward, what it hands on, what it needs meanwhile."""

    keep: list[int]  # bytes of each tensor kept for the backward; the first is the output if `out` is 0
    out: int = 0  # bytes of an output that only the next operation reads
    work: int = 0  # bytes of workspace in the forward
    grad: int = 0  # bytes of the gradient of its input
    weight: int = 0  # bytes of the weight gradient before it is added to the main one
    adds: bool = False  # adds the residual, whose gradient waits for the operation that forks it
    forks: bool = False  # its input is the residual too
    again: bool = False  # computed again in the backward under selective recomputation


@dataclass(frozen=True)
class Job:
    """What is trained and how."""

    layers: int = 8  # of this rank
    microbatches: int = 16
    pipeline: int = 8
    chunks: int = 1  # layers are split over so many virtual stages
    recompute: str = "none"  # none, selective (attention), full (layers)
    experts: int = 0
    varying: bool = False  # lengths of micro-batches differ, and so do the tokens of each expert
    tokens: int = 4096
    hidden: int = 2048
    heads: int = 16


@dataclass
class Tape:
    """Every tensor made so far; time counts operations."""

    now: int = 0
    births: list[int] = field(default_factory=list)
    deaths: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def make(self, size: int) -> int:
        """Make a tensor; it lives through this operation at least."""
        self.births.append(self.now)
        self.deaths.append(self.now + 1)
        self.sizes.append(max(512, -(-size // 512) * 512))
        return len(self.sizes) - 1

    def free(self, *tensors: int) -> None:
        """Let go of tensors after this operation."""
        for tensor in tensors:
            self.deaths[tensor] = self.now + 1


def attention(tokens: int, job: Job) -> list[Op]:
    """List normalization, projections and attention; scores are tensors unless the kernel is fused."""
    x = BF16 * tokens * job.hidden
    stats = 2 * FP32 * tokens
    head = job.hidden // job.heads
    scores = BF16 * tokens * min(tokens, 1024) * job.heads // 8
    square = BF16 * job.hidden * job.hidden
    core = (
        [Op([scores], grad=3 * x, again=True), Op([scores, scores // 2], grad=scores, again=True)]
        if job.recompute == "selective"
        else []
    )
    return [
        Op([x, stats], grad=x, forks=True),
        Op([3 * x], work=tokens * head, grad=x, weight=3 * square),
        *core,
        Op([x, FP32 * job.heads * tokens], work=x // 2, grad=scores if core else 3 * x),
        Op([], out=x, grad=x, weight=square),
        Op([x, x // 2], grad=x, adds=True),
    ]


def dense(tokens: int, job: Job) -> list[Op]:
    """List normalization, the two matrices of the feed-forward part and the residual."""
    x = BF16 * tokens * job.hidden
    matrix = 4 * BF16 * job.hidden * job.hidden
    return [
        Op([x, 2 * FP32 * tokens], grad=x, forks=True),
        Op([4 * x], grad=x, weight=matrix),
        Op([4 * x], grad=4 * x),
        Op([], out=x, grad=4 * x, weight=matrix),
        Op([x, x // 2], grad=x, adds=True),
    ]


def moe(tokens: int, job: Job, rng: random.Random) -> list[Op]:
    """List router, dispatch, experts one after the other, combination; two experts per token."""
    x = BF16 * tokens * job.hidden
    matrix = BF16 * job.hidden * job.hidden
    share = [2 * tokens // job.experts] * job.experts
    if job.varying:
        share = [max(1, int(mean * rng.uniform(0.4, 1.6))) for mean in share]
    routed = BF16 * sum(share) * job.hidden
    ops = [
        Op([x, 2 * FP32 * tokens], grad=x, forks=True),
        Op([FP32 * tokens * job.experts], work=FP32 * tokens * job.experts, grad=x),
        Op([FP32 * 2 * tokens, 8 * 2 * tokens], grad=FP32 * tokens * job.experts),
        Op([routed, FP32 * sum(share)], grad=x),
    ]
    for rows in share:
        y = BF16 * rows * job.hidden
        ops += [
            Op([y], grad=y, weight=matrix),
            Op([y // 2], grad=y),
            Op([y], grad=y // 2, weight=matrix // 2),
        ]
    return [*ops, Op([], out=x, work=routed, grad=routed), Op([x, x // 2], grad=x, adds=True)]


def layer_ops(tokens: int, job: Job, rng: random.Random) -> list[Op]:
    return attention(tokens, job) + (moe(tokens, job, rng) if job.experts else dense(tokens, job))


def forward(tape: Tape, ops: list[Op], job: Job) -> list[list[int]]:
    """Run a layer forward; returns what each operation keeps."""
    kept: list[list[int]] = []
    handed: list[int] = []  # read by the next operation only
    for op in ops:
        made = [tape.make(size) for size in op.keep]
        temporary = [tape.make(op.out)] if op.out else []
        if op.work:
            tape.make(op.work)
        tape.free(*handed)
        dropped = job.recompute == "selective" and op.again
        handed = temporary + (made if dropped else [])
        kept.append([] if dropped else made)
        tape.now += 1
    return kept


def forward_without_keeping(tape: Tape, ops: list[Op]) -> list[int]:
    """Run a layer whose backward will compute it again; returns its output alone."""
    residual: list[int] = []
    handed: list[int] = []
    for op in ops:
        made = [tape.make(size) for size in op.keep]
        made += [tape.make(op.out)] if op.out else []
        if op.work:
            tape.make(op.work)
        tape.free(*handed)
        if op.adds:
            tape.free(*residual)
            residual, made = made[:1], []
        handed = made
        tape.now += 1
    return residual


def backward(tape: Tape, ops: list[Op], kept: list[list[int]], gradient: int, job: Job) -> int:
    """Run a layer backward; consumes the gradient of its output and returns that of its input."""
    waiting: list[int] = []  # gradients of residuals
    if job.recompute == "selective":
        for op, tensors in zip(ops, kept, strict=True):
            if op.again:
                tensors += [tape.make(size) for size in op.keep]
                tape.now += 1
    for op, tensors in zip(reversed(ops), reversed(kept), strict=True):
        made = tape.make(op.grad)
        if op.weight:
            tape.make(op.weight)
        if op.adds:
            waiting.append(gradient)
        else:
            tape.free(gradient)
        if op.forks:
            tape.free(waiting.pop())
        tape.free(*tensors)
        gradient = made
        tape.now += 1
    return gradient


class Stage:
    """One virtual stage of one micro-batch: run forward, later backward."""

    def __init__(self, tape: Tape, job: Job, layers: list[list[Op]], width: int) -> None:
        """Take the operations of each layer and the bytes of the stage's input."""
        self.tape, self.job, self.layers, self.width = tape, job, layers, width
        self.inputs: list[list[int]] = []
        self.kept: list[list[list[int]]] = []
        self.sent: list[int] = []

    def forward(self) -> None:
        """Receive the input, run every layer, send the output."""
        current = [self.tape.make(self.width)]
        self.tape.now += 1
        self.inputs.append(current)
        for ops in self.layers:
            if self.job.recompute == "full":
                current = forward_without_keeping(self.tape, ops)
                self.inputs.append(current)
            else:
                self.kept.append(forward(self.tape, ops, self.job))
        self.sent = [self.tape.make(self.width)]
        self.tape.now += 1

    def backward(self) -> None:
        """Receive the gradient of the output, run every layer in reverse, send the gradient of the input."""
        self.tape.free(*self.sent)
        gradient = self.tape.make(self.width)
        self.tape.now += 1
        for index in reversed(range(len(self.layers))):
            ops = self.layers[index]
            if self.job.recompute == "full":
                self.tape.free(*self.inputs[index + 1])
                kept = forward(self.tape, ops, self.job)
            else:
                kept = self.kept.pop()
            gradient = backward(self.tape, ops, kept, gradient, self.job)
        self.tape.free(*self.inputs[0], gradient)
        self.tape.now += 1


def schedule(job: Job) -> Iterator[tuple[bool, int, int]]:
    """Yield (forward?, micro-batch, chunk) in the order of Megatron-LM's schedules on the first rank."""
    total = job.microbatches * job.chunks
    group = job.pipeline * job.chunks

    def unit(index: int, backward: bool) -> tuple[int, int]:
        within = index % group
        chunk = within // job.pipeline
        return (
            index // group * job.pipeline + within % job.pipeline,
            job.chunks - 1 - chunk if backward else chunk,
        )

    warm_up = (
        job.pipeline - 1 if job.chunks == 1 else 2 * (job.pipeline - 1) + (job.chunks - 1) * job.pipeline
    )
    warm_up = min(warm_up, total)
    for index in range(total + warm_up):
        if index < total:
            yield True, *unit(index, False)
        if index >= warm_up:
            yield False, *unit(index - warm_up, True)


def trace(job: Job, seed: int) -> Tape:
    """Run one step of the job."""
    if job.chunks > 1 and job.microbatches % job.pipeline:
        raise SystemExit(
            "training: the interleaved schedule wants micro-batches in multiples of the pipeline's depth"
        )
    rng = random.Random(seed)
    tape = Tape()
    stages: dict[tuple[int, int], Stage] = {}
    lengths = [
        rng.randint(job.tokens // 4, job.tokens) if job.varying else job.tokens
        for _ in range(job.microbatches)
    ]
    per_chunk = job.layers // job.chunks
    fixed = layer_ops(job.tokens, job, rng)
    for is_forward, batch, chunk in schedule(job):
        if is_forward:
            tokens = lengths[batch]
            layers = [layer_ops(tokens, job, rng) if job.varying else fixed for _ in range(per_chunk)]
            stages[batch, chunk] = Stage(tape, job, layers, BF16 * tokens * job.hidden)
            stages[batch, chunk].forward()
        else:
            stages.pop((batch, chunk)).backward()
    return tape


FAMILIES = {
    "1f1b": Job(),
    "1f1b_full": Job(recompute="full"),
    "interleaved": Job(chunks=4),
    "interleaved_full": Job(chunks=4, recompute="full"),
    "moe": Job(experts=8, varying=True),
    "moe_selective": Job(experts=8, chunks=2, recompute="selective", varying=True),
}
SCALES = {  # requests aimed at, layers, pipeline
    "5k": (5_000, 8, 4),
    "50k": (50_000, 16, 8),
    "500k": (500_000, 32, 16),
    "1m": (1_000_000, 48, 16),
}
NAMES = tuple(f"{family}_{scale}" for family in FAMILIES for scale in SCALES)


RANDOM_FAMILIES = FAMILIES | {
    "1f1b_selective": Job(recompute="selective"),
    "interleaved_selective": Job(chunks=4, recompute="selective"),
    "interleaved_varying": Job(chunks=4, varying=True),
    "interleaved_moe": Job(chunks=4, experts=8, varying=True),
}
MOST_RANDOM = 100_000  # requests


def random_tape(family: str, number: int) -> Tape:
    """Run a job of the family whose sizes are drawn at random; the same for the same number."""
    rng = random.Random(f"{family} {number}")
    base = RANDOM_FAMILIES[family]
    while True:
        pipeline = rng.choice([2, 3, 4, 5, 6, 8, 12, 16])
        chunks = rng.choice([2, 3, 4]) if base.chunks > 1 else 1
        heads = rng.choice([8, 12, 16, 20, 32])
        job = replace(
            base,
            layers=chunks * rng.choice([1, 2, 3, 4, 6, 8]),
            microbatches=pipeline * rng.randint(1, 12),
            pipeline=pipeline,
            chunks=chunks,
            tokens=rng.choice([1000, 1024, 2048, 3333, 4096, 8192]),
            hidden=heads * rng.choice([64, 96, 128]),
            heads=heads,
        )
        tape = trace(job, number)
        if len(tape.sizes) <= MOST_RANDOM:
            return tape


def job_named(name: str) -> Job:
    """Look up a job: a family and a scale such as moe_500k."""
    family, _, scale = name.rpartition("_")
    requests, layers, pipeline = SCALES[scale]
    job = replace(FAMILIES[family], layers=layers, pipeline=pipeline, microbatches=pipeline)
    rounds = round(requests / len(trace(job, 0).sizes))
    return replace(job, microbatches=pipeline * max(1, rounds))


def write(tape: Tape, path: Path) -> None:
    """Write the instance in order of birth."""
    rows = zip(tape.births, tape.deaths, tape.sizes, strict=True)
    with path.open("w") as file:
        file.write("id,lower,upper,size\n")
        file.writelines(
            f"{number},{birth},{death},{size}\n" for number, (birth, death, size) in enumerate(rows)
        )


def main() -> int:
    """Write the instances asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the files go (created)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which (default: all): {', '.join(NAMES)}")
    parser.add_argument("--seed", type=int, default=1, help="for what varies (default: 1)")
    parser.add_argument(
        "--random",
        type=int,
        metavar="N",
        help="write N jobs of each family with sizes drawn at random instead",
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.random:
        if options.names:
            parser.error("--random writes every family; leave out the names")
        for family in RANDOM_FAMILIES:
            for number in range(options.random):
                write(random_tape(family, number), options.folder / f"{family}_{number}.csv")
        return 0
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"no such instance: {', '.join(sorted(unknown))}")
    for name in options.names or NAMES:
        tape = trace(job_named(name), options.seed)
        path = options.folder / f"{name}.csv"
        write(tape, path)
        print(f"{path}: {len(tape.sizes)} requests in {tape.now} operations")
    return 0


if __name__ == "__main__":
    sys.exit(main())
