# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What each CUDA kernel takes of a multiprocessor on sm_90, as ptxas tells, as the table in docs/cuda.md.

registers.py NVCC docs/cuda.md [--check]: writes the table, or fails where it differs.
"""

import collections
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = re.search(r"\(aclgrad_cuda_flags (.*)\)", (ROOT / "cmake/cuda_flags.cmake").read_text())[1].split()


def output_of(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True)


def text_of_ptxas(nvcc, source):
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        command = [nvcc, "-cubin", "-arch=sm_90", "-Xptxas=-v", "-std=c++20", "-O3", *FLAGS]
        folders = [f"-I{ROOT}/include", f"-I{ROOT}/src"]
        return output_of([*command, *folders, source, "-o", cubin.name]).stderr


def kernels_of(text):
    """(mangled name, registers, bytes of stack, of spill stores, of shared memory) of each kernel."""
    for part in text.split("Compiling entry function '")[1:]:
        stack, spilled = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", part).groups()
        registers = re.search(r"Used (\d+) registers", part)[1]
        shared = re.search(r"(\d+) bytes smem", part)
        yield part[: part.index("'")], int(registers), int(stack), int(spilled), int(shared[1]) if shared else 0


def kernel_name(name):
    """Of a demangled one, without namespaces and arguments."""
    return re.search(r"(\w+)($|<|\()", name.replace("(anonymous namespace)::", ""))[1]


def row_of(source, name):
    """Of a kernel's instances by the folder and its name, those for float64 apart."""
    return (source.parent.name.replace("_", " "), kernel_name(name)), "double" in name.split("(")[0]


def max_of(instances):
    return ", ".join(map(str, map(max, zip(*instances, strict=True)))) if instances else "-"


def table(nvcc):
    sources = sorted(ROOT.glob("src/**/*.cu"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        texts = list(pool.map(lambda source: text_of_ptxas(nvcc, source), sources))
    rows = collections.defaultdict(lambda: {False: [], True: []})
    for source, text in zip(sources, texts, strict=True):
        kernels = list(kernels_of(text))
        mangled = "\n".join(kernel[0] for kernel in kernels)
        names = output_of(["c++filt"], mangled).stdout.splitlines()
        for name, (_, *numbers) in zip(names, kernels, strict=True):
            name = name.replace("(anonymous namespace)::", "")
            row, is_double = row_of(source, name)
            rows[row][is_double].append(numbers)
    lines = ["| of | kernel | float, half, bfloat16 | float64 |", "| --- | --- | --- | --- |"]
    for (of, name), row in sorted(rows.items()):
        lines.append(f"| {of} | `{name}` | {max_of(row[False])} | {max_of(row[True])} |")
    return lines


def main(name, table):
    """Writes the lines between the document's marks of that name, or looks whether they are there."""
    nvcc, document = sys.argv[1], pathlib.Path(sys.argv[2])
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, rest = document.read_text().split(begin)
    old, after = rest.split(end)
    release = re.search(r"release ([\d.]+)", output_of([nvcc, "--version"]).stdout)[1]
    if f"nvcc {release}" not in before:
        sys.exit(f"The table in {document} is of another release than {nvcc}, which is {release}.")
    new = "\n".join(["", *table(nvcc), "", ""])
    if "--check" not in sys.argv:
        document.write_text(before + begin + new + end + after)
    elif new != old:
        sys.exit(f"The table of {name} in {document} is not what {nvcc} gives; ./dev {name} writes it:\n{new}")


if __name__ == "__main__":
    main("registers", table)
