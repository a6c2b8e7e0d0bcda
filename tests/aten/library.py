# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The companion library as a C program calls it, in a process that has no PyTorch but the one that the library opens: its
meta device then has no kernels in Python, as in a user's program."""

import ctypes
import dataclasses
import multiprocessing
import os
import pathlib
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

SOURCE = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(SOURCE / "src/aten"))
from table import Function, Mathematics, Node, read  # noqa: E402, F401

BUILD = pathlib.Path(os.environ.get("ACLGRAD_BUILD", SOURCE / "build/release"))
INT4 = 29  # ACL_INT4: two in a byte
FUNCTIONS = {function.name: function for function in read(SOURCE / "src/aten/functions.txt")[0]}


@dataclasses.dataclass
class Memory:
    """A tensor of a call: its storage, and the view of it."""

    storage: bytearray
    type: int  # aclDataType
    item: int  # bytes
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def room(self) -> int:
        return len(self.storage) * 2 if self.type == INT4 else len(self.storage) // self.item


@dataclasses.dataclass
class Call:
    function: str
    values: dict[str, Any]


@dataclasses.dataclass
class Answer:
    status: int  # of the phase that failed, or of the synchronisation
    message: str
    phase: int  # 1, 2, or 3 for the synchronisation; 0 where nothing failed
    values: dict[str, Any]  # as they are afterwards


class Failed(Exception):
    def __init__(self, status: int, phase: int):
        self.status, self.phase = status, phase


class Library:
    def __init__(self) -> None:
        self.core = ctypes.CDLL(str(BUILD / "src/libaclgrad.so"), mode=ctypes.RTLD_GLOBAL)
        self.aten = ctypes.CDLL(str(BUILD / "src/aten/libaclgrad_aten.so"))
        for kind in ("Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray", "TensorList", "ScalarList"):
            getattr(self.core, f"aclCreate{kind}").restype = ctypes.c_void_p
            getattr(self.core, f"aclDestroy{kind}").argtypes = [ctypes.c_void_p]
        self.core.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.stream = ctypes.c_void_p()
        self.core.aclInit(None)
        self.core.aclrtSetDevice(0)
        self.core.aclrtCreateStream(ctypes.byref(self.stream))
        arrays = {
            "I": (self.core.aclCreateIntArray, ctypes.c_int64, self.core.aclDestroyIntArray),
            "F": (self.core.aclCreateFloatArray, ctypes.c_float, self.core.aclDestroyFloatArray),
            "B": (self.core.aclCreateBoolArray, ctypes.c_bool, self.core.aclDestroyBoolArray),
        }
        # By kind: how a handle is made, and what destroys it.
        self.kinds: dict[str, tuple[Callable[[Any], int], Any]] = {
            kind: (lambda v, m=make, t=c_type: m(array(v, t), ctypes.c_uint64(len(v))), destroy)  # type: ignore[misc]
            for kind, (make, c_type, destroy) in arrays.items()
        }
        self.kinds["T"] = (self.tensor, self.core.aclDestroyTensor)
        self.kinds["s"] = (self.scalar, self.core.aclDestroyScalar)
        for kind, name, member in (("L", "TensorList", self.tensor), ("S", "ScalarList", self.scalar)):
            create = getattr(self.core, f"aclCreate{name}")
            self.kinds[kind] = (
                lambda v, c=create, m=member: c(array([m(x) for x in v], ctypes.c_void_p), ctypes.c_uint64(len(v))),  # type: ignore[misc]
                getattr(self.core, f"aclDestroy{name}"),
            )

    def tensor(self, memory: Memory) -> int:
        start = (ctypes.c_char * len(memory.storage)).from_buffer(memory.storage) if memory.storage else None
        return self.core.aclCreateTensor(
            array(memory.sizes), ctypes.c_uint64(len(memory.sizes)), memory.type, array(memory.strides),
            ctypes.c_int64(memory.offset), 2, array([memory.room]), ctypes.c_uint64(1),
            ctypes.cast(start, ctypes.c_void_p) if start is not None else None,
        )  # fmt: skip

    def scalar(self, value: Any) -> int:
        if isinstance(value, complex):
            return self.core.aclCreateScalar(array([value.real, value.imag], ctypes.c_double), 17)
        types = {bool: (ctypes.c_bool, 12), int: (ctypes.c_int64, 9), float: (ctypes.c_double, 11)}
        c_type, number = types[type(value)]
        return self.core.aclCreateScalar(ctypes.byref(c_type(value)), number)

    def call(self, call: Call) -> Answer:
        handles: list[tuple[Any, int]] = []
        try:
            self.phases(FUNCTIONS[call.function], call.values, handles)
            return Answer(0, "", 0, call.values)
        except Failed as failure:
            text = self.core.aclGetRecentErrMsg()
            return Answer(failure.status, text.decode() if text else "", failure.phase, call.values)
        finally:
            for destroy, handle in handles:
                destroy(handle)

    def phases(self, function: Function, values: dict[str, Any], handles: list[tuple[Any, int]]) -> None:
        executor, size = ctypes.c_void_p(), ctypes.c_uint64(1)
        arguments = [self.argument(p.kind, values[p.name], handles) for p in function.parameters]
        first = getattr(self.aten, f"aclnn{function.name}GetWorkspaceSize")
        check(1, first(*arguments, ctypes.byref(size), ctypes.byref(executor)))
        assert size.value == 0
        check(2, getattr(self.aten, f"aclnn{function.name}")(None, ctypes.c_uint64(0), executor, self.stream))
        status = self.core.aclrtSynchronizeStream(self.stream)
        if status:  # a failure stays with its stream
            self.core.aclrtDestroyStream(self.stream)
            self.core.aclrtCreateStream(ctypes.byref(self.stream))
        check(3, status)
        for p, argument in zip(function.parameters, arguments, strict=True):
            if p.role == "sized_by_data":
                self.read_shape(argument, values[p.name])

    def read_shape(self, tensor: Any, memory: Memory) -> None:
        sizes, rank = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
        check(3, self.core.aclGetViewShape(tensor, ctypes.byref(sizes), ctypes.byref(rank)))
        memory.sizes = tuple(sizes[: rank.value])
        check(3, self.core.aclGetViewStrides(tensor, ctypes.byref(sizes), ctypes.byref(rank)))
        memory.strides = tuple(sizes[: rank.value])

    def argument(self, kind: str, value: Any, handles: list[tuple[Any, int]]) -> Any:
        numbers = {
            "i": ctypes.c_int64, "i32": ctypes.c_int32, "i8": ctypes.c_int8, "u": ctypes.c_uint64, "b": ctypes.c_bool,
            "f": ctypes.c_float, "d": ctypes.c_double, "t": ctypes.c_int32, "t32": ctypes.c_int32, "t64": ctypes.c_int64,
        }  # fmt: skip
        if kind in numbers:
            return numbers[kind](value)
        if kind == "c":
            return ctypes.c_char_p(None if value is None else value.encode())
        if value is None:
            return ctypes.c_void_p()
        make, destroy = self.kinds[kind]
        handle = make(value)
        assert handle
        handles.append((destroy, handle))
        return ctypes.c_void_p(handle)


def check(phase: int, status: int) -> None:
    if status:
        raise Failed(status, phase)


def array(values: Any, c_type: Any = ctypes.c_int64) -> Any:
    return (c_type * len(values))(*values)


class Worker:
    """Makes calls in a process of its own, which a crash may end."""

    def __init__(self) -> None:
        self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), start)

    def call(self, calls: list[Call]) -> list[Answer]:
        try:
            return self.pool.submit(make, calls).result()
        except BrokenProcessPool:
            self.__init__()  # type: ignore[misc]
            raise


def start() -> None:
    global library
    os.environ["ACLGRAD_NUM_THREADS"] = "1"
    library = Library()


def make(calls: list[Call]) -> list[Answer]:
    return [library.call(call) for call in calls]
