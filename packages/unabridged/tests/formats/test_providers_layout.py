"""What one provider demands stands in one place: no other part of the house knows a provider by its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import unabridged
import workspace
from rows import rows
from syntax import parse_file
from unabridged.formats import FORMATS, PROVIDERS

ROOT = Path(unabridged.__file__).parent
NAMES = {*FORMATS, *PROVIDERS, "openai", "google"}
THEIR_PLACES = (
    "unabridged/formats",
    "unabridged/asking",
    "unabridged/adapters/sdk/native_model.py",
    "unabridged/sessions",
    "unabridged_cli/clients/hook/transcript.py",
    "unabridged/adapters/claude_agent_sdk/store.py",
    "unabridged_gateway",
    "unabridged/tokens/models.py",
)
"""The formats, the clients that ask a provider's model, also one of an SDK, the files and stores of other
programs, what speaks the providers' protocols to their clients, the table of models."""


def named_in(source: str) -> list[tuple[int, str]]:
    """The lines that have a provider's name as a text of its own, and the name."""
    texts = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    return sorted((node.lineno, node.value) for node in texts if isinstance(node.value, str) and node.value in NAMES)


def parts() -> Iterator[str]:
    """Yield every room of the library, and the other packages."""
    yield from sorted(f"unabridged/{path.name}" for path in ROOT.iterdir() if not path.name.startswith("__"))
    yield from (path.name for source in workspace.SOURCES for path in source.glob("unabridged_*"))


@rows("part", [*parts()])
def test_no_other_part_compares_a_providers_name(part: str) -> None:
    (source,) = (source for source in workspace.SOURCES if (source / part).exists())
    for path in [source / part] if part.endswith(".py") else sorted((source / part).rglob("*.py")):
        place = path.relative_to(source).as_posix()
        if not place.startswith(THEIR_PLACES):
            assert named_in(path.read_text(encoding="utf-8")) == [], place


def test_the_check_sees_names_in_comparisons_sets_and_tables_and_no_prose() -> None:
    source = '"""anthropic is a provider"""\nif x == "anthropic" or x in {"gemini"}:\n    y = {"openai-chat": 1}\n'
    assert named_in(source) == [(2, "anthropic"), (2, "gemini"), (3, "openai-chat")]


def test_formats_know_nothing_of_what_asks_them() -> None:
    for path in (ROOT / "formats").rglob("*.py"):
        tree = parse_file(path)
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        own = {name.split(".")[1] for name in imported if name.startswith("unabridged.")}
        assert own <= {"formats", "errors", "messages"}, path.name
