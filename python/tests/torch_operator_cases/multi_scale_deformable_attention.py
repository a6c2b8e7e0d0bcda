# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import aclgrad.torch
import torch
from tensors import random

SHAPES = torch.tensor([[6, 4], [3, 2]])
STARTS = torch.tensor([0, 24])


def attention_arguments(dtype=torch.float32):
    locations = random(1, 3, 2, 2, 2, 2, dtype=dtype).sigmoid()
    return random(1, 30, 2, 4, dtype=dtype), SHAPES, STARTS, locations, random(1, 3, 2, 2, 2, dtype=dtype)


def extremes(dtype):
    """Locations far outside, beside near ones; and a level of more columns than float has numbers for."""
    value, shapes, starts, locations, weights = attention_arguments(dtype)
    far = [(value, shapes, starts, locations * factor, weights) for factor in (1e3, 1e8, 1e16, 1e30)]
    yield aclgrad.torch.multi_scale_deformable_attention, (value, shapes, starts, locations, weights), far
    if dtype == torch.float32:
        columns = 2**24 + 6
        row = random(1, columns, 1, 1), torch.tensor([[1, columns]]), torch.tensor([0])
        samples = random(1, 200, 1, 1, 1, 2).sigmoid(), random(1, 200, 1, 1, 1)
        yield aclgrad.torch.multi_scale_deformable_attention, (*row, *samples), []


VARYING_AXES = {3: 1, 4: 1}
CALLS = {"attention": (aclgrad.torch.multi_scale_deformable_attention, attention_arguments)}
