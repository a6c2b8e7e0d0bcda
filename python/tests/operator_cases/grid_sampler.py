# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy
from case import case, twice


def grid(sides: tuple[int, ...] = (9, 14), output_sides: tuple[int, ...] = (6, 7)) -> dict[str, Any]:
    generator = numpy.random.default_rng(0)
    return {
        "input": generator.standard_normal((2, 5, *sides)),
        "grid": generator.uniform(-1.3, 1.3, (2, *output_sides, len(sides))),
        "grad_output": generator.standard_normal((2, 5, *output_sides)),
    }


CASES = {}
for _function, _arrays, _modes in (
    ("grid_sample", grid(), ("bilinear", "nearest", "bicubic")),
    ("grid_sample_3d", grid((6, 5, 8), (3, 6, 7)), ("bilinear", "nearest")),
):
    for _mode in _modes:
        for _padding in ("zeros", "border", "reflection"):
            for _align in (False, True):
                _attributes = {"mode": _mode, "padding_mode": _padding, "align_corners": _align}
                _name = f"{_mode}, {_padding}, {'corners' if _align else 'edges'}"
                CASES[f"{_function}, {_name}"] = case(_function, _arrays, "input grid", **_attributes)
                CASES[f"{_function}_backward, {_name}"] = case(
                    f"{_function}_backward", _arrays, "grad_output input grid", **_attributes
                )
                CASES[f"{_function}_double_backward, {_name}"] = case(
                    f"{_function}_double_backward",
                    twice(_arrays, "input", "grid"),
                    "grad_output input grid grad_grad_input grad_grad_grid",
                    **_attributes,
                )
