"""Claude Code sessions: a block a line, linked by `uuid` and `parentUuid`, in Anthropic's format.

The conversation is what the client would send now. It is found as the client finds it: from the newest message back
along the parents, up to the last compaction. Two things the plain walk would lose are put back: parallel calls and
their results, which hang side by side, and what lies behind a parent that was never written.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unabridged.formats import Message, format_named
from unabridged.formats.fields import get, plain
from unabridged.sessions.loaded import FREE, PAST, Assembly, Lines, Loaded, Stamp, is_results
from unabridged.sessions.rewrite import Entry, LineWriter, Match
from unabridged.sessions.text import Progress, collect, line_value, time_now

_FACTS = ("cwd", "sessionId", "version", "gitBranch", "userType", "entrypoint", "slug")


def owns_line(line: dict[str, Any]) -> bool:
    """Whether this is a line of Claude Code's."""
    named = isinstance(line.get("type"), str)
    return named and (
        bool({"sessionId", "parentUuid", "leafUuid", "isSidechain"} & set(line))
        or line["type"] == "file-history-snapshot"
    )


@dataclass(slots=True)
class _ClaudeCodeMap:
    """What pass one learns about the lines, without keeping what they say."""

    turns: list[int] = field(default_factory=list)
    """User and assistant lines of the main thread."""
    chain: list[int] = field(default_factory=list)
    """All lines of the main thread that have a uuid."""
    places: dict[str, int] = field(default_factory=dict)
    replies: dict[int, str] = field(default_factory=dict)
    """message.id of each assistant line."""
    calls: dict[int, list[str]] = field(default_factory=dict)
    answers: dict[int, list[str]] = field(default_factory=dict)
    boundaries: dict[int, dict[str, Any]] = field(default_factory=dict)


def read(path: Path, stamp: Stamp, progress: Progress | None) -> Loaded:
    """Read the session in two passes: where everything is, then only the lines that count."""
    lines, warnings, known = Lines(stamp), list[str](), _ClaudeCodeMap()
    for line in collect(path, stamp, progress, lines, warnings):
        _note(line.number, line.value, lines, known)
    walked = _walk(lines, known)
    boundary = next((n for n in walked if n in known.boundaries), None)
    active = sorted(_with_siblings(walked, known, -1 if boundary is None else boundary))
    kept = _room_for_words(lines, known, boundary)
    lines.path = frozenset(walked).union(active, kept)
    joined = _Joiner()
    with path.open("rb") as stream:
        for number in [*active[:1], *kept, *active[1:]]:
            joined.add_line(number, line_value(stream, lines, number))
    _own(lines, joined, boundary)
    if kept:
        firsts = {kept[0], *active[1:2]}
        lines.seams = frozenset(i for i, numbers in enumerate(joined.numbers) if firsts.intersection(numbers))
    return joined.loaded(path, "claude-code", lines, warnings)


def _note(number: int, entry: dict[str, Any], lines: Lines, known: _ClaudeCodeMap) -> None:
    """Remember who the line is, whom it follows, and what it answers."""
    own, parent = entry.get("uuid"), entry.get("parentUuid")
    if not isinstance(own, str):
        return
    lines.ids[number], lines.parents[number] = own, parent if isinstance(parent, str) else None
    if entry.get("isSidechain"):
        return
    known.places[own] = number
    known.chain.append(number)
    if not lines.facts:
        lines.facts = {name: entry[name] for name in _FACTS if name in entry}
    if entry.get("type") == "system" and entry.get("subtype") == "compact_boundary":
        known.boundaries[number] = entry.get("compactMetadata") or {}
    elif entry.get("type") in {"user", "assistant"} and not entry.get("isApiErrorMessage"):
        _note_turn(number, entry.get("message"), known)


def _note_turn(number: int, message: Any, known: _ClaudeCodeMap) -> None:
    if not isinstance(message, dict):
        return
    known.turns.append(number)
    if message.get("role") == "assistant" and isinstance(message.get("id"), str):
        known.replies[number] = message["id"]
    for block in _blocks(message):
        if block.get("type") == "tool_use":
            known.calls.setdefault(number, []).append(str(block.get("id")))
        elif block.get("type") == "tool_result":
            known.answers.setdefault(number, []).append(str(block.get("tool_use_id")))


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _walk(lines: Lines, known: _ClaudeCodeMap) -> list[int]:
    """Lines from the newest turn back to the last compaction, or to the beginning."""
    if not known.turns:
        return []
    before = {number: known.chain[i - 1] if i else None for i, number in enumerate(known.chain)}
    path: list[int] = []
    at: int | None = known.turns[-1]
    while at is not None:
        path.append(at)
        parent = lines.parents[at]
        if at in known.boundaries or parent is None:
            break
        found = known.places.get(parent)
        # A parent that is not in the file, or not before its child: go on with the line in front.
        at = found if found is not None and found < at else before[at]
    return path


def _with_siblings(path: Iterable[int], known: _ClaudeCodeMap, after: int) -> set[int]:
    """The turns on the path, with the other blocks of the same replies and the results of their calls."""
    turns = {number for number in path if number in known.replies or number in known.answers}
    turns |= set(path) & set(known.turns)
    replies = {known.replies[number] for number in turns if number in known.replies}
    turns |= {number for number, reply in known.replies.items() if reply in replies and number > after}
    calls = {call for number in turns for call in known.calls.get(number, ())}
    turns |= {number for number, ids in known.answers.items() if number > after and calls.intersection(ids)}
    return turns


def _room_for_words(lines: Lines, known: _ClaudeCodeMap, boundary: int | None) -> list[int]:
    """Turns from before the compaction that it kept word for word: the client puts them behind the summary."""
    if boundary is None:
        return []
    metadata = known.boundaries[boundary]
    listed = (metadata.get("preservedMessages") or {}).get("uuids")
    if isinstance(listed, list):
        found = [known.places[name] for name in listed if name in known.places]
        return [number for number in found if number < boundary]
    segment = metadata.get("preservedSegment") or {}
    head, at = segment.get("headUuid"), known.places.get(str(segment.get("tailUuid")))
    path: list[int] = []
    while at is not None and at < boundary and at not in path:
        path.append(at)
        if lines.ids[at] == head:
            return sorted(number for number in _with_siblings(path, known, at - 1) if number < boundary)
        at = known.places.get(str(lines.parents[at]))
    return []


@dataclass(slots=True)
class _Joiner(Assembly):
    """Puts the lines of one message together again."""

    reply: tuple[str, int] | None = None
    """The newest reply: its id, and its index."""

    def add_line(self, number: int, entry: dict[str, Any]) -> None:
        message = entry["message"]
        content = message.get("content")
        if not content:
            return
        if entry["type"] == "assistant":
            self._add_reply(number, message, content)
            return
        new = {"role": "user", "content": content}
        if is_results(new) and self.ends_in_results():
            self.extend(-1, number, content)
            return
        self.add(number, new, host=bool(entry.get("isMeta") or entry.get("isCompactSummary")))
        if not is_results(new):
            self.reply = None  # a person spoke: what follows is another reply, whatever its id

    def _add_reply(self, number: int, message: dict[str, Any], content: Any) -> None:
        name = message.get("id")
        if self.reply and self.reply[0] == name and isinstance(content, list):
            index = self.reply[1]
            self.extend(index, number, content)
        else:
            index = self.add(number, {"role": "assistant", "content": content})
            self.reply = (name, index) if isinstance(name, str) and isinstance(content, list) else None
        if message.get("usage"):
            self.usage[index] = message["usage"]
        if message.get("model") and message["model"] != "<synthetic>":
            self.model = message["model"]


def _own(lines: Lines, joined: Assembly, boundary: int | None) -> None:
    """Say whose every line is: one that is no message but in the chain goes with the message in front of it."""
    joined.own_lines(lines)
    start = -1 if boundary is None else boundary
    owner = FREE
    for number in range(len(lines)):
        if lines.owners[number] >= 0:
            owner = lines.owners[number] if number > start else owner
        elif lines.owners[number] == FREE and lines.ids[number] is not None:
            lines.owners[number] = PAST if number < start else owner
    if boundary is not None and joined.messages:
        lines.owners[boundary] = 0
        lines.roots = frozenset({boundary})
        lines.summaries = frozenset({0})


# -- writing ----------------------------------------------------------------------------------------------------------


class ClaudeCodeWriter(LineWriter):
    """Every line of ours carries what the client writes on its own: session, folder, version, branch."""

    names = ("uuid", "parentUuid")

    def marked_range(self, matches: Sequence[Match], summary: int | None) -> tuple[int, int] | None:
        """The summary turn alone: the client has a place for it behind the boundary."""
        del matches
        return None if summary is None else (summary, summary + 1)

    def mark(self, messages: Sequence[Message], dropped: int, parent: str | None) -> list[Entry]:
        """A boundary, which begins a new chain, and the summary as its child."""
        del parent
        metadata = {"trigger": "manual", "preTokens": self.tokens_before, "messagesSummarized": dropped}
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

    def new_lines(self, message: Message, parent: str | None) -> list[Entry]:
        """One line with all blocks of the message."""
        role, content = get(message, "role"), get(message, "content")
        if role != "assistant":
            return [self._line("user", parent) | {"message": {"role": "user", "content": content}}]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        reply = {
            "id": f"msg_{uuid.uuid4().hex[:24]}",
            "type": "message",
            "role": "assistant",
            "model": self.loaded.model or "<synthetic>",
            "content": blocks,
            "stop_reason": "tool_use" if format_named("anthropic").read(message).calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return [self._line("assistant", parent) | {"message": reply}]

    def edited_lines(self, message: Message, entries: Sequence[Entry]) -> list[Entry | None]:
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
        head: Entry = {"parentUuid": parent, "isSidechain": False, "userType": "external"}
        return head | self.lines.facts | {"type": kind, "uuid": str(uuid.uuid4()), "timestamp": time_now()}


def _count(content: Any) -> int:
    return len(content) if isinstance(content, list) else 1


def _take(content: list[Any], parts: Sequence[Any], position: int) -> Any:
    """The share of the new blocks that belongs to the line at `position`; a text without blocks stays one."""
    start = sum(map(_count, parts[:position]))
    taken = content[start : start + _count(parts[position])]
    if not isinstance(parts[position], list) and get(taken[0], "type") == "text":
        return get(taken[0], "text")
    return [block if isinstance(block, dict) else plain(block) for block in taken]
