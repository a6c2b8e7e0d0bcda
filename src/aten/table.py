# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Reads functions.txt, which says at its top what a line means."""

import dataclasses
import pathlib
import re

# By the letter before the name: C type, kind of executor/companion.h.
KINDS = {
    "T": ("const aclTensor*", "tensor"),
    "L": ("const aclTensorList*", "tensor_list"),
    "s": ("const aclScalar*", "scalar"),
    "S": ("const aclScalarList*", "scalar_list"),
    "I": ("const aclIntArray*", "int_array"),
    "F": ("const aclFloatArray*", "float_array"),
    "B": ("const aclBoolArray*", "bool_array"),
    "c": ("const char*", "text"),
    "i": ("int64_t", "integer"),
    "i32": ("int32_t", "integer"),
    "i8": ("int8_t", "integer"),
    "u": ("uint64_t", "integer"),
    "b": ("bool", "integer"),
    "t": ("aclDataType", "data_type"),
    "t32": ("int32_t", "data_type"),
    "t64": ("int64_t", "data_type"),
    "f": ("float", "real"),
    "d": ("double", "real"),
}
PARAMETER = re.compile(r"(?P<role>>~|[>&]?)(?:(?P<kind>\w+):)?(?P<name>\w+)(?P<optional>\??)")
LINE = re.compile(r"(?P<in_place>!?)(?P<name>\w+)\((?P<parameters>[^)]*)\) *= *(?P<mathematics>.+)")


@dataclasses.dataclass(frozen=True)
class Parameter:
    name: str
    kind: str
    role: str  # input, output, in_place, sized_by_data
    optional: bool

    @property
    def c_type(self) -> str:
        c_type = KINDS[self.kind][0]
        return c_type.removeprefix("const ") if self.role != "input" else c_type


@dataclasses.dataclass(frozen=True)
class Function:
    name: str  # without aclnn
    parameters: tuple[Parameter, ...]
    mathematics: str

    @property
    def operators(self) -> list[str]:
        """Those of PyTorch, in the order in which they are written."""
        names = re.findall(r"([a-z_]\w*(?:\.\w+)?)\(", self.mathematics)
        return [name for name in dict.fromkeys(names) if name not in BUILT_IN]


# What the interpreter computes itself: built_in.cpp.
BUILT_IN = set(
    "choose default without index_of generator kept keep_scale to_bits from_bits promote equal_pads along grouped_matmul "
    "quant_matmul weight_quant_matmul trans_quant_param saturated attention dense given none_if dtype shape size rank "
    "numel plus times quotient negative positive last iota vector".split()
)


def read(path: pathlib.Path) -> tuple[list[Function], list[str]]:
    """The functions, and the names of headers that are none of a function."""
    functions, headers = [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("headers "):
            headers += line.split()[1:]
            continue
        found = LINE.fullmatch(line)
        if not found:
            raise SystemExit(f"{path}:{number}: no function: {line}")
        parameters = []
        for text in filter(None, re.split(r",\s*", found["parameters"])):
            word = PARAMETER.fullmatch(text)
            if not word:
                raise SystemExit(f"{path}:{number}: no parameter: {text}")
            role = {"": "input", ">": "output", "&": "in_place", ">~": "sized_by_data"}[word["role"]]
            parameters.append(Parameter(word["name"], word["kind"] or "T", role, bool(word["optional"])))
        functions.append(Function(found["name"], tuple(parameters), found["mathematics"].strip()))
        if found["in_place"]:
            functions.append(in_place(functions[-1]))
    names = [function.name for function in functions]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SystemExit(f"{path}: twice: {', '.join(sorted(twice))}")
    return functions, headers


def in_place(function: Function) -> Function:
    """The same with the first parameter changed, and without outputs."""
    first, *rest = function.parameters
    changed = dataclasses.replace(first, name=first.name + "Ref", role="in_place")
    mathematics = re.sub(rf"(\w+)((?:\.\w+)?)\({first.name}\b", rf"\1_\2({changed.name}", function.mathematics, count=1)
    parameters = (changed, *(p for p in rest if p.role == "input"))
    return Function("Inplace" + function.name, parameters, mathematics)


def header_name(function: str) -> str:
    """As in UpsampleNearest2dV2 -> upsample_nearest2d_v2."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", function))
    return words.lower()
