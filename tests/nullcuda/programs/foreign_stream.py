"""Blocks of a stream that PyTorch did not make outlive it. Prints bytes in the arena, and in all."""

import stweaver

import torch

stweaver.enable()
cudart = torch.cuda.cudart()
own = torch.ones(1 << 20, device="cuda")
address = torch.zeros(1, dtype=torch.int64)
assert cudart.cudaStreamCreate(address.data_ptr()) == 0
foreign = torch.cuda.ExternalStream(address.item())
with torch.cuda.stream(foreign):
    blocks = [torch.ones(1 << 20, device="cuda") for _ in range(4)]
    raw = torch.cuda.caching_allocator_alloc(1 << 20)
named = torch.cuda.caching_allocator_alloc(1 << 20, stream=foreign)
on_side = torch.cuda.caching_allocator_alloc(1 << 20, stream=torch.cuda.Stream())
foreign.synchronize()
assert cudart.cudaStreamDestroy(address.item()) == 0
(device,) = stweaver.stats().devices
print(device.unplanned, torch.cuda.memory_allocated())
blocks.clear()
for memory in (raw, named, on_side):
    torch.cuda.caching_allocator_delete(memory)
torch.ones(1 << 20, device="cuda")
torch.cuda.synchronize()
torch.cuda.empty_cache()
print(torch.cuda.memory_allocated())
