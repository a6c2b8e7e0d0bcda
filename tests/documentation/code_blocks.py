# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""code_blocks.py SOURCE_FOLDER: every block of code in the documents is one that a test compiles or runs, a command, or
says no language.

- cpp, cmake: on the pages whose programs `install.readme` builds and runs
- python: python/tests/test_documentation.py runs the blocks of each page
- sh, console: commands
- {directives}: of the site, such as files that are included; `./dev docs` fails where one is wrong
- no language: messages, output, drawings
"""

import pathlib
import re
import sys

TESTED = {("README.md", "cpp"), ("README.md", "cmake"), ("docs/guides/laptop.md", "cpp")}
FENCE = re.compile(r"^ *```(\S*)", re.MULTILINE)


def is_tested(page: str, language: str) -> bool:
    return language in ("", "python", "sh", "console") or language.startswith("{") or (page, language) in TESTED


def main() -> int:
    source = pathlib.Path(sys.argv[1])
    pages = [*source.glob("*.md"), *(source / "docs").rglob("*.md")]
    mistakes, blocks = [], 0
    for path in pages:
        page = path.relative_to(source).as_posix()
        languages = FENCE.findall(path.read_text())[::2]  # every second fence ends a block
        blocks += len(languages)
        mistakes += [f"{page}: no test takes {language}" for language in languages if not is_tested(page, language)]
    print(*mistakes, f"{blocks} blocks on {len(pages)} pages", sep="\n")
    return 1 if mistakes or not blocks else 0


sys.exit(main())
