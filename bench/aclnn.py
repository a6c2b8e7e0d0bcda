"""The C interface of aclgrad from Python, as far as the benchmark needs it: no binding, the interface itself."""

import ctypes
import pathlib

import torch

_TYPES = {torch.float32: 0, torch.float16: 1, torch.int32: 3, torch.int64: 9, torch.float64: 11, torch.bfloat16: 27}
_FORMAT_ND = 2
_HUGE_FIRST = 0

_library = None


def load(prefix: pathlib.Path) -> None:
    """Opens the library of an install prefix and makes device 0 current."""
    global _library
    _library = ctypes.CDLL(str(prefix / "lib64" / "libopapi.so"))
    for name in ("aclCreateTensor", "aclCreateIntArray", "aclCreateBoolArray"):
        getattr(_library, name).restype = ctypes.c_void_p
    _library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    _check("aclInit", _library.aclInit(None))
    _check("aclrtSetDevice", _library.aclrtSetDevice(0))


def _check(function: str, status: int) -> None:
    if status != 0:
        message = _library.aclGetRecentErrMsg()
        raise RuntimeError(f"{function} returned {status}: {message.decode() if message else 'no message'}")


def tensor(data: torch.Tensor) -> ctypes.c_void_p:
    """An aclTensor over the memory of a torch tensor, which must outlive it."""
    rank = data.dim()
    dims = (ctypes.c_int64 * rank)(*data.shape)
    strides = (ctypes.c_int64 * rank)(*data.stride())
    storage = (ctypes.c_int64 * 1)(data.untyped_storage().nbytes() // data.element_size())
    handle = _library.aclCreateTensor(
        dims, ctypes.c_uint64(rank), _TYPES[data.dtype], strides, ctypes.c_int64(data.storage_offset()), _FORMAT_ND,
        storage, ctypes.c_uint64(1), ctypes.c_void_p(data.untyped_storage().data_ptr()))
    return ctypes.c_void_p(handle)


def int_array(values: list[int]) -> ctypes.c_void_p:
    data = (ctypes.c_int64 * len(values))(*values)
    return ctypes.c_void_p(_library.aclCreateIntArray(data, ctypes.c_uint64(len(values))))


def bool_array(values: list[bool]) -> ctypes.c_void_p:
    data = (ctypes.c_bool * len(values))(*values)
    return ctypes.c_void_p(_library.aclCreateBoolArray(data, ctypes.c_uint64(len(values))))


class Call:
    """One planned call of an operator: run() executes it and waits."""

    def __init__(self, operator: str, *arguments):
        self._run = getattr(_library, operator)
        self._name = operator
        self._executor = ctypes.c_void_p()
        size = ctypes.c_uint64()
        phase1 = getattr(_library, operator + "GetWorkspaceSize")
        _check(operator, phase1(*arguments, ctypes.byref(size), ctypes.byref(self._executor)))
        _check(operator, _library.aclSetAclOpExecutorRepeatable(self._executor))
        self._size = size
        self._workspace = ctypes.c_void_p()
        if size.value > 0:
            _check("aclrtMalloc", _library.aclrtMalloc(ctypes.byref(self._workspace), size, _HUGE_FIRST))

    def run(self) -> None:
        _check(self._name, self._run(self._workspace, self._size, self._executor, None))
        _check("aclrtSynchronizeStream", _library.aclrtSynchronizeStream(None))

    def close(self) -> None:
        _check("aclDestroyAclOpExecutor", _library.aclDestroyAclOpExecutor(self._executor))
        if self._workspace:
            _check("aclrtFree", _library.aclrtFree(self._workspace))


class Floors:
    """What the memory of this machine can do, in bytes a second, with the library's own threads."""

    def __init__(self, stream_library: pathlib.Path):
        self._stream = ctypes.CDLL(str(stream_library))
        self._from = torch.ones(1 << 28, dtype=torch.uint8)
        self._to = torch.empty_like(self._from)

    def read(self) -> int:
        """Reads a buffer far larger than any cache; returns the bytes read."""
        self._stream.stream_read(ctypes.c_void_p(self._from.data_ptr()), ctypes.c_int64(self._from.numel()))
        return self._from.numel()

    def copy(self) -> int:
        """Copies such a buffer; returns the bytes read and written."""
        self._stream.stream_copy(ctypes.c_void_p(self._from.data_ptr()), ctypes.c_void_p(self._to.data_ptr()),
                                 ctypes.c_int64(self._from.numel()))
        return 2 * self._from.numel()
