# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Holds docs/checking.md against the code: it must name every kind of finding and every program with a mistake, include
the programs that it shows, and show findings as those programs expect them."""

import pathlib
import re
import sys

# A link to a program, the program itself, and what is found in it.
EXAMPLE = re.compile(
    r"^\[(\w+\.cpp)\]\([^\n]*\n```\{literalinclude\} \.\./tests/check/programs/(\S+)\n.*?^```$(?:\n```\n(.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


def kinds_in(folders):
    for folder in folders:
        for source in pathlib.Path(folder).glob("*.cpp"):
            for arguments in re.findall(r"\breport(?:_refusal)?\(([^;]*?),\s*(?:fmt|text)", source.read_text()):
                yield from re.findall(r'"([a-z0-9-]+)"', arguments)


def main(page, programs, *folders):
    text = pathlib.Path(page).read_text()
    kinds = set(kinds_in(folders))
    described = set(re.findall(r"^### `([a-z0-9-]+)`$", text, re.MULTILINE))
    mistakes = [f"not described: {kind}" for kind in sorted(kinds - described)]
    mistakes += [f"described, but never reported: {kind}" for kind in sorted(described - kinds)]

    links = text.replace("../tests/check/programs/", "")
    for program in pathlib.Path(programs).glob("*.cpp"):
        if not program.name.startswith("right_") and f"({program.name})" not in links:
            mistakes.append(f"no link to {program.name}")

    for name, included, findings in EXAMPLE.findall(text):
        source = (pathlib.Path(programs) / name).read_text()
        expected = re.findall(r"^// Finding: (.*)$", source, re.MULTILINE)
        if included != name or 'program.h"' not in source:
            mistakes.append(f"the program shown is not {name}")
        for finding in re.findall(r"^aclgrad check: (.*)$", findings, re.MULTILINE):
            if not any(re.match(pattern, finding) for pattern in expected):
                mistakes.append(f"not a finding of {name}: {finding}")

    print(*mistakes, sep="\n")
    return 1 if mistakes or not kinds else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
