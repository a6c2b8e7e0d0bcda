# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""A program whose types mypy checks, see test_package.py. Each ignored error has to be one."""

import aclgrad
import aclgrad.reference
import aclgrad.verify
import numpy

x = numpy.ones((8, 2, 4), numpy.float32)
weight = numpy.ones((4, 2), numpy.float32)
y: numpy.ndarray = aclgrad.nsa_compress(x, weight, [8], 4, 2)
grad_x, grad_weight = aclgrad.nsa_compress_backward(y, x, weight, None, 4, 2, output_mask=(True, False), out=(x, None))
aclgrad.msda_forward(x, [[6, 4], [3, 2]], numpy.array([0, 24]), x, x, out=x)
aclgrad.grouped_bias_add(memoryview(b"1234").cast("f"), weight, [1, 2], kind="counts")
threads: int = aclgrad.get_num_threads()
aclgrad.reference.grid_sample(x, x)
report = aclgrad.verify.verify("nsa_compress", {"x": x, "weight": weight}, {"y": y}, {"block": 4, "stride": 2})
passed: bool = report.passed
report.plot("errors.png")

aclgrad.grid_sample(x, x, mode="trilinear")  # type: ignore[arg-type]
aclgrad.msda_forward(x, 3, x, x, x)  # type: ignore[arg-type]
aclgrad.grouped_bias_add(x, weight, kind="end")  # type: ignore[arg-type]
aclgrad.nsa_compress(x, weight, [8], 4, 2, y)  # type: ignore[call-arg]
