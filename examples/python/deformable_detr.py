# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Trains a small Deformable DETR on drawn shapes, with the drop-in module `MultiScaleDeformableAttention`.

    python examples/python/deformable_detr.py [--steps 250] [--out build/examples]

Each picture holds one to three shapes. As in Deformable DETR, an encoder lets the pixels of two feature maps exchange
what they see, queries look for one object each, and training matches them with the objects that there are.
MSDeformAttnFunction is what repositories have, whose module is compiled from CUDA sources; here it comes with aclgrad
and runs on the CPU. Writes deformable_detr.png: boxes on pictures that training did not see, before and after it.
"""

import argparse
import itertools
import pathlib

import MultiScaleDeformableAttention as MSDA
import torch
from matplotlib import pyplot
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from tqdm import tqdm

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


class MSDeformAttnFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, spatial_shapes, level_start_index, sampling_locations, attention_weights, im2col_step):
        ctx.im2col_step = im2col_step
        ctx.save_for_backward(value, spatial_shapes, level_start_index, sampling_locations, attention_weights)
        return MSDA.ms_deform_attn_forward(*ctx.to_save, im2col_step)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        grads = MSDA.ms_deform_attn_backward(*ctx.saved_tensors, grad_output, ctx.im2col_step)
        return grads[0], None, None, grads[1], grads[2], None


class MSDeformAttn(nn.Module):
    """Each query gathers samples of all maps, at places around its own that it chooses."""

    def __init__(self, channels: int, heads: int = 4, levels: int = 2, points: int = 4) -> None:
        super().__init__()
        self.samples = (heads, levels, points)
        count = heads * levels * points
        self.sampling_offsets, self.attention_weights = nn.Linear(channels, 2 * count), nn.Linear(channels, count)
        self.value_proj, self.output_proj = nn.Linear(channels, channels), nn.Linear(channels, channels)
        nn.init.zeros_(self.sampling_offsets.weight)
        nn.init.normal_(self.sampling_offsets.bias)

    def forward(self, query: Tensor, places: Tensor, maps: Tensor, shapes: Tensor, starts: Tensor) -> Tensor:
        """Queries [B, Q, C] at places [B, Q, 2]; maps [B, S, C], one after the other."""
        heads, levels, points = self.samples
        value = self.value_proj(maps).unflatten(-1, (heads, -1))
        offsets = self.sampling_offsets(query).unflatten(-1, (heads, levels, points, 2))
        weights = self.attention_weights(query).unflatten(-1, (heads, -1)).softmax(-1)
        locations = places[:, :, None, None, None] + offsets / shapes.flip(1)[:, None]
        weights = weights.unflatten(-1, (levels, points))
        return self.output_proj(MSDeformAttnFunction.apply(value, shapes, starts, locations, weights, 64))


class Layer(nn.Module):
    """Of the encoder, where queries are the pixels, or of the decoder, where they look at each other first."""

    def __init__(self, channels: int, decodes: bool) -> None:
        super().__init__()
        self.among = nn.MultiheadAttention(channels, 4, batch_first=True) if decodes else None
        self.attention = MSDeformAttn(channels)
        self.network = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), nn.Linear(2 * channels, channels))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))

    def forward(self, query: Tensor, positions: Tensor, places: Tensor, *maps: Tensor) -> Tensor:
        if self.among is not None:
            seen = query + positions
            query = self.norms[0](query + self.among(seen, seen, query, need_weights=False)[0])
        query = self.norms[1](query + self.attention(query + positions, places, *maps))
        return self.norms[2](query + self.network(query))


class Detector(nn.Module):
    def __init__(self, channels: int = 64, side: int = 4, layers: int = 2) -> None:
        super().__init__()

        def halve(inputs: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(inputs, channels, 3, 2, 1), nn.GroupNorm(8, channels), nn.GELU())

        self.backbone = nn.ModuleList([nn.Sequential(halve(3), halve(channels), halve(channels)), halve(channels)])
        self.position = nn.Sequential(nn.Linear(2, channels), nn.GELU(), nn.Linear(channels, channels))
        self.encoder = Layer(channels, decodes=False)
        self.decoder = nn.ModuleList(Layer(channels, decodes=True) for _ in range(layers))
        self.queries = nn.Parameter(torch.randn(side**2, channels))
        self.places = nn.Parameter(centres(side, side))
        self.head = nn.Linear(channels, NOTHING + 1 + 4)

    def forward(self, images: Tensor) -> list[tuple[Tensor, Tensor]]:
        """What each layer of the decoder finds: scores of the classes [B, Q, 4], and boxes [B, Q, 4]."""
        maps = [images]
        for stage in self.backbone:
            maps.append(stage(maps[-1]))
        shapes = torch.tensor([level.shape[2:] for level in maps[1:]])
        starts = shapes.prod(1).cumsum(0) - shapes.prod(1)
        places = torch.cat([centres(*shape) for shape in shapes.tolist()]).expand(len(images), -1, -1)
        pixels = torch.cat([level.flatten(2) for level in maps[1:]], 2).transpose(1, 2)
        pixels = self.encoder(pixels, self.position(places), places, pixels, shapes, starts)
        places, queries = (t.expand(len(images), -1, -1) for t in (self.places, self.queries))
        found = []
        for layer in self.decoder:
            queries = layer(queries, self.position(places), places, pixels, shapes, starts)
            scores, moves, sizes = self.head(queries).split([NOTHING + 1, 2, 2], -1)
            boxes = torch.cat([places + 0.3 * moves.tanh(), sizes.sigmoid()], -1)
            found.append((scores, boxes))
            places = boxes[..., :2].detach()  # the next layer looks there
        return found


def match(scores: Tensor, boxes: Tensor, classes: Tensor, truth: Tensor) -> Tensor:
    """The query for each object, [B, OBJECTS]: of all ways to choose different ones, that of the least cost."""
    likely = scores.softmax(-1)[:, :, None].expand(-1, -1, OBJECTS, -1)
    wanted = classes[:, None, :, None].expand(-1, scores.shape[1], -1, -1)
    cost = 5 * torch.cdist(boxes, truth, 1) - likely.gather(-1, wanted)[..., 0]
    cost = torch.where(classes[:, None] == NOTHING, 0, cost)
    ways = torch.tensor(list(itertools.permutations(range(scores.shape[1]), OBJECTS)))
    return ways[sum(cost[:, ways[:, i], i] for i in range(OBJECTS)).argmin(1)]


def loss_of(scores: Tensor, boxes: Tensor, classes: Tensor, truth: Tensor) -> Tensor:
    with torch.no_grad():
        chosen = match(scores, boxes, classes, truth)
    targets = torch.full(scores.shape[:2], NOTHING).scatter(1, chosen, classes)
    weights = torch.tensor([1.0] * NOTHING + [0.2])
    errors = (boxes.gather(1, chosen[..., None].expand(-1, -1, 4)) - truth).abs().sum(-1)
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), weights) + 5 * errors[classes != NOTHING].mean()


def train(detector: Detector, steps: int, batch: int = 32) -> list[float]:
    optimizer = torch.optim.AdamW(detector.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps + 1)
    losses = []
    bar = tqdm(range(steps), unit="step")
    for step in bar:
        images, *truth = draw(batch, step)
        loss = sum(loss_of(*found, *truth) for found in detector(images))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(detector.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        bar.set_postfix(loss=f"{losses[-1]:.3f}")
    return losses


@torch.no_grad()
def test(detector: Detector, images: Tensor, classes: Tensor, truth: Tensor) -> tuple[Tensor, Tensor, float]:
    """What is found, and the share of objects with the right class and a centre at most a tenth of the picture off."""
    scores, boxes = detector(images)[-1]
    chosen = match(scores, boxes, classes, truth)
    named = scores.argmax(-1).gather(1, chosen) == classes
    off = (boxes.gather(1, chosen[..., None].expand(-1, -1, 4)) - truth)[..., :2].abs().amax(-1)
    return scores, boxes, (named & (off < 0.1))[classes != NOTHING].float().mean().item()


def plot(losses: list[float], images: Tensor, rows: dict[str, tuple], path: pathlib.Path) -> None:
    figure, axes = pyplot.subplots(2, 6, figsize=(17, 6), layout="constrained")
    for row, (title, (scores, boxes, share)) in zip(axes, rows.items(), strict=True):
        for axis, image, score, found in zip(row[1:], images, scores, boxes, strict=False):
            axis.imshow(image.permute(1, 2, 0).clamp(0, 1))
            axis.axis("off")
            for kind, (x, y, width, height) in zip(score.argmax(-1).tolist(), (SIDE * found).tolist(), strict=True):
                corner = (x - width / 2 - 0.5, y - height / 2 - 0.5)  # imshow puts the first pixel's centre at 0
                if kind != NOTHING:
                    box = pyplot.Rectangle(corner, width, height, fill=False, edgecolor=f"C{kind}", linewidth=2)
                    axis.add_patch(box)
                    axis.text(*corner, KINDS[kind], color=f"C{kind}", fontsize=8, clip_on=True)
        row[1].set_title(f"{title} training: {share:.0%} of 200 pictures' objects found", loc="left")
    axes[0, 0].plot(losses)
    axes[0, 0].set(title="loss", xlabel="step")
    axes[1, 0].axis("off")
    figure.savefig(path, dpi=80)


def main(arguments: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/examples"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(0)
    detector, path, unseen = Detector(), options.out / "deformable_detr.png", draw(200, seed=10**6)
    before = test(detector, *unseen)
    losses = train(detector, options.steps)
    after = test(detector, *unseen)
    plot(losses, unseen[0], {"before": before, "after": after}, path)
    print(f"objects found in new pictures: {before[-1]:.0%} before, {after[-1]:.0%} after training; {path}")
    return losses


if __name__ == "__main__":
    main()
