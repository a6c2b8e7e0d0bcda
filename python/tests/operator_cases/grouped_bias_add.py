# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy
from case import case


def bias(seed: int = 0) -> dict[str, Any]:
    generator = numpy.random.default_rng(seed)
    rows = generator.standard_normal((90, 33))
    return {
        "x": rows,
        "grad_output": rows,
        "bias": generator.standard_normal((4, 33)),
        "group_ends": numpy.array([10, 10, 64, 88]),
    }


_EQUAL = {"x": bias()["x"].reshape(6, 15, 33), "bias": numpy.ones((6, 33))}
_TWICE = bias() | {"grad_grad_bias": bias(1)["bias"]}
_EQUAL_TWICE = {"grad_output": _EQUAL["x"], "grad_grad_bias": bias()["x"][:6]}

CASES = {
    "grouped_bias_add": case("grouped_bias_add", bias(), "x bias group_ends"),
    "grouped_bias_add, equal groups": case("grouped_bias_add", _EQUAL, "x bias", group_ends=None),
    "grouped_bias_add_backward": case("grouped_bias_add_backward", bias(), "grad_output group_ends"),
    "grouped_bias_add_backward, counts": case(
        "grouped_bias_add_backward", bias(), "grad_output", group_ends=numpy.array([10, 0, 54, 24]), kind="counts"
    ),
    "grouped_bias_add_double_backward": case(
        "grouped_bias_add_double_backward", _TWICE, "grad_output grad_grad_bias group_ends"
    ),
    "grouped_bias_add_double_backward, equal groups": case(
        "grouped_bias_add_double_backward", _EQUAL_TWICE, "grad_output grad_grad_bias", group_ends=None
    ),
}
