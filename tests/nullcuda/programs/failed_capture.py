"""Fails to capture a graph, then trains on; prints what is in use at the end, and how many steps were."""

import contextlib
import json

import stweaver

import torch

stweaver.enable(way="pluggable")
before = torch.ones(1 << 20, device="cuda")
with contextlib.suppress(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph()):
    during = torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()  # spoils the capture
del before, during
for _ in range(20):
    block = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    del block
    stweaver.mark_step()
(device,) = stweaver.stats().devices
print(json.dumps({"requested": device.requested, "steps": device.steps}))
