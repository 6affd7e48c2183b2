"""Configuration of the documentation site: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from deixis import __version__

sys.path.insert(0, str(Path(__file__).parent))
from commands import write_commands

project = "deixis"
author = copyright = "The deixis developers"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_typehints = "none"
autodoc_inherit_docstrings = False  # an interface is documented once
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": False}
napoleon_google_docstring = False
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = "deixis"
html_show_sourcelink = False
html_theme_options = {"navigation_depth": 3, "show_toc_level": 2, "header_links_before_dropdown": 4}

# Links to files outside the site (model cards, data READMEs) are checked by tests/test_docs.py.
suppress_warnings = ["myst.xref_missing"]


def setup(app: Any) -> None:
    """Write the reference of the command line before Sphinx reads the pages."""
    write_commands(Path(app.srcdir) / "reference" / "commands.md")
