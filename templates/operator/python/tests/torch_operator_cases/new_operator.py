# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import aclgrad.torch
import torch
from tensors import random


def factors(dtype=torch.float32):
    return random(4, 5, dtype=dtype), random(4, 5, dtype=dtype).tanh()


VARYING_AXES = {0: 0, 1: 0}
CALLS = {"new_operator": (aclgrad.torch.new_operator, factors)}
