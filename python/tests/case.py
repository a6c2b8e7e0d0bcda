# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""A call of a function, with arrays that are exact in the type asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

import aclgrad
import aclgrad.reference
import ml_dtypes
import numpy

DTYPES = {
    "float32": numpy.dtype("float32"),
    "float16": numpy.dtype("float16"),
    "bfloat16": numpy.dtype(ml_dtypes.bfloat16),
    "float64": numpy.dtype("float64"),
}

# Relative error in the L2 norm that the kernels promise.
TOLERANCE = {"float32": 5e-6, "float16": 4e-4, "bfloat16": 3e-3, "float64": 1e-13}


@dataclasses.dataclass
class Case:
    """Arguments of a call by name. Floating-point arrays are float64 until `arguments` rounds them."""

    function: str
    floats: dict[str, Any]
    others: dict[str, Any]

    def arguments(self, dtype: str) -> dict[str, Any]:
        return {name: array.astype(DTYPES[dtype]) for name, array in self.floats.items()} | self.others

    def run(self, dtype: str, **changes: Any) -> tuple[Any, ...]:
        return as_tuple(getattr(aclgrad, self.function)(**(self.arguments(dtype) | changes)))

    def reference(self, dtype: str) -> tuple[Any, ...]:
        return as_tuple(getattr(aclgrad.reference, self.function)(**self.arguments(dtype)))


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def bits(result: Any) -> list[bytes]:
    return [numpy.asarray(array).tobytes() for array in as_tuple(result)]


def relative_error(actual: Any, expected: Any) -> float:
    difference = numpy.linalg.norm(actual.astype(numpy.float64).ravel() - expected.ravel())
    return float(difference / max(numpy.linalg.norm(expected.ravel()), 1e-300))


def twice(arguments: dict[str, Any], *names: str) -> dict[str, Any]:
    """With what the gradients of these are multiplied with in their own gradient."""
    generator = numpy.random.default_rng(1)
    return arguments | {f"grad_grad_{name}": generator.standard_normal(arguments[name].shape) for name in names}


def case(function: str, arguments: dict[str, Any], names: str, **attributes: Any) -> Case:
    floats, others = {}, dict(attributes)
    for name in names.split():
        value = arguments[name]
        is_float = isinstance(value, numpy.ndarray) and value.dtype == numpy.float64
        (floats if is_float else others)[name] = value
    return Case(function, floats, others)
