# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Reads the sources in src/ and fails on any exception from the layers: what files include and name, their length."""

import pathlib
import re
import sys

# From the ground up: a layer may include itself and those before it. securec is a library of its own.
LAYERS = ["securec", "base", "cuda", "tensor", "runtime", "executor", "ops", "aten", "check"]

# The headers that users see. Those of other libraries stand in angle brackets.
PUBLIC = {"acl", "aclgrad", "aclnn", "aclnnop", "hccl", "securec.h"}

# What is compiled once for each instruction set is read, and compiled, as a whole.
MOST_LINES_OF_INLINE_HEADER = 400

# Beside the code of an operator, but no part of the library.
NO_LIBRARY = {"test.cpp", "description.cpp", "cases.h", "python.cpp"}

# What users call, and lies in their namespace; the reference in that of the tests.
OTHER_NAMESPACES = NO_LIBRARY | {"contract.cpp", "contract.h", "reference.h"}

STATUS = re.compile(r"\b(ACLNN_|ACL_ERROR_|ACL_SUCCESS|aclnnStatus|aclError|Status\b|[135]61\d{3}\b|[125]07\d{3}\b)")


def kind_of(file):
    """What a file holds: test_implementations.cpp is of the kind test.cpp."""
    return file.stem.split("_")[0] + file.suffix


def operator_of(file):
    return file.parts[1] if file.parts[0] == "ops" else None


def device_of(file):
    """The folder of a kind of device."""
    return file.parts[1] if file.parts[0] == "runtime" and len(file.parts) == 3 else None


def mistake_of_include(file, included):
    """A sentence, or None where the include is allowed."""
    other_file = pathlib.PurePath(included)
    layer, other = file.parts[0], other_file.parts[0]
    if layer not in LAYERS:
        return f"{file} is in no layer"
    if other in PUBLIC:
        return None
    if other not in LAYERS or kind_of(other_file) in NO_LIBRARY:
        return f"{file} includes {included}, which is in no layer"
    if LAYERS.index(other) > LAYERS.index(layer):
        return f"{file} includes {included}: {layer} stands before {other}"
    if layer == other == "ops" and operator_of(file) != operator_of(other_file):
        return f"{file} includes {included}: an operator includes another one"
    if device_of(other_file) not in {None, device_of(file)}:
        return f"{file} includes {included}: a device is known through runtime/device.h alone"
    return None


def mistakes_of_includes(file, text):
    if kind_of(file) not in NO_LIBRARY:
        for included in re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE):
            yield mistake_of_include(file, included)


def squashed(name):
    """nsa_compress, NsaCompress and "NSA compress" are the same name."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def names_of_operators(sources):
    """By operator: the name of its folder and those of its C functions."""
    names = {operator_of(file): {squashed(operator_of(file))} for file in sources if operator_of(file)}
    for file, text in sources.items():
        if operator_of(file):
            names[operator_of(file)] |= {squashed(name) for name in re.findall(r'"aclnnop/aclnn_(\w+)\.h"', text)}
    return names


def mistakes_of_names(file, text, names):
    """The checker observes all layers; an operator is known to its own folder alone."""
    if file.parts[0] != "check" and re.search(r"\bcheck::|\bnamespace check\b", text):
        yield f"{file} names the checker"
    words = squashed(text)
    for operator in names.keys() - {operator_of(file)}:
        if any(name in words for name in names[operator]):
            yield f"{file} names the operator {operator}"


def mistakes_of_operator(file, text):
    """Statuses belong to the C interface, and what is internal to the operator's own namespace."""
    operator = operator_of(file)
    if operator is None or kind_of(file) in OTHER_NAMESPACES:
        return
    if STATUS.search(text):
        yield f"{file} names a status of the C interface"
    own = f"aclgrad::ops::{operator}"
    opened = re.findall(r"^namespace (aclgrad[\w:]*)", text, re.MULTILINE)
    opened += [f"aclgrad::ops::{name}" for name in re.findall(r"^ACLGRAD_DECLARE_KERNEL\((\w+),", text, re.MULTILINE)]
    if own not in {"::".join(name.split("::")[:3]) for name in opened}:
        yield f"{file} does not open the namespace {own}"
    for name in opened:
        if not name.startswith(own) and file.name != "kernel.h":
            yield f"{file} opens the namespace {name}"


def mistakes_of_length(file, text):
    if file.name.endswith("-inl.h") and (lines := text.count("\n")) > MOST_LINES_OF_INLINE_HEADER:
        yield f"{file} has {lines} lines; at most {MOST_LINES_OF_INLINE_HEADER}"


def mistakes_in(root):
    paths = [path for path in sorted(root.rglob("*")) if path.suffix in {".h", ".cpp", ".cu"}]
    sources = {path.relative_to(root): path.read_text() for path in paths}
    names = names_of_operators(sources)
    if not names:
        yield f"no operators in {root}"
    for file, text in sources.items():
        yield from mistakes_of_includes(file, text)
        yield from mistakes_of_names(file, text, names)
        yield from mistakes_of_operator(file, text)
        yield from mistakes_of_length(file, text)


def main(folder):
    mistakes = [mistake for mistake in mistakes_in(pathlib.Path(folder)) if mistake]
    print(*mistakes, sep="\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
