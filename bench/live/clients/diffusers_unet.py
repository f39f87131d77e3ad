"""A UNet of diffusers, as in latent diffusion, trained on pictures of several aspect ratios."""

import importlib
import random
from typing import Any

from steps import STEPS, StepLog

import torch

BATCH, ACCUMULATED = 16, 2
BUCKETS = ((64, 64), (48, 80), (80, 48), (56, 72), (72, 56))  # height and width of the latents
ADAMW: Any = torch.optim.AdamW


def main() -> None:
    diffusers = importlib.import_module("diffusers")
    torch.manual_seed(0)
    draw = random.Random(0)
    with torch.device("cuda"):
        unet = diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768)
    unet.train()
    noise_of = diffusers.DDPMScheduler(num_train_timesteps=1000)
    optimizer = ADAMW(unet.parameters(), lr=1e-5)
    log = StepLog()
    for _ in range(STEPS):
        for _ in range(ACCUMULATED):
            latents = torch.randn(BATCH, 4, *draw.choice(BUCKETS), device="cuda")
            noise = torch.randn_like(latents)
            times = torch.randint(0, 1000, (BATCH,), device="cuda")
            noisy = noise_of.add_noise(latents, noise, times)
            prompt = torch.randn(BATCH, 77, 768, device="cuda")
            with torch.autocast("cuda", torch.bfloat16):
                guessed = unet(noisy, times, encoder_hidden_states=prompt).sample
            torch.nn.functional.mse_loss(guessed.float(), noise).backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        log.end()


if __name__ == "__main__":
    main()
