"""Write docs/requirements.md: each requirement with the tests that name it.

python lab/scripts/generate_requirements.py
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "requirements.md"
HEAD = """# Requirements

<!-- Made by lab/scripts/generate_requirements.py from lab/scripts/requirements.toml and the tests. Don't edit. -->

What the library must do, and one test that holds each line; `more` is the number of other tests that name it.
"""
_MARK = re.compile(r"# ((?:R\d+[ ,]*)+)$")


def marked_tests(root: Path) -> Mapping[int, list[str]]:
    """Return the tests that name each requirement, as `path::test`, in the order of the files' names."""
    found: dict[int, list[str]] = defaultdict(list)
    folders = [root / "tests", root / "lab" / "tests", *root.glob("packages/*/tests")]
    files = [path for folder in folders for path in folder.glob("**/test_*.py")]
    for path in sorted(files, key=lambda file: file.name):
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                for number in _numbers(lines, node):
                    found[number].append(f"{path.relative_to(root)}::{node.name}")
    return found


def _numbers(lines: list[str], node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    """Yield the numbers in the comments right above a test, its decorators included, and inside it."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    for line in lines[max(0, first - 3) : node.end_lineno]:
        if mark := _MARK.search(line):
            yield from map(int, re.findall(r"\d+", mark[1]))


def page() -> str:
    """Return the page."""
    tests = marked_tests(ROOT)
    sections = tomllib.loads((ROOT / "lab" / "scripts" / "requirements.toml").read_text(encoding="utf-8"))
    parts = [HEAD]
    for name, requirements in sections.items():
        rows = [f"## {name}\n", "| | requirement | test | more |", "| --- | --- | --- | ---: |"]
        for number, text in requirements.items():
            held = tests.get(int(number), [])
            more = len(held) - 1 if len(held) > 1 else ""
            rows.append(f"| R{number} | {text} | `{held[0] if held else 'none'}` | {more} |")
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
