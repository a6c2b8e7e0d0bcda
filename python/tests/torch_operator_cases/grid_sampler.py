# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import aclgrad.torch
import torch
from tensors import random


def sample_arguments(dtype=torch.float32, mode="bilinear"):
    return random(2, 3, 5, 4, dtype=dtype), random(2, 3, 2, 2, dtype=dtype).tanh(), mode, "border", True


def volume_arguments(dtype=torch.float32, padding_mode="reflection"):
    volume, grid = random(2, 3, 3, 5, 4, dtype=dtype), random(2, 2, 3, 2, 3, dtype=dtype).tanh()
    return volume, grid, "bilinear", padding_mode, False


VARYING_AXES = {1: 1}
OPERATORS = {"sample a volume": "grid_sample_3d"}
CALLS = {
    "sample": (aclgrad.torch.grid_sample, sample_arguments),
    "sample a volume": (aclgrad.torch.grid_sample, volume_arguments),
    "sample, bicubic": (aclgrad.torch.grid_sample, lambda *a: sample_arguments(*a, mode="bicubic")),
}
