"""Lines that pi can resume from: a compaction with what was kept behind it, and entries of our own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from unabridged.formats import Message, format_named
from unabridged.formats.fields import get, plain
from unabridged.sessions.loaded import Lines, Loaded
from unabridged.sessions.match import Match
from unabridged.sessions.pi import to_anthropic
from unabridged.sessions.rewrite import Entry

_NO_USAGE = {
    "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}  # fmt: skip


class PiWriter:
    """The compaction comes first and everything that stays after it, so that old and new versions read the same."""

    names: tuple[str, str] | None = ("id", "parentId")

    def __init__(self, loaded: Loaded, lines: Lines, tokens_before: int) -> None:
        if not any(name is not None for name in lines.ids):
            self.names = None  # a file of the first version: entries in a row, no tree
        self._loaded = loaded
        self._taken = {name for name in lines.ids if name}
        self._tokens = tokens_before
        self._first: str | None = None

    def swallows(self, matches: Sequence[Match], summary: int | None) -> tuple[int, int] | None:
        """The summary turn alone. Remembers which entry follows it, which the compaction has to name."""
        if summary is None:
            return None
        lines, after = self._loaded.source, next((m.index for m in matches[summary + 1 :] if m.index is not None), None)
        if after is not None and isinstance(lines, Lines):
            self._first = lines.ids[self._loaded.lines[after][0]]
        return summary, summary + 1

    def mark(self, messages: Sequence[Message], dropped: int, parent: str | None) -> list[Entry]:
        """The compaction."""
        del dropped
        summary = format_named("anthropic").read(messages[0]).text
        entry = self._entry("compaction", parent) | {"summary": summary, "tokensBefore": self._tokens}
        return [entry | {"firstKeptEntryId": self._first or entry.get("id", "")}]

    def made(self, message: Message, parent: str | None) -> list[Entry]:
        """An entry for what is said, and one for each result of a tool."""
        entries: list[Entry] = []
        for body in self._bodies(message):
            entries.append(self._entry("message", parent) | {"message": body})
            parent = entries[-1].get("id")
        return entries

    def edited(self, message: Message, entries: Sequence[Entry]) -> list[Entry | None]:
        """Each entry with what is now said in its place; results find their entry by the call they answer."""
        bodies = list(self._bodies(message))
        by_call = {body.get("toolCallId"): body for body in bodies if body["role"] == "toolResult"}
        if not by_call:
            return [_with(entries[0], bodies[0]), *(None for _ in entries[1:])]
        found = [by_call.get((entry.get("message") or {}).get("toolCallId")) for entry in entries]
        return [_with(entry, body) if body else None for entry, body in zip(entries, found, strict=True)]

    def _bodies(self, message: Message) -> Iterator[dict[str, Any]]:
        content, role = get(message, "content"), str(get(message, "role"))
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [_dict(b) for b in content or ()]
        stamp = int(datetime.now(UTC).timestamp() * 1000)
        for block in blocks:
            if block.get("type") == "tool_result":
                yield {
                    "role": "toolResult",
                    "toolCallId": block.get("tool_use_id"),
                    "toolName": self._tool(str(block.get("tool_use_id"))),
                    "content": _from_blocks(block.get("content")),
                    "isError": bool(block.get("is_error")),
                    "timestamp": stamp,
                }
        said = [block for block in blocks if block.get("type") != "tool_result"]
        if said and role == "assistant":
            calls = any(block.get("type") == "tool_use" for block in said)
            yield self._assistant(_from_blocks(said), "toolUse" if calls else "stop", stamp)
        elif said:
            yield {"role": "user", "content": _from_blocks(said), "timestamp": stamp}

    def _assistant(self, content: list[dict[str, Any]], stop: str, stamp: int) -> dict[str, Any]:
        facts = {"api": "anthropic-messages", "provider": "anthropic", "model": self._loaded.model or "unknown"}
        head: dict[str, Any] = {"role": "assistant", "content": content}
        return head | facts | {"usage": _NO_USAGE, "stopReason": stop, "timestamp": stamp}

    def _tool(self, call_id: str) -> str:
        format_ = format_named("anthropic")
        calls = (call for message in self._loaded.messages for call in format_.read(message).calls)
        return next((call.name for call in calls if call.id == call_id), "unknown")

    def _entry(self, kind: str, parent: str | None) -> Entry:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self.names is None:
            return {"type": kind, "timestamp": now}
        name = uuid.uuid4().hex[:8]
        while name in self._taken:
            name = uuid.uuid4().hex[:8]
        self._taken.add(name)
        return {"type": kind, "id": name, "parentId": parent, "timestamp": now}


def _with(entry: Entry, body: dict[str, Any]) -> Entry:
    """The entry with new content, and everything else about the message as it was."""
    old, _ = next(to_anthropic(entry), ({}, None))
    new, _ = next(to_anthropic(entry | {"message": body}), ({}, None))
    if old == new:
        return entry
    if entry.get("type") != "message" or not isinstance((entry.get("message") or {}).get("content"), list | str):
        return {key: entry[key] for key in ("id", "parentId", "timestamp") if key in entry} | {
            "type": "message",
            "message": body,
        }
    return entry | {"message": entry["message"] | {"content": body["content"]}}


def _dict(block: Any) -> dict[str, Any]:
    return block if isinstance(block, dict) else plain(block)


def _from_blocks(content: Any) -> list[dict[str, Any]]:
    """Anthropic's blocks as pi's."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    found: list[dict[str, Any]] = []
    for block in content or ():
        kind = get(block, "type")
        if kind == "text":
            found.append({"type": "text", "text": get(block, "text")})
        elif kind == "image":
            source = get(block, "source") or {}
            found.append({"type": "image", "data": get(source, "data"), "mimeType": get(source, "media_type")})
        elif kind == "tool_use":
            call = {"id": get(block, "id"), "name": get(block, "name"), "arguments": get(block, "input")}
            found.append({"type": "toolCall", **call})
        elif kind == "thinking":
            signed = get(block, "signature")
            found.append({"type": "thinking", "thinking": get(block, "thinking"), "thinkingSignature": signed})
        elif kind == "redacted_thinking":
            found.append(
                {"type": "thinking", "thinking": "", "thinkingSignature": get(block, "data"), "redacted": True}
            )
    return found
