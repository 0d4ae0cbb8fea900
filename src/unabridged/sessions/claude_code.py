"""Claude Code sessions: a block a line, linked by `uuid` and `parentUuid`, in Anthropic's format.

The conversation is what the client would send now. It is found as the client finds it: from the newest message back
along the parents, up to the last compaction. Two things the plain walk would lose are put back: parallel calls and
their results, which hang side by side, and what lies behind a parent that was never written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unabridged.messages import Origin
from unabridged.sessions.loaded import FREE, PAST, Lines, Loaded, Reported, Stamp
from unabridged.sessions.text import Progress, collect, line_value

_FACTS = ("cwd", "sessionId", "version", "gitBranch", "userType", "entrypoint", "slug")


@dataclass(slots=True)
class _Map:
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


def load_claude_code(path: Path, stamp: Stamp, progress: Progress | None) -> Loaded:
    """Read the session in two passes: where everything is, then only the lines that count."""
    lines, warnings, known = Lines(stamp), list[str](), _Map()
    for line in collect(path, stamp, progress, lines, warnings):
        _note(line.number, line.value, lines, known)
    for _ in range(len(lines) - len(lines.ids)):
        _name(lines, None, None)
    walked = _walk(lines, known)
    boundary = next((n for n in walked if n in known.boundaries), None)
    active = sorted(_with_siblings(walked, known, -1 if boundary is None else boundary))
    kept = _preserved(lines, known, boundary)
    lines.path = frozenset(walked).union(active, kept)
    joined = _join(path, lines, [*active[:1], *kept, *active[1:]])
    _own(lines, joined.numbers, boundary)
    if kept:
        firsts = {kept[0], *active[1:2]}
        lines.seams = frozenset(i for i, numbers in enumerate(joined.numbers) if firsts.intersection(numbers))
    return _loaded(path, lines, joined, warnings)


def _name(lines: Lines, own: str | None, parent: str | None) -> None:
    lines.ids.append(own)
    lines.parents.append(parent)


def _note(number: int, entry: dict[str, Any], lines: Lines, known: _Map) -> None:
    """Remember who the line is, whom it follows, and what it answers."""
    while len(lines.ids) < number:
        _name(lines, None, None)
    own = entry.get("uuid")
    if not isinstance(own, str):
        _name(lines, None, None)
        return
    parent = entry.get("parentUuid")
    _name(lines, own, parent if isinstance(parent, str) else None)
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


def _note_turn(number: int, message: Any, known: _Map) -> None:
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


def _walk(lines: Lines, known: _Map) -> list[int]:
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


def _with_siblings(path: Iterable[int], known: _Map, after: int) -> set[int]:
    """The turns on the path, with the other blocks of the same replies and the results of their calls."""
    turns = {number for number in path if number in known.replies or number in known.answers}
    turns |= set(path) & set(known.turns)
    replies = {known.replies[number] for number in turns if number in known.replies}
    turns |= {number for number, reply in known.replies.items() if reply in replies and number > after}
    calls = {call for number in turns for call in known.calls.get(number, ())}
    turns |= {number for number, ids in known.answers.items() if number > after and calls.intersection(ids)}
    return turns


def _preserved(lines: Lines, known: _Map, boundary: int | None) -> list[int]:
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
class _Joiner:
    """Puts the lines of one message together again."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    numbers: list[list[int]] = field(default_factory=list)
    origins: dict[int, Origin] = field(default_factory=dict)
    usage: dict[int, Any] = field(default_factory=dict)
    model: str | None = None
    reply: tuple[str, int] | None = None

    def add(self, number: int, entry: dict[str, Any]) -> None:
        message = entry["message"]
        content = message.get("content")
        if not content:
            return
        if entry["type"] == "assistant":
            self._assistant(number, message, content)
        else:
            self._user(number, entry, content)

    def _assistant(self, number: int, message: dict[str, Any], content: Any) -> None:
        name = message.get("id")
        if self.reply and self.reply[0] == name and isinstance(content, list):
            index = self.reply[1]
            self.messages[index]["content"] = [*self.messages[index]["content"], *content]
            self.numbers[index].append(number)
        else:
            index = self._new(number, "assistant", content)
            self.reply = (name, index) if isinstance(name, str) and isinstance(content, list) else None
        if message.get("usage"):
            self.usage[index] = message["usage"]
        if message.get("model") and message["model"] != "<synthetic>":
            self.model = message["model"]

    def _user(self, number: int, entry: dict[str, Any], content: Any) -> None:
        results = _is_results({"role": "user", "content": content})
        if results and self.messages and _is_results(self.messages[-1]):
            self.messages[-1]["content"] = [*self.messages[-1]["content"], *content]
            self.numbers[-1].append(number)
            return
        index = self._new(number, "user", content)
        if not results:
            self.reply = None  # a person spoke: what follows is another reply, whatever its id
        if entry.get("isMeta") or entry.get("isCompactSummary"):
            self.origins[index] = "host"

    def _new(self, number: int, role: str, content: Any) -> int:
        self.messages.append({"role": role, "content": content})
        self.numbers.append([number])
        return len(self.messages) - 1


def _is_results(message: dict[str, Any]) -> bool:
    """Whether the message holds nothing but results of tools."""
    content = message["content"]
    if message["role"] != "user" or not isinstance(content, list):
        return False
    return all(isinstance(block, dict) and block.get("type") == "tool_result" for block in content)


def _join(path: Path, lines: Lines, order: Iterable[int]) -> _Joiner:
    """Pass two: the messages, each with its lines."""
    joiner = _Joiner()
    with path.open("rb") as stream:
        for number in order:
            joiner.add(number, line_value(stream, lines, number))
    return joiner


def _own(lines: Lines, numbers: list[list[int]], boundary: int | None) -> None:
    """Say whose every line is: one that is no message but in the chain goes with the message in front of it."""
    for index, where in enumerate(numbers):
        for number in where:
            lines.owners[number] = index
    start = -1 if boundary is None else boundary
    owner = FREE
    for number in range(len(lines)):
        if lines.owners[number] >= 0:
            owner = lines.owners[number] if number > start else owner
        elif lines.owners[number] == FREE and lines.ids[number] is not None:
            lines.owners[number] = PAST if number < start else owner
    if boundary is not None and numbers:
        lines.owners[boundary] = 0
        lines.roots = frozenset({boundary})
        lines.summaries = frozenset({0})


def _loaded(path: Path, lines: Lines, joined: _Joiner, warnings: list[str]) -> Loaded:
    return Loaded(
        path=path,
        kind="claude-code",
        format="anthropic",
        messages=list(joined.messages),
        model=joined.model,
        usage=tuple(Reported(index, usage) for index, usage in sorted(joined.usage.items())),
        lines=tuple(tuple(numbers) for numbers in joined.numbers),
        origins=joined.origins,
        warnings=tuple(warnings),
        source=lines,
    )
