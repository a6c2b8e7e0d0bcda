# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""check_calls.py FUZZER CORPUS INCLUDE: every function of the public C headers is called, right and wrong.

By the regression corpus, and by what the fuzzer calls first, whatever the corpus is. A function that is declared and
not in the fuzzer's table fails, and so does one that is never called, or without success though it can succeed.
"""

import os
import pathlib
import re
import subprocess
import sys

# What is declared so that programs link, and always refused.
ALWAYS_REFUSED = re.compile(
    r"aclopSetModelDir|aclop(CompileAnd)?Execute(V2)?|aclDumpOpTensors|[aA]clSetDynamic\w*TensorAddr"
    r"|aclrt\w*(Physical|[mM]apMem|MemAddress)|aclrtMemGetAllocationGranularity"
    r"|HcclCreateComResource|HcclAllocComResourceByTiling|HcclGetAicpuOpStreamNotify"
)

# What has no arguments and no state.
NOTHING_TO_TRY = {"aclgradVersion"}


def declared(include: pathlib.Path) -> set[str]:
    declaration = re.compile(r"^ACL_FUNC_VISIBILITY\s[^;(]*?(\w+)\s*\(", re.MULTILINE)
    functions = {name for header in include.rglob("*.h") for name in declaration.findall(header.read_text())}
    return functions - NOTHING_TO_TRY


def counts(fuzzer: str, corpus: str) -> dict[str, tuple[int, int]]:
    """Calls and successes of each function."""
    environment = {**os.environ, "ACLGRAD_COUNT_CALLS": "1"}
    run = subprocess.run([fuzzer, "-runs=0", corpus], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    lines = (line.split() for line in run.stdout.splitlines())
    return {name: (int(calls), int(successes)) for name, calls, successes in lines}


def main() -> None:
    fuzzer, corpus, include = sys.argv[1:]
    functions = declared(pathlib.Path(include))
    found = counts(fuzzer, corpus)
    problems = [f"not among the calls: {name}" for name in functions - found.keys()]
    problems += [f"not declared: {name}" for name in found.keys() - functions]
    for name, (calls, successes) in found.items():
        if calls == 0:
            problems.append(f"never called: {name}")
        elif successes == 0 and not ALWAYS_REFUSED.fullmatch(name):
            problems.append(f"never succeeds: {name}")
    print("\n".join(sorted(problems)))
    print(f"{len(functions)} functions, {sum(calls for calls, _ in found.values())} calls")
    sys.exit(1 if problems or not functions else 0)


main()
