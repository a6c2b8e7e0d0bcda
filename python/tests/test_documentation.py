# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The examples in Python of the README and of the documents run as they stand, those of a file one after the other. What
they print is in the comments behind `print`."""

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PRINTED = re.compile(r"^print\(.*\)  # (.*)$", re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.stem)
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    blocks = BLOCK.findall(page.read_text())
    if any("torch" in block for block in blocks):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    names = {}
    try:
        for block in blocks:
            exec(compile(block, page.name, "exec"), names)
            assert capsys.readouterr().out.splitlines() == PRINTED.findall(block)
    finally:
        if "aclgrad.torch" in sys.modules:
            sys.modules["aclgrad.torch"].unpatch()
