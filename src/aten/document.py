# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""document.py COUNTS: writes the table of docs/aten.md, with the samples and types of a run of tests/aten, which writes
them where ACLGRAD_ATEN_COUNTS names a file. document.py --check: whether the table is that of functions.txt."""

import json
import pathlib
import re
import sys

from table import read

SOURCE = pathlib.Path(__file__).parents[2]
BUILT_IN = set(re.findall(r'{"(\w+)",', (SOURCE / "src/aten/built_in.cpp").read_text()))
PAGE = SOURCE / "docs/aten.md"
HEAD = "| function | PyTorch | types | samples |\n| --- | --- | --- | --- |\n"
ROW = re.compile(r"\| `aclnn(\w+)` \| .* \| (.*) \| (\d+) \|")


def table(counts: dict[str, tuple[int, list[str]]]) -> str:
    rows = []
    for function in read(SOURCE / "src/aten/functions.txt")[0]:
        samples, types = counts.get(function.name, (0, []))
        called = dict.fromkeys(re.findall(r"@([\w.]+)", function.parsed.polish()))
        operators = ", ".join(f"`{name}`" for name in called if name not in BUILT_IN) or "a copy"
        rows.append(f"| `aclnn{function.name}` | {operators} | {', '.join(types)} | {samples} |\n")
    return HEAD + "".join(rows)


def main() -> None:
    text, head, old = PAGE.read_text().partition(HEAD)
    if sys.argv[1] != "--check":
        PAGE.write_text(text + table(json.loads(pathlib.Path(sys.argv[1]).read_text())))
        return
    counts = {name: (int(samples), types.split(", ")) for name, types, samples in ROW.findall(old)}
    untested = [name for name, (samples, _) in counts.items() if samples == 0]
    if untested or head + old != table(counts):
        raise SystemExit(f"{PAGE} is not of functions.txt: run tests/aten, then document.py (untested: {untested})")


main()
