# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The tables of operators in README.md and docs/operators/index.md name every operator that the C interface has."""

import pathlib
import re
import sys


def rows_of(document):
    """The rows of the first table whose first column is called "operator"."""
    table = re.search(r"^\| operator \|.*\n((?:\|.*\n)+)", document.read_text(), re.MULTILINE)
    return table[1] if table else ""


def mistakes_in(root):
    headers = [header.read_text() for header in (root / "include" / "aclnnop").glob("*.h")]
    operators = {name for text in headers for name in re.findall(r"\baclnnStatus (aclnn\w+)\(void", text)}
    if not operators:
        yield f"no operators in {root / 'include' / 'aclnnop'}"
    for document in (root / "README.md", root / "docs" / "operators" / "index.md"):
        rows = rows_of(document)
        for name in sorted(operators):
            if f"`{name}`" not in rows:
                yield f"{document.relative_to(root)} does not list {name}"


def main(root):
    mistakes = list(mistakes_in(pathlib.Path(root)))
    print(*mistakes, sep="\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
