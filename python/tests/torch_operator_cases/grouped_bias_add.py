# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import aclgrad.torch
import torch
from tensors import random

ENDS = torch.tensor([7, 7, 20])


def bias_arguments(dtype=torch.float32, ends=ENDS):
    x = random(22, 5, dtype=dtype) if ends is not None else random(3, 7, 5, dtype=dtype)
    return x, random(3, 5, dtype=dtype), ends


VARYING_AXES = {0: -1, 1: -1}
CALLS = {
    "bias": (aclgrad.torch.grouped_bias_add, bias_arguments),
    "bias, equal groups": (aclgrad.torch.grouped_bias_add, lambda *a: bias_arguments(*a, ends=None)),
}
