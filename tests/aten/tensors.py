# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors as memory of a call, and back."""

from collections.abc import Callable
from typing import Any

import torch
from library import FUNCTIONS, INT4, Answer, Call, Function, Memory

TYPES = {
    torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 6, torch.uint16: 7,
    torch.uint32: 8, torch.int64: 9, torch.uint64: 10, torch.float64: 11, torch.bool: 12, torch.complex64: 16,
    torch.complex128: 17, torch.bfloat16: 27, torch.complex32: 33,
}  # fmt: skip
GARBAGE = 0x5A


class Int4:
    """Small integers that a call gets as int4."""

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor


def contiguous(tensor: torch.Tensor) -> Memory:
    return memory(tensor.detach().contiguous())


def strided(tensor: torch.Tensor) -> Memory:
    """Every second element of its last axis, from the second on, its first two axes exchanged."""
    tensor = tensor.detach()
    if tensor.dim() == 0:
        return contiguous(tensor)
    turned = tensor.transpose(0, 1) if tensor.dim() > 1 else tensor
    wide = torch.full((*turned.shape[:-1], 2 * turned.shape[-1] + 1), 1, dtype=tensor.dtype)
    view = wide[..., 1::2]
    view.copy_(turned)
    return memory(view.transpose(0, 1) if tensor.dim() > 1 else view)


def memory(view: torch.Tensor) -> Memory:
    storage = bytearray(bytes(view.untyped_storage()))
    return Memory(
        storage, TYPES[view.dtype], view.element_size(), tuple(view.shape), view.stride(), view.storage_offset()
    )


def tensor_of(memory: Memory) -> torch.Tensor:
    dtype = next(dtype for dtype, number in TYPES.items() if number == memory.type)
    if not memory.storage:
        return torch.empty(memory.sizes, dtype=dtype)
    flat = torch.frombuffer(bytearray(memory.storage), dtype=dtype)
    return flat.as_strided(memory.sizes, memory.strides, memory.offset)


def as_int4(memory: Memory) -> Memory:
    flat = torch.frombuffer(memory.storage + b"\0" * (len(memory.storage) % 2), dtype=torch.uint8).reshape(-1, 2) & 15
    return Memory(bytearray(bytes(flat[:, 0] | flat[:, 1] << 4)), INT4, 1, memory.sizes, memory.strides, memory.offset)


def output_like(result: torch.Tensor, layout: Callable[[torch.Tensor], Memory], room: int = 0) -> Memory:
    made = layout(result.new_zeros((result.shape[0] + room, *result.shape[1:]) if room else result.shape))
    made.storage[:] = bytes([GARBAGE % 2 if result.dtype == torch.bool else GARBAGE]) * len(made.storage)
    return made


def untouched(before: Memory, after: Memory) -> bool:
    """Whether nothing was written between the elements of the view."""
    if before.type == INT4 or before.sizes != after.sizes:
        return True
    first, second = bytearray(before.storage), bytearray(after.storage)
    for storage in (first, second):
        if storage:
            flat = torch.frombuffer(storage, dtype=torch.uint8).reshape(-1, before.item)
            places = torch.arange(len(flat)).as_strided(before.sizes, before.strides, before.offset)
            flat[places.reshape(-1)] = 0
    return first == second


def plain(value: Any, kind: str, layout: Callable[[torch.Tensor], Memory]) -> Any:
    """A value of PyTorch as an argument of this kind; raises TypeError where it is none."""
    real = (bool, int, float)
    is_list = isinstance(value, (list, tuple))
    values = list(value) if is_list else [value]
    if value is None and kind in "TLsIFBc":
        return None
    if kind == "T" and isinstance(value, (torch.Tensor, *real)):
        return layout(value if isinstance(value, torch.Tensor) else torch.tensor([value]))
    if kind == "T" and isinstance(value, Int4):
        return as_int4(contiguous(value.tensor))
    if kind == "L" and is_list and all(isinstance(v, torch.Tensor) for v in values):
        return [layout(v) for v in values]
    if kind == ("S" if is_list else "s") and all(isinstance(v, (*real, complex)) for v in values):
        return values if is_list else value
    if kind in "IFB" and all(isinstance(v, real) for v in values) and (kind == "F" or float not in map(type, values)):
        return values
    if kind in ("t", "t32", "t64") and value in TYPES:
        return TYPES[value]
    if kind == "c" and isinstance(value, str):
        return value
    if kind in "fd" and isinstance(value, real):
        return float(value)
    if kind in ("i", "i32", "i8", "u", "b") and isinstance(value, (bool, int)) and -(2**63) <= int(value) < 2**63:
        return int(value)
    raise TypeError(f"no {kind}: {value!r}")


def call_of(function: Function, arguments: dict[str, Any], results: list[Any], layout: Any) -> Call:
    """The arguments that are no outputs are given; parameters that the mathematics does not use are set to anything."""
    outputs = iter(results)
    values = {}
    for p in function.parameters:
        if p.role in ("output", "sized_by_data"):
            result = next(outputs, None)
            room = 3 if p.role == "sized_by_data" and result is not None and result.numel() else 0
            if isinstance(result, (list, tuple)):
                values[p.name] = [output_like(r, layout) for r in result]
            else:
                values[p.name] = None if result is None else output_like(result, layout, room)
        elif p.name in arguments:
            values[p.name] = plain(arguments[p.name], p.kind, layout)
        elif p.kind == "T" and not p.optional:
            values[p.name] = layout(torch.zeros(1))
        elif p.kind == "I" and not p.optional:
            values[p.name] = []
        else:
            values[p.name] = None if p.kind in "TLsIc" else 0
    return Call(function.name, values)


def call_with(name: str, *values: Any) -> Call:
    """With all arguments in their order, outputs too. Tensors that share memory share it in the call, too."""
    storages: dict[int, bytearray] = {}

    def layout(view: torch.Tensor) -> Memory:
        made = memory(view)
        made.storage = storages.setdefault(view.untyped_storage().data_ptr(), made.storage)
        return made

    def made(value: Any, kind: str) -> Any:
        return value if isinstance(value, Memory) else plain(value, kind, layout)

    parameters = FUNCTIONS[name].parameters
    return Call(name, {p.name: made(v, p.kind) for p, v in zip(parameters, values, strict=True)})


def written(function: Function, answer: Answer) -> list[Any]:
    """What the call has written: its outputs, and where it has none, what it has changed in place."""
    for roles in ({"output", "sized_by_data"}, {"in_place"}):
        found = [answer.values[p.name] for p in function.parameters if p.role in roles]
        if found:
            return [[tensor_of(m) for m in f] if isinstance(f, list) else f and tensor_of(f) for f in found]
    raise AssertionError(f"{function.name} has no results")
