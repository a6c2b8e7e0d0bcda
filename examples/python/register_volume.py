# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Finds how a volume was deformed, by gradient descent through `aclgrad.torch.grid_sample`, as fit_warp.py does.

    python examples/python/register_volume.py [--steps 120] [--out build/examples]

Draws a volume of soft ellipsoids with a fine texture, as a scan might have them, deforms it by a smooth field, and
looks for 6 x 6 x 6 arrows that lead from one to the other: deformable registration. Writes register_volume.png, slices
before and after.
"""

import pathlib

import torch
from fit_warp import fit, identity_grid, options_of, warp
from matplotlib import pyplot
from torch import Tensor

SIDE = 48


def synthetic_scan(grid: Tensor) -> Tensor:
    """[1, 1, side, side, side] with values from 0 to 1."""
    generator = torch.Generator().manual_seed(3)
    volume = torch.zeros(grid.shape[:-1])
    for _ in range(24):
        centre = torch.rand(3, generator=generator) * 1.4 - 0.7
        radius = torch.rand(3, generator=generator) * 0.25 + 0.15
        distance = ((grid - centre) / radius).square().sum(-1).sqrt()
        brightness = torch.rand(1, generator=generator) * 0.6 + 0.3
        volume = torch.maximum(volume, brightness * torch.sigmoid(12 * (1 - distance)))
    texture = torch.sin(14 * grid).prod(-1)
    return (volume + 0.08 * (1 + texture))[:, None].clamp(0, 1)


def hidden_deformation(grid: Tensor) -> Tensor:
    x, y, z = grid.unbind(-1)
    swirl = 0.5 * torch.exp(-3 * (x**2 + y**2 + z**2))
    turned = torch.stack([x * swirl.cos() - y * swirl.sin(), x * swirl.sin() + y * swirl.cos(), z], -1)
    return turned + 0.05 * torch.stack([torch.sin(3 * z), torch.cos(3 * x), torch.sin(2 * y)], -1)


def plot(volume: Tensor, target: Tensor, found: Tensor, errors: list[float], path: pathlib.Path) -> None:
    """Slices across each axis: before, what is looked for, after, and what is left of the difference."""
    figure, axes = pyplot.subplots(3, 5, figsize=(16, 9), layout="constrained")
    middle = volume.shape[-1] // 2
    pictures = {
        "before": volume,
        "target": target,
        "after": found,
        "target - before": (target - volume).abs(),
        "target - after": (target - found).abs(),
    }
    for column, (title, picture) in enumerate(pictures.items()):
        highest = 0.5 if "-" in title else 1.0
        for row, across in enumerate(("z", "y", "x")):
            axes[row, column].imshow(picture[0, 0].select(row, middle), cmap="gray", vmin=0, vmax=highest)
            axes[row, column].set_title(f"{title}, slice across {across}")
            axes[row, column].axis("off")
    figure.suptitle(f"mean squared error: {errors[0]:.5f} at first, {errors[-1]:.6f} at last")
    figure.savefig(path, dpi=70)


def main(arguments: list[str] | None = None) -> list[float]:
    options = options_of(arguments, __doc__, steps=120)
    grid = identity_grid(SIDE, SIDE, SIDE)
    volume = synthetic_scan(grid)
    target = warp(volume, hidden_deformation(grid))
    found, errors = fit(volume, target, torch.zeros(1, 3, 6, 6, 6), options.steps, (3, 1, 0), 0.02)
    path = options.out / "register_volume.png"
    plot(volume, target, warp(volume, found), errors, path)
    print(f"mean squared error: {errors[0]:.6f} at first, {errors[-1]:.6f} at last; {path}")
    return errors


if __name__ == "__main__":
    main()
