import aclgrad.torch
import torch
from tensors import random


def sample_arguments(dtype=torch.float32, mode="bilinear"):
    return random(2, 3, 5, 4, dtype=dtype), random(2, 3, 2, 2, dtype=dtype).tanh(), mode, "border", True


VARYING_AXES = {1: 1}
CALLS = {
    "sample": (aclgrad.torch.grid_sample, sample_arguments),
    "sample, bicubic": (aclgrad.torch.grid_sample, lambda *a: sample_arguments(*a, mode="bicubic")),
}
