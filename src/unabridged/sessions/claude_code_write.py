"""Lines that Claude Code can resume from: a boundary, its summary, and turns of our own."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from unabridged.formats import Message, format_named
from unabridged.formats.fields import get, plain
from unabridged.sessions.loaded import Lines, Loaded
from unabridged.sessions.match import Match
from unabridged.sessions.rewrite import Entry


class ClaudeCodeWriter:
    """Every line of ours carries what the client writes on its own: session, folder, version, branch."""

    names: tuple[str, str] | None = ("uuid", "parentUuid")

    def __init__(self, loaded: Loaded, lines: Lines, tokens_before: int) -> None:
        self._facts = {"userType": "external", **lines.facts}
        self._model = loaded.model
        self._tokens = tokens_before

    def swallows(self, matches: Sequence[Match], summary: int | None) -> tuple[int, int] | None:
        """The summary turn alone: the client has a place for it behind the boundary."""
        del matches
        return None if summary is None else (summary, summary + 1)

    def mark(self, messages: Sequence[Message], dropped: int, parent: str | None) -> list[Entry]:
        """A boundary, which begins a new chain, and the summary as its child."""
        del parent
        metadata = {"trigger": "manual", "preTokens": self._tokens, "messagesSummarized": dropped}
        boundary = self._line("system", None) | {
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": False,
            "level": "info",
            "compactMetadata": metadata,
        }
        summary = self._line("user", boundary["uuid"]) | {
            "message": {"role": "user", "content": get(messages[0], "content")},
            "isVisibleInTranscriptOnly": True,
            "isCompactSummary": True,
        }
        return [boundary, summary]

    def made(self, message: Message, parent: str | None) -> list[Entry]:
        """One line with all blocks of the message."""
        role, content = get(message, "role"), get(message, "content")
        if role != "assistant":
            return [self._line("user", parent) | {"message": {"role": "user", "content": content}}]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        reply = {
            "id": f"msg_{uuid.uuid4().hex[:24]}",
            "type": "message",
            "role": "assistant",
            "model": self._model or "<synthetic>",
            "content": blocks,
            "stop_reason": "tool_use" if format_named("anthropic").read(message).calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return [self._line("assistant", parent) | {"message": reply}]

    def edited(self, message: Message, entries: Sequence[Entry]) -> list[Entry | None]:
        """Each line with its own blocks again, or, when their number changed, all in the first line."""
        content = get(message, "content")
        parts = [entry["message"].get("content") for entry in entries]
        if isinstance(content, list) and sum(map(_count, parts)) == len(content):
            return [self._with(entry, _take(content, parts, i)) for i, entry in enumerate(entries)]
        return [self._with(entries[0], content), *(None for _ in entries[1:])]

    def _with(self, entry: Entry, content: Any) -> Entry:
        if entry["message"].get("content") == content:
            return entry
        # The client keeps a tool's raw result beside the block; left there, the old text would come back.
        return {key: value for key, value in entry.items() if key != "toolUseResult"} | {
            "message": entry["message"] | {"content": content}
        }

    def _line(self, kind: str, parent: str | None) -> Entry:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head: Entry = {"parentUuid": parent, "isSidechain": False}
        return head | self._facts | {"type": kind, "uuid": str(uuid.uuid4()), "timestamp": now}


def _count(content: Any) -> int:
    return len(content) if isinstance(content, list) else 1


def _take(content: list[Any], parts: Sequence[Any], position: int) -> Any:
    """The share of the new blocks that belongs to the line at `position`; a text without blocks stays one."""
    start = sum(map(_count, parts[:position]))
    taken = content[start : start + _count(parts[position])]
    if not isinstance(parts[position], list) and get(taken[0], "type") == "text":
        return get(taken[0], "text")
    return [block if isinstance(block, dict) else plain(block) for block in taken]
