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
HEAD = "| functions | PyTorch | types | samples |\n| --- | --- | --- | --- |\n"
ROW = re.compile(r"\| (`aclnn.*) \| .* \| (.*) \| (.*) \|")
IN_PLACE = "; in place "


def table(counts: dict[str, tuple[int, list[str]]]) -> str:
    """Functions of which the same is said have one row, and a function and its form in place have, too."""
    cells = {}
    for function in read(SOURCE / "src/aten/functions.txt")[0]:
        samples, types = counts.get(function.name, (0, []))
        called = dict.fromkeys(re.findall(r"@([\w.]+)", function.parsed.polish()))
        operators = ", ".join(f"`{name}`" for name in called if name not in BUILT_IN) or "a copy"
        cells[function.name] = operators, ", ".join(types), str(samples)
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, own in cells.items():
        if name.startswith("Inplace") and name.removeprefix("Inplace") in cells:
            continue
        in_place = f"Inplace{name}"
        pairs = zip(own, cells.get(in_place, own), strict=True)
        row = tuple(one if one == other else one + IN_PLACE + other for one, other in pairs)
        rows.setdefault(row, []).extend(n for n in (name, in_place) if n in cells)
    lines = ([", ".join(f"`aclnn{name}`" for name in names), *row] for row, names in rows.items())
    return HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def counts_in(rows: str) -> dict[str, tuple[int, list[str]]]:
    counts = {}
    for names, types, samples in ROW.findall(rows):
        for name in re.findall(r"`aclnn(\w+)`", names):
            form = -1 if name.startswith("Inplace") else 0
            counts[name] = int(samples.split(IN_PLACE)[form]), types.split(IN_PLACE)[form].split(", ")
    return counts


def main() -> None:
    text, head, old = PAGE.read_text().partition(HEAD)
    if sys.argv[1] != "--check":
        PAGE.write_text(text + table(json.loads(pathlib.Path(sys.argv[1]).read_text())))
        return
    counts = counts_in(old)
    untested = [name for name, (samples, _) in counts.items() if samples == 0]
    if untested or head + old != table(counts):
        raise SystemExit(f"{PAGE} is not of functions.txt: run tests/aten, then document.py (untested: {untested})")


main()
