# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone and twice, and all together, as C11, C++11 and C++23, and operators' descriptions
name every operator function."""

import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys

# In opdev/ all but the statuses.
CXX_ONLY = ("aclgrad/", "opdev/", "aclnn/opdev/")
NOT_CXX_ONLY = ("aclgrad/version.h", "aclnn/opdev/op_errno.h")
WARNINGS = ["-pedantic", "-Wall", "-Wextra", "-Werror"]
LANGUAGES = {"c11": ["-x", "c", "-Wstrict-prototypes"], "c++11": ["-x", "c++"], "c++23": ["-x", "c++"]}


def compile_headers(compiler, standard, include, headers):
    """What the compiler says; nothing where the headers are right."""
    program = "".join(f'#include "{header}"\n' for header in headers) + "typedef int NotEmpty;\n"
    # Clang 14 knows the newest standard by its working title.
    name = "c++2b" if standard == "c++23" else standard
    folders = [f"-I{folder}" for folder in include]
    command = [compiler, f"-std={name}", *LANGUAGES[standard], *WARNINGS, *folders, "-fsyntax-only", "-"]
    result = subprocess.run(command, input=program, capture_output=True, text=True)
    return "" if result.returncode == 0 else f"{headers[0]} … as {standard} with {compiler}:\n{result.stderr}"


def is_cxx_only(header):
    return header.startswith(CXX_ONLY) and header not in NOT_CXX_ONLY


def headers_of(include):
    for name in sorted(path.relative_to(folder).as_posix() for folder in include for path in folder.rglob("*.h")):
        yield name, [standard for standard in LANGUAGES if standard != "c11" or not is_cxx_only(name)]


def unnamed_operators(include, descriptions):
    """Operator functions that are declared, but not in `descriptions`."""
    named = {name for path in descriptions for name in re.findall(r"\baclnn\w+", path.read_text())}
    for header in sorted((include[0] / "aclnnop").rglob("*.h")):
        for function in re.findall(r"\baclnnStatus\s+(aclnn\w+)\s*\(", header.read_text()):
            if function not in named:
                yield f"no description names {function}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=pathlib.Path, nargs="+", required=True, help="folders of headers")
    parser.add_argument("--descriptions", type=pathlib.Path, nargs="+", required=True, help="of the operators")
    parser.add_argument("--compilers", nargs="+", required=True, help="of C and of C++; each is told the language")
    arguments = parser.parse_args()

    headers = list(headers_of(arguments.include))
    programs = [(standard, [header, header]) for header, standards in headers for standard in standards]
    for standard in LANGUAGES:
        programs.append((standard, [header for header, standards in headers if standard in standards]))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        compiled = [
            pool.submit(compile_headers, compiler, standard, arguments.include, included)
            for standard, included in programs
            for compiler in arguments.compilers
        ]
        mistakes = [task.result() for task in compiled if task.result()]
    mistakes += unnamed_operators(arguments.include, arguments.descriptions)
    print(f"{len(headers)} headers, {len(compiled)} compilations", *mistakes, sep="\n")
    return 1 if mistakes or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
