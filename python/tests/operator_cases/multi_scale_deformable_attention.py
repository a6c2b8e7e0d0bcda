# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy
from case import case, twice


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


def msda_twice(**sizes: int) -> dict[str, Any]:
    return twice(msda(**sizes), "value", "sampling_locations", "attention_weights")


_SAMPLING = "value spatial_shapes level_start_index sampling_locations attention_weights"

CASES = {
    "msda_forward": case("msda_forward", msda(), _SAMPLING),
    "msda_backward": case("msda_backward", msda(), "grad_output " + _SAMPLING),
    "msda_double_backward": case(
        "msda_double_backward",
        msda_twice(),
        f"grad_output {_SAMPLING} grad_grad_value grad_grad_sampling_locations grad_grad_attention_weights",
    ),
}
