"""STWeaver is switched off, and then another stream works on its blocks, which are recorded for it."""

import stweaver

import torch

stweaver.enable()
side = torch.cuda.Stream()
blocks = [torch.ones(64 << 20, device="cuda") for _ in range(4)]
stweaver.disable()
side.wait_stream(torch.cuda.current_stream())
copies = []
while blocks:
    block = blocks.pop()
    with torch.cuda.stream(side):
        copies.append(block[: 1 << 20] * 2)
    block.record_stream(side)
    del block
    torch.zeros(64 << 20, device="cuda")
torch.cuda.synchronize()
torch.zeros(1, device="cuda")
print("done", stweaver.stats().devices[0].arena)
