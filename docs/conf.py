# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The site of the documentation: `./dev docs`. The Python reference is made from the docstrings, that of C and C++ is the
public headers themselves."""

import aclgrad.torch  # noqa: F401  as a whole, before autodoc asks for one of its modules

project = "aclgrad"
copyright = "the aclgrad authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "aclgrad"
exclude_patterns = ["requirements.txt"]
autodoc_typehints = "signature"
# Links to sources and examples lead out of the site, into the repository.
suppress_warnings = ["myst.xref_missing"]
