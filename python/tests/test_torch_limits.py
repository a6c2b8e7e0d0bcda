# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What a kernel refuses by a type, a shape or an attribute, the operator refuses in the same words without one: each
argument of each operator is changed in all ways, for tensors with memory, for fake ones and on the device "meta"."""

import logging
import re

import pytest

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.symbolic_shapes import ShapeEnv  # noqa: E402
from torch_cases import CALLS, gradient_calls  # noqa: E402

HUGE = 2**40
TYPES = (
    "uint8 int8 int16 uint16 uint32 uint64 int32 int64 float16 bfloat16 float32 float64 bool complex32 complex64 "
    "complex128 float8_e4m3fn float8_e5m2 float8_e8m0fnu"
).split()
if torch.__version__ < "2.12":  # whose C interface has no name for it
    TYPES.remove("float8_e8m0fnu")


def all_calls():
    calls = {name: (function, make()) for name, (function, make) in CALLS.items()}
    for name, (operator, arguments) in gradient_calls().items():
        if name.startswith("compress"):  # with ends, their contents decide the shape of the gradient
            arguments = [None if i == 3 else a for i, a in enumerate(arguments)]
            arguments[0] = torch.ones(9, 2, 3)
        calls[f"gradient of {name}"] = operator, arguments
    return calls


def changes_of(value):
    if isinstance(value, torch.Tensor):
        for name in TYPES:
            yield name, value.to(getattr(torch, name))
        for axis, size in enumerate(value.shape):
            one = value.narrow(axis, 0, 1)
            yield f"one more of axis {axis}", torch.cat([value, one], axis)
            yield f"one less of axis {axis}", value.narrow(axis, 1, size - 1)
            yield f"none of axis {axis}", value.narrow(axis, 0, 0)
            yield f"huge axis {axis}", one.expand(*value.shape[:axis], HUGE, *value.shape[axis + 1 :])
            yield f"no axis {axis}", value.select(axis, 0)
        yield "one axis more", value[None]
        yield "nine axes", value.reshape(*[1] * (9 - value.dim()), *value.shape)
        yield "no axes", value.flatten()[0]
    elif isinstance(value, bool):
        yield "1", 1
        yield "no", "no"
    elif isinstance(value, int):
        for number in (-(2**63), -1, 0, 2**53 - 1, 2**53, 2**60, 2**63 - 1):
            yield str(number), number
    elif isinstance(value, str):
        for text in ("", "wrong", f"{value}\0x", "\udcff", "\N{LATIN SMALL LETTER U WITH DIAERESIS}"):
            yield ascii(text), text


def refusal(call, arguments):
    """Type and text, or None."""
    try:
        call(*arguments)
    except (TypeError, ValueError, RuntimeError) as error:
        return type(error), str(error)
    return None


def refusal_of_fake(call, arguments):
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        return refusal(call, [mode.from_tensor(a, static_shapes=True) if torch.is_tensor(a) else a for a in arguments])


OF_CONTENTS = re.compile(r"\w+\[\d+\]: expected|as its last entry, the number of tokens")
OF_MEMORY = re.compile("no memory for a tensor|bad_alloc")
OF_PLACE = "in the memory of the CPU"


@pytest.mark.parametrize("name", all_calls())
def test_every_limit_is_said_without_memory_too(name, caplog):
    caplog.set_level(logging.CRITICAL)  # PyTorch logs each error of a fake tensor
    call, right = all_calls()[name]
    assert refusal(call, right) is refusal_of_fake(call, right) is None
    refused = 0
    for position, value in enumerate(right):
        for change, changed in changes_of(value):
            arguments = [changed if i == position else a for i, a in enumerate(right)]
            real = refusal(call, arguments)
            if real is not None and (OF_CONTENTS.search(real[1]) or OF_MEMORY.search(real[1])):
                continue
            assert refusal_of_fake(call, arguments) == real, f"argument {position}: {change}"
            if real is not None:
                on_meta = refusal(call, [a.to("meta") if torch.is_tensor(a) else a for a in arguments])
                assert on_meta == real or OF_PLACE in on_meta[1], f"argument {position}: {change}"
                refused += 1
                # PyTorch itself checks the kinds of the arguments of torch.ops.aclgrad.
                assert re.match(r"aclgrad\.torch\.\w+: \w+: expected |aclgrad::", real[1]), real[1]
    assert refused > 20
