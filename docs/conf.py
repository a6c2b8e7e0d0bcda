# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The site of the documentation: `./dev docs`. The Python reference is made from the docstrings, that of C and C++ from
the public headers (headers.py)."""

import itertools
import pathlib
import re
import sys

import aclgrad.torch  # noqa: F401  as a whole, before autodoc asks for one of its modules
import aclgrad.verify  # noqa: F401
from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # where headers.py lies

project = "aclgrad"
copyright = "the aclgrad authors"
extensions = ["myst_parser", "sphinx-mathjax-offline", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "headers"]
myst_enable_extensions = ["dollarmath", "substitution"]
myst_substitutions = {"version": aclgrad.__version__}
myst_heading_anchors = 3
html_theme = "furo"
html_title = "aclgrad"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": ""})]
default_role = "py:obj"  # a link where there is an entry of that name, else a literal
exclude_patterns = ["requirements.txt"]
autodoc_typehints = "signature"
maximum_signature_line_length = 100

PROGRAMS = pathlib.Path(__file__).parent.parent / "tests" / "check" / "programs"

# The search drops words that are numbers, but it finds entries of the index.
HEADERS = pathlib.Path(__file__).parent.parent / "include"
STATUSES = {
    int(value)
    for header in HEADERS.rglob("*.h")
    for value in re.findall(r"(?:ACL_ERROR|ACLNN_ERR)\w+ *=? *(\d{6})", header.read_text())
}


class IndexEntries(SphinxTransform):
    """Puts the statuses of docs/statuses.md into the index."""

    default_priority = 500  # before the index is made

    def apply(self, **kwargs):
        rows = self.document.findall(nodes.row) if self.env.docname == "statuses" else []
        for row in rows:
            target = f"index-{self.env.new_serialno('index')}"
            entries = [("single", name, target, "", None) for name in statuses_of(row[0].astext())]
            row[0][:0] = [addnodes.index(entries=entries), nodes.target("", "", ids=[target])] if entries else []


def wrong_program(name):
    """A program with a mistake, of tests/check/programs/."""
    program = re.compile(rf"^(?:WHOLE_)?PROGRAM\({name},.*?^}}$", re.MULTILINE | re.DOTALL)
    (code,) = (match[0] for path in PROGRAMS.glob("*.cpp") for match in program.finditer(path.read_text()))
    return nodes.literal_block(code, code, language="cpp")


class WrongProgram(SphinxDirective):
    has_content = True

    def run(self):
        return [wrong_program(self.content[0])]


class WrongPrograms(SphinxTransform):
    """Ends each section about a finding with the program of its name, unless the section names another one."""

    default_priority = 500

    def apply(self, **kwargs):
        sections = self.document.findall(nodes.section) if self.env.docname == "checking" else []
        for section in sections:
            is_of_finding = isinstance(section[0][0], nodes.literal)
            if is_of_finding and not next(section.findall(nodes.literal_block), None):
                section += wrong_program(section[0].astext().replace("-", "_"))


def statuses_of(cell):
    """All statuses of a cell such as "100001" or "207002-207003, 207005-207021"."""
    bounds = [part.split("-") for part in cell.split(", ") if part[:1].isdigit()]
    ranges = [range(int(part[0]), int(part[-1]) + 1) for part in bounds]
    return [str(value) for value in itertools.chain(*ranges) if value in STATUSES]


def setup(app):
    app.add_transform(IndexEntries)
    app.add_transform(WrongPrograms)
    app.add_directive("wrong-program", WrongProgram)
