# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""code_blocks.py SOURCE_FOLDER: every block of code in the documents is one that a test compiles or runs, a command, or
says no language.

- cpp, cmake: on the pages whose programs `install.readme` and `install.guides` build and run, and of
  `install.subdirectory`
- yaml: the workflow of the guide for CI, whose commands are tried here for the syntax of a shell
- python: python/tests/test_documentation.py runs the blocks of each page, with the commands between them
- sh, console: commands; `install.guides` runs those of the guides for C and C++
- {directives}: of the site, such as files that are included; `./dev docs` fails where one is wrong
- no language: messages, output, drawings
"""

import pathlib
import re
import subprocess
import sys

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
FENCE = re.compile(r"^ *```(\S*)", re.MULTILINE)
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS = re.compile(r"^ *(?:- )?run: (?:\|\n((?: {10}.*\n)+)|([^|].*)\n)", re.MULTILINE)


def wrong_commands(page: str, text: str) -> list[str]:
    """The commands of workflows that no shell takes."""
    scripts = [lines or line for block in YAML.findall(text) for lines, line in COMMANDS.findall(block)]
    if "```yaml" in text and not scripts:
        return [f"{page}: no commands in the workflow"]
    results = [(script, subprocess.run(["sh", "-n"], input=script, text=True).returncode) for script in scripts]
    return [f"{page}: not of a shell: {script}" for script, status in results if status]


def is_tested(page: str, language: str) -> bool:
    return language in ("", "python", "sh", "console") or language.startswith("{") or (page, language) in TESTED


def main() -> int:
    source = pathlib.Path(sys.argv[1])
    pages = [*source.glob("*.md"), *(source / "docs").rglob("*.md")]
    mistakes, blocks = [], 0
    for path in pages:
        page, text = path.relative_to(source).as_posix(), path.read_text()
        languages = FENCE.findall(text)[::2]  # every second fence ends a block
        mistakes += wrong_commands(page, text)
        blocks += len(languages)
        mistakes += [f"{page}: no test takes {language}" for language in languages if not is_tested(page, language)]
    print(*mistakes, f"{blocks} blocks on {len(pages)} pages", sep="\n")
    return 1 if mistakes or not blocks else 0


sys.exit(main())
