"""Calls of every function, with arrays that are exact in the type asked for."""

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

    def golden(self, dtype: str) -> tuple[Any, ...]:
        return as_tuple(getattr(aclgrad.reference, self.function)(**self.arguments(dtype)))


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def relative_error(actual: Any, expected: Any) -> float:
    difference = numpy.linalg.norm(actual.astype(numpy.float64).ravel() - expected.ravel())
    return float(difference / max(numpy.linalg.norm(expected.ravel()), 1e-300))


def msda(seed: int = 0, queries: int = 37, channels: int = 24) -> dict[str, Any]:
    generator = numpy.random.default_rng(seed)
    shapes = numpy.array([[13, 11], [7, 5], [1, 3]])
    starts = numpy.array([0, 143, 178])
    batches, heads, points = 2, 3, 4
    weights = generator.random((batches, queries, heads, 3, points))
    return {
        "value": generator.standard_normal((batches, 181, heads, channels)),
        "spatial_shapes": shapes,
        "level_start_index": starts,
        "sampling_locations": generator.uniform(-0.1, 1.1, (batches, queries, heads, 3, points, 2)),
        "attention_weights": weights / weights.sum((3, 4), keepdims=True),
        "grad_output": generator.standard_normal((batches, queries, heads * channels)),
    }


def nsa(seed: int = 0) -> dict[str, Any]:
    generator = numpy.random.default_rng(seed)
    windows = (20 - 8) // 4 + 1 + (75 - 8) // 4 + 1
    return {
        "x": generator.standard_normal((100, 3, 20)),
        "weight": generator.standard_normal((8, 3)),
        "seq_ends": numpy.array([20, 25, 100]),
        "block": 8,
        "stride": 4,
        "grad_output": generator.standard_normal((windows, 3, 20)),
    }


def grid(seed: int = 0) -> dict[str, Any]:
    generator = numpy.random.default_rng(seed)
    return {
        "input": generator.standard_normal((2, 5, 9, 14)),
        "grid": generator.uniform(-1.3, 1.3, (2, 6, 7, 2)),
        "grad_output": generator.standard_normal((2, 5, 6, 7)),
    }


def bias(seed: int = 0) -> dict[str, Any]:
    generator = numpy.random.default_rng(seed)
    rows = generator.standard_normal((90, 33))
    return {
        "x": rows,
        "grad_y": rows,
        "bias": generator.standard_normal((4, 33)),
        "group_ends": numpy.array([10, 10, 64, 88]),
    }


def case(function: str, arguments: dict[str, Any], names: str, **attributes: Any) -> Case:
    floats, others = {}, dict(attributes)
    for name in names.split():
        value = arguments[name]
        is_float = isinstance(value, numpy.ndarray) and value.dtype == numpy.float64
        (floats if is_float else others)[name] = value
    return Case(function, floats, others)


_SAMPLING = "value spatial_shapes level_start_index sampling_locations attention_weights"
_EQUAL = {"x": bias()["x"].reshape(6, 15, 33), "bias": numpy.ones((6, 33))}

CASES = {
    "msda_forward": case("msda_forward", msda(), _SAMPLING),
    "msda_backward": case("msda_backward", msda(), "grad_output " + _SAMPLING),
    "nsa_compress": case("nsa_compress", nsa(), "x weight seq_ends block stride"),
    "nsa_compress_backward": case("nsa_compress_backward", nsa(), "grad_output x weight seq_ends block stride"),
    "grouped_bias_add": case("grouped_bias_add", bias(), "x bias group_ends"),
    "grouped_bias_add, equal groups": case("grouped_bias_add", _EQUAL, "x bias", group_ends=None),
    "grouped_bias_add_backward": case("grouped_bias_add_backward", bias(), "grad_y group_ends"),
    "grouped_bias_add_backward, counts": case(
        "grouped_bias_add_backward", bias(), "grad_y", group_ends=numpy.array([10, 0, 54, 24]), kind="counts"
    ),
}
for _mode in ("bilinear", "nearest", "bicubic"):
    for _padding in ("zeros", "border", "reflection"):
        for _align in (False, True):
            _attributes = {"mode": _mode, "padding_mode": _padding, "align_corners": _align}
            _name = f"{_mode}, {_padding}, {'corners' if _align else 'edges'}"
            CASES[f"grid_sample, {_name}"] = case("grid_sample", grid(), "input grid", **_attributes)
            CASES[f"grid_sample_backward, {_name}"] = case(
                "grid_sample_backward", grid(), "grad_output input grid", **_attributes
            )
