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


def identity_grid(*sides: int) -> Tensor:
    """[1, *sides, axes]: the own place of each pixel or voxel, as `grid_sample` counts places, x first."""
    places = (torch.arange(side).add(0.5).mul(2 / side).sub(1) for side in sides)
    return torch.stack(torch.meshgrid(*places, indexing="ij")[::-1], -1)[None]


def hidden_warp(grid: Tensor) -> Tensor:
    x, y = grid.unbind(-1)
    swirl = 0.6 * torch.exp(-4 * (x**2 + y**2))
    turned = torch.stack([x * swirl.cos() - y * swirl.sin(), x * swirl.sin() + y * swirl.cos()], -1)
    return turned + 0.03 * torch.stack([torch.sin(5 * y), torch.cos(4 * x)], -1)


def warp(image: Tensor, grid: Tensor) -> Tensor:
    return aclgrad.torch.grid_sample(image, grid, "bilinear", "border")


def blurred(image: Tensor, pixels: int) -> Tensor:
    """Averages squares or cubes of 2 * pixels + 1, twice: far places then still pull in the right direction."""
    pool = F.avg_pool2d if image.dim() == 4 else F.avg_pool3d
    for _ in range(2 if pixels else 0):
        image = pool(image, 2 * pixels + 1, 1, pixels, count_include_pad=False)
    return image


def fit(
    image: Tensor, target: Tensor, arrows: Tensor, steps: int, blurs: tuple[int, ...], rate: float
) -> tuple[Tensor, list[float]]:
    """The grid that leads from `image` to `target`, or from one volume to another, and the error of each step."""
    sides = image.shape[2:]
    grid, mode = identity_grid(*sides), "bicubic" if len(sides) == 2 else "trilinear"
    optimizer = torch.optim.Adam([arrows.requires_grad_()])
    pixels = [blurs[len(blurs) * step // steps] for step in range(steps)]
    errors = []
    bar = tqdm(range(steps), unit="step")
    for step in bar:
        if step == 0 or pixels[step] != pixels[step - 1]:
            source, aim = blurred(image, pixels[step]), blurred(target, pixels[step])
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        optimizer.zero_grad()
        field = F.interpolate(arrows, sides, mode=mode, align_corners=True).movedim(1, -1)
        loss = F.mse_loss(warp(source, grid + field), aim)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            errors.append(float(F.mse_loss(warp(image, grid + field), target)))
        bar.set_postfix(error=f"{errors[-1]:.6f}")
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


def options_of(arguments: list[str] | None, description: str, steps: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/examples"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def main(arguments: list[str] | None = None) -> list[float]:
    options = options_of(arguments, __doc__, steps=150)
    image = photograph()
    target = warp(image, hidden_warp(identity_grid(*image.shape[2:])))
    grid, errors = fit(image, target, torch.zeros(1, 2, 12, 12), options.steps, (12, 5, 0), 0.01)
    plot(image, target, warp(image, grid), errors, options.out / "fit_warp.png")
    print(f"mean squared error: {errors[0]:.5f} at first, {errors[-1]:.5f} at last; {options.out / 'fit_warp.png'}")
    return errors


if __name__ == "__main__":
    main()
