# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""compare_documentation.py CHECKING_MD TABLE SOURCE_FOLDER: the page describes every kind of finding, which is found in
the program of its name, or in those that the page names."""

import pathlib
import re
import subprocess
import sys

SECTION = re.compile(r"^### `([a-z0-9-]+)`\n", re.MULTILINE)
PROGRAM = re.compile(r"^```\{wrong-program\}\n(\w+)\n```$", re.MULTILINE)


def kinds_in(folder):
    """The literals in the first arguments of the functions that report findings."""
    for source in pathlib.Path(folder).glob("*.cpp"):
        for argument in re.findall(r"\breport\w*\(([^,()]*),", source.read_text()):
            yield from re.findall(r'"([a-z0-9-]+)"', argument)


def main(page, table, sources):
    kinds = set(kinds_in(sources))
    described = set()
    mistakes = []
    findings = subprocess.run([table], capture_output=True, text=True, check=True).stdout
    sections = SECTION.split(pathlib.Path(page).read_text())[1:]
    for kind, text in zip(sections[::2], sections[1::2], strict=True):
        described.add(kind)
        for name in PROGRAM.findall(text) or [kind.replace("-", "_")]:
            if f"\n{name} {kind}: " not in "\n" + findings:
                mistakes.append(f"{kind} is not what is found in {name}")
    mistakes += [f"not described: {kind}" for kind in sorted(kinds - described)]
    mistakes += [f"described, but never reported: {kind}" for kind in sorted(described - kinds)]
    print(*mistakes, sep="\n")
    return 1 if mistakes or not kinds else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
