"""Train a few layers: the first argument says whether under STWeaver, the second how many steps.

"emptied" is plain PyTorch whose cache is emptied before the first step, of more than the steps need.
"""

import sys
import time

import torch

under_stweaver = sys.argv[1] == "stweaver"
steps = int(sys.argv[2])
if under_stweaver:
    import stweaver

    stweaver.enable(verbose=True)
torch.manual_seed(0)
layers = [torch.nn.Linear(512, 512) for _ in range(8)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
side = torch.cuda.Stream()
if sys.argv[1] == "emptied":
    torch.empty(16 << 20, device="cuda")
    torch.cuda.empty_cache()
for _step in range(steps):
    inputs = torch.randn(4096, 512, device="cuda")
    loss = model(inputs).square().mean()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # a second stream reads what the first has freed before it is done
        copy = inputs * 2
    inputs.record_stream(side)
    del inputs
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.current_stream().wait_stream(side)
    del copy
    time.sleep(0.005)  # so that a plan comes while the job still runs
torch.cuda.synchronize()
print("hits", stweaver.stats().hits if under_stweaver else 0)
print("reserved", torch.cuda.max_memory_reserved())
