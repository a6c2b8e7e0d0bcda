# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""promises.py TRUST_MD SOURCE_FOLDER BUILD_FOLDER: every test that the table of promises names exists."""

import fnmatch
import pathlib
import re
import subprocess
import sys


def table_of(document: pathlib.Path) -> list[str]:
    """The cells with tests, one for each promise."""
    rows = document.read_text().split("| promise | tests |\n| --- | --- |\n")[1].split("\n\n")[0]
    return [row.strip().strip("|").split("|")[1] for row in rows.splitlines()]


def ctest_names(build: str) -> list[str]:
    listing = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"Test +#\d+: (\S+)", listing)


def exists(name: str, source: pathlib.Path, known: list[str]) -> bool:
    if "::" not in name:
        return bool(fnmatch.filter(known, name))
    file, test = name.split("::")
    path = source / file
    functions = re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE) if path.exists() else []
    return bool(fnmatch.filter(functions, test))


def main() -> int:
    document, source, build = sys.argv[1:]
    known = ctest_names(build)
    cells = table_of(pathlib.Path(document))
    names = [name for cell in cells for name in re.findall(r"`([^` ]+)`", cell)]
    missing = [name for name in names if not exists(name, pathlib.Path(source), known)]
    missing += [f"no test in: {cell}" for cell in cells if "`" not in cell]
    print(*missing, sep="\n")
    print(f"{len(cells)} promises, {len(names)} names of tests, {len(missing)} of them missing")
    return 1 if missing or not cells else 0


sys.exit(main())
