# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""compare_symbols.py PREFIX: each library exports what the public headers declare of it, and nothing else."""

import collections
import pathlib
import re
import subprocess
import sys

COMMENTS_AND_DIRECTIVES = re.compile(r"//[^\n]*|/\*.*?\*/|^\s*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE)
DECLARATION = re.compile(
    r"\b(?P<mark>ACL_FUNC_VISIBILITY|ACLGRAD_API|ACLGRAD_SECUREC_API)\b[^;{(]*?(?P<name>\w+)\s*\("
    r"|\bnamespace\s+(?P<namespace>\w+)\s*\{|(?P<open>\{)|(?P<close>\})"
)

OF_COMPANION = "aclnn_aten.h"  # declares what the companion library exports


def declared(include):
    """Of each library, the overloads of each function; C functions have one however often they are declared."""
    c_functions = {"libaclgrad.so": set(), "libc_sec.so": set()}
    if (include / "aclnnop" / OF_COMPANION).exists():
        c_functions["libaclgrad_aten.so"] = set()
    cxx_functions = collections.Counter()
    for header in include.rglob("*.h"):
        text = COMMENTS_AND_DIRECTIVES.sub("", header.read_text())
        scopes = []  # name of each namespace around, None for other braces
        for found in DECLARATION.finditer(text):
            if found["mark"] == "ACL_FUNC_VISIBILITY":
                library = "libaclgrad_aten.so" if header.name == OF_COMPANION else "libaclgrad.so"
                c_functions[library].add(found["name"])
            elif found["mark"] == "ACLGRAD_SECUREC_API":
                c_functions["libc_sec.so"].add(found["name"])
            elif found["mark"]:
                cxx_functions["::".join([*filter(None, scopes), found["name"]])] += 1
            elif found["close"]:
                scopes.pop()
            else:
                scopes.append(found["namespace"])
    functions = {library: collections.Counter(names) for library, names in c_functions.items()}
    functions["libaclgrad.so"] += cxx_functions
    return functions


def exported(library):
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--demangle", library], check=True, capture_output=True, text=True
    ).stdout
    symbols = [line.split(maxsplit=2)[2] for line in listing.splitlines()]
    # What is declared for companion libraries alone is no part of the public interface.
    names = (symbol.partition("(")[0] for symbol in symbols)
    return collections.Counter(name for name in names if not name.startswith("aclgrad::companion::"))


def main():
    prefix = pathlib.Path(sys.argv[1])
    failed = False
    for library, wanted in declared((prefix / "include").resolve()).items():
        found = exported(prefix / "lib64" / library)
        for name, count in (wanted - found).items():
            print(f"declared but not exported: {name} ({count})")
        for name, count in (found - wanted).items():
            print(f"exported but not declared: {name} ({count})")
        print(f"{library}: {wanted.total()} functions declared, {found.total()} exported")
        failed |= wanted != found or not wanted
    sys.exit(failed)


main()
