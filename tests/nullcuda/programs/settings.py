"""What PyTorch's allocator was told before STWeaver was enabled, and what a program does behind that.

usage: settings.py limit | uncached | fork | replaced
"""

import os
import sys

import stweaver
from stweaver import layout

import torch

MIB = 1 << 20


def limit() -> None:
    """Print how many pieces of 500 MiB fit into a hundredth of an H200."""
    torch.cuda.set_per_process_memory_fraction(0.01)
    stweaver.enable()
    pieces = []
    try:
        for _ in range(5):
            pieces.append(torch.empty(500 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        print(len(pieces), torch.cuda.get_per_process_memory_fraction())


def uncached() -> None:
    """Print why nothing is planned."""
    try:
        stweaver.enable()
        print("enabled")
    except stweaver.Error as error:
        print(error)


def fork() -> None:
    """Use the GPU in the child alone."""
    stweaver.enable()
    child = os.fork()
    if child == 0:
        print(torch.ones(1, device="cuda").shape, flush=True)
        os._exit(0)
    os.waitpid(child, 0)


def replaced() -> None:
    """Set another allocator under `stweaver run`: here the one of the other way."""
    library = str(layout.find().pluggable)
    other = torch.cuda.memory.CUDAPluggableAllocator(library, "stweaver_malloc", "stweaver_free")
    torch.cuda.memory.change_current_allocator(other)
    print(torch.ones(1, device="cuda").shape)


if __name__ == "__main__":
    {"limit": limit, "uncached": uncached, "fork": fork, "replaced": replaced}[sys.argv[1]]()
