"""A block of one device is recorded for a stream of a second one, and freed while that stream is at work."""

import stweaver

import torch

stweaver.enable()
side = torch.cuda.Stream(device=1)
block = torch.ones(1 << 20, device="cuda:0")
address = block.data_ptr()
with torch.cuda.stream(side):
    other = torch.ones(1 << 20, device="cuda:1") * 2
block.record_stream(side)
del block
print(torch.empty(1 << 20, device="cuda:0").data_ptr() != address)
