# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import numpy
from case import case

_generator = numpy.random.default_rng(0)
_FACTORS = {"grad_output": _generator.standard_normal((5, 33)), "other": _generator.standard_normal((5, 33))}

CASES = {"new_operator": case("new_operator", _FACTORS, "grad_output other")}
