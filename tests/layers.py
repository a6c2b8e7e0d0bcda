"""Reads the sources in src/ and fails where a layer includes one that stands behind it, or names the checker, which observes
them all, and where an operator includes another one."""

import pathlib
import re
import sys

# From the ground up: a layer may include itself and those before it. securec is a library of its own.
LAYERS = ["securec", "base", "cuda", "tensor", "runtime", "executor", "ops", "check"]

# Beside the code of an operator, but no part of the library.
NO_LIBRARY = {"test.cpp", "bench.cpp", "description.cpp"}


def includes_in(root):
    """(file, included file), both relative to the folder of the layers."""
    for path in sorted(root.rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu"} or path.name in NO_LIBRARY:
            continue
        for included in re.findall(r'^\s*#\s*include\s*["<]([\w./-]+)[">]', path.read_text(), re.MULTILINE):
            yield path.relative_to(root).as_posix(), included


def names_of_checker_in(root):
    """A sentence for each file outside of the checker that names it."""
    for path in sorted(root.rglob("*")):
        is_source = path.suffix in {".h", ".cpp", ".cu"} and root / "check" not in path.parents
        if is_source and re.search(r"\bcheck::|\bnamespace check\b", path.read_text()):
            yield f"{path.relative_to(root).as_posix()} names the checker"


def operator_of(file):
    folders = file.split("/")
    return folders[1] if folders[0] == "ops" else None


def mistake_in(file, included):
    """A sentence, or None where the include is allowed."""
    layer, other = file.split("/")[0], included.split("/")[0]
    if layer not in LAYERS:
        return f"{file} is in no layer"
    if other not in LAYERS:
        return None  # a public header, or one of a library
    if LAYERS.index(other) > LAYERS.index(layer):
        return f"{file} includes {included}: {layer} stands before {other}"
    if layer == other == "ops" and operator_of(file) != operator_of(included):
        return f"{file} includes {included}: an operator includes another one"
    return None


def main(folder):
    root = pathlib.Path(folder)
    includes = set(includes_in(root))
    mistakes = [mistake for file, included in sorted(includes) if (mistake := mistake_in(file, included))]
    mistakes += names_of_checker_in(root)
    if not includes:
        mistakes.append(f"no sources in {root}")
    print(*mistakes, sep="\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
