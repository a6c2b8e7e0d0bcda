# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The command line of aclgrad: `python -m aclgrad verify`."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import math
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from inspect import getdoc
from typing import Any, TextIO

import numpy

from . import __version__
from ._registry import Function
from .verify import OPERATORS, operator_of, verify

_DESCRIPTION = """\
Computes the reference of an operator in double precision and compares results from elsewhere, such as an NPU, with
it: element by element, with a verdict for each output. Exit status: 0 all passed, 1 one failed, 2 it could not be run.

Arrays are given as NAME=FILE. FILE is one of
  array.npy                         NumPy's format
  array.npy:bfloat16                the same, where the type was lost on saving
  arrays.npz                        an archive; the array of the same name in it
  array.bin:float16:2,100,8,32      raw memory, with its type and shape; fp16, fp32, fp64 and bf16 are types, too

or give one archive with all inputs and outputs by name as ARCHIVE.
"""
_SHORT_TYPES = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "bf16": "bfloat16"}


class _Once(argparse.Action):
    """Stores a value, or `const` for a switch, which has none. An option that is given twice is refused, as its last
    value would silently count."""

    def __call__(self, parser: Any, namespace: Any, value: Any, option: str | None = None) -> None:
        given = vars(namespace).setdefault("given", set())
        if self.dest in given:
            raise argparse.ArgumentError(self, "given twice")
        given.add(self.dest)
        setattr(namespace, self.dest, self.const if self.nargs == 0 else value)


_SWITCH: dict[str, Any] = {"action": _Once, "nargs": 0, "const": True, "default": False}


def main(arguments: Sequence[str] | None = None) -> int:
    output, complaint = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(output):
            status = _verify(_parser().parse_args(arguments))
    except SystemExit as end:  # of argparse, which does not tell whether its help arrives
        status = int(end.code or 0)
    except (ValueError, TypeError, OSError, ImportError) as error:
        status, complaint = 2, str(error)
    except MemoryError as error:
        status, complaint = 2, f"out of memory: {error}".rstrip(": ")
    if failure := _write(output.getvalue(), sys.stdout):
        status, complaint = 2, f"standard output{failure}"
    if complaint:
        _write(f"aclgrad verify: {complaint}\n", sys.stderr)
    return status


def _write(text: str, stream: TextIO | None) -> str:
    """Why it does not arrive, if so."""
    if stream is None:
        return " is closed" if text else ""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # What waits in the stream would else be tried again at the end of the interpreter.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return f": {error.strerror}"
    return ""


def _parser() -> argparse.ArgumentParser:
    names = f"Operators: {', '.join(OPERATORS)}."
    parser = argparse.ArgumentParser(prog="python -m aclgrad", description=__doc__, epilog=names)
    parser.add_argument("--version", action="version", version=f"aclgrad {__version__}", help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    raw = argparse.RawDescriptionHelpFormatter
    verify_parser = commands.add_parser(
        "verify", help="compare results with the reference", description=_DESCRIPTION, formatter_class=raw
    )
    operators = verify_parser.add_subparsers(metavar="OPERATOR", required=True, dest="operator")
    for name, operator in OPERATORS.items():
        text = getdoc(operator.call) or ""
        operator_parser = operators.add_parser(
            name, aliases=operator.aclnn, help=text.partition("\n")[0], description=text, formatter_class=raw
        )
        _add_operator(operator_parser, operator)
    return parser


def _add_operator(parser: argparse.ArgumentParser, operator: Function) -> None:
    parser.add_argument("archive", metavar="ARCHIVE", nargs="?", help="an .npz file with all arrays by name")
    for kind, names in (("input", operator.inputs), ("output", operator.outputs)):
        parser.add_argument(
            f"--{kind}", metavar="NAME=FILE", nargs="+", action="extend", default=[], help=f"arrays: {', '.join(names)}"
        )
    for attribute in operator.attributes:
        flag = f"--{attribute.name.replace('_', '-')}"
        if attribute.type is bool:
            parser.add_argument(flag, **_SWITCH)
        else:
            parser.add_argument(
                flag,
                action=_Once,
                type=attribute.type,
                required=attribute.default is None,
                default=attribute.default,
                choices=attribute.choices or None,
            )
    parser.add_argument(
        "--max-ulp",
        action=_Once,
        type=float,
        metavar="N",
        help="units in the last place; default 4 for 16 bits, else 1024",
    )
    parser.add_argument(
        "--report", action=_Once, metavar="FILE.png", help="draw the histograms of errors; needs matplotlib"
    )
    parser.add_argument("--json", **_SWITCH, help="print the report as JSON")


def _verify(options: argparse.Namespace) -> int:
    if options.report is not None and importlib.util.find_spec("matplotlib") is None:
        raise ValueError("--report needs the package matplotlib: pip install matplotlib")
    operator = operator_of(options.operator)
    inputs = _named_arrays(options.input)
    outputs = _named_arrays(options.output)
    if options.archive is not None:
        for name, array in _archive(options.archive).items():
            if name in operator.inputs:
                inputs.setdefault(name, array)
            elif name in operator.outputs:
                outputs.setdefault(name, array)
            else:
                known = ", ".join([*operator.inputs, *operator.outputs])
                raise ValueError(f"{options.archive}: expected arrays named {known}, got {name}")
    attributes = {attribute.name: getattr(options, attribute.name) for attribute in operator.attributes}
    report = verify(operator.name, inputs, outputs, attributes, max_ulp=options.max_ulp)
    print(json.dumps(report.as_json(), indent=2) if options.json else report)
    if options.report is not None:
        if not pathlib.Path(options.report).suffix:
            options.report += ".png"  # as matplotlib does
        try:
            report.plot(options.report)
        except OSError as error:
            raise ValueError(f"{options.report}: {error.strerror or error}") from error
        if not options.json:
            print(f"histograms: {options.report}")
    return 0 if report.passed else 1


def _named_arrays(assignments: Sequence[str]) -> dict[str, Any]:
    arrays = {}
    for assignment in assignments:
        name, separator, file = assignment.partition("=")
        if not separator:
            raise ValueError(f"expected NAME=FILE, got {assignment!r}")
        if name in arrays:
            raise ValueError(f"{name}: given twice")
        arrays[name] = _load(name, file)
    return arrays


def _split(file: str) -> list[str]:
    """Path, and what follows it: type, shape. The path itself may have colons."""
    for details in (0, 1):
        parts = file.rsplit(":", details)
        if parts[0].endswith((".npy", ".npz")):
            return parts
    return file.rsplit(":", 2)


def _load(name: str, file: str) -> Any:
    path, *details = _split(file)
    suffix = pathlib.Path(path).suffix
    if suffix == ".npz":
        if details:
            raise ValueError(f"{path}: expected an archive without a type or shape, got {file}")
        archive = _archive(path)
        if name not in archive:
            raise ValueError(f"{path}: expected an array named {name}, got {', '.join(archive)}")
        return archive[name]
    if suffix == ".npy":
        if len(details) > 1:
            raise ValueError(f"{path}: expected at most {path}:TYPE, got {file}")
        return _array(path, details[0] if details else None)
    if len(details) != 2:
        raise ValueError(f"{path}: expected {path}:TYPE:SHAPE, as {path}:float16:2,100,8,32")
    with _reading(path):
        shape = [int(size) for size in details[1].split(",") if size]
        dtype, elements, size = _dtype(details[0]), math.prod(shape), os.path.getsize(path)
        if size != elements * dtype.itemsize:
            expected = f"{elements} elements of {details[0]} for {shape}, {elements * dtype.itemsize} bytes"
            raise ValueError(f"expected {expected}, got {size}")
        return numpy.fromfile(path, dtype).reshape(shape)


def _array(path: str, type_name: str | None) -> Any:
    with _reading(path), open(path, "rb") as file:
        array = numpy.load(file)
        if not isinstance(array, numpy.ndarray):
            raise ValueError("expected one array, got an archive")
        _expect_end(file)
        return array.view(_dtype(type_name)) if type_name else _with_bfloat16(array)


def _archive(path: str) -> dict[str, Any]:
    with _reading(path):
        archive = numpy.load(path)
        if isinstance(archive, numpy.ndarray):
            raise ValueError("expected an archive, got one array")
        with archive:
            arrays: dict[str, Any] = {}
            for member, name in zip(archive.zip.infolist(), archive.files, strict=True):
                if name in arrays:
                    raise ValueError(f"{name}: there are two")
                with archive.zip.open(member) as file:
                    arrays[name] = _with_bfloat16(numpy.lib.format.read_array(file, allow_pickle=False))
                    _expect_end(file)
            return arrays


def _expect_end(file: Any) -> None:
    if file.read(1):
        raise ValueError("expected the end of the file behind the data of an array, got more")


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """What NumPy and the modules below it raise for damaged files has no common type but Exception."""
    try:
        yield
    except Exception as error:
        reason = getattr(error, "strerror", None) or error or type(error).__name__
        raise ValueError(f"{path}: {reason}") from error


def _with_bfloat16(array: Any) -> Any:
    """NumPy saves bfloat16 as two bytes without a type."""
    return array.view(_dtype("bfloat16")) if array.dtype.kind == "V" and array.dtype.itemsize == 2 else array


def _dtype(name: str) -> Any:
    name = _SHORT_TYPES.get(name, name)
    if name != "bfloat16":
        try:
            return numpy.dtype(name)
        except TypeError:
            raise ValueError(f"expected a type of NumPy, {', '.join(_SHORT_TYPES)}, got {name}") from None
    try:
        import ml_dtypes
    except ImportError:
        raise ValueError("arrays of bfloat16 need the package ml_dtypes: pip install ml_dtypes") from None
    return numpy.dtype(ml_dtypes.bfloat16)


if __name__ == "__main__":
    sys.exit(main())
