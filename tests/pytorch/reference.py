# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The references in double precision (src/ops/*/reference.h), called with tensors."""

import ctypes
import os

import torch

LIBRARY = ctypes.CDLL(os.environ["ACLGRAD_REFERENCE_LIBRARY"])


def call(name, sizes, *tensors):
    """Calls reference_<name> with an array of the sizes, then with the memory of double or int64 tensors."""
    for tensor in tensors:
        assert tensor.is_contiguous() and tensor.dtype in (torch.float64, torch.int64)
    getattr(LIBRARY, "reference_" + name)(
        (ctypes.c_int64 * len(sizes))(*sizes), *(ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors)
    )


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
