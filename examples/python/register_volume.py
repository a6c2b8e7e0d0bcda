# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Finds how a volume was deformed, by gradient descent through `aclgrad.torch.grid_sample`.

    python examples/python/register_volume.py [--steps 120] [--out build/examples]

Draws a volume of soft ellipsoids with a fine texture, as a scan might have them, deforms it by a smooth field, and
looks for 6 x 6 x 6 arrows that lead from one to the other: deformable registration. Writes register_volume.png, slices
before and after.
"""

import argparse
import pathlib

import aclgrad.torch
import torch
from matplotlib import pyplot
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

SIDE = 48


def identity_grid(side: int) -> Tensor:
    """[1, side, side, side, 3]: each voxel's own place (x, y, z), as `grid_sample` counts places."""
    places = torch.arange(side).add(0.5).mul(2 / side).sub(1)
    z, y, x = torch.meshgrid(places, places, places, indexing="ij")
    return torch.stack([x, y, z], -1)[None]


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


def deform(volume: Tensor, grid: Tensor) -> Tensor:
    return aclgrad.torch.grid_sample(volume, grid, "bilinear", "border")


def blurred(volume: Tensor, voxels: int) -> Tensor:
    """Averages cubes of 2 * voxels + 1, twice: far places then still pull in the right direction."""
    for _ in range(2 if voxels else 0):
        volume = F.avg_pool3d(volume, 2 * voxels + 1, 1, voxels, count_include_pad=False)
    return volume


def register(volume: Tensor, target: Tensor, steps: int) -> tuple[Tensor, list[float]]:
    """The grid that leads from `volume` to `target`, and the error of each step."""
    side = volume.shape[-1]
    grid = identity_grid(side)
    arrows = torch.zeros(1, 3, 6, 6, 6, requires_grad=True)
    optimizer = torch.optim.Adam([arrows])
    errors = []
    bar = tqdm(range(steps), unit="step")
    for step in bar:
        voxels = (3, 1, 0)[3 * step // steps]
        if step == 0 or voxels != (3, 1, 0)[3 * (step - 1) // steps]:
            source, aim = blurred(volume, voxels), blurred(target, voxels)
        optimizer.param_groups[0]["lr"] = 0.02 * (1 - step / steps)
        optimizer.zero_grad()
        field = F.interpolate(arrows, (side,) * 3, mode="trilinear", align_corners=True).permute(0, 2, 3, 4, 1)
        loss = F.mse_loss(deform(source, grid + field), aim)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            errors.append(float(F.mse_loss(deform(volume, grid + field), target)))
        bar.set_postfix(error=f"{errors[-1]:.6f}")
    return (grid + field).detach(), errors


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/examples"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    grid = identity_grid(SIDE)
    volume = synthetic_scan(grid)
    target = deform(volume, hidden_deformation(grid))
    found, errors = register(volume, target, options.steps)
    plot(volume, target, deform(volume, found), errors, options.out / "register_volume.png")
    path = options.out / "register_volume.png"
    print(f"mean squared error: {errors[0]:.6f} at first, {errors[-1]:.6f} at last; {path}")
    return errors


if __name__ == "__main__":
    main()
