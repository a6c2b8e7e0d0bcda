# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Arrays of other kinds than NumPy's."""

import numpy


class OnlyDLPack:
    """What has DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Subclass(numpy.ndarray):
    pass


def same(array):
    return array


def of_ctypes(array):
    return numpy.ctypeslib.as_ctypes(numpy.ascontiguousarray(array))


def of_torch(array):
    import torch

    if array.dtype.name == "bfloat16":  # which PyTorch does not take from NumPy
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def of_jax(array):
    import jax

    return jax.numpy.asarray(array)


# What becomes of arrays of floats, and of those of indices.
KINDS = {
    "numpy": (same, same),
    "a subclass": (lambda array: array.view(Subclass),) * 2,
    "lists": (same, numpy.ndarray.tolist),
    "memoryview": (memoryview, memoryview),
    "ctypes": (of_ctypes, of_ctypes),
    "dlpack": (OnlyDLPack, OnlyDLPack),
    "torch": (of_torch, of_torch),
    "jax": (of_jax, of_jax),
}


def arguments_of_kind(kind, case, dtype="float32"):
    of_floats, of_indices = KINDS[kind]
    return {
        name: (of_floats if name in case.floats else of_indices)(value) if isinstance(value, numpy.ndarray) else value
        for name, value in case.arguments(dtype).items()
    }
