# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Drawn pictures of shapes, on which deformable_detr.py trains."""

import torch
from torch import Tensor

SIDE, KINDS, OBJECTS = 64, ("disc", "square", "triangle"), 3
NOTHING = len(KINDS)  # the class where there is no object


def draw(pictures: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures [B, 3, SIDE, SIDE] with one to OBJECTS shapes each among noise: reddish discs, greenish squares, bluish
    triangles.

    Then the class of each object, [B, OBJECTS], which is NOTHING where there are fewer, and its box, [B, OBJECTS, 4]:
    centre, width and height, from 0 to 1.
    """
    random = torch.Generator().manual_seed(seed)
    images = 0.3 * torch.rand(pictures, 3, SIDE, SIDE, generator=random)
    classes = torch.randint(NOTHING, (pictures, OBJECTS), generator=random)
    count = torch.randint(1, OBJECTS + 1, (pictures, 1), generator=random)
    classes = torch.where(torch.arange(OBJECTS) < count, classes, NOTHING)
    centre = 0.2 + 0.6 * torch.rand(pictures, OBJECTS, 2, generator=random)
    size = 0.2 + 0.15 * torch.rand(pictures, OBJECTS, 1, generator=random)
    colors = 0.2 + 0.4 * torch.rand(pictures, OBJECTS, 3, generator=random)
    colors += 0.4 * torch.eye(NOTHING + 1, 3)[classes]
    for i in range(OBJECTS):
        x, y = ((centres(SIDE, SIDE) - centre[:, i, None]) / size[:, i, None]).unflatten(1, (SIDE, SIDE)).unbind(-1)
        disc, square = x**2 + y**2 < 0.25, torch.maximum(x.abs(), y.abs()) < 0.5
        triangle, nothing = (y.abs() < 0.5) & (x.abs() < (y + 0.5) / 2), torch.zeros_like(disc)
        inside = torch.stack([disc, square, triangle, nothing], 1)[torch.arange(pictures), classes[:, i]]
        images = torch.where(inside[:, None], colors[:, i, :, None, None], images)
    return images, classes, torch.cat([centre, size, size], -1)


def centres(height: int, width: int) -> Tensor:
    """Places of the pixels of a map as (x, y) from 0 to 1, [height * width, 2]."""
    x, y = ((torch.arange(size) + 0.5) / size for size in (width, height))
    return torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).flatten(0, 1)
