from typing import Any

import numpy
from case import case


def grid(seed: int = 0) -> dict[str, Any]:
    generator = numpy.random.default_rng(seed)
    return {
        "input": generator.standard_normal((2, 5, 9, 14)),
        "grid": generator.uniform(-1.3, 1.3, (2, 6, 7, 2)),
        "grad_output": generator.standard_normal((2, 5, 6, 7)),
    }


CASES = {}
for _mode in ("bilinear", "nearest", "bicubic"):
    for _padding in ("zeros", "border", "reflection"):
        for _align in (False, True):
            _attributes = {"mode": _mode, "padding_mode": _padding, "align_corners": _align}
            _name = f"{_mode}, {_padding}, {'corners' if _align else 'edges'}"
            CASES[f"grid_sample, {_name}"] = case("grid_sample", grid(), "input grid", **_attributes)
            CASES[f"grid_sample_backward, {_name}"] = case(
                "grid_sample_backward", grid(), "grad_output input grid", **_attributes
            )
