# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""statuses.py SOURCE_FOLDER: docs/statuses.md lists the statuses that the library answers with, under their values."""

import pathlib
import re
import sys

CONSTANT = re.compile(r"\b(?:ACL_ERROR|ACLNN_ERR)_\w+")
DEFINITION = re.compile(r"(ACL_ERROR\w+|ACLNN_ERR\w+)\b *=? *(\d+)")
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \|", re.MULTILINE)


def main() -> int:
    source = pathlib.Path(sys.argv[1])
    code = [path.read_text() for path in (source / "src").rglob("*") if path.suffix in (".h", ".cpp")]
    used = {name for text in code for name in CONSTANT.findall(text)}
    headers = [path.read_text() for path in (source / "include").rglob("*.h")]
    values = {name: value for text in headers for name, value in DEFINITION.findall(text)}
    listed = {name: value for value, name in ROW.findall((source / "docs/statuses.md").read_text())}
    mistakes = [f"not listed: {name}" for name in sorted(used - listed.keys())]
    mistakes += [f"listed, but never used: {name}" for name in sorted(listed.keys() - used)]
    mistakes += [f"{name} is {values.get(name)}, not {value}" for name, value in listed.items() if values.get(name) != value]
    print(*mistakes, f"{len(listed)} statuses", sep="\n")
    return 1 if mistakes or not listed else 0


sys.exit(main())
