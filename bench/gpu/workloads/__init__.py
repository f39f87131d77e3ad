"""The training jobs that allocators are compared on.

Sizes are those of real models; batches and micro-batches are such that a step takes less than about a
second on one H200.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor
from workloads import clients, graphed, pipeline
from workloads.layers import (
    GPT2_XL,
    LLAMA_1B,
    LLAMA_3B,
    LLAMA_7B,
    QWEN_MOE,
    Place,
    Shape,
)
from workloads.pipeline import EVERY_LAYER, Job
from workloads.watch import Watch, repeat


@dataclass(frozen=True)
class Setting:
    """What differs from the usual sizes of a workload; 0: nothing."""

    layers: int = 0
    micro_batch: int = 0
    sequence: int = 0
    micro_batches: int = 0
    recompute: int = 0  # layers


JOBS = {
    "gpt2": Job(GPT2_XL, 48, stages=1, micro_batches=2, micro_batch=8, sequence=1024),
    "llama": Job(LLAMA_7B, 8, micro_batches=6),
    "llama_recompute": Job(LLAMA_7B, 8, micro_batches=6, recompute=EVERY_LAYER),
    "llama_virtual": Job(LLAMA_7B, 8, micro_batches=8, chunks=4, recompute=EVERY_LAYER),
    "llama_varying": Job(LLAMA_7B, 8, micro_batches=6, lengths="varying"),
    "llama_growing": Job(LLAMA_7B, 8, micro_batches=6, lengths="growing"),
    "llama_alternating": Job(LLAMA_7B, 8, micro_batches=6, lengths="alternating"),
    "llama_unseen": Job(LLAMA_7B, 8, micro_batches=6, lengths="unseen"),
    "moe": Job(QWEN_MOE, 6, micro_batches=4),
    "moe_recompute": Job(QWEN_MOE, 6, micro_batches=8, recompute=EVERY_LAYER),
    # Whole models.
    "llama_1b": Job(LLAMA_1B, 24, stages=1, micro_batches=2, sequence=8192),
    "llama_3b": Job(LLAMA_3B, 32, stages=1, micro_batches=4),
    "moe_whole": Job(QWEN_MOE, 6, stages=1, micro_batches=4),
    # 50 steps of these take a few seconds.
    "gpt2_small": Job(GPT2_XL, 12, stages=1, micro_batches=2, micro_batch=4, sequence=512),
    "moe_small": Job(QWEN_MOE, 2, micro_batches=4, sequence=1024),
}
SMALL_DENSE = Shape(hidden=1024, feed_forward=2816, heads=16, layers=12, vocabulary=32000)
FSDP = {"fsdp": (4, 4096), "fsdp_small": (1, 1024)}  # sequences and tokens of each
VARIED = ("layers", "micro_batch", "sequence", "micro_batches", "recompute")  # of Job and Setting
NAMES = (*JOBS, *FSDP, "graphed", "trainer")


def make(name: str, setting: Setting) -> Callable[[], Tensor]:
    """Return a function that does one step of any workload but "trainer" and returns its loss."""
    place = Place("cuda")
    if name == "graphed":
        return graphed.make(SMALL_DENSE, place, 8, 512)
    if name in FSDP:
        return clients.make_fsdp(*FSDP[name])
    return pipeline.make(job_of(name, setting), place)


def job_of(name: str, setting: Setting) -> Job:
    """Give the job of that name as the setting wants it."""
    return replace(JOBS[name], **{name: value for name in VARIED if (value := getattr(setting, name))})


def run(name: str, setting: Setting, watch: Watch) -> None:
    """All steps of the workload `name`, one of NAMES."""
    if name == "trainer":
        clients.run_trainer(watch)
    else:
        repeat(make(name, setting), watch)
