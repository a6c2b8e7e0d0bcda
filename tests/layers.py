# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Reads the sources in src/ and fails on the first exception from the layers: what a file includes, and what it names."""

import pathlib
import re
import sys

# From the ground up: a layer may include itself and those before it. securec is a library of its own.
LAYERS = ["securec", "base", "cuda", "tensor", "runtime", "executor", "ops", "check"]

# Beside the code of an operator, but no part of the library.
NO_LIBRARY = {"test.cpp", "description.cpp", "python.cpp", "fuzz.cpp"}

# What users of C++ call, and lies in their namespace; the tests' cases and reference in those of the tests.
OTHER_NAMESPACES = NO_LIBRARY | {"interface.cpp", "cases.h", "reference.h"}


def kind_of(file):
    """What a file holds: cuda_3d.cu is of the kind cuda.cu."""
    return file.stem.split("_")[0] + file.suffix


def operator_of(file):
    return file.parts[1] if file.parts[0] == "ops" else None


def mistake_of_include(file, included):
    """A sentence, or None where the include is allowed."""
    layer, other = file.parts[0], included.split("/")[0]
    if layer not in LAYERS:
        return f"{file} is in no layer"
    if other not in LAYERS:
        return None  # a public header, or one of a library
    if LAYERS.index(other) > LAYERS.index(layer):
        return f"{file} includes {included}: {layer} stands before {other}"
    if layer == other == "ops" and operator_of(file) != operator_of(pathlib.PurePath(included)):
        return f"{file} includes {included}: an operator includes another one"
    return None


def mistakes_of_includes(file, text):
    if kind_of(file) not in NO_LIBRARY:
        for included in re.findall(r'^\s*#\s*include\s*["<]([\w./-]+)[">]', text, re.MULTILINE):
            yield mistake_of_include(file, included)


def mistakes_of_names(file, text, operators):
    """The checker observes all layers; an operator is known to its own folder alone."""
    if file.parts[0] != "check" and re.search(r"\bcheck::|\bnamespace check\b", text):
        yield f"{file} names the checker"
    words = re.sub(r"[^a-z0-9]", "", text.lower())  # nsa_compress, NsaCompress, "NSA compress"
    for operator in operators - {operator_of(file)}:
        if operator.replace("_", "") in words:
            yield f"{file} names the operator {operator}"


def mistakes_of_operator(file, text):
    """Statuses belong to the C interface, and what is internal to the operator's own namespace."""
    operator = operator_of(file)
    if operator is None or kind_of(file) in OTHER_NAMESPACES:
        return
    if kind_of(file) != "aclnn.cpp" and re.search(r"\b(ACLNN_|ACL_ERROR_|ACL_SUCCESS|aclnnStatus|aclError|Status\b)", text):
        yield f"{file} names a status of the C interface"
    own = f"aclgrad::ops::{operator}"
    opened = re.findall(r"^namespace (aclgrad[\w:]*)", text, re.MULTILINE)
    if own not in {"::".join(name.split("::")[:3]) for name in opened}:
        yield f"{file} does not open the namespace {own}"
    for name in opened:
        if not name.startswith(own) and file.name != "kernel.h":
            yield f"{file} opens the namespace {name}"


def mistakes_in(root):
    sources = {path.relative_to(root): path.read_text() for path in sorted(root.rglob("*")) if path.suffix in {".h", ".cpp", ".cu"}}
    operators = {operator_of(file) for file in sources} - {None}
    if not operators:
        yield f"no operators in {root}"
    for file, text in sources.items():
        yield from mistakes_of_includes(file, text)
        yield from mistakes_of_names(file, text, operators)
        yield from mistakes_of_operator(file, text)


def main(folder):
    mistakes = [mistake for mistake in mistakes_in(pathlib.Path(folder)) if mistake]
    print(*mistakes, sep="\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
