# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy
from case import case, twice


def grid(seed: int = 0) -> dict[str, Any]:
    generator = numpy.random.default_rng(seed)
    return {
        "input": generator.standard_normal((2, 5, 9, 14)),
        "grid": generator.uniform(-1.3, 1.3, (2, 6, 7, 2)),
        "grad_output": generator.standard_normal((2, 5, 6, 7)),
    }


def grid_3d(seed: int = 0) -> dict[str, Any]:
    generator = numpy.random.default_rng(seed)
    return {
        "input": generator.standard_normal((2, 5, 6, 5, 8)),
        "grid": generator.uniform(-1.3, 1.3, (2, 3, 6, 7, 3)),
        "grad_output": generator.standard_normal((2, 5, 3, 6, 7)),
    }


CASES = {}
for _function, _arrays, _modes in (
    ("grid_sample", grid, ("bilinear", "nearest", "bicubic")),
    ("grid_sample_3d", grid_3d, ("bilinear", "nearest")),
):
    for _mode in _modes:
        for _padding in ("zeros", "border", "reflection"):
            for _align in (False, True):
                _attributes = {"mode": _mode, "padding_mode": _padding, "align_corners": _align}
                _name = f"{_mode}, {_padding}, {'corners' if _align else 'edges'}"
                CASES[f"{_function}, {_name}"] = case(_function, _arrays(), "input grid", **_attributes)
                CASES[f"{_function}_backward, {_name}"] = case(
                    f"{_function}_backward", _arrays(), "grad_output input grid", **_attributes
                )
                CASES[f"{_function}_double_backward, {_name}"] = case(
                    f"{_function}_double_backward",
                    twice(_arrays(), "input", "grid"),
                    "grad_output input grid grad_grad_input grad_grad_grid",
                    **_attributes,
                )
