# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import aclgrad.torch
import torch
from tensors import random

SHAPES = torch.tensor([[6, 4], [3, 2]])
STARTS = torch.tensor([0, 24])


def attention_arguments(dtype=torch.float32):
    locations = random(1, 3, 2, 2, 2, 2, dtype=dtype).sigmoid()
    return random(1, 30, 2, 4, dtype=dtype), SHAPES, STARTS, locations, random(1, 3, 2, 2, 2, dtype=dtype)


VARYING_AXES = {3: 1, 4: 1}
CALLS = {"attention": (aclgrad.torch.multi_scale_deformable_attention, attention_arguments)}
