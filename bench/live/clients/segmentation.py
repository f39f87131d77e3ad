"""A 3D U-Net on volumes in a plain loop, whose variables keep a step's tensors until the next has its own.

Behind every sixth step a larger volume is segmented window by window.
"""

from itertools import pairwise, product
from typing import Any

from steps import STEPS, StepLog

import torch
from torch import Tensor, nn

SGD: Any = torch.optim.SGD
CHANNELS = (32, 64, 128, 256, 320)
CLASSES = 4
functional = nn.functional


def convolutions(channels: int, more: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for first, last in ((channels, more), (more, more)):
        normed = nn.InstanceNorm3d(last, affine=True)
        layers += [nn.Conv3d(first, last, 3, padding=1), normed, nn.LeakyReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Down five levels of channels and up again, with what each level made on the way down."""

    def __init__(self) -> None:
        """Make it on the host."""
        super().__init__()
        pairs = list(pairwise(CHANNELS))
        self.down = nn.ModuleList(convolutions(first, last) for first, last in [(1, CHANNELS[0]), *pairs])
        self.up = nn.ModuleList(nn.ConvTranspose3d(last, first, 2, 2) for first, last in reversed(pairs))
        self.joined = nn.ModuleList(convolutions(2 * first, first) for first, _ in reversed(pairs))
        self.head = nn.Conv3d(CHANNELS[0], CLASSES, 1)

    def forward(self, volume: Tensor) -> Tensor:
        """Classes of a volume's points, from (batch, 1, depth, height, width)."""
        kept: list[Tensor] = []
        for depth, layer in enumerate(self.down):
            volume = layer(functional.max_pool3d(volume, 2) if depth else volume)
            kept.append(volume)
        kept.pop()
        for up, joined in zip(self.up, self.joined, strict=True):
            volume = joined(torch.cat([up(volume), kept.pop()], 1))
        classes: Tensor = self.head(volume)
        return classes


def main() -> None:
    torch.manual_seed(0)
    model = UNet().to("cuda")
    optimizer = SGD(model.parameters(), lr=0.01, momentum=0.99, nesterov=True)
    scaler = torch.amp.GradScaler()
    log = StepLog()
    for step in range(STEPS):
        volume = torch.randn(2, 1, 128, 128, 128, device="cuda")
        labels = torch.zeros(2, 128, 128, 128, dtype=torch.long, device="cuda")
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            classes = model(volume)
            shares = classes.float().softmax(1)
            wanted = functional.one_hot(labels, CLASSES).permute(0, 4, 1, 2, 3).float()
            dice = 2 * (shares * wanted).sum((2, 3, 4)) / ((shares + wanted).sum((2, 3, 4)) + 1e-5)
            loss = functional.cross_entropy(classes, labels) + 1 - dice.mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 12)
        scaler.step(optimizer)
        scaler.update()
        if step % 6 == 5:
            model.eval()
            with torch.no_grad(), torch.autocast("cuda", torch.float16):
                whole = torch.randn(1, 1, 160, 224, 224, device="cuda")
                segmented = torch.zeros(1, CLASSES, *whole.shape[2:], device="cuda")
                for corner in product((0, 32), (0, 64, 96), (0, 64, 96)):
                    deep, high, wide = (slice(at, at + 128) for at in corner)
                    window = (slice(None), slice(None), deep, high, wide)
                    segmented[window] += model(whole[window])
            model.train()
        log.end()


if __name__ == "__main__":
    main()
