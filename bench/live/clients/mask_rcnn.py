"""torchvision's Mask R-CNN on pictures of varying sizes with varying numbers of objects."""

import importlib
import random
from typing import Any

from steps import STEPS, StepLog

import torch
from torch import Tensor

BATCH, CLASSES, SIDES = 8, 91, (480, 1333)


def picture(draw: random.Random) -> tuple[Tensor, dict[str, Tensor]]:
    """Make a random picture, and the boxes and masks of a few objects."""
    height, width = draw.randint(*SIDES), draw.randint(*SIDES)
    boxes = [box(draw, height, width) for _ in range(draw.randint(1, 12))]
    masks = torch.zeros(len(boxes), height, width, dtype=torch.uint8)
    for mask, (left, top, right, bottom) in zip(masks, boxes, strict=True):
        mask[top:bottom, left:right] = 1
    labels = [draw.randrange(1, CLASSES) for _ in boxes]
    target = {"boxes": torch.tensor(boxes).float(), "labels": torch.tensor(labels), "masks": masks}
    return torch.rand(3, height, width), target


def box(draw: random.Random, height: int, width: int) -> tuple[int, int, int, int]:
    """Draw left, top, right and bottom."""
    left, top = draw.randrange(width - 64), draw.randrange(height - 64)
    return left, top, draw.randint(left + 32, width), draw.randint(top + 32, height)


def main() -> None:
    detection: Any = importlib.import_module("torchvision.models.detection")
    torch.manual_seed(0)
    draw = random.Random(0)
    model = detection.maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=CLASSES)
    model.cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    log = StepLog()
    for _ in range(STEPS):
        pictures, targets = zip(*[picture(draw) for _ in range(BATCH)], strict=True)
        losses = model(
            [image.cuda() for image in pictures],
            [{name: value.cuda() for name, value in target.items()} for target in targets],
        )
        sum(losses.values()).backward()
        optimizer.step()
        optimizer.zero_grad()
        log.end()


if __name__ == "__main__":
    main()
