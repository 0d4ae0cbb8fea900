"""pi sessions: entries linked by `id` and `parentId` into a tree, read into Anthropic's format.

pi has roles and blocks of its own (`toolResult`, `toolCall`, `bashExecution`). They are turned into Anthropic messages
for the engine; on the way back, a message that stays is its own line again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unabridged.formats import Message, format_named
from unabridged.formats.fields import get, plain
from unabridged.messages import Origin
from unabridged.sessions.loaded import FREE, PAST, Assembly, Lines, Loaded, Stamp
from unabridged.sessions.rewrite import Entry, LineWriter, Match
from unabridged.sessions.text import Progress, collect, line_value, time_now

_SPOKEN = frozenset({"message", "custom_message", "branch_summary", "compaction"})
_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_input_tokens",
    "cacheWrite": "cache_creation_input_tokens",
}


_NO_USAGE = {
    "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}  # fmt: skip


def owns_line(line: dict[str, Any]) -> bool:
    """Whether this is a line of pi's."""
    kind = line.get("type")
    return kind == "session" or (kind == "message" and isinstance(line.get("message"), dict))


@dataclass(slots=True)
class _PiMap:
    """What pass one learns about the entries, without keeping what they say."""

    entries: list[int] = field(default_factory=list)
    spoken: set[int] = field(default_factory=set)
    places: dict[str, int] = field(default_factory=dict)
    compactions: dict[int, tuple[str | None, int | None]] = field(default_factory=dict)
    """First kept entry of each compaction: by id, or by line in old files."""
    model: str | None = None


def read(path: Path, stamp: Stamp, progress: Progress | None) -> Loaded:
    """Read the session in two passes: the tree, then the entries from its newest leaf back to the root."""
    lines, warnings, known = Lines(stamp), list[str](), _PiMap()
    for line in collect(path, stamp, progress, lines, warnings):
        _note(line.number, line.value, lines, known)
    branch = _branch(lines, known)
    lines.path = frozenset(branch)
    compaction = next((n for n in reversed(branch) if n in known.compactions), None)
    messages = Assembly(model=known.model)
    with path.open("rb") as stream:
        for number in _entries_sent(known, branch, compaction):
            _add_entry(messages, number, line_value(stream, lines, number))
    _own(lines, known, messages, compaction)
    return messages.loaded(path, "pi", lines, warnings)


def _note(number: int, entry: dict[str, Any], lines: Lines, known: _PiMap) -> None:
    kind, own, parent = entry.get("type"), entry.get("id"), entry.get("parentId")
    if kind == "session":
        return
    lines.ids[number] = own if isinstance(own, str) else None
    lines.parents[number] = parent if isinstance(parent, str) else None
    known.entries.append(number)
    if isinstance(own, str):
        known.places[own] = number
    if kind in _SPOKEN:
        known.spoken.add(number)
    if kind == "compaction":
        known.compactions[number] = (entry.get("firstKeptEntryId"), entry.get("firstKeptEntryIndex"))
    elif kind == "model_change":
        known.model = entry.get("modelId") or known.model
    elif kind == "message":
        known.model = (entry.get("message") or {}).get("model") or known.model


def _branch(lines: Lines, known: _PiMap) -> list[int]:
    """Entries from the root to the newest leaf; in old files without ids, all of them."""
    if not known.entries or lines.ids[known.entries[-1]] is None:
        return known.entries
    branch: list[int] = []
    at: int | None = known.entries[-1]
    while at is not None:
        branch.append(at)
        found = known.places.get(lines.parents[at] or "")
        at = found if found is not None and found < at else None
    return branch[::-1]


def _entries_sent(known: _PiMap, branch: list[int], compaction: int | None) -> list[int]:
    """The entries that the client turns into messages, in its order: summary, what was kept, what came after."""
    if compaction is None:
        return [number for number in branch if number in known.spoken]
    name, line = known.compactions[compaction]
    first = known.places.get(name) if name else line
    kept = [n for n in branch if first is not None and first <= n < compaction]
    after = [n for n in branch if n > compaction]
    return [compaction, *(n for n in (*kept, *after) if n in known.spoken and n not in known.compactions)]


def _add_entry(messages: Assembly, number: int, entry: dict[str, Any]) -> None:
    for message, origin in to_anthropic(entry):
        if origin == "tool" and messages.ends_in_results():
            messages.extend(-1, number, message["content"])
            continue
        index = messages.add(number, message, host=origin == "host")
        usage = (entry.get("message") or {}).get("usage") or {}
        if reported := {name: usage[key] for key, name in _USAGE.items() if key in usage}:
            messages.usage[index] = reported


def _own(lines: Lines, known: _PiMap, messages: Assembly, compaction: int | None) -> None:
    """Say whose every line is: settings and labels stay, an entry that is not sent goes with the one in front."""
    numbers = messages.numbers
    messages.own_lines(lines)
    sent = [number for where in numbers for number in where]
    first, owner = min(sent, default=0), FREE
    for number in sorted(known.spoken):
        if lines.owners[number] >= 0:
            owner = lines.owners[number] if number != compaction else owner
        else:
            past = compaction is not None and (number < first or number in known.compactions)
            lines.owners[number] = PAST if past else owner
    if compaction is not None:
        lines.summaries = frozenset({0})
    if compaction is not None and len(numbers) > 1:
        after = [index for index, where in enumerate(numbers) if where[0] > compaction]
        # In the file the summary stands behind what it kept; linked in the order of sending, both joints are new.
        lines.seams = frozenset({1, *after[:1]})


def to_anthropic(entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Origin | None]]:
    """The message that an entry is sent as, and whose words it is when it is not plain from the role. Or none."""
    kind = entry.get("type")
    if kind in {"compaction", "branch_summary"}:
        yield {"role": "user", "content": str(entry.get("summary") or "")}, "host"
        return
    message = entry if kind == "custom_message" else entry.get("message") or {}
    role, content = message.get("role"), message.get("content")
    if role == "toolResult":
        result = {"type": "tool_result", "tool_use_id": message.get("toolCallId"), "content": list(_blocks(content))}
        if message.get("isError"):
            result["is_error"] = True
        yield {"role": "user", "content": [result]}, "tool"
    elif role == "bashExecution":
        if not message.get("excludeFromContext"):
            yield {"role": "user", "content": _shell(message)}, "host"
    elif role in {"compactionSummary", "branchSummary"}:
        yield {"role": "user", "content": str(message.get("summary") or "")}, "host"
    elif role == "assistant":
        if blocks := list(_blocks(content)):
            yield {"role": "assistant", "content": blocks}, None
    elif content:
        host = kind == "custom_message" or role in {"custom", "hookMessage"}
        said = content if isinstance(content, str) else list(_blocks(content))
        yield {"role": "user", "content": said}, "host" if host else None


def _blocks(content: Any) -> Iterator[dict[str, Any]]:
    """Its blocks as Anthropic's; thinking that was never signed can't be sent and stays in the file."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}
        return
    for block in content or ():
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            yield {"type": "text", "text": block["text"]}
        elif kind == "image":
            source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
            yield {"type": "image", "source": source}
        elif kind == "toolCall":
            yield {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block.get("arguments") or {}}
        elif kind == "thinking" and block.get("thinkingSignature"):
            if block.get("redacted"):
                yield {"type": "redacted_thinking", "data": block["thinkingSignature"]}
            else:
                signature = block["thinkingSignature"]
                yield {"type": "thinking", "thinking": block.get("thinking") or "", "signature": signature}


def _shell(message: dict[str, Any]) -> str:
    """A command that the person ran themselves, as the model is told of it."""
    ended = "cancelled" if message.get("cancelled") else f"exit code {message.get('exitCode')}"
    return f"Ran `{message.get('command')}` ({ended})\n```\n{message.get('output') or ''}\n```"


# -- writing ----------------------------------------------------------------------------------------------------------


class PiWriter(LineWriter):
    """The compaction comes first and everything that stays after it, so that old and new versions read the same."""

    names: tuple[str, str] | None = ("id", "parentId")

    def __init__(self, loaded: Loaded, lines: Lines, tokens_before: int) -> None:
        super().__init__(loaded, lines, tokens_before)
        self._taken = {name for name in lines.ids if name}
        if not self._taken:
            self.names = None  # a file of the first version: entries in a row, no tree
        self._first: str | None = None

    def marked_range(self, matches: Sequence[Match], summary: int | None) -> tuple[int, int] | None:
        """The summary turn alone. Remembers which entry follows it, which the compaction has to name."""
        if summary is None:
            return None
        after = next((m.index for m in matches[summary + 1 :] if m.index is not None), None)
        if after is not None:
            self._first = self.lines.ids[self.loaded.lines[after][0]]
        return summary, summary + 1

    def mark(self, messages: Sequence[Message], dropped: int, parent: str | None) -> list[Entry]:
        """The compaction."""
        del dropped
        summary = format_named("anthropic").read(messages[0]).text
        entry = self._entry("compaction", parent) | {"summary": summary, "tokensBefore": self.tokens_before}
        return [entry | {"firstKeptEntryId": self._first or entry.get("id", "")}]

    def new_lines(self, message: Message, parent: str | None) -> list[Entry]:
        """An entry for what is said, and one for each result of a tool."""
        entries: list[Entry] = []
        for body in self._bodies(message):
            entries.append(self._entry("message", parent) | {"message": body})
            parent = entries[-1].get("id")
        return entries

    def edited_lines(self, message: Message, entries: Sequence[Entry]) -> list[Entry | None]:
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
        facts = {"api": "anthropic-messages", "provider": "anthropic", "model": self.loaded.model or "unknown"}
        head: dict[str, Any] = {"role": "assistant", "content": content}
        return head | facts | {"usage": _NO_USAGE, "stopReason": stop, "timestamp": stamp}

    def _tool(self, call_id: str) -> str:
        format_ = format_named("anthropic")
        calls = (call for message in self.loaded.messages for call in format_.read(message).calls)
        return next((call.name for call in calls if call.id == call_id), "unknown")

    def _entry(self, kind: str, parent: str | None) -> Entry:
        if self.names is None:
            return {"type": kind, "timestamp": time_now()}
        name = uuid.uuid4().hex[:8]
        while name in self._taken:
            name = uuid.uuid4().hex[:8]
        self._taken.add(name)
        return {"type": kind, "id": name, "parentId": parent, "timestamp": time_now()}


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
