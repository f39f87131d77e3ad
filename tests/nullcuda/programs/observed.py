"""A device is full of memory that is idle soon, and then of blocks. Prints who was told of out of memory."""

import stweaver

import torch

MIB = 1 << 20
stweaver.enable()
told: list[tuple[int, ...]] = []
attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer")  # noqa: B009  (a CPU build has none)
attach(lambda *what: told.append(what))
side = torch.cuda.Stream()


def take(mib: int) -> torch.Tensor:
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


block = take(300)
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    block.zero_()
block.record_stream(side)
del block
block = take(300)
print(stweaver.stats().devices[0].refusals, told)
try:
    take(400)
except torch.OutOfMemoryError:
    print([(device, size) for device, size, _, _ in told], told[0][3] < 400 * MIB <= told[0][2])
