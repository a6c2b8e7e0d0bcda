# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What is wrong with arguments, where no kernel runs that says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


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
