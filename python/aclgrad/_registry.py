# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What is known of every function of `aclgrad`: `reference` and `verify` are made from it."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, Union, get_args, get_origin

import numpy


class SupportsDLPack(Protocol):
    def __dlpack__(self, *, stream: Any = None) -> Any: ...


Array: TypeAlias = Union[numpy.ndarray[Any, Any], SupportsDLPack, "memoryview[Any]"]
Indices: TypeAlias = Array | Sequence[int] | Sequence[Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Attribute:
    """A parameter that is no array. `type` makes its value from text."""

    name: str
    type: type
    default: Any = None  # None: it must be given
    choices: tuple[str, ...] = ()


_CHANGE_NO_VALUES = ("output_mask", "out")


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of `aclgrad`. Its signature says what its parameters are."""

    call: Callable[..., Any]
    outputs: tuple[str, ...]
    aclnn: tuple[str, ...]  # the functions of aclnn that compute the same

    @property
    def name(self) -> str:
        return self.call.__name__

    @cached_property
    def signature(self) -> inspect.Signature:
        """Without the parameters that change nothing in the values of the results."""
        signature = inspect.signature(self.call, eval_str=True)
        parameters = [p for name, p in signature.parameters.items() if name not in _CHANGE_NO_VALUES]
        return signature.replace(parameters=parameters)

    def _names(self, *annotations: Any) -> tuple[str, ...]:
        return tuple(name for name, p in self.signature.parameters.items() if p.annotation in annotations)

    @cached_property
    def floats(self) -> tuple[str, ...]:
        return self._names(Array, Array | None)

    @cached_property
    def optional_inputs(self) -> tuple[str, ...]:
        return self._names(Array | None, Indices | None)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        return self._names(Array, Array | None, Indices, Indices | None)

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        return tuple(self._attribute(p) for name, p in self.signature.parameters.items() if name not in self.inputs)

    def _attribute(self, parameter: inspect.Parameter) -> Attribute:
        kind = parameter.annotation
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        kind = str if choices else next(k for k in (bool, int, float) if k is kind or k in get_args(kind))
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        return Attribute(parameter.name, kind, default, choices)


FUNCTIONS: dict[str, Function] = {}

_Call = TypeVar("_Call", bound=Callable[..., Any])


def function(*outputs: str, aclnn: Sequence[str] = ()) -> Callable[[_Call], _Call]:
    """Makes a function one of `aclgrad`, whose results are called `outputs`, and which has the names `aclnn` there. Its
    floating-point arrays are annotated as `Array`, its others as `Indices`, with `| None` where they may be absent."""

    def register(call: _Call) -> _Call:
        FUNCTIONS[call.__name__] = Function(call, outputs, tuple(aclnn))
        return call

    return register


def as_numpy(function: str, name: str, array: Any) -> numpy.ndarray[Any, Any]:
    """A floating-point array of any library as one of NumPy, of its own type but for PyTorch's bfloat16."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        try:
            tensor = array.detach().resolve_neg().cpu()
            array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        except (TypeError, RuntimeError):  # its message is about PyTorch's inside
            kind = "nested" if array.is_nested else array.layout
            got = f"dtype {array.dtype}, layout {kind}, device {array.device}"
            raise _wrong_type(function, name, got) from None
    elif not isinstance(array, numpy.ndarray):
        try:
            if hasattr(array, "__array__"):  # JAX's bfloat16 comes by no other way
                array = numpy.asarray(array)
            else:
                array = numpy.from_dlpack(array) if hasattr(array, "__dlpack__") else numpy.asarray(memoryview(array))
        except (TypeError, BufferError, RuntimeError):
            raise _wrong_type(function, name, type(array).__name__) from None
    if isinstance(array, numpy.ma.MaskedArray):
        raise _wrong_type(function, name, "a masked array: fill it first")
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        raise _wrong_type(function, name, str(array.dtype))
    return array  # type: ignore[no-any-return]


def _wrong_type(function: str, name: str, got: str) -> TypeError:
    return TypeError(f"aclgrad.{function}: {name}: expected a floating-point array, got {got}")
