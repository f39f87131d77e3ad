"""A Wasserstein GAN with a penalty on gradients: five steps of the critic for one of the generator."""

from itertools import pairwise
from typing import Any

from steps import STEPS, StepLog

import torch
from torch import Tensor, nn

ADAM: Any = torch.optim.Adam
CHANNELS = (3, 128, 256, 512, 1024)
NOISE = 128
BATCH = 256
CRITIC_STEPS = 5
PENALTY = 10


def critic_of() -> nn.Sequential:
    """Images of 64 x 64 to one number each."""
    layers: list[nn.Module] = []
    for first, last in pairwise(CHANNELS):
        layers += [nn.Conv2d(first, last, 4, 2, 1), nn.InstanceNorm2d(last, affine=True), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(CHANNELS[-1] * 16, 1))


def generator_of() -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(NOISE, CHANNELS[-1] * 16), nn.Unflatten(1, (CHANNELS[-1], 4, 4))]
    for first, last in pairwise(reversed(CHANNELS)):
        layers += [nn.BatchNorm2d(first), nn.ReLU(inplace=True), nn.ConvTranspose2d(first, last, 4, 2, 1)]
    return nn.Sequential(*layers, nn.Tanh())


def penalty_of(critic: nn.Module, real: Tensor, made: Tensor) -> Tensor:
    share = torch.rand(len(real), 1, 1, 1, device="cuda")
    between = (share * real + (1 - share) * made).requires_grad_()
    (gradient,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty: Tensor = ((gradient.flatten(1).norm(2, 1) - 1) ** 2).mean()
    return penalty


def main() -> None:
    torch.manual_seed(0)
    critic, generator = critic_of().to("cuda"), generator_of().to("cuda")
    critic_steps = ADAM(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    generator_steps = ADAM(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    log = StepLog()
    for _ in range(STEPS):
        for _ in range(CRITIC_STEPS):
            real = torch.randn(BATCH, 3, 64, 64, device="cuda")
            with torch.no_grad():
                made = generator(torch.randn(BATCH, NOISE, device="cuda"))
            loss = critic(made).mean() - critic(real).mean() + PENALTY * penalty_of(critic, real, made)
            critic_steps.zero_grad()
            loss.backward()
            critic_steps.step()
        generator_steps.zero_grad()
        (-critic(generator(torch.randn(BATCH, NOISE, device="cuda"))).mean()).backward()
        generator_steps.step()
        log.end()


if __name__ == "__main__":
    main()
