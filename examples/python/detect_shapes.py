# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Trains a small detector with deformable attention on drawn shapes.

    python examples/python/detect_shapes.py [--steps 300] [--out build/examples]

Each picture holds a reddish disc, a greenish square and a bluish triangle among noise. As in Deformable DETR's
encoder, every pixel of three feature maps looks at places around it that it chooses itself; then each says where it
believes each shape to be. Writes detect_shapes.png with the loss and with boxes on pictures that it has not seen.
"""

import argparse
import pathlib

import aclgrad.torch
import torch
from matplotlib import pyplot
from torch import Tensor, nn
from tqdm import tqdm

SIDE = 64
KINDS = ("disc", "square", "triangle")


def draw(pictures: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures [B, 3, SIDE, SIDE], and a box (x, y, width, height) of each kind of shape from 0 to 1, [B, 3, 4]."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(*shape, generator=generator)

    pixels = (torch.arange(SIDE) + 0.5) / SIDE
    images = 0.3 * torch.rand(pictures, 3, SIDE, SIDE, generator=generator)
    boxes = torch.empty(pictures, len(KINDS), 4)
    for kind in range(len(KINDS)):
        size, centre = uniform(0.2, 0.36, pictures), uniform(0.2, 0.8, 2, pictures)
        color = uniform(0.2, 0.6, pictures, 3)
        color[:, kind] += 0.4
        x = ((pixels[None, None] - centre[0, :, None, None]) / size[:, None, None]).expand(-1, SIDE, -1)
        y = ((pixels[None, :, None] - centre[1, :, None, None]) / size[:, None, None]).expand(-1, -1, SIDE)
        inside = (
            x**2 + y**2 < 0.25,
            torch.maximum(x.abs(), y.abs()) < 0.5,
            (y.abs() < 0.5) & (x.abs() < (y + 0.5) / 2),
        )[kind]
        images = torch.where(inside[:, None], color[..., None, None], images)
        boxes[:, kind] = torch.stack([*centre, size, size], -1)
    return images, boxes


class DeformableLayer(nn.Module):
    """Each pixel of the feature maps gathers samples around its place, from all maps."""

    def __init__(self, channels: int, heads: int = 4, levels: int = 3, points: int = 4) -> None:
        super().__init__()
        self.samples = (heads, levels, points)
        count = heads * levels * points
        self.value, self.output = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.offsets, self.weights = nn.Linear(channels, 2 * count), nn.Linear(channels, count)
        self.mix = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, channels), nn.GELU())
        nn.init.normal_(self.offsets.bias)

    def forward(self, maps: Tensor, places: Tensor, shapes: Tensor, starts: Tensor) -> Tensor:
        """Maps [B, S, channels], one after the other, whose pixels are at `places` [S, 2]: as `maps`."""
        heads, levels, points = self.samples
        value = self.value(maps).unflatten(-1, (heads, -1))
        offsets = self.offsets(maps).unflatten(-1, (heads, levels, points, 2))
        weights = self.weights(maps).unflatten(-1, (heads, -1)).softmax(-1).unflatten(-1, (levels, points))
        locations = places[:, None, None, None] + 0.1 * offsets
        found = aclgrad.torch.multi_scale_deformable_attention(value, shapes, starts, locations, weights)
        return maps + self.mix(maps + self.output(found))


class Detector(nn.Module):
    def __init__(self, channels: int = 64) -> None:
        super().__init__()

        def halve(inputs: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(inputs, channels, 3, 2, 1), nn.GroupNorm(8, channels), nn.GELU())

        self.maps = nn.ModuleList([nn.Sequential(halve(3), halve(channels)), halve(channels), halve(channels)])
        self.layers = nn.ModuleList(DeformableLayer(channels) for _ in range(2))
        self.head = nn.Linear(channels, len(KINDS) * 5)

    def forward(self, images: Tensor) -> Tensor:
        """A box for each kind, [B, 3, 4]: what the pixels of the maps say, weighted by how sure they are."""
        maps = [images]
        for halve in self.maps:
            maps.append(halve(maps[-1]))
        shapes = torch.tensor([level.shape[2:] for level in maps[1:]])
        starts = shapes.prod(1).cumsum(0) - shapes.prod(1)
        places = torch.cat([centres(*shape) for shape in shapes.tolist()])
        pixels = torch.cat([level.flatten(2) for level in maps[1:]], 2).transpose(1, 2)
        for layer in self.layers:
            pixels = layer(pixels, places, shapes, starts)
        sure, moves, sizes = self.head(pixels).unflatten(-1, (len(KINDS), 5)).split([1, 2, 2], -1)
        boxes = torch.cat([places[:, None] + 0.5 * moves.tanh(), sizes.sigmoid()], -1)
        return (sure.softmax(1) * boxes).sum(1)


def centres(height: int, width: int) -> Tensor:
    """Places of the pixels of a map as (x, y) from 0 to 1, [height * width, 2]."""
    x, y = ((torch.arange(size) + 0.5) / size for size in (width, height))
    return torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).flatten(0, 1)


def overlap(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes."""
    low = torch.maximum(a[..., :2] - a[..., 2:] / 2, b[..., :2] - b[..., 2:] / 2)
    high = torch.minimum(a[..., :2] + a[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2)
    common = (high - low).clamp(min=0).prod(-1)
    return common / (a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - common)


def train(steps: int, batch: int = 32) -> tuple[Detector, list[float]]:
    torch.manual_seed(0)
    detector = Detector()
    optimizer = torch.optim.AdamW(detector.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    bar = tqdm(range(steps), unit="step")
    for step in bar:
        images, boxes = draw(batch, step)
        loss = (detector(images) - boxes).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        bar.set_postfix(loss=f"{losses[-1]:.4f}")
    return detector, losses


def plot(losses: list[float], images: Tensor, truth: Tensor, guesses: Tensor, path: pathlib.Path) -> None:
    figure, axes = pyplot.subplots(1, 5, figsize=(17, 3.8), layout="constrained", width_ratios=[1.4, 1, 1, 1, 1])
    axes[0].semilogy(losses)
    axes[0].set(title="mean error of centres and sizes", xlabel="step")
    for axis, image, wanted, found in zip(axes[1:], images, truth, guesses, strict=False):
        axis.imshow(image.permute(1, 2, 0).clamp(0, 1))
        for boxes, style in ((wanted, "--"), (found, "-")):
            for kind, (x, y, width, height) in enumerate((SIDE * boxes).tolist()):
                corner = (x - width / 2 - 0.5, y - height / 2 - 0.5)  # imshow puts the centre of the first pixel at 0
                look = {"linestyle": style, "edgecolor": f"C{kind}", "linewidth": 2}
                axis.add_patch(pyplot.Rectangle(corner, width, height, fill=False, **look))
        axis.axis("off")
    axes[1].set_title("found (—) and true (- -)")
    figure.savefig(path, dpi=80)


def main(arguments: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/examples"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    detector, losses = train(options.steps)
    images, truth = draw(200, seed=10**6)
    with torch.no_grad():
        guesses = detector(images)
    plot(losses, images, truth, guesses, options.out / "detect_shapes.png")
    mean = overlap(guesses, truth).mean(0)
    overlaps = ", ".join(f"{kind} {value:.2f}" for kind, value in zip(KINDS, mean, strict=True))
    print(f"intersection over union on new pictures: {overlaps}; {options.out / 'detect_shapes.png'}")
    return losses


if __name__ == "__main__":
    main()
