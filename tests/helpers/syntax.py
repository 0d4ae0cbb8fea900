"""Syntax trees of the project's own files."""

from __future__ import annotations

import ast
from pathlib import Path


def parse_file(path: Path) -> ast.Module:
    """Return the syntax tree of a file.

    In CPython 3.11 threads that parse at once share a count of the depth, and one of them may get a SystemError: a
    thread that logs a traceback parses lines, too.
    """
    source = path.read_text(encoding="utf-8")
    try:
        return ast.parse(source)
    except SystemError:
        return ast.parse(source)
