# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The C interface of aclgrad from Python, as far as the benchmark needs it: no binding, the interface itself."""

import ctypes
import pathlib

import torch

_TYPES = {torch.float32: 0, torch.float16: 1, torch.int32: 3, torch.int64: 9, torch.float64: 11, torch.bfloat16: 27}
_FORMAT_ND = 2
_HUGE_FIRST = 0


class Library:
    """The library of an install prefix, with device 0 current. Several may be loaded, to compare them."""

    def __init__(self, prefix: pathlib.Path):
        self._library = ctypes.CDLL(str((prefix / "lib64" / "libaclgrad.so").resolve()))
        for name in ("aclCreateTensor", "aclCreateIntArray", "aclCreateBoolArray"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.check("aclInit", None)
        self.check("aclrtSetDevice", 0)

    def has(self, operator: str) -> bool:
        return hasattr(self._library, operator)

    def function(self, name: str):
        return getattr(self._library, name)

    def check(self, name: str, *arguments) -> None:
        """Calls a function and raises what it reports."""
        status = self.function(name)(*arguments)
        if status != 0:
            message = self._library.aclGetRecentErrMsg()
            raise RuntimeError(f"{name} returned {status}: {message.decode() if message else 'no message'}")

    def argument(self, value) -> object:
        """A Python value as phase 1 takes it. Handles live as long as the process."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, list) and all(isinstance(v, bool) for v in value):
            array = (ctypes.c_bool * len(value))(*value)
            return ctypes.c_void_p(self._library.aclCreateBoolArray(array, ctypes.c_uint64(len(value))))
        if isinstance(value, list):
            array = (ctypes.c_int64 * len(value))(*value)
            return ctypes.c_void_p(self._library.aclCreateIntArray(array, ctypes.c_uint64(len(value))))
        if isinstance(value, bool):
            return ctypes.c_bool(value)
        return ctypes.c_char_p(value.encode()) if isinstance(value, str) else ctypes.c_int64(value)

    def _tensor(self, data: torch.Tensor) -> ctypes.c_void_p:
        rank = data.dim()
        dims = (ctypes.c_int64 * rank)(*data.shape)
        strides = (ctypes.c_int64 * rank)(*data.stride())
        storage = (ctypes.c_int64 * 1)(data.untyped_storage().nbytes() // data.element_size())
        handle = self._library.aclCreateTensor(
            dims, ctypes.c_uint64(rank), _TYPES[data.dtype], strides, ctypes.c_int64(data.storage_offset()), _FORMAT_ND,
            storage, ctypes.c_uint64(1), ctypes.c_void_p(data.untyped_storage().data_ptr()))
        return ctypes.c_void_p(handle)


class Planned:
    """A call after phase 1: calling it executes it and waits."""

    def __init__(self, library: Library, operator: str, arguments: list):
        self._library, self._operator = library, operator
        self._arguments = arguments  # whose memory the handles point to
        self._executor, self._workspace, self._size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        handles = map(library.argument, arguments)
        library.check(operator + "GetWorkspaceSize", *handles, ctypes.byref(self._size), ctypes.byref(self._executor))
        library.check("aclSetAclOpExecutorRepeatable", self._executor)
        if self._size.value > 0:
            library.check("aclrtMalloc", ctypes.byref(self._workspace), self._size, _HUGE_FIRST)

    def __call__(self) -> None:
        self._library.check(self._operator, self._workspace, self._size, self._executor, None)
        self._library.check("aclrtSynchronizeStream", None)

    def repeat(self, loops: ctypes.CDLL, times: int) -> None:
        """The same many times, without Python between."""
        loops.repeat_call(ctypes.c_int64(times), self._library.function(self._operator),
                          self._library.function("aclrtSynchronizeStream"), self._workspace, self._size, self._executor)

    def __del__(self):
        self._library.check("aclDestroyAclOpExecutor", self._executor)
        if self._workspace:
            self._library.check("aclrtFree", self._workspace)


class GpuKernel:
    """A CUDA kernel of libaclgrad_gpu_kernels.so on PyTorch's current stream, with a workspace of its own."""

    def __init__(self, library: ctypes.CDLL, kernel: str, sizes: list[int], tensors: list[torch.Tensor],
                 deterministic: bool):
        self._function = getattr(library, kernel)
        self._function.restype = ctypes.c_int64
        self._tensors, self._deterministic = tensors, ctypes.c_bool(deterministic)
        self._leading = [ctypes.c_int32(_TYPES[tensors[0].dtype]), (ctypes.c_int64 * len(sizes))(*sizes),
                         *(ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors)]
        self._workspace = torch.empty(max(self._call(None), 1), dtype=torch.uint8, device="cuda")

    def _call(self, workspace: int | None) -> int:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        size = self._function(*self._leading, ctypes.c_void_p(workspace), stream, self._deterministic)
        if size < 0:
            raise RuntimeError("the kernel failed")
        return size

    def __call__(self) -> None:
        self._call(self._workspace.data_ptr())
