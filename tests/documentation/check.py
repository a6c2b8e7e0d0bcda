# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""check.py CHECK SOURCE_FOLDER [BUILD_FOLDER]: what documents say is there. CHECK names a function below, which yields
what is wrong."""

import fnmatch
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

SOURCE = pathlib.Path(sys.argv[2])


def headers(folder: str = "include") -> list[str]:
    return [path.read_text() for path in (SOURCE / folder).rglob("*.h")]


# ---- Operators


def operators() -> Iterator[str]:
    """The tables of operators in README.md and docs/operators/index.md name every operator that the C interface has."""
    names = {n for text in headers("include/aclnnop") for n in re.findall(r"\baclnnStatus (aclnn\w+)\(void", text)}
    for document in ("README.md", "docs/operators/index.md"):
        table = re.search(r"^\| operator \|.*\n((?:\|.*\n)+)", (SOURCE / document).read_text(), re.MULTILINE)
        yield from (f"{document} does not list {name}" for name in sorted(names) if f"`{name}`" not in table[1])
    if not names:
        yield "no operators in include/aclnnop"


# ---- Statuses

CONSTANT = re.compile(r"\b(?:ACL_ERROR|ACLNN_ERR)_\w+")
DEFINITION = re.compile(r"(ACL_ERROR\w+|ACLNN_ERR\w+)\b *=? *(\d+)")
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \|", re.MULTILINE)
NEVER = re.compile(r"^\| ([\d, -]+) \| `ACL\w+`", re.MULTILINE)


def never_returned(text: str) -> list[range]:
    """The ranges of the second half of the page: "100001", "100004-100005"."""
    cells = NEVER.findall(text.split("## Codes of CANN that aclgrad never returns")[1])
    bounds = [part.split("-") for cell in cells for part in cell.split(", ")]
    return [range(int(part[0]), int(part[-1]) + 1) for part in bounds]


def statuses() -> Iterator[str]:
    """docs/statuses.md lists the statuses that the library answers with, under their values, and ranges of those that
    it never answers with."""
    code = [path.read_text() for path in (SOURCE / "src").rglob("*") if path.suffix in (".h", ".cpp")]
    used = {name for text in code for name in CONSTANT.findall(text)}
    values = {name: value for text in headers() for name, value in DEFINITION.findall(text)}
    text = (SOURCE / "docs/statuses.md").read_text()
    listed = {name: value for value, name in ROW.findall(text.split("## Codes of CANN")[0])}
    yield from (f"not listed: {name}" for name in sorted(used - listed.keys()))
    yield from (f"listed, but never used: {name}" for name in sorted(listed.keys() - used))
    for name, value in listed.items():
        if values.get(name) != value:
            yield f"{name} is {values.get(name)}, not {value}"
    ranges = never_returned(text)
    for name, value in values.items():
        rows = sum(int(value) in row for row in ranges)
        if name in used and rows:
            yield f"never returned, but used: {name}"
        elif name not in used and value != "0" and rows != 1:
            yield f"in {rows} ranges of those never returned: {name}, {value}"
    ends = {end for row in ranges for end in (row[0], row[-1])}
    yield from (f"no such status: {end}" for end in sorted(ends - {int(value) for value in values.values()}))
    if not listed:
        yield "no statuses"


# ---- Promises


def exists(name: str, known: list[str]) -> bool:
    if "::" not in name:
        return bool(fnmatch.filter(known, name))
    file, test = name.split("::")
    path = SOURCE / file
    functions = re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE) if path.exists() else []
    return bool(fnmatch.filter(functions, test))


def promises() -> Iterator[str]:
    """Every test that the table of promises in docs/trust.md names exists."""
    command = ["ctest", "--test-dir", sys.argv[3], "-N"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    known = re.findall(r"Test +#\d+: (\S+)", listing)
    table = (SOURCE / "docs/trust.md").read_text().split("| promise | tests |\n| --- | --- |\n")[1].split("\n\n")[0]
    for row in table.splitlines():
        cell = row.strip().strip("|").split("|")[1]
        names = re.findall(r"`([^` ]+)`", cell)
        yield from (f"no such test: {name}" for name in names if not exists(name, known))
        if not names:
            yield f"no test in: {cell}"


# ---- Code

TESTED = {
    ("README.md", "cpp"),
    ("README.md", "cmake"),
    ("docs/guides/cpp.md", "cpp"),
    ("docs/guides/cpp.md", "cmake"),
    ("docs/guides/install.md", "cmake"),
    ("docs/guides/laptop.md", "cpp"),
    ("docs/guides/ci.md", "yaml"),
    ("docs/guides/verify.md", "cpp"),
}
SHELL = {
    "python3 -m venv ~/environment": "release/try.sh, python/run_tests.sh",
    "pip install . torch transformers scipy pillow": "release/try.sh",
    "pip install . matplotlib": "release/try.sh",
    "apt install ./aclgrad_*_amd64.deb": "release/try.sh",
    "tar xzf aclgrad-*-linux-x86_64.tar.gz": "release/try.sh, install.guides",
    "cmake -S . -B": "install.guides",
    "export PKG_CONFIG_PATH=": "install.guides",
    "export ACLGRAD_CHECK=error": "install.guides",
    ". build/prefix/set_env.sh": "install.guides",
    ". $PREFIX/set_env.sh": "install.guides",
    "OMP_WAIT_POLICY=passive python train.py": "python/tests/test_documentation.py",
    "python -m aclgrad verify": "python/tests/test_documentation.py",
    "./dev demo": "./dev test all",
    "cmake --preset release": "./dev test, with the preset test",
    "docker build": "nothing: it needs a daemon. The nightly workflow does",
    "./dev gpu": "nothing: it needs a GPU",
    "./dev release": "nothing: it takes an hour. The release workflow does",
    "cmake --install build/release --prefix build/prefix": "nothing: it renews what install.abi compares with",
    "python -c 'import sys, pytest, aclgrad.torch": "nothing: it needs the sources of transformers",
}
FENCE = re.compile(r"^ *```(\S*)\n(.*)", re.MULTILINE)
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS = re.compile(r"^ *(?:- )?run: (?:\|\n((?: {10}.*\n)+)|([^|].*)\n)", re.MULTILINE)


def wrong_commands(page: str, text: str) -> list[str]:
    """The commands of workflows that no shell takes."""
    scripts = [lines or line for block in YAML.findall(text) for lines, line in COMMANDS.findall(block)]
    if "```yaml" in text and not scripts:
        return [f"{page}: no commands in the workflow"]
    results = [(script, subprocess.run(["sh", "-n"], input=script, text=True).returncode) for script in scripts]
    return [f"{page}: not of a shell: {script}" for script, status in results if status]


def is_tested(page: str, language: str, line: str) -> bool:
    if language == "sh":
        return any(map(line.startswith, SHELL))
    return language in ("", "python", "console") or language.startswith("{") or (page, language) in TESTED


def code_blocks() -> Iterator[str]:
    """Every block of code in the documents is one that a test compiles or runs, or says no language.

    - cpp, cmake: on the pages whose programs `install.readme` and `install.guides` build and run, and of
      `install.subdirectory`
    - yaml: the workflow of the guide for CI, whose commands are tried here for the syntax of a shell
    - python: python/tests/test_documentation.py runs the blocks of each page, with the commands between them
    - sh: SHELL says what runs it, by the beginning of its first line, or why nothing does
    - console: commands with what they print
    - {directives}: of the site, such as files that are included; `./dev docs` fails where one is wrong
    - no language: messages, output, drawings
    """
    commands = set()
    for path in [*SOURCE.glob("*.md"), *SOURCE.glob("examples/*.md"), *SOURCE.glob("docs/**/*.md")]:
        page, text = path.relative_to(SOURCE).as_posix(), path.read_text()
        starts = FENCE.findall(text)[::2]  # every second fence ends a block
        yield from wrong_commands(page, text)
        yield from (f"{page}: no test takes {' '.join(start)}" for start in starts if not is_tested(page, *start))
        commands |= {line for language, line in starts if language == "sh"}
    yield from (f"no page has {key}" for key in SHELL if not any(line.startswith(key) for line in commands))


mistakes = list({check.__name__: check for check in (operators, statuses, promises, code_blocks)}[sys.argv[1]]())
print(*mistakes, f"{len(mistakes)} mistakes", sep="\n")
sys.exit(bool(mistakes))
