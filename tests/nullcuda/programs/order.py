"""A second stream reads a block that is freed before it is done; the argument says whether it was told so."""

import sys

import torch

tells = sys.argv[1] == "told"
side = torch.cuda.Stream()
for _step in range(20):
    block = torch.ones(1 << 20, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        copy = block * 2
    if tells:
        block.record_stream(side)
    del block
    torch.zeros(1 << 20, device="cuda")
    torch.cuda.current_stream().wait_stream(side)
    del copy
print("done")
