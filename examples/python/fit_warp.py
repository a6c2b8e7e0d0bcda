# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Finds how a photograph was warped, by gradient descent through `aclgrad.torch.grid_sample`.

    python examples/python/fit_warp.py [--steps 150] [--out build/examples]

Reads the photograph that comes with Matplotlib, warps it by a smooth field, and looks for 12 x 12 arrows that lead
from the photograph to the warped one. Writes fit_warp.png.
"""

import argparse
import pathlib

import aclgrad.torch
import matplotlib.cbook
import numpy
import torch
from matplotlib import pyplot
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm


def photograph() -> Tensor:
    """[1, 3, H, W] with values from 0 to 1."""
    with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
        pixels = numpy.array(pyplot.imread(file, format="jpg"))
    return torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255


def identity_grid(height: int, width: int) -> Tensor:
    """[1, H, W, 2]: each pixel's own place, as `grid_sample` counts places."""
    y, x = (torch.arange(size).add(0.5).mul(2 / size).sub(1) for size in (height, width))
    return torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)[None]


def hidden_warp(grid: Tensor) -> Tensor:
    x, y = grid.unbind(-1)
    swirl = 0.6 * torch.exp(-4 * (x**2 + y**2))
    turned = torch.stack([x * swirl.cos() - y * swirl.sin(), x * swirl.sin() + y * swirl.cos()], -1)
    return turned + 0.03 * torch.stack([torch.sin(5 * y), torch.cos(4 * x)], -1)


def warp(image: Tensor, grid: Tensor) -> Tensor:
    return aclgrad.torch.grid_sample(image, grid, "bilinear", "border")


def blurred(image: Tensor, pixels: int) -> Tensor:
    """Averages squares of 2 * pixels + 1, twice: far places then still pull in the right direction."""
    for _ in range(2 if pixels else 0):
        image = F.avg_pool2d(image, 2 * pixels + 1, 1, pixels, count_include_pad=False)
    return image


def fit(image: Tensor, target: Tensor, steps: int) -> tuple[Tensor, list[float]]:
    """The grid that leads from `image` to `target`, and the error of each step."""
    height, width = image.shape[2:]
    grid = identity_grid(height, width)
    arrows = torch.zeros(1, 2, 12, 12, requires_grad=True)
    optimizer = torch.optim.Adam([arrows])
    errors = []
    bar = tqdm(range(steps), unit="step")
    for step in bar:
        pixels = (12, 5, 0)[3 * step // steps]
        if step == 0 or pixels != (12, 5, 0)[3 * (step - 1) // steps]:
            source, aim = blurred(image, pixels), blurred(target, pixels)
        optimizer.param_groups[0]["lr"] = 0.01 * (1 - step / steps)
        optimizer.zero_grad()
        field = F.interpolate(arrows, (height, width), mode="bicubic", align_corners=True).permute(0, 2, 3, 1)
        loss = F.mse_loss(warp(source, grid + field), aim)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            errors.append(float(F.mse_loss(warp(image, grid + field), target)))
        bar.set_postfix(error=f"{errors[-1]:.5f}")
    return (grid + field).detach(), errors


def plot(image: Tensor, target: Tensor, found: Tensor, errors: list[float], path: pathlib.Path) -> None:
    figure, axes = pyplot.subplots(1, 5, figsize=(18, 4.6), layout="constrained")
    difference = (found - target).abs().mean(1, keepdim=True).expand(-1, 3, -1, -1)
    pictures = {"photograph": image, "warped": target, "found": found, "warped - found, times 4": 4 * difference}
    for axis, (title, picture) in zip(axes, pictures.items(), strict=False):
        axis.imshow(picture[0].permute(1, 2, 0).clamp(0, 1))
        axis.set_title(title)
        axis.axis("off")
    axes[-1].semilogy(errors)
    axes[-1].set(title="mean squared error", xlabel="step")
    figure.savefig(path, dpi=80)


def main(arguments: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/examples"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    image = photograph()
    target = warp(image, hidden_warp(identity_grid(*image.shape[2:])))
    grid, errors = fit(image, target, options.steps)
    plot(image, target, warp(image, grid), errors, options.out / "fit_warp.png")
    print(f"mean squared error: {errors[0]:.5f} at first, {errors[-1]:.5f} at last; {options.out / 'fit_warp.png'}")
    return errors


if __name__ == "__main__":
    main()
