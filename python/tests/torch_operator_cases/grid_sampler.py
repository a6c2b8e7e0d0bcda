# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import itertools

import aclgrad.torch
import torch
from tensors import random


def sample_arguments(dtype=torch.float32, mode="bilinear"):
    return random(2, 3, 5, 4, dtype=dtype), random(2, 3, 2, 2, dtype=dtype).tanh(), mode, "border", True


def volume_arguments(dtype=torch.float32, padding_mode="reflection"):
    volume, grid = random(2, 3, 2, 4, 3, dtype=dtype), random(2, 2, 3, 2, 3, dtype=dtype).tanh()
    return volume, grid, "bilinear", padding_mode, False


def extremes(dtype):
    """Places far outside, beside near ones; and rows of more pixels than float has numbers for."""
    for sides, modes in ((5, 7), ("bilinear", "nearest", "bicubic")), ((3, 5, 7), ("bilinear", "nearest")):
        ones = (1,) * (len(sides) - 1)
        image, grid = random(1, 2, *sides, dtype=dtype), random(1, 200, *ones, len(sides), dtype=dtype)
        for attributes in itertools.product(modes, ("zeros", "border", "reflection"), (False, True)):
            far = [(image, grid * factor, *attributes) for factor in (1e3, 1e6, 1e7, 1e8, 1e12, 1e16, 1e20, 1e30)]
            yield aclgrad.torch.grid_sample, (image, grid, *attributes), far
        if dtype == torch.float32:
            row = random(1, 1, *ones, 2**25)
            for mode, padding_mode in ("bilinear", "reflection"), (modes[-1], "border"):
                yield aclgrad.torch.grid_sample, (row, grid.tanh(), mode, padding_mode, False), []


VARYING_AXES = {1: 1}
OPERATORS = {"sample a volume": "grid_sample_3d"}
CALLS = {
    "sample": (aclgrad.torch.grid_sample, sample_arguments),
    "sample a volume": (aclgrad.torch.grid_sample, volume_arguments),
    "sample, bicubic": (aclgrad.torch.grid_sample, lambda *a: sample_arguments(*a, mode="bicubic")),
}
