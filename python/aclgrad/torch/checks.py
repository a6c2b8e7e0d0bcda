# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What operators expect of their arguments, where no kernel runs that checks them: with fake and meta tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_INTEGERS = (torch.int32, torch.int64)


def message(function: str, argument: str, expected: str, got: Any) -> str:
    return f"aclgrad.{function}: {argument}: expected {expected}, got {got}"


def renamed(error: Exception, function: str, names: Mapping[str, str] | None = None) -> Exception:
    """What one of our functions raises, for another one that called it: with the name of that one and, where `names`
    has them, of its arguments."""
    parts = str(error).split(": ", 2)
    if len(parts) != 3 or not parts[0].startswith("aclgrad."):
        return error
    _, argument, text = parts
    for ours, theirs in (names or {}).items():
        argument = re.sub(rf"^{ours}\b", theirs, argument)
        text = text.replace(f", as {ours} is", f", as {theirs} is")
    return type(error)(f"aclgrad.{function}: {argument}: {text}")


def check_is_dense(function: str, argument: str, tensor: Tensor) -> None:
    if tensor.is_nested:
        got = "a nested one"
    elif tensor.is_quantized:
        got = f"a quantised one of {tensor.dtype}"
    elif tensor.layout != torch.strided:
        got = f"one of {tensor.layout}"
    else:
        return
    raise TypeError(message(function, argument, "a dense tensor", got))


def check_flag(function: str, argument: str, value: Any) -> bool:
    """A bool of Python or NumPy."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
        raise TypeError(message(function, argument, "a bool", repr(value)))
    return bool(value)


class Checks:
    """The checks of one call. Sizes may be symbols; what is not known of them yet is checked when the program runs."""

    def __init__(self, function: str) -> None:
        """Of a function of `aclgrad.torch`."""
        self._function = f"torch.{function}"

    def floats(self, **tensors: Tensor) -> None:
        """That all have the floating-point type and the device of the first."""
        for name, tensor in tensors.items():
            self._type(name, tensor, _FLOATS, "float32, float16, bfloat16 or float64")
        self.same_type(**tensors)
        self.same_device(**tensors)

    def same_type(self, **tensors: Tensor) -> None:
        first_name, first = next(iter(tensors.items()))
        for name, tensor in tensors.items():
            if tensor.dtype != first.dtype:
                self._refuse_type(name, f"{_type_name(first)}, as {first_name} is", _type_name(tensor))

    def no_double_on_gpu(self, name: str, tensor: Tensor) -> None:
        if tensor.is_cuda and tensor.dtype == torch.float64:
            self._refuse_type(name, "float32, float16 or bfloat16 on a GPU", "float64")

    def integers(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            self._type(name, tensor, _INTEGERS, "int32 or int64")

    def _type(self, name: str, tensor: Tensor, types: Sequence[torch.dtype], expected: str) -> None:
        if tensor.dtype not in (*_FLOATS, *_INTEGERS):
            self._refuse_type(name, expected, str(tensor.dtype))
        self.value(tensor.dim() <= 8, name, "at most 8 axes", tensor.dim())
        if tensor.dtype not in types:
            self._refuse_type(name, expected, _type_name(tensor))

    def same_device(self, **tensors: Tensor) -> None:
        first_name, first = next(iter(tensors.items()))
        for name, tensor in tensors.items():
            expected = f"a tensor on {first.device}, as {first_name} is"
            self.value(tensor.device == first.device, name, expected, f"one on {tensor.device}")

    def rank(self, name: str, tensor: Tensor, rank: int) -> None:
        expected = "1 axis" if rank == 1 else f"{rank} axes"
        self.value(tensor.dim() == rank, name, expected, f"shape {list(tensor.shape)}")

    def shape(self, name: str, tensor: Tensor, sizes: Sequence[Any]) -> None:
        expected = f"shape {list(sizes)}"
        self.value(tensor.dim() == len(sizes), name, expected, list(tensor.shape))
        for actual, size in zip(tensor.shape, sizes, strict=True):
            self.value(actual == size, name, expected, list(tensor.shape))

    def one_of(self, name: str, value: str, choices: Sequence[str]) -> None:
        *first, last = (repr(choice) for choice in choices)
        self.value(value in choices, name, f"{', '.join(first)} or {last}", repr(value))

    def value(self, passed: Any, name: str, expected: str, got: Any) -> None:
        torch._check_value(passed, lambda: message(self._function, name, expected, got))

    def _refuse_type(self, name: str, expected: str, got: str) -> None:
        raise TypeError(message(self._function, name, expected, got))


def _type_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
