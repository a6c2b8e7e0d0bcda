# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Learns the compression weights of native sparse attention on text.

    python examples/python/compress_text.py [--steps 300] [--out build/examples]

A model of one layer predicts the next byte of the Python manual, which comes with Python. It sees the last 4 bytes one
by one, and what lies before as windows of 8 bytes, each compressed to one key and one value. The weights within a
window start equal; the plot compress_text.png shows what becomes of them, and the loss with weights that stay equal.
"""

import argparse
import pathlib
import pydoc_data.topics

import aclgrad.torch
import torch
from matplotlib import pyplot
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

BLOCK, STRIDE, NEAR, TOKENS = 8, 4, 4, 256


def text() -> Tensor:
    return torch.tensor(list("\n".join(pydoc_data.topics.topics.values()).encode()), dtype=torch.int64)


def batch(data: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """[size, TOKENS + 1]"""
    starts = torch.randint(len(data) - TOKENS - 1, (size,), generator=generator)
    return torch.stack([data[start : start + TOKENS + 1] for start in starts])


def visible() -> Tensor:
    """[TOKENS, TOKENS + windows]: the last bytes one by one, and windows that ended before them."""
    token = torch.arange(TOKENS)[:, None]
    near = torch.arange(TOKENS)[None]
    window_end = BLOCK + STRIDE * torch.arange((TOKENS - BLOCK) // STRIDE + 1)[None]
    return torch.cat([(near <= token) & (near > token - NEAR), window_end <= token - NEAR + 1], 1)


class Model(nn.Module):
    def __init__(self, learned: bool, heads: int = 4, channels: int = 96) -> None:
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(256, channels)
        self.position = nn.Parameter(torch.zeros(TOKENS, channels))
        self.attention = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, 3 * channels))
        self.output = nn.Linear(channels, channels)
        self.mix = nn.Sequential(
            nn.LayerNorm(channels), nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
        )
        self.predict = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, 256))
        equal = torch.full((BLOCK, heads), 1 / BLOCK)
        self.key_weights = nn.Parameter(equal.clone(), requires_grad=learned)
        self.value_weights = nn.Parameter(equal.clone(), requires_grad=learned)
        self.register_buffer("visible", visible())

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens [B, TOKENS] to logits of the next ones, [B, TOKENS, 256]."""
        x = self.embedding(tokens) + self.position
        query, key, value = self.attention(x).unflatten(-1, (3 * self.heads, -1)).chunk(3, 2)
        keys, values = self.with_windows(key, self.key_weights), self.with_windows(value, self.value_weights)
        query, keys, values = (array.transpose(1, 2) for array in (query, keys, values))
        found = F.scaled_dot_product_attention(query, keys, values, attn_mask=self.visible)
        x = x + self.output(found.transpose(1, 2).flatten(2))
        return self.predict(x + self.mix(x))

    @staticmethod
    def with_windows(array: Tensor, weights: Tensor) -> Tensor:
        """[B, TOKENS, heads, D] and behind them the compressed windows of each sequence."""
        ends = torch.arange(1, len(array) + 1) * TOKENS
        windows = aclgrad.torch.nsa_compress(array.flatten(0, 1), weights, ends, BLOCK, STRIDE)
        return torch.cat([array, windows.unflatten(0, (len(array), -1))], 1)


def train(learned: bool, data: Tensor, steps: int) -> tuple[Model, list[float]]:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Model(learned)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps)
    losses = []
    bar = tqdm(range(steps), unit="step", desc="learned weights" if learned else "equal weights")
    for _ in bar:
        tokens = batch(data, 16, generator)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        bar.set_postfix(loss=f"{losses[-1]:.3f}")
    return model, losses


def smooth(losses: list[float], width: int = 20) -> Tensor:
    width = min(width, len(losses))
    return torch.tensor(losses).unfold(0, width, 1).mean(1)


def plot(losses: dict[str, list[float]], model: Model, path: pathlib.Path) -> None:
    figure, axes = pyplot.subplots(1, 3, figsize=(14, 4), layout="constrained")
    for name, values in losses.items():
        axes[0].plot(smooth(values), label=f"{name} weights")
    axes[0].set(title="cross entropy, mean of 20 steps", xlabel="step")
    axes[0].legend()
    for axis, name in zip(axes[1:], ("key", "value"), strict=True):
        axis.plot(getattr(model, f"{name}_weights").detach(), marker=".")
        axis.axhline(1 / BLOCK, color="black", linewidth=0.8, label="equal weights, the start")
        axis.legend()
        axis.set(title=f"weights of {name}s, a line for each head", xlabel="byte of the window")
    figure.savefig(path, dpi=80)


def main(arguments: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/examples"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    data = text()
    _, equal = train(False, data, options.steps)
    model, learned = train(True, data, options.steps)
    plot({"equal": equal, "learned": learned}, model, options.out / "compress_text.png")
    print(
        f"cross entropy of the last steps: {smooth(equal)[-1]:.3f} with equal weights, "
        f"{smooth(learned)[-1]:.3f} with learned ones; {options.out / 'compress_text.png'}"
    )
    return learned


if __name__ == "__main__":
    main()
