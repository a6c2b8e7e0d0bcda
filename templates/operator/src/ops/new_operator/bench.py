# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The gradient of an elementwise product."""

import torch

from bench.case import Call, Case, Work


def _gradient(rows, columns):
    def prepare(dtype, device):
        torch.manual_seed(1)
        grad_output, other = (torch.randn(rows, columns, device=device).to(dtype) for _ in range(2))
        out = torch.empty_like(grad_output)
        call = Call("aclnnNewOperator", [grad_output, other, out], [grad_output, other], [out])
        return Work({"": call}, {"mul": lambda transform: transform(lambda: torch.mul(grad_output, other))},
                    lambda result: [result])
    return prepare


def cases():
    return [Case("new_operator", "4096x4096", torch.float32, _gradient(4096, 4096), "copy")]
