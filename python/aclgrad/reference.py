"""The functions of aclgrad by their definition: plain loops in double precision, to hold fast code against.

Arguments are those of the functions of the same names in `aclgrad`, of any floating-point types, which are widened
first; results are new float64 NumPy arrays.
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


def _widened(array: Any) -> numpy.ndarray[Any, Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        array = array.detach().double().numpy()
    return numpy.asarray(array).astype(numpy.float64, copy=False)


def _is_double(array: Any) -> bool:
    return str(array.dtype).endswith("float64")


def msda_forward(
    value: Array,
    spatial_shapes: Indices,
    level_start_index: Indices,
    sampling_locations: Array,
    attention_weights: Array,
) -> numpy.ndarray[Any, Any]:
    """See `aclgrad.msda_forward`. Positions are computed in float32 unless the arrays are float64."""
    return _core.reference_msda_forward(
        _widened(value),
        spatial_shapes,
        level_start_index,
        _widened(sampling_locations),
        _widened(attention_weights),
        _is_double(value),
    )


def msda_backward(
    grad_output: Array,
    value: Array,
    spatial_shapes: Indices,
    level_start_index: Indices,
    sampling_locations: Array,
    attention_weights: Array,
) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """See `aclgrad.msda_backward`. Positions are computed in float32 unless the arrays are float64."""
    return _core.reference_msda_backward(
        _widened(grad_output),
        _widened(value),
        spatial_shapes,
        level_start_index,
        _widened(sampling_locations),
        _widened(attention_weights),
        _is_double(value),
    )


def nsa_compress(x: Array, weight: Array, seq_ends: Indices | None, block: int, stride: int) -> numpy.ndarray[Any, Any]:
    """See `aclgrad.nsa_compress`."""
    return _core.nsa_compress("seq_ends", _widened(x), _widened(weight), seq_ends, block, stride, None)


def nsa_compress_backward(
    grad_output: Array, x: Array, weight: Array, seq_ends: Indices | None, block: int, stride: int
) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """See `aclgrad.nsa_compress_backward`."""
    return _core.nsa_compress_backward(
        "seq_ends", _widened(grad_output), _widened(x), _widened(weight), seq_ends, block, stride, True, True, None
    )


def grid_sample(
    input: Array,
    grid: Array,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool = False,
) -> numpy.ndarray[Any, Any]:
    """See `aclgrad.grid_sample`. Positions are computed in float32 unless the arrays are float64."""
    return _core.reference_grid_sample(
        _widened(input), _widened(grid), mode, padding_mode, align_corners, _is_double(input)
    )


def grid_sample_backward(
    grad_output: Array,
    input: Array,
    grid: Array,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool = False,
) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """See `aclgrad.grid_sample_backward`. Positions are computed in float32 unless the arrays are float64."""
    return _core.reference_grid_sample_backward(
        _widened(grad_output), _widened(input), _widened(grid), mode, padding_mode, align_corners, _is_double(input)
    )


def grouped_bias_add(
    x: Array, bias: Array, group_ends: Indices | None = None, *, kind: GroupKind = "ends"
) -> numpy.ndarray[Any, Any]:
    """See `aclgrad.grouped_bias_add`."""
    return _core.grouped_bias_add(_widened(x), _widened(bias), group_ends, kind, None)


def grouped_bias_add_backward(
    grad_y: Array, group_ends: Indices | None = None, kind: GroupKind = "ends"
) -> numpy.ndarray[Any, Any]:
    """See `aclgrad.grouped_bias_add_backward`."""
    return _core.grouped_bias_add_backward(_widened(grad_y), group_ends, kind, None)
