"""What the rest of the package may ask `intent` for, and what it may not."""

from __future__ import annotations

import ast
from pathlib import Path

import unabridged
from unabridged import intent

SOURCE = Path(unabridged.__file__).parent


def imports(file: Path) -> set[str]:
    """Every module that a file imports from, wherever the import stands."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def test_nobody_outside_enters_the_rooms_of_intent() -> None:
    rooms = {f"unabridged.intent.{file.stem}" for file in (SOURCE / "intent").glob("*.py")} - {
        f"unabridged.intent.{name}" for name in intent.__all__
    }
    outside = [file for file in SOURCE.rglob("*.py") if file.parent.name != "intent"]
    assert [str(file) for file in outside if imports(file) & rooms] == []


def test_all_that_intent_offers_is_used_outside() -> None:
    outside = [file for file in SOURCE.rglob("*.py") if file.parent.name != "intent"]
    used = {name.removeprefix("unabridged.intent.") for file in outside for name in imports(file)}
    assert set(intent.__all__) - used == set()
