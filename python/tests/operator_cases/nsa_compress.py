# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy
from case import case, twice


def nsa(seed: int = 0) -> dict[str, Any]:
    generator = numpy.random.default_rng(seed)
    windows = (20 - 8) // 4 + 1 + (75 - 8) // 4 + 1
    return {
        "x": generator.standard_normal((100, 3, 20)),
        "weight": generator.standard_normal((8, 3)),
        "cu_seqlens": numpy.array([20, 25, 100]),
        "block": 8,
        "stride": 4,
        "grad_output": generator.standard_normal((windows, 3, 20)),
    }


_COMPRESSION = "x weight cu_seqlens block stride"

CASES = {
    "nsa_compress": case("nsa_compress", nsa(), _COMPRESSION),
    "nsa_compress_backward": case("nsa_compress_backward", nsa(), "grad_output " + _COMPRESSION),
    "nsa_compress_double_backward": case(
        "nsa_compress_double_backward",
        twice(nsa(), "x", "weight"),
        f"grad_output {_COMPRESSION} grad_grad_x grad_grad_weight",
    ),
}
