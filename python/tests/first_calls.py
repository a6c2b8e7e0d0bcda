# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Calls each function with each kind of arrays from several threads at once, each time in a process that has called
nothing yet, and ends with the first that fails: `python first_calls.py numpy|torch`. `test_threads` runs it."""

import sys
import threading
from functools import partial

import aclgrad
import aclgrad.reference
from arrays import KINDS, arguments_of_kind
from cases import CASES
from children import in_child

THREADS = 4
FIRST_CASES = {case.function: case for case in reversed(CASES.values())}


def calls_of_arrays(*kinds):
    for kind, dtype in kinds:
        for function, case in FIRST_CASES.items():
            arguments = arguments_of_kind(kind, case, dtype)
            for module in (aclgrad, aclgrad.reference):
                yield f"{module.__name__}.{function}, {kind}, {dtype}", partial(getattr(module, function), **arguments)


def calls_of_tensors():
    """Of modules that the call imports."""

    def call(name):
        from tensors import gradients
        from torch_cases import CALLS

        function, make = CALLS[name]
        gradients(function, make())

    for name in ("sample", "sample a volume", "attention", "compress", "bias"):
        yield f"aclgrad.torch, {name}", partial(call, name)


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
        calls = [*calls_of_arrays(("torch", "float32")), *calls_of_tensors()]
    else:
        kinds = [(kind, "float32") for kind in KINDS if kind not in ("torch", "jax")]
        calls = [*calls_of_arrays(*kinds, ("numpy", "bfloat16"))]
    for name, call in calls:
        if in_child(partial(first_from_several_threads, call)) != 0:
            sys.exit(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
