"""Whether a session goes on from another file: then a summary may speak of what only that one holds."""

from __future__ import annotations

from typing import Any, Final

from unabridged_cli.clients.hook.transcript import Source, lines_of, read_from

_FORKED: Final = ("forkedFrom", "forked_from_id", "parentSession")
"""How Claude Code, Codex and pi name the session that a fork was made from."""
_LOOK_AT: Final = 200
"""Lines that are looked at."""


def is_continued(source: Source) -> bool:
    """Whether it begins with a summary, was forked, or hangs on a line that is not in its file."""
    first = next(read_from(source.path, source.kind, 0), None)
    if first is None or first.origin == "summary":
        return True
    seen: set[str] = set()
    for line in lines_of(source.path, _LOOK_AT):
        payload = line.get("payload")
        if any(line.get(name) or (isinstance(payload, dict) and payload.get(name)) for name in _FORKED):
            return True
        if not _parents(line) <= seen:
            return True
        seen.add(str(line.get("uuid")))
    return False


def _parents(line: dict[str, Any]) -> set[str]:
    """The lines that a line of Claude Code's hangs on."""
    return {str(line[name]) for name in ("parentUuid", "logicalParentUuid") if line.get(name)}
