# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What is measured. Each operator lists its cases in src/ops/<operator>/bench.py."""

import dataclasses
import importlib.util
import pathlib
import sys
import types
from collections.abc import Callable

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent

# For the curves of cost over size: from what a first-level cache holds to what none does.
SIZES = {"32 KiB": 1 << 15, "256 KiB": 1 << 18, "4 MiB": 1 << 22, "32 MiB": 1 << 25, "256 MiB": 1 << 28}

Run = Callable[[], object]
Transform = Callable[[Callable], Callable]  # torch.compile or identity


@dataclasses.dataclass
class Call:
    """A call of one of our operators through the C interface."""

    operator: str  # the C function
    arguments: list  # of phase 1: tensors, numbers, lists of them, strings
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]  # those that are wanted
    kernel: str = ""  # of gpu_kernels.cpp, which takes sizes, then inputs and outputs
    sizes: list[int] = dataclasses.field(default_factory=list)

    def bytes(self) -> int:
        """Compulsory traffic: every input read once, every output written once."""
        return sum(t.numel() * t.element_size() for t in self.inputs + self.outputs)

    def in_numpy_memory(self) -> "Call":
        """The same over memory as NumPy allocates it: large arrays begin 16 bytes past a cache line, PyTorch's on one."""
        moved = {id(t): _moved(t) for t in self.inputs + self.outputs}
        arguments, inputs, outputs = ([moved.get(id(value), value) for value in values]
                                      for values in (self.arguments, self.inputs, self.outputs))
        return dataclasses.replace(self, arguments=arguments, inputs=inputs, outputs=outputs)


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    line, past = 64, 16
    size = tensor.element_size()
    memory = torch.empty(tensor.untyped_storage().nbytes() + 2 * line, dtype=torch.uint8)
    begin = (past - memory.data_ptr()) % line
    elements = memory[begin:begin + tensor.untyped_storage().nbytes()].view(tensor.dtype)
    assert elements.data_ptr() % line == past and tensor.storage_offset() == 0 and size <= past
    return elements.as_strided(tensor.shape, tensor.stride()).copy_(tensor)


def as_list(result) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


@dataclasses.dataclass
class Work:
    """A case made ready, over one set of data."""

    ours: dict[str, Call | Run]  # by layout, or "" where there is one
    baselines: dict[str, Callable[[Transform], Run]]  # PyTorch's
    expected: Callable[[object], list[torch.Tensor]] = as_list  # a baseline's results, in the order of our outputs
    repeat: int = 1  # calls that are timed together, where one takes microseconds
    peers: dict[str, Callable[[], Run]] = dataclasses.field(default_factory=dict)  # other baselines: bench/peers.py


@dataclasses.dataclass
class Case:
    operator: str
    problem: str
    dtype: torch.dtype
    prepare: Callable[[torch.dtype, str], Work]  # takes the device, "cpu" or "cuda"
    roofline: str = ""  # "read" or "copy" where memory bandwidth is the bound
    readme: str = ""  # its row in the README's table, if it has one
    devices: tuple[str, ...] = ("cpu",)
    kind: str = "operators"  # the C interface; or "sizes" of it, "python", "cells"

    def name(self) -> str:
        return f"{self.operator}: {self.problem}, {str(self.dtype).removeprefix('torch.')}"


def identity(function: Callable) -> Callable:
    return function


def joined(*words: str) -> str:
    return ", ".join(word for word in words if word)


def gradient_of(outputs: torch.Tensor, inputs: list[torch.Tensor], grad: torch.Tensor) -> Run:
    """The backward pass alone."""
    return lambda: torch.autograd.grad(outputs, inputs, grad, retain_graph=True)


def loaded(file: pathlib.Path) -> types.ModuleType:
    specification = importlib.util.spec_from_file_location(f"bench_of_{file.parent.name}_{file.stem}", file)
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # where torch.compile looks for its functions
    specification.loader.exec_module(module)
    return module


def operator_module(operator: str) -> types.ModuleType:
    """src/ops/<operator>/bench.py, with the compositions that PyTorch's users write."""
    return loaded(ROOT / "src" / "ops" / operator / "bench.py")


def all_cases() -> list[Case]:
    operators = sorted(folder.parent.name for folder in ROOT.glob("src/ops/*/bench.py"))
    modules = [operator_module(operator) for operator in operators]
    return [case for module in [*modules, loaded(ROOT / "bench" / "overhead.py")] for case in module.cases()]
