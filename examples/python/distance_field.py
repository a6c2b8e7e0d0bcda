# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Learns the distance to a curve from points on it, with a gradient penalty through `aclgrad.torch.grid_sample`.

    python examples/python/distance_field.py [--steps 200] [--out build/examples]

The field is a small grid of features, which `grid_sample` reads at a point and a network turns into a number. Known is
only that it is 0 at the points of the curve. A distance changes by one for each unit of way, so the penalty asks of the
field's gradient that it has length 1 everywhere (the eikonal equation). That gradient goes through `grid_sample`, so
training needs the derivative of `grid_sample`'s gradient, which torch.nn.functional.grid_sample has not. Writes
distance_field.png, which shows what is learned with the penalty and without it.
"""

import argparse
import math
import pathlib

import aclgrad.torch
import torch
from matplotlib import pyplot
from torch import Tensor, nn
from tqdm import tqdm


def curve(points: int) -> Tensor:
    """Points [points, 2] on a flower with five petals, as (x, y) from -1 to 1."""
    angle = torch.linspace(0, 2 * math.pi, points + 1)[:-1]
    radius = 0.5 + 0.17 * torch.cos(5 * angle)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], -1)


def distance(points: Tensor) -> Tensor:
    """To the curve, negative inside: what the field shall become, and what training does not see."""
    angle = torch.atan2(points[:, 1], points[:, 0])
    inside = points.norm(dim=-1) < 0.5 + 0.17 * torch.cos(5 * angle)
    way = torch.cdist(points, curve(2000)).amin(1)
    return torch.where(inside, -way, way)


class Field(nn.Module):
    def __init__(self, channels: int = 16, side: int = 16) -> None:
        super().__init__()
        self.features = nn.Parameter(0.1 * torch.randn(1, channels, side, side))
        self.network = nn.Sequential(nn.Linear(channels, 64), nn.Softplus(10), nn.Linear(64, 1))

    def forward(self, points: Tensor) -> Tensor:
        """At points [P, 2]: [P]. It starts near the distance to a circle."""
        found = aclgrad.torch.grid_sample(self.features, points[None, None], "bicubic", "border", True)
        return points.norm(dim=-1) - 0.5 + self.network(found[0, :, 0].T)[:, 0]


def slope(field: Field, points: Tensor) -> Tensor:
    """The length of the field's gradient, [P], which can be differentiated itself."""
    points = points.requires_grad_()
    (gradient,) = torch.autograd.grad(field(points).sum(), points, create_graph=True)
    return gradient.norm(dim=-1)


def train(penalty: float, steps: int) -> tuple[Field, list[float]]:
    torch.manual_seed(0)
    field, known = Field(), curve(150)
    optimizer = torch.optim.Adam(field.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    bar = tqdm(range(steps), unit="step", desc="with the penalty" if penalty else "without")
    for _ in bar:
        loss = field(known).abs().mean()
        if penalty:
            anywhere = 2 * torch.rand(1000, 2) - 1
            loss = loss + penalty * (slope(field, anywhere) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        bar.set_postfix(loss=f"{losses[-1]:.4f}")
    return field, losses


def everywhere(side: int = 120) -> Tensor:
    """[side * side, 2]."""
    steps = torch.linspace(-1, 1, side)
    return torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1).flatten(0, 1)


def plot(values: dict[str, Tensor], losses: list[float], path: pathlib.Path) -> None:
    figure, axes = pyplot.subplots(1, len(values) + 1, figsize=(17, 4.4), layout="constrained")
    points = curve(150)
    for axis, (title, field) in zip(axes, values.items(), strict=False):
        square = field.view(120, 120)
        levels = torch.arange(-10, 21) * 0.1
        axis.contourf(square, levels, extent=(-1, 1, -1, 1), cmap="RdBu", vmin=-1, vmax=1, extend="both")
        axis.contour(square, levels, extent=(-1, 1, -1, 1), colors="black", linewidths=0.4)
        axis.plot(*points.T, "k.", markersize=3)
        axis.set(title=title, xticks=[], yticks=[], aspect="equal")
    axes[-1].semilogy(losses)
    axes[-1].set(title="loss with the penalty", xlabel="step")
    figure.savefig(path, dpi=80)


def main(arguments: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/examples"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    places = everywhere()
    values = {"distance": distance(places)}
    for title, penalty in (("learned without the penalty", 0.0), ("learned with the penalty", 0.1)):
        field, losses = train(penalty, options.steps)
        with torch.no_grad():
            values[title] = field(places)
    path = options.out / "distance_field.png"
    plot(values, losses, path)
    truth, without, with_penalty = values.values()
    errors = [(value - truth).abs().mean() for value in (without, with_penalty)]
    print(f"mean error of the distance: {errors[0]:.3f} without the penalty, {errors[1]:.3f} with it; {path}")
    return losses


if __name__ == "__main__":
    main()
