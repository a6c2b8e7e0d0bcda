# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What the tests of `aclgrad.torch.patch` share: small calls that go to our kernels, and GPUs that are not there."""

import pytest

torch = pytest.importorskip("torch")
import aclgrad.torch  # noqa: E402
from aclgrad.torch import patches  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402


@pytest.fixture(autouse=True)
def unpatched():
    yield
    aclgrad.torch.unpatch()


IS_FASTER = patches._is_faster


@pytest.fixture(autouse=True)
def small_calls_are_ours(monkeypatch):
    """As tests are small, which `grid_sample` leaves to PyTorch."""
    monkeypatch.setattr(patches, "_is_faster", lambda *arguments: True)


@pytest.fixture
def rule_of_speed(small_calls_are_ours, monkeypatch):
    monkeypatch.setattr(patches, "_is_faster", IS_FASTER)


_generator = torch.Generator().manual_seed(0)
IMAGE = torch.randn(2, 3, 8, 9, generator=_generator)
GRID = torch.rand(2, 4, 5, 2, generator=_generator) * 2 - 1
VOLUME, VOLUME_GRID = torch.randn(1, 2, 3, 4, 5, generator=_generator), torch.rand(1, 2, 3, 4, 3, generator=_generator)


def levels_and_points(dtype=torch.float32):
    """Arguments with 3, 6 and 3 points in three levels, all of which require gradients."""
    torch.manual_seed(0)
    shapes = [(8, 12), (4, 6), (2, 3)]
    value = torch.randn(2, 126, 4, 8, dtype=dtype)
    locations = torch.rand(2, 10, 4, 12, 2, dtype=dtype) * 1.2 - 0.1
    return shapes, [tensor.requires_grad_() for tensor in (value, locations, torch.rand(2, 10, 4, 12, dtype=dtype))]


@pytest.fixture
def calls_on_gpus(monkeypatch):
    """As if there were one GPU: its fake tensors, and the calls of our functions, whose arguments are all there."""
    calls = []

    def count(function):
        def replacement(*arguments):
            tensors = [a for a in arguments if torch.is_tensor(a)]
            assert {tensor.device for tensor in tensors} == {torch.device("cuda:0")}
            calls.append(function.__name__)
            return function(*arguments)

        return replacement

    monkeypatch.setattr(patches, "_gpu_count", lambda: 1)
    for name in ("grid_sample", "multi_scale_deformable_attention"):
        monkeypatch.setattr(patches, name, count(getattr(patches, name)))
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield calls


def on_gpu(*tensors, index=0):
    return [torch.empty_like(tensor, device=f"cuda:{index}") for tensor in tensors]
