"""The functions of aclgrad by their definition: plain loops in double precision, to hold fast code against.

Arguments are those of the functions of the same names in `aclgrad`, without `needs` and `out`: arrays of any
floating-point types, which need not be the same and are widened first, of any library and device, with or without a
gradient. Results are new float64 NumPy arrays.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy

from . import Array, GroupKind, Indices, Mode, PaddingMode, _core

__all__ = [
    "grid_sample",
    "grid_sample_backward",
    "grouped_bias_add",
    "grouped_bias_add_backward",
    "msda_backward",
    "msda_forward",
    "nsa_compress",
    "nsa_compress_backward",
]


def as_numpy(function: str, name: str, array: Any) -> numpy.ndarray[Any, Any]:
    """A floating-point array of any library as one of NumPy, of its own type but for PyTorch's bfloat16."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        tensor = array.detach().resolve_neg().cpu()
        array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    elif not isinstance(array, numpy.ndarray):
        try:
            array = numpy.from_dlpack(array) if hasattr(array, "__dlpack__") else numpy.asarray(memoryview(array))
        except (TypeError, BufferError):
            raise _wrong_type(function, name, type(array).__name__) from None
    if isinstance(array, numpy.ma.MaskedArray):
        raise _wrong_type(function, name, "a masked array: fill it first")
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        raise _wrong_type(function, name, str(array.dtype))
    return array  # type: ignore[no-any-return]


def _wrong_type(function: str, name: str, got: str) -> TypeError:
    return TypeError(f"aclgrad.{function}: {name}: expected a floating-point array, got {got}")


def _widened(function: str, **arrays: Any) -> tuple[Any, ...]:
    """The arrays in float64, and whether the first was so before."""
    as_they_are = [as_numpy(f"reference.{function}", name, array) for name, array in arrays.items()]
    return *(array.astype(numpy.float64, copy=False) for array in as_they_are), as_they_are[0].dtype == numpy.float64


def msda_forward(
    value: Array,
    spatial_shapes: Indices,
    level_start_index: Indices,
    sampling_locations: Array,
    attention_weights: Array,
) -> numpy.ndarray[Any, Any]:
    """See `aclgrad.msda_forward`. Positions are computed in float32 unless the arrays are float64."""
    value, locations, weights, is_double = _widened(
        "msda_forward", value=value, sampling_locations=sampling_locations, attention_weights=attention_weights
    )
    return _core.reference_msda_forward(value, spatial_shapes, level_start_index, locations, weights, is_double)


def msda_backward(
    grad_output: Array,
    value: Array,
    spatial_shapes: Indices,
    level_start_index: Indices,
    sampling_locations: Array,
    attention_weights: Array,
) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """See `aclgrad.msda_backward`. Positions are computed in float32 unless the arrays are float64."""
    value, locations, weights, grad_output, is_double = _widened(
        "msda_backward",
        value=value,
        sampling_locations=sampling_locations,
        attention_weights=attention_weights,
        grad_output=grad_output,
    )
    return _core.reference_msda_backward(
        grad_output, value, spatial_shapes, level_start_index, locations, weights, is_double
    )


def nsa_compress(x: Array, weight: Array, seq_ends: Indices | None, block: int, stride: int) -> numpy.ndarray[Any, Any]:
    """See `aclgrad.nsa_compress`."""
    *arrays, _ = _widened("nsa_compress", x=x, weight=weight)
    return _core.nsa_compress("seq_ends", *arrays, seq_ends, block, stride, None)


def nsa_compress_backward(
    grad_output: Array, x: Array, weight: Array, seq_ends: Indices | None, block: int, stride: int
) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """See `aclgrad.nsa_compress_backward`."""
    *arrays, _ = _widened("nsa_compress_backward", grad_output=grad_output, x=x, weight=weight)
    return _core.nsa_compress_backward("seq_ends", *arrays, seq_ends, block, stride, (True, True), None)


def grid_sample(
    input: Array,
    grid: Array,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
) -> numpy.ndarray[Any, Any]:
    """See `aclgrad.grid_sample`. Positions are computed in float32 unless the arrays are float64."""
    input, grid, is_double = _widened("grid_sample", input=input, grid=grid)
    return _core.reference_grid_sample(input, grid, mode, padding_mode, align_corners, is_double)


def grid_sample_backward(
    grad_output: Array,
    input: Array,
    grid: Array,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """See `aclgrad.grid_sample_backward`. Positions are computed in float32 unless the arrays are float64."""
    input, grid, grad_output, is_double = _widened(
        "grid_sample_backward", input=input, grid=grid, grad_output=grad_output
    )
    return _core.reference_grid_sample_backward(grad_output, input, grid, mode, padding_mode, align_corners, is_double)


def grouped_bias_add(
    x: Array, bias: Array, group_ends: Indices | None = None, *, kind: GroupKind = "ends"
) -> numpy.ndarray[Any, Any]:
    """See `aclgrad.grouped_bias_add`."""
    *arrays, _ = _widened("grouped_bias_add", x=x, bias=bias)
    return _core.grouped_bias_add(*arrays, group_ends, kind, None)


def grouped_bias_add_backward(
    grad_y: Array, group_ends: Indices | None = None, kind: GroupKind = "ends"
) -> numpy.ndarray[Any, Any]:
    """See `aclgrad.grouped_bias_add_backward`."""
    *arrays, _ = _widened("grouped_bias_add_backward", grad_y=grad_y)
    return _core.grouped_bias_add_backward(*arrays, group_ends, kind, None)
