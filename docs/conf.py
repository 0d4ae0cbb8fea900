"""How the documentation site is built: `make docs` writes it to `build/site`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

PROJECT = Path(__file__).parents[1] / "packages" / "unabridged" / "pyproject.toml"

project = "unabridged"
release = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"]
copyright = "the authors of unabridged, Apache-2.0"  # noqa: A001 - Sphinx's name for it
extensions = ["myst_parser"]
exclude_patterns = ["_parts"]
html_theme = "furo"
html_title = f"unabridged {release}"
html_favicon = "_static/favicon.svg"
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


def write_llms_txt(app: Sphinx, error: Exception | None) -> None:
    """Write `llms.txt` beside the pages: the navigation of the index as a list of links, for programs that read."""
    if error is None and app.builder.format == "html":
        (app.outdir / "llms.txt").write_text("\n".join(list_pages(app)) + "\n", encoding="utf-8")


def list_pages(app: Sphinx) -> Iterator[str]:
    """Yield the lines of `llms.txt`: what the project is, then each page with its title and first paragraph."""
    yield f"# {html_title}\n\n> {read_first_paragraph(app, app.config.root_doc)}"
    for tree in app.env.get_doctree(app.config.root_doc).findall(addnodes.toctree):
        yield f"\n## {tree['caption']}\n"
        for _, page in tree["entries"]:
            about = read_first_paragraph(app, page)
            yield f"- [{app.env.titles[page].astext()}]({page}.html)" + (f": {about}" if about else "")


def read_first_paragraph(app: Sphinx, page: str) -> str:
    """Return the text of a page's first paragraph on one line, or nothing where it has none."""
    return next((" ".join(found.astext().split()) for found in app.env.get_doctree(page).findall(nodes.paragraph)), "")


def setup(app: Sphinx) -> None:
    """Tell Sphinx what to do after a build."""
    app.connect("build-finished", write_llms_txt)
