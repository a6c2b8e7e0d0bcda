# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""code_blocks.py SOURCE_FOLDER: every block of code in the documents is one that a test compiles or runs, or says no language.

- cpp, cmake: on the pages whose programs `install.readme` and `install.guides` build and run, and of
  `install.subdirectory`
- yaml: the workflow of the guide for CI, whose commands are tried here for the syntax of a shell
- python: python/tests/test_documentation.py runs the blocks of each page, with the commands between them
- sh: SHELL says what runs it, by the beginning of its first line, or why nothing does
- console: commands with what they print
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


def main() -> int:
    source = pathlib.Path(sys.argv[1])
    pages = [*source.glob("*.md"), *source.glob("examples/*.md"), *source.glob("docs/**/*.md")]
    mistakes, blocks, commands = [], 0, set()
    for path in pages:
        page, text = path.relative_to(source).as_posix(), path.read_text()
        starts = FENCE.findall(text)[::2]  # every second fence ends a block
        mistakes += wrong_commands(page, text)
        blocks += len(starts)
        mistakes += [f"{page}: no test takes {' '.join(start)}" for start in starts if not is_tested(page, *start)]
        commands |= {line for language, line in starts if language == "sh"}
    mistakes += [f"no page has {key}" for key in SHELL if not any(line.startswith(key) for line in commands)]
    print(*mistakes, f"{blocks} blocks on {len(pages)} pages", sep="\n")
    return 1 if mistakes or not blocks else 0


sys.exit(main())
