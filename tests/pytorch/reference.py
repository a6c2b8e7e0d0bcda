# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The references in double precision (src/ops/*/reference.h), as the Python package has them."""

import torch
from aclgrad import _core


def call(name, *arguments):
    """The results of a function of the package's extension, as a list."""
    detached = (a.detach() if isinstance(a, torch.Tensor) else a for a in arguments)
    results = getattr(_core, name)(*detached)
    return list(results) if isinstance(results, tuple) else [results]


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
