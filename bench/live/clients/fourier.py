"""A Fourier neural operator (cuFFT) on fields of varying sizes."""

from typing import Any

from models import lengths
from steps import STEPS, StepLog

import torch
from torch import Tensor, nn

BATCH, CHANNELS, MODES, LAYERS = 32, 64, 24, 6
ADAM: Any = torch.optim.Adam


class FourierLayer(nn.Module):
    """Multiplies the lowest frequencies by weights, and adds a convolution of width 1."""

    def __init__(self) -> None:
        """Make both random."""
        super().__init__()
        self.weights = nn.Parameter(torch.randn(CHANNELS, CHANNELS, MODES, MODES, 2) / CHANNELS)
        self.local = nn.Conv2d(CHANNELS, CHANNELS, 1)

    def forward(self, field: Tensor) -> Tensor:
        """Map a field to another of its size."""
        frequencies = torch.fft.rfft2(field)
        low = frequencies[..., :MODES, :MODES]
        mixed = torch.zeros_like(frequencies)
        mixed[..., :MODES, :MODES] = torch.einsum("bixy,ioxy->boxy", low, torch.view_as_complex(self.weights))
        return nn.functional.gelu(torch.fft.irfft2(mixed, s=field.shape[-2:]) + self.local(field))


def main() -> None:
    torch.manual_seed(0)
    with torch.device("cuda"):
        layers = [FourierLayer() for _ in range(LAYERS)]
        model = nn.Sequential(nn.Conv2d(3, CHANNELS, 1), *layers, nn.Conv2d(CHANNELS, 1, 1))
    optimizer = ADAM(model.parameters(), lr=1e-3)
    side = lengths((192, 256, 320))
    log = StepLog()
    for _ in range(STEPS):
        size = next(side)
        field = torch.randn(BATCH, 3, size, size, device="cuda")
        model(field).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        log.end()


if __name__ == "__main__":
    main()
