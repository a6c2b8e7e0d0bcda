# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""statuses.py SOURCE_FOLDER: docs/statuses.md lists the statuses that the library answers with, under their values, and
ranges of those that it never answers with."""

import pathlib
import re
import sys

CONSTANT = re.compile(r"\b(?:ACL_ERROR|ACLNN_ERR)_\w+")
DEFINITION = re.compile(r"(ACL_ERROR\w+|ACLNN_ERR\w+)\b *=? *(\d+)")
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \|", re.MULTILINE)
NEVER = re.compile(r"^\| ([\d, -]+) \| `ACL\w+`", re.MULTILINE)


def never_returned(text: str) -> list[range]:
    """The ranges of the second half of the page: "100001", "100004-100005"."""
    cells = NEVER.findall(text.split("## Codes of CANN that aclgrad never returns")[1])
    bounds = [part.split("-") for cell in cells for part in cell.split(", ")]
    return [range(int(part[0]), int(part[-1]) + 1) for part in bounds]


def main() -> int:
    source = pathlib.Path(sys.argv[1])
    code = [path.read_text() for path in (source / "src").rglob("*") if path.suffix in (".h", ".cpp")]
    used = {name for text in code for name in CONSTANT.findall(text)}
    headers = [path.read_text() for path in (source / "include").rglob("*.h")]
    values = {name: value for text in headers for name, value in DEFINITION.findall(text)}
    text = (source / "docs/statuses.md").read_text()
    listed = {name: value for value, name in ROW.findall(text.split("## Codes of CANN")[0])}
    mistakes = [f"not listed: {name}" for name in sorted(used - listed.keys())]
    mistakes += [f"listed, but never used: {name}" for name in sorted(listed.keys() - used)]
    wrong = {name: value for name, value in listed.items() if values.get(name) != value}
    mistakes += [f"{name} is {values.get(name)}, not {value}" for name, value in wrong.items()]
    ranges = never_returned(text)
    for name, value in values.items():
        rows = sum(int(value) in row for row in ranges)
        if name in used and rows:
            mistakes.append(f"never returned, but used: {name}")
        elif name not in used and value != "0" and rows != 1:
            mistakes.append(f"in {rows} ranges of those never returned: {name}, {value}")
    ends = {end for row in ranges for end in (row[0], row[-1])}
    mistakes += [f"no such status: {end}" for end in sorted(ends - {int(value) for value in values.values()})]
    print(*mistakes, f"{len(listed)} statuses", sep="\n")
    return 1 if mistakes or not listed else 0


sys.exit(main())
