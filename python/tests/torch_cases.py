# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Calls of every function of aclgrad.torch, from the files in torch_operator_cases; of an operator without one, the
calls in operator_cases, where these say which axes vary."""

import pathlib
from importlib import import_module
from types import SimpleNamespace

import aclgrad.torch
import cases
import torch
from tensors import random


def call_of(case):
    def arguments(dtype=torch.float32):
        return *(torch.from_numpy(array).to(dtype) for array in case.floats.values()), *case.others.values()

    return getattr(aclgrad.torch, case.function), arguments


FILES = sorted(pathlib.Path(__file__).with_name("torch_operator_cases").glob("*.py"))
MODULES = [import_module(f"torch_operator_cases.{file.stem}") for file in FILES]
for module in cases.MODULES:
    if axes := getattr(module, "VARYING_AXES", None):
        calls = {name: call_of(case) for name, case in module.CASES.items()}
        MODULES.append(SimpleNamespace(CALLS=calls, VARYING_AXES=axes))
CALLS = {name: call for module in MODULES for name, call in module.CALLS.items()}
# The operator behind each call: of the function's name, unless the file says otherwise.
OPERATORS = {
    name: getattr(module, "OPERATORS", {}).get(name, function.__name__)
    for module in MODULES
    for name, (function, _) in module.CALLS.items()
}
# Of each call the tensors with an axis that may have another size, all of them the same.
VARYING_AXES = {name: module.VARYING_AXES for module in MODULES for name in module.CALLS}
# Of each file that has them: a function of a type that yields calls, each as a function, usual arguments, and extreme
# ones, for which derivatives are no larger.
EXTREMES = {module.__name__: module.extremes for module in MODULES if hasattr(module, "extremes")}


def gradient_calls():
    """The operators that compute gradients, with arguments."""
    attention, compress, sample, bias = (CALLS[name][1]() for name in ("attention", "compress", "sample", "bias"))
    ops = torch.ops.aclgrad
    return {
        "attention": (
            ops.multi_scale_deformable_attention_backward,
            (random(1, 3, 8), *attention, [True, False, True]),
        ),
        "compress": (ops.nsa_compress_backward, (random(7, 2, 3), *compress, [True, True])),
        "sample": (ops.grid_sample_backward, (random(2, 3, 3, 2), *sample, [False, True])),
        "bias": (ops.grouped_bias_add_backward, (bias[0], bias[2], "ends", [True])),
        "attention, twice": (
            ops.multi_scale_deformable_attention_double_backward,
            (random(1, 3, 8), *attention, attention[0], None, attention[4], [True, False, True, True]),
        ),
        "compress, twice": (
            ops.nsa_compress_double_backward,
            (random(7, 2, 3), *compress[:3], None, compress[1], *compress[3:], [True, True, False]),
        ),
        "sample, twice": (
            ops.grid_sample_double_backward,
            (random(2, 3, 3, 2), *sample[:2], sample[0], sample[1] / 2, *sample[2:], [True, False, True]),
        ),
    }
