# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Trains deformable attention on several processes with PyTorch's DistributedDataParallel.

    torchrun --standalone --nproc-per-node 2 examples/python/distributed.py

Each process takes its share of every batch; gloo averages the gradients. Run without torchrun, one process takes all of
it, and prints the same losses.
"""

import argparse
import os

import aclgrad.torch
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

SHAPES = torch.tensor([[16, 16], [8, 8]])
STARTS = torch.tensor([0, 256])


class Attention(nn.Module):
    """Deformable attention whose places and weights come from the queries, as in Deformable DETR."""

    def __init__(self, channels: int = 32, heads: int = 4, points: int = 4) -> None:
        super().__init__()
        self.shape = (heads, len(SHAPES), points)
        samples = heads * len(SHAPES) * points
        self.value = nn.Linear(channels, channels)
        self.places = nn.Linear(channels, 2 * samples)
        self.weights = nn.Linear(channels, samples)
        self.output = nn.Linear(channels, 1)

    def forward(self, maps: Tensor, queries: Tensor) -> Tensor:
        """Maps [B, S, channels] and queries [B, Q, channels] to one number for each query, [B, Q]."""
        value = self.value(maps).unflatten(-1, (self.shape[0], -1))
        places = self.places(queries).sigmoid().unflatten(-1, (*self.shape, 2))
        weights = self.weights(queries).unflatten(-1, (self.shape[0], -1)).softmax(-1)
        weights = weights.unflatten(-1, self.shape[1:])
        samples = aclgrad.torch.multi_scale_deformable_attention(value, SHAPES, STARTS, places, weights)
        return self.output(samples).squeeze(-1)


BATCH = 4


def batch(step: int, size: int = BATCH, queries: int = 20, channels: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Noisy maps of one brightness each, which each query is to find."""
    generator = torch.Generator().manual_seed(step)
    brightness = torch.randn(size, 1, 1, generator=generator)
    maps = brightness + 0.5 * torch.randn(size, int(SHAPES.prod(1).sum()), channels, generator=generator)
    return maps, torch.randn(size, queries, channels, generator=generator), brightness[:, 0].expand(size, queries)


def train(steps: int) -> tuple[list[float], list[Tensor]]:
    """Losses, and the gradients of the last step. The model is the same on all processes."""
    rank, processes = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if _distributed() else (0, 1)
    if BATCH % processes != 0:
        raise SystemExit(f"A batch of {BATCH} cannot be shared equally by {processes} processes.")
    torch.manual_seed(0)
    model = Attention()
    trained = DistributedDataParallel(model) if processes > 1 else model
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for step in range(steps):
        maps, queries, targets = (tensor.chunk(processes)[rank] for tensor in batch(step))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(trained(maps, queries), targets)
        loss.backward()
        optimizer.step()
        losses.append(_mean(loss.detach(), processes))
    return losses, [parameter.grad for parameter in model.parameters()]


def _distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _mean(loss: Tensor, processes: int) -> float:
    if processes > 1:
        torch.distributed.all_reduce(loss)
    return float(loss) / processes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    if "RANK" in os.environ:  # set by torchrun
        torch.distributed.init_process_group("gloo")
    losses, _ = train(arguments.steps)
    if not _distributed() or torch.distributed.get_rank() == 0:
        for step in range(0, len(losses), max(1, len(losses) // 10)):
            print(f"step {step:4}  loss {losses[step]:.6f}")
        print(f"last       loss {losses[-1]:.6f}")
    if _distributed():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
