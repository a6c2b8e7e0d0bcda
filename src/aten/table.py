# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Reads functions.txt, which says at its top what a line means."""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterator
from typing import Any

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
ROLES = {"": "input", ">": "output", "&": "in_place", ">~": "sized_by_data"}
PARAMETER = re.compile(r"(?P<role>>~|[>&]?)(?:(?P<kind>\w+):)?(?P<name>\w+)(?P<optional>\??)")
LINE = re.compile(r"(?P<in_place>!?)(?P<name>\w+)\((?P<parameters>[^)]*)\) *= *(?P<mathematics>.+)")
WORD = re.compile(r"'[^' ]*'|-?inf|-?\d[\d.e-]*|[A-Za-z_][\w.]*|:=|\S")
TYPES = {"float32", "float64", "int8", "uint8", "int32", "int64", "bool"}
CONSTANTS = {"none": None, "true": True, "false": False, "inf": float("inf"), "-inf": -float("inf")}

# ("name", n), ("literal", v), ("type", n), ("call", name, [(keyword, node)]), ("list", [("", node)]), ("member", node, i)
Node = Any


@dataclasses.dataclass(frozen=True)
class Parameter:
    name: str
    kind: str
    role: str  # of ROLES
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

    @functools.cached_property
    def parsed(self) -> "Mathematics":
        return Mathematics(self)


class Mathematics:
    """The right side of a line: names with what they are, and results."""

    def __init__(self, function: Function):
        self.names = {p.name for p in function.parameters}
        self.words = WORD.findall(function.mathematics)
        self.definitions: dict[str, Node] = {}
        self.results: list[Node] = []
        try:
            while self.words:
                if self.words[1:2] == [":="]:
                    name = self.words[0]
                    self.words = self.words[2:]
                    self.definitions[name] = self.expression()
                    self.names.add(name)
                else:
                    self.results.append(self.expression())
                if self.words:
                    self.expect(";")
        except (IndexError, ValueError) as error:
            raise SystemExit(f"{function.name}: cannot be read before {' '.join(self.words)}") from error

    def expect(self, word: str) -> None:
        if self.words.pop(0) != word:
            raise ValueError

    def expression(self) -> Node:
        node = self.simple()
        while self.words[:1] == ["["]:
            node = ("member", node, int(self.words[1]))
            self.words = self.words[2:]
            self.expect("]")
        return node

    def simple(self) -> Node:
        word = self.words.pop(0)
        if word == "[":
            return ("list", self.members("]"))
        if self.words[:1] == ["("]:
            self.words.pop(0)
            return ("call", word, self.members(")"))
        if word in self.names:
            return ("name", word)
        if word in TYPES:
            return ("type", word)
        if word in CONSTANTS:
            return ("literal", CONSTANTS[word])
        return ("literal", word.strip("'") if word[0] == "'" else float(word) if "." in word else int(word))

    def members(self, end: str) -> list[tuple[str, Node]]:
        members = []
        while self.words[0] != end:
            keyword = ""
            if self.words[1] == "=":
                keyword = self.words[0]
                self.words = self.words[2:]
            members.append((keyword, self.expression()))
            if self.words[0] != end:
                self.expect(",")
        self.words.pop(0)
        return members

    def polish(self) -> str:
        """For the interpreter: the words of each part, an operator or a list before its members, with their number."""
        words = [word for name, node in self.definitions.items() for word in (":=" + name, *polish(node))]
        return " ".join(words + [word for node in self.results for word in polish(node)])


def polish(node: Node) -> Iterator[str]:
    kind, value = node[:2]
    if kind in ("call", "list"):
        yield f"@{value}/{len(node[2])}" if kind == "call" else f"[{len(value)}"
        for keyword, member in node[-1]:
            yield from ([keyword + "="] if keyword else []) + list(polish(member))
    elif kind == "member":
        yield from (f".{node[2]}", *polish(value))
    elif kind == "literal":
        yield f"'{value}" if isinstance(value, str) else repr(value).lower()
    else:
        yield f"${value}" if kind == "name" else value


def read(path: pathlib.Path) -> tuple[list[Function], list[str]]:
    """The functions, and the names of headers that are none of a function."""
    functions, headers = [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if line.startswith("headers "):
            headers += line.split()[1:]
        elif line and not line.startswith("#"):
            for text in family(line):
                found = LINE.fullmatch(text)
                if not found:
                    raise SystemExit(f"{path}:{number}: no function: {text}")
                parameters = tuple(map(parameter, filter(None, re.split(r",\s*", found["parameters"]))))
                functions.append(Function(found["name"], parameters, found["mathematics"].strip()))
                if found["in_place"]:
                    functions.append(in_place(functions[-1]))
    names = [function.name for function in functions]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SystemExit(f"{path}: twice: {', '.join(sorted(twice))}")
    return sorted(functions, key=lambda f: (f.name.removeprefix("Inplace"), len(f.name))), headers


def family(line: str) -> list[str]:
    """The lines that a line with braces stands for."""
    braces = [found.split("|") for found in re.findall(r"{([^}]+)}", line)]
    if not braces:
        return [line]
    lines = []
    for members in zip(*braces, strict=True):
        alternatives = iter(members)
        text = re.sub(r"{[^}]+}", lambda _: next(alternatives), line)  # noqa: B023
        lines.append(text.replace("{}", snake_case(members[0])))
    return lines


def parameter(text: str) -> Parameter:
    word = PARAMETER.fullmatch(text)
    if not word:
        raise SystemExit(f"no parameter: {text}")
    return Parameter(word["name"], word["kind"] or "T", ROLES[word["role"]], bool(word["optional"]))


def in_place(function: Function) -> Function:
    """The same with the first parameter changed, and without outputs."""
    first, *rest = function.parameters
    changed = dataclasses.replace(first, name=first.name + "Ref", role="in_place")
    operators = re.sub(rf"(\w+)((?:\.\w+)?)\({first.name}\b", rf"\1_\2({changed.name}", function.mathematics)
    mathematics = re.sub(rf"(?<![.\w]){first.name}\b", changed.name, operators)
    parameters = (changed, *(p for p in rest if p.role == "input"))
    return Function("Inplace" + function.name, parameters, mathematics)


def snake_case(name: str) -> str:
    """As in UpsampleNearest2dV2 -> upsample_nearest2d_v2."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name))
    return words.lower()
