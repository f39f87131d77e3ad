"""What collectives and experts in a loop take of the host.

python3 -m torch.distributed.run --nproc-per-node 2 bench/gpu/launches.py

Collectives: microseconds that the host takes for a call and the GPUs for the whole, and the rate of an
all-reduce on a ring, as a share of the link's. Experts: milliseconds of a layer that is too small for
anything but its launches to count, forward and backward, by how many experts run one after another.
"""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch.distributed as dist
from workloads.layers import TINY_MOE, Block, Place, rotary_table

import torch

SIZES = (2**12, 2**20, 2**24, 2**26, 2**28, 2**30)  # bytes
EXPERTS = (0, 8, 16, 60)
LENGTH = 64


def time_of(call: Callable[[], object], calls: int) -> tuple[float, float]:
    """Microseconds of the host and of the GPU for one call."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    host = time.perf_counter()
    for _ in range(calls):
        call()
    host = time.perf_counter() - host
    ended.record()
    torch.cuda.synchronize()
    return host / calls * 1e6, began.elapsed_time(ended) / calls * 1e3


def collectives(link: float) -> list[str]:
    """Rows of a table."""
    ranks = dist.get_world_size()
    rows = ["| MiB | all-reduce | all-gather | reduce-scatter | share of the link |", "|---|---|---|---|---|"]
    for size in SIZES:
        part = torch.zeros(size // 2, dtype=torch.bfloat16, device="cuda")
        whole = torch.zeros(size // 2 * ranks, dtype=torch.bfloat16, device="cuda")
        calls: list[Callable[[], object]] = [
            partial(dist.all_reduce, part),
            partial(dist.all_gather_into_tensor, whole, part),
            partial(dist.reduce_scatter_tensor, part, whole),
        ]
        times = [time_of(call, 300 if size < 2**26 else 30) for call in calls]
        share = 2 * (ranks - 1) / ranks * size / times[0][1] / 1e3 / link
        cells = [f"{host:.0f}, {gpu:.0f}" for host, gpu in times]
        rows.append(f"| {size / 2**20:.3g} | {' | '.join(cells)} | {share:.2f} |")
    return rows


def layer_time(experts: int) -> float:
    """Milliseconds of a layer, forward and backward; a dense one without experts."""
    place = Place("cuda", torch.bfloat16)
    shape = replace(TINY_MOE, experts=experts, experts_per_token=2 if experts else 0)
    block = Block(shape, place, rotary_table(LENGTH, shape.hidden // shape.heads, place))
    x = torch.randn(2, LENGTH, shape.hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    times = []
    for _ in range(40):
        torch.cuda.synchronize()
        began = time.perf_counter()
        block(x).sum().backward()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2] * 1e3


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--link", type=float, default=450, help="GB/s in each direction (NVLink of Hopper)")
    link = parser.parse_args().link
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rows = collectives(link)
    if dist.get_rank() == 0:
        print("\n".join(rows), "\n\n| experts | ms |\n|---|---|", sep="")
        for experts in EXPERTS:
            print(f"| {experts} | {layer_time(experts):.2f} |", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
