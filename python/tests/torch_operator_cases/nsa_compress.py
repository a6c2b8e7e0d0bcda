# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import aclgrad.torch
import torch
from tensors import random

ENDS = torch.tensor([7, 7, 20])


def compress_arguments(dtype=torch.float32, ends=ENDS):
    return random(20, 2, 3, dtype=dtype), random(4, 2, dtype=dtype), ends, 4, 2


VARYING_AXES = {0: 2}
CALLS = {
    "compress": (aclgrad.torch.nsa_compress, compress_arguments),
    "compress, one sequence": (aclgrad.torch.nsa_compress, lambda *a: compress_arguments(*a, ends=None)),
}
