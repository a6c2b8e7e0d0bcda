# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Calls each function with each kind of arrays from several threads at once, each time in a process that has called
nothing yet, and ends with the first that fails: `python first_calls.py numpy|torch`. `test_threads` runs it."""

import sys
import threading

import aclgrad
import aclgrad.reference
import ml_dtypes
import numpy
from arrays import OnlyDLPack
from cases import CASES
from children import in_child

THREADS = 4
FIRST_CASES = {case.function: case for case in reversed(CASES.values())}


class Subclass(numpy.ndarray):
    pass


def same(array):
    return array


# What becomes of arrays of floats, and of those of indices.
KINDS = {
    "numpy": (same, same),
    "a subclass": (lambda array: array.view(Subclass),) * 2,
    "bfloat16": (lambda array: array.astype(ml_dtypes.bfloat16), same),
    "lists": (same, numpy.ndarray.tolist),
    "memoryview": (memoryview, memoryview),
    "dlpack": (OnlyDLPack, OnlyDLPack),
}


def calls_of_arrays(kinds):
    for name, (of_floats, of_indices) in kinds.items():
        for function, case in FIRST_CASES.items():
            arguments = case.arguments("float32")
            for key, value in arguments.items():
                if isinstance(value, numpy.ndarray):
                    arguments[key] = of_floats(value) if key in case.floats else of_indices(value)
            for module in (aclgrad, aclgrad.reference):
                call = getattr(module, function)
                yield f"{module.__name__}.{function}, {name}", lambda call=call, arguments=arguments: call(**arguments)


def calls_of_tensors():
    """Of modules that the call imports."""

    def call(name):
        from tensors import gradients
        from torch_cases import CALLS

        function, make = CALLS[name]
        gradients(function, make())

    for name in ("sample", "sample a volume", "attention", "compress", "bias"):
        yield f"aclgrad.torch, {name}", lambda name=name: call(name)


def first_from_several_threads(call):
    barrier = threading.Barrier(THREADS)
    done = []

    def run():
        barrier.wait()
        call()
        done.append(True)

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == THREADS


def main(kind):
    if kind == "torch":
        import torch

        calls = [*calls_of_arrays({"torch": (torch.from_numpy, torch.from_numpy)}), *calls_of_tensors()]
    else:
        calls = [*calls_of_arrays(KINDS)]
    for name, call in calls:
        if in_child(lambda call=call: first_from_several_threads(call)) != 0:
            sys.exit(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
