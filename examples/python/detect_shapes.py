"""Trains a small detector with deformable attention on drawn shapes.

    python examples/python/detect_shapes.py [--steps 400] [--out build/examples]

Each picture holds a disc, a square and a triangle among noise. The detector has a query for each, which looks where its
last guess was: two layers of deformable attention over two feature maps, as in Deformable DETR's decoder. Writes
detect_shapes.png with the loss and with boxes on pictures that it has not seen.
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
        size, centre, color = uniform(0.2, 0.36, pictures), uniform(0.2, 0.8, 2, pictures), uniform(0.5, 1, pictures, 3, 1)
        x = ((pixels[None, None] - centre[0, :, None, None]) / size[:, None, None]).expand(-1, SIDE, -1)
        y = ((pixels[None, :, None] - centre[1, :, None, None]) / size[:, None, None]).expand(-1, -1, SIDE)
        inside = (
            x**2 + y**2 < 0.25,
            torch.maximum(x.abs(), y.abs()) < 0.5,
            (y.abs() < 0.5) & (x.abs() < (y + 0.5) / 2),
        )[kind]
        images = torch.where(inside[:, None], color[..., None], images)
        boxes[:, kind] = torch.stack([*centre, size, size], -1)
    return images, boxes


class DeformableLayer(nn.Module):
    """Queries gather samples around their boxes, and move these."""

    def __init__(self, channels: int, heads: int, levels: int, points: int) -> None:
        super().__init__()
        self.samples = (heads, levels, points)
        count = heads * levels * points
        self.value, self.output = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.offsets, self.weights = nn.Linear(channels, 2 * count), nn.Linear(channels, count)
        self.mix = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, channels), nn.GELU())
        self.move = nn.Linear(channels, 4)
        nn.init.normal_(self.offsets.bias, std=0.5)
        nn.init.zeros_(self.move.weight)
        nn.init.zeros_(self.move.bias)

    def forward(
        self, queries: Tensor, boxes: Tensor, maps: Tensor, shapes: Tensor, starts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Queries [B, Q, channels], boxes [B, Q, 4] as logits, maps [B, S, channels]: both moved on."""
        heads, levels, points = self.samples
        value = self.value(maps).unflatten(-1, (heads, -1))
        offsets = self.offsets(queries).unflatten(-1, (heads, levels, points, 2))
        weights = self.weights(queries).unflatten(-1, (heads, -1)).softmax(-1).unflatten(-1, (levels, points))
        box = boxes.sigmoid()[:, :, None, None, None]
        places = box[..., :2] + offsets * box[..., 2:]
        found = aclgrad.torch.multi_scale_deformable_attention(value, shapes, starts, places, weights)
        queries = queries + self.mix(queries + self.output(found))
        return queries, boxes + self.move(queries)


class Detector(nn.Module):
    def __init__(self, channels: int = 64, layers: int = 3) -> None:
        super().__init__()

        def halve(inputs: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(inputs, channels, 3, 2, 1), nn.GroupNorm(8, channels), nn.GELU())

        self.fine = nn.Sequential(halve(3), halve(channels))
        self.coarse = halve(channels)
        self.queries = nn.Parameter(torch.randn(len(KINDS), channels))
        self.boxes = nn.Parameter(torch.zeros(len(KINDS), 4))
        self.layers = nn.ModuleList(DeformableLayer(channels, 4, 2, 8) for _ in range(layers))

    def forward(self, images: Tensor) -> list[Tensor]:
        """The boxes after each layer, [B, 3, 4]."""
        fine = self.fine(images)
        maps = [fine, self.coarse(fine)]
        shapes = torch.tensor([level.shape[2:] for level in maps])
        starts = shapes.prod(1).cumsum(0) - shapes.prod(1)
        flat = torch.cat([level.flatten(2) for level in maps], 2).transpose(1, 2)
        queries, boxes = (p.expand(len(images), -1, -1) for p in (self.queries, self.boxes))
        guesses = []
        for layer in self.layers:
            queries, boxes = layer(queries, boxes, flat, shapes, starts)
            guesses.append(boxes.sigmoid())
        return guesses


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
        guesses = detector(images)
        loss = sum((guess - boxes).abs().mean() for guess in guesses) / len(guesses)
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
    axes[0].set(title="mean distance of box edges", xlabel="step")
    for axis, image, wanted, found in zip(axes[1:], images, truth, guesses, strict=False):
        axis.imshow(image.permute(1, 2, 0).clamp(0, 1))
        for boxes, style in ((wanted, "--"), (found, "-")):
            for kind, (x, y, width, height) in enumerate((SIDE * boxes - 0.5).tolist()):
                corner, size = (x - width / 2, y - height / 2), (width + 0.5, height + 0.5)
                axis.add_patch(pyplot.Rectangle(corner, *size, fill=False, linestyle=style, edgecolor=f"C{kind}", linewidth=2))
        axis.axis("off")
    axes[1].set_title("found (—) and true (- -)")
    figure.savefig(path, dpi=80)


def main(arguments: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/examples"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    detector, losses = train(options.steps)
    images, truth = draw(200, seed=10**6)
    with torch.no_grad():
        guesses = detector(images)[-1]
    plot(losses, images, truth, guesses, options.out / "detect_shapes.png")
    overlaps = ", ".join(f"{kind} {value:.2f}" for kind, value in zip(KINDS, overlap(guesses, truth).mean(0), strict=True))
    print(f"intersection over union on new pictures: {overlaps}; {options.out / 'detect_shapes.png'}")
    return losses


if __name__ == "__main__":
    main()
