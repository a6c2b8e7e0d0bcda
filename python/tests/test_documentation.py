# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The examples in Python of the README and of the documents run as they stand, with the commands in Python between
them, those of a file one after the other. What they print is in the comments behind `print`."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|sh|cpp)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(\w+=\w+ )?python (-m aclgrad|\w+\.py)")
STORED = re.compile(r"^Store this as `(\w+\.py)`", re.MULTILINE)
PRINTED = re.compile(r"^print\(.*\)  # (.*)$", re.MULTILINE)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in DOCUMENTS if "```python" in page.read_text()]


def run_python(block, names, capsys):
    exec(compile(block, "block", "exec"), names)
    printed, expected = capsys.readouterr().out.splitlines(), PRINTED.findall(block)
    assert printed == expected or not expected


def run_cpp(block):
    """Without the library: what is built with it, tests/install has."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    subprocess.run(["g++", "-x", "c++", "-", "-o", "program"], input=block, text=True, check=True)
    subprocess.run("./program", check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    text = page.read_text()
    for package in ("torch", "transformers", "scipy", "matplotlib"):
        if re.search(rf"^(import|from|pip install .*) {package}\b", text, re.MULTILINE):
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names, stored = {}, STORED.search(text)
    try:
        for language, block in BLOCK.findall(text):
            if language == "python" and stored:
                pathlib.Path(stored[1]).write_text(block)
            elif language == "python":
                run_python(block, names, capsys)
            elif language == "sh" and COMMAND.match(block):
                subprocess.run(["sh", "-euc", block.replace("python", sys.executable, 1)], check=True)
            elif language == "cpp" and "#include <acl" not in block:
                run_cpp(block)
    finally:
        if "aclgrad.torch" in sys.modules:
            sys.modules["aclgrad.torch"].unpatch()
