# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What the extension needs of a PyTorch tensor on a GPU, over memory of the CPU, which the PTX machine's GPUs use."""

import collections
import ctypes
import weakref

import numpy
import torch

CUDA = 2
CODES = {"f": 2, "i": 0, "V": 4}  # of DLPack, for the kinds of NumPy's types; bfloat16 is none of these


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


View = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
CurrentStream = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("export_managed", ctypes.c_void_p),
        ("import_managed", ctypes.c_void_p),
        ("view", View),
        ("current_stream", CurrentStream),
    ]


@View
def _view(tensor, into):
    array = tensor.array
    into[0] = DLTensor(
        array.ctypes.data,
        CUDA,
        tensor.device,
        array.ndim,
        CODES[array.dtype.kind],
        8 * array.itemsize,
        1,
        tensor.sizes,
        tensor.steps,
        0,
    )
    return 0


@CurrentStream
def _current_stream(device_type, device, stream):
    stream[0] = None  # on which the PTX machine works at once
    return 0


_NAME = b"dlpack_exchange_api"
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def capsule_of(exchange):
    """Which must live as long."""
    return _new_capsule(ctypes.addressof(exchange), _NAME, None)


_exchange = Exchange(1, 1, None, None, None, None, _view, _current_stream)


# Kernels on the machine may only use what it was told of.
try:
    _machine = ctypes.CDLL("libptx_machine.so")  # the extension has loaded it
except OSError:
    _machine = None  # it is another extension, without CUDA devices
_users = collections.Counter()  # of the same memory


def _let_kernels_use(first, size):
    _users[first] += 1
    if _machine and _users[first] == 1:
        _machine.cudaHostRegister(ctypes.c_void_p(first), ctypes.c_size_t(size), 0)


def _let_kernels_use_no_longer(first):
    _users[first] -= 1
    if _machine and _users[first] == 0:
        _machine.cudaHostUnregister(ctypes.c_void_p(first))


class GpuTensor:
    """A NumPy array that says it lies on a GPU."""

    __dlpack_c_exchange_api__ = capsule_of(_exchange)
    requires_grad = False
    allocated = 0  # tensors that were made on the way

    def __init__(self, array, device=0):
        self.array = array
        self.device = device
        self.sizes = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.steps = (ctypes.c_int64 * array.ndim)(*(step // array.itemsize for step in array.strides))
        first, end = numpy.lib.array_utils.byte_bounds(array)
        _let_kernels_use(first, end - first)
        weakref.finalize(self, _let_kernels_use_no_longer, first)

    def is_neg(self):
        return False

    def is_inference(self):  # and so has no version that writing would raise
        return True

    def data_ptr(self):
        return self.array.ctypes.data

    def new_empty(self, *shape, dtype=None):
        GpuTensor.allocated += 1
        kind = self.array.dtype if dtype is None else numpy.dtype("uint8")
        memory = numpy.full(numpy.prod(shape, dtype=int) * kind.itemsize + 64, 0xA5, "uint8")
        start = -memory.ctypes.data % 64
        return GpuTensor(memory[start : start + memory.size - 64].view(kind).reshape(shape), self.device)

    @classmethod
    def __torch_function__(cls, function, types, arguments, keywords=None):
        assert function is torch.empty_like
        return arguments[0].new_empty(*arguments[0].array.shape)
