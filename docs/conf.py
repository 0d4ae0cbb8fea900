"""How the documentation site is built: `make docs` writes it to `build/site`."""

from __future__ import annotations

project = "unabridged"
copyright = "the authors of unabridged, Apache-2.0"  # noqa: A001 - Sphinx's name for it
extensions = ["myst_parser"]
exclude_patterns = ["_parts"]
html_theme = "furo"
html_title = "unabridged"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
myst_heading_anchors = 3
myst_enable_extensions = ["tasklist"]
nitpicky = True
