# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The references in double precision (src/ops/*/reference.h), called with tensors."""

import ctypes
import os

import torch

LIBRARY = ctypes.CDLL(os.environ["ACLGRAD_REFERENCE_LIBRARY"])


class Elements(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("count", ctypes.c_int64)]


def call(name, sizes, *tensors):
    """Calls reference_<name> with the sizes and the memory of double or int64 tensors, inputs before outputs."""
    for tensor in tensors:
        assert tensor.is_contiguous() and tensor.dtype in (torch.float64, torch.int64)
    elements = (Elements * len(tensors))(*((tensor.data_ptr(), tensor.numel()) for tensor in tensors))
    getattr(LIBRARY, "reference_" + name)((ctypes.c_int64 * len(sizes))(*sizes), elements)


def assert_equal(actual, expected):
    """Double arithmetic in another order: the last few bits may differ, relative to the largest element."""
    scale = max(expected.abs().max().item(), 1.0) if expected.numel() > 0 else 1.0
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-13 * scale)


def random(generator, *shape):
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def random_coordinates(generator, low, high, *shape):
    """Odd multiples of 1/2048 in [low, high). With sizes below 1024 their pixels are exact in float too.

    So the references, which compute coordinates in float, and PyTorch in double mean the same points. Odd multiples
    never hit the outer edge of the support, where the reference of deformable attention is stricter than PyTorch.
    """
    steps = torch.randint(int(low * 1024), int(high * 1024), shape, generator=generator)
    return (2 * steps + 1).to(torch.float64) / 2048


def second_gradients(generator, result, inputs, grad_output, **options):
    """PyTorch's gradients, gradients of those, and what they make of the gradient's arguments."""
    gradients = torch.autograd.grad(result, inputs, grad_output, create_graph=True, **options)
    grad_grads = [random(generator, *tensor.shape) for tensor in inputs]
    loss = sum((one * other).sum() for one, other in zip(gradients, grad_grads, strict=True))
    return gradients, grad_grads, torch.autograd.grad(loss, [grad_output, *inputs], **options)


def assert_all_equal(actual, expected):
    for ours, theirs in zip(actual, expected, strict=True):
        assert_equal(ours, theirs)
