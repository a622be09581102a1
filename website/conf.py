"""Sphinx's settings. The sources are staged by ``python -m website``; `make docs` does both.

Nothing here asks the network, when the site is built or when it is read: no fonts, scripts or
inventories of others.
"""

from __future__ import annotations

from pathlib import Path

from rnncheck import __version__

project = "rnncheck"
author = "the authors of rnncheck"
copyright = author
version = release = __version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns: list[str] = []
nitpicky = True

myst_heading_anchors = 4  # as GitHub makes them, so that a link leads to the same place in both
myst_enable_extensions = ["attrs_block", "colon_fence"]

html_theme = "furo"
html_title = f"rnncheck {__version__}"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
