# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Writes the stubs of the modules that collect the operators' functions only while they are imported.

usage: stubs.py <folder of the installed package aclgrad>
"""

import ast
import pathlib
import sys
from collections.abc import Callable


class Module:
    """What an operator's module defines for others."""

    def __init__(self, file: pathlib.Path) -> None:
        body = ast.parse(file.read_text()).body
        functions = [node for node in body if isinstance(node, ast.FunctionDef)]
        self.functions = [function for function in functions if not function.name.startswith("_")]
        targets = [node.targets[0] for node in body if isinstance(node, ast.Assign)]
        self.types = [target.id for target in targets if isinstance(target, ast.Name) and target.id[0].isupper()]


def imports(package: pathlib.Path, file: str, source: str) -> str:
    """The functions of each operator's `file`, from the module that `source` names for its folder."""
    lines, names = [], []
    for path in sorted(package.glob(f"operators/*/{file}")):
        for function in Module(path).functions:
            lines.append(f"from {source.format(path.parent.name)} import {function.name} as {function.name}\n")
            names.append(function.name)
    return "".join(lines) + f"__all__: list[str] = {names}\n"


def references(package: pathlib.Path) -> str:
    lines, definitions = ["from typing import Any\n", "import numpy\n", "from ._registry import Array, Indices\n"], []
    for path in sorted(package.glob("operators/*/__init__.py")):
        module = Module(path)
        lines += [f"from .operators.{path.parent.name} import {name}\n" for name in module.types]
        definitions += [reference(function) for function in module.functions]
    return "".join([*lines, "__all__: list[str]\n", *definitions])


def reference(function: ast.FunctionDef) -> str:
    """Without the parameters that a reference has not, see `aclgrad._registry`."""
    arguments = function.args
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    kept = [pair for pair in pairs if pair[0].arg not in ("output_mask", "out")]
    arguments.kwonlyargs, arguments.kw_defaults = [a for a, _ in kept], [default for _, default in kept]
    assert function.returns is not None
    result = ast.unparse(function.returns).replace("Any", "numpy.ndarray[Any, Any]")
    return f"def {function.name}({ast.unparse(arguments)}) -> {result}: ...\n"


STUBS: dict[str, Callable[[pathlib.Path], str]] = {
    "operators/__init__.pyi": lambda package: "NAMES: tuple[str, ...]\n" + imports(package, "__init__.py", ".{}"),
    "torch/operators.pyi": lambda package: imports(package, "torch.py", "..operators.{}.torch"),
    "reference.pyi": references,
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    for name, text_of in STUBS.items():
        (folder / name).write_text(text_of(folder))
