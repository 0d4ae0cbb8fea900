"""How a conversation file is laid out, told by its first lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from unabridged.sessions.document import conversation
from unabridged.sessions.loaded import KINDS, Kind, SessionFileError, Stamp
from unabridged.sessions.text import parse, read_lines
from unabridged.sessions.wire import is_message

_LOOK_AT = 200
"""Lines after which nothing is expected to become clearer."""


def _is_codex(line: dict[str, Any]) -> bool:
    return isinstance(line.get("payload"), dict) and isinstance(line.get("type"), str)


def _is_claude_code(line: dict[str, Any]) -> bool:
    named = isinstance(line.get("type"), str)
    return named and (
        bool({"sessionId", "parentUuid", "leafUuid", "isSidechain"} & set(line))
        or line["type"] == "file-history-snapshot"
    )


def _is_pi(line: dict[str, Any]) -> bool:
    kind = line.get("type")
    return kind == "session" or (kind == "message" and isinstance(line.get("message"), dict))


_SIGNS: tuple[tuple[Kind, Callable[[dict[str, Any]], bool]], ...] = (
    ("codex", _is_codex),
    ("claude-code", _is_claude_code),
    ("pi", _is_pi),
    ("jsonl-conversations", lambda line: conversation(line) is not None),
    ("jsonl", is_message),
)


def kind_of_line(value: Any) -> Kind | None:
    """Whose line this is, when one line is enough to tell."""
    if isinstance(value, dict):
        return next((kind for kind, is_it in _SIGNS if is_it(value)), None)
    return "jsonl-conversations" if conversation(value) is not None else None


def kind_of_file(path: Path, stamp: Stamp) -> tuple[Kind, Any]:
    """How the file is laid out; a document that had to be parsed to know it comes along."""
    seen = 0
    for line in read_lines(path, stamp):
        if line.problem and seen == 0:
            # The first line is no value of its own: one text over several lines, or no JSON at all.
            return "json", parse(path, path.read_bytes())
        if line.value is None:
            continue
        seen += 1
        found = kind_of_line(line.value)
        alone = seen == 1 and line.start + len(line.raw) >= stamp.size
        if alone and found in {None, "jsonl-conversations"}:
            return "json", line.value
        if found is not None:
            return found, None
        if seen >= _LOOK_AT:
            break
    raise SessionFileError(
        f"{path} is JSON, but no conversation: expected messages, or a session of Claude Code, Codex CLI or pi. "
        f"A layout can be forced by its name: {', '.join(KINDS)}"
    )
