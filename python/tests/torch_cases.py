"""Calls of the operators of aclgrad.torch."""

import aclgrad.torch
import torch

SHAPES = torch.tensor([[6, 4], [3, 2]])
STARTS = torch.tensor([0, 24])
ENDS = torch.tensor([7, 7, 20])


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def attention_arguments(dtype=torch.float32):
    locations = random(1, 3, 2, 2, 2, 2, dtype=dtype).sigmoid()
    return random(1, 30, 2, 4, dtype=dtype), SHAPES, STARTS, locations, random(1, 3, 2, 2, 2, dtype=dtype)


def compress_arguments(dtype=torch.float32, ends=ENDS):
    return random(20, 2, 3, dtype=dtype), random(4, 2, dtype=dtype), ends, 4, 2


def sample_arguments(dtype=torch.float32, mode="bilinear"):
    return random(2, 3, 5, 4, dtype=dtype), random(2, 3, 2, 2, dtype=dtype).tanh(), mode, "border", True


def bias_arguments(dtype=torch.float32, ends=ENDS):
    x = random(22, 5, dtype=dtype) if ends is not None else random(3, 7, 5, dtype=dtype)
    return x, random(3, 5, dtype=dtype), ends


CALLS = {
    "attention": (aclgrad.torch.multi_scale_deformable_attention, attention_arguments),
    "compress": (aclgrad.torch.nsa_compress, compress_arguments),
    "compress, one sequence": (aclgrad.torch.nsa_compress, lambda *a: compress_arguments(*a, ends=None)),
    "sample": (aclgrad.torch.grid_sample, sample_arguments),
    "sample, bicubic": (aclgrad.torch.grid_sample, lambda *a: sample_arguments(*a, mode="bicubic")),
    "bias": (aclgrad.torch.grouped_bias_add, bias_arguments),
    "bias, equal groups": (aclgrad.torch.grouped_bias_add, lambda *a: bias_arguments(*a, ends=None)),
}


def is_float(argument):
    return isinstance(argument, torch.Tensor) and argument.is_floating_point()


def with_gradients(arguments):
    return [a.clone().requires_grad_() if is_float(a) else a for a in arguments]


def gradients(function, arguments):
    """The result, and its gradients for all floating-point arguments."""
    arguments = with_gradients(arguments)
    result = function(*arguments)
    inputs = [a for a in arguments if is_float(a)]
    return [result, *torch.autograd.grad(result, inputs, random(*result.shape, dtype=result.dtype))]


def same_bits(actual, expected):
    return all(a.dtype == e.dtype and torch.equal(a, e) for a, e in zip(actual, expected, strict=True))
