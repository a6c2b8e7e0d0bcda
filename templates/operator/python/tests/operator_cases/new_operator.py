# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import numpy
from case import case

_generator = numpy.random.default_rng(0)
_FACTORS = {"grad_output": _generator.standard_normal((4, 5)), "other": _generator.standard_normal((4, 5))}

CASES = {"new_operator": case("new_operator", _FACTORS, "grad_output other")}
VARYING_AXES = {0: 0, 1: 0}
