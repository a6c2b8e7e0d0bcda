# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What tests of the PyTorch interface make of tensors."""

import collections
import contextlib

import torch


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def is_float(argument):
    return isinstance(argument, torch.Tensor) and argument.is_floating_point()


def tensors_of(arguments):
    return tuple(a for a in arguments if isinstance(a, torch.Tensor))


class CallOf(torch.nn.Module):
    """A function of the tensors among these arguments, which come first."""

    def __init__(self, function, arguments=()):
        super().__init__()
        self.function, self.others = function, [a for a in arguments if not isinstance(a, torch.Tensor)]

    def forward(self, *tensors):
        return self.function(*tensors, *self.others)


def with_gradients(arguments):
    return [a.clone().requires_grad_() if is_float(a) else a for a in arguments]


def gradients(function, arguments):
    """The result, and its gradients for all floating-point arguments."""
    arguments = with_gradients(arguments)
    result = function(*arguments)
    inputs = [a for a in arguments if is_float(a)]
    grad_output = random(*result.shape, dtype=result.dtype).to(result.device)
    return [result, *torch.autograd.grad(result, inputs, grad_output)]


def same_bits(actual, expected):
    return all(a.dtype == e.dtype and torch.equal(a, e) for a, e in zip(actual, expected, strict=True))


@contextlib.contextmanager
def counted():
    """How often each of our operators is called, at the end of the `with` statement."""
    calls = collections.Counter()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        yield calls
    for event in profile.key_averages():
        if event.key.startswith("aclgrad::"):
            calls[event.key.removeprefix("aclgrad::")] += event.count
