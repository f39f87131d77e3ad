"""Blocks made, read and freed on random streams, every use ordered: under STWeaver nothing may be wrong.

The argument is the seed. The first steps are alike, so that a plan is made; the others have a few more
requests each, which the plan does not know, while it is followed.
"""

import random
import sys
import time

import stweaver

import torch

stweaver.enable()
steps_draw = random.Random(int(sys.argv[1]))
streams = [torch.cuda.Stream() for _ in range(3)]
parameter = torch.nn.Parameter(torch.ones(256, device="cuda"))
optimizer = torch.optim.SGD([parameter], lr=0.1)


def request(draw: random.Random, living: list[tuple[torch.Tensor, torch.cuda.Stream]]) -> None:
    """Make a block on one stream, and let another read an older one."""
    maker, reader = draw.sample(streams, 2)
    with torch.cuda.stream(maker):
        living.append((torch.ones(draw.choice((1000, 70_000, 900_000)), device="cuda"), maker))
    block, home = draw.choice(living)
    if home is not reader:
        reader.wait_stream(home)
        with torch.cuda.stream(reader):
            block.sum()
        if draw.random() < 0.5:
            block.record_stream(reader)
        else:
            home.wait_stream(reader)
    if len(living) > 12:
        living.pop(draw.randrange(len(living)))


for step in range(25):
    draw = random.Random(1)  # the same in every step, but for what follows
    living: list[tuple[torch.Tensor, torch.cuda.Stream]] = []
    for _ in range(40):
        request(draw, living)
        if step >= 12 and steps_draw.random() < 0.03:
            request(steps_draw, living.copy())
    living.clear()
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    if any(device.stage == "planning" for device in stweaver.stats().devices):
        time.sleep(0.1)  # a step of one that is real takes as long, so that steps follow the plan
print("hits", stweaver.stats().hits)
