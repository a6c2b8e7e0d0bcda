# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""document.py COUNTS: writes the lists of docs/aten.md, with the samples and types of a run of tests/aten, which writes
them where ACLGRAD_ATEN_COUNTS names a file. document.py --check: whether the lists have what functions.txt has."""

import json
import pathlib
import re
import sys
import textwrap

from table import read

SOURCE = pathlib.Path(__file__).parents[2]
PAGE = SOURCE / "docs/aten.md"
HEAD = "<!-- functions, by document.py -->\n"


def lists(counts: dict[str, tuple[int, list[str]]]) -> str:
    """A paragraph for each combination of types: them, then the functions, each with its samples."""
    functions: dict[str, list[str]] = {}
    for function in read(SOURCE / "src/aten/functions.txt")[0]:
        samples, types = counts.get(function.name, (0, []))
        functions.setdefault(", ".join(types), []).append(f"`aclnn{function.name}`\0{samples}")
    paragraphs = (f"**{types}**: {', '.join(names)}" for types, names in sorted(functions.items()))
    return "".join(f"\n{textwrap.fill(paragraph, 120)}\n" for paragraph in paragraphs).replace("\0", " ")


def counts_in(text: str) -> dict[str, tuple[int, list[str]]]:
    counts = {}
    for types, functions in re.findall(r"^\*\*(.*)\*\*:((?:.+\n)+)", text, re.MULTILINE):
        for name, samples in re.findall(r"`aclnn(\w+)` (\d+)", functions):
            counts[name] = int(samples), types.split(", ")
    return counts


def main() -> None:
    text, head, old = PAGE.read_text().partition(HEAD)
    if sys.argv[1] != "--check":
        PAGE.write_text(text + head + lists(json.loads(pathlib.Path(sys.argv[1]).read_text())))
        return
    counts = counts_in(old)
    untested = [name for name, (samples, _) in counts.items() if samples == 0]
    for page in ("README.md", "CHANGELOG.md"):
        if not re.search(rf"\b{len(counts)}\b[\w ]* functions", (SOURCE / page).read_text()):
            raise SystemExit(f"{page} does not say that there are {len(counts)} functions")
    if untested or not head or old != lists(counts):
        raise SystemExit(f"{PAGE} is not of functions.txt: run tests/aten, then document.py (untested: {untested})")


main()
