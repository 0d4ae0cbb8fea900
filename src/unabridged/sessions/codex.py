"""Codex CLI rollouts: `{timestamp, type, payload}` lines around the items of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unabridged.formats import Message, format_named
from unabridged.formats.fields import get, plain
from unabridged.messages import Origin
from unabridged.sessions.loaded import FREE, PAST, Lines, Loaded, Reported, Stamp
from unabridged.sessions.rewrite import Entry, LineWriter, Match
from unabridged.sessions.text import Progress, collect, time_now

_CONTEXT = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md")
_NOT_SENT = frozenset({"ghost_snapshot", "other"})
_ASIDE = frozenset({"event_msg", "response_item", "compacted"})
_CARRIED = 80_000
"""Characters of people's messages that the client carries over an old-style compaction: 20,000 tokens, newest first."""


def owns_line(line: dict[str, Any]) -> bool:
    """Whether this is a line of Codex CLI's."""
    return isinstance(line.get("payload"), dict) and isinstance(line.get("type"), str)


@dataclass(slots=True)
class _History:
    """What the client would send, while the file is replayed line by line."""

    items: list[dict[str, Any]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    virtual: int = 0
    compacted: int | None = None
    system: str | None = None
    model: str | None = None
    usage: list[tuple[int, Any]] = field(default_factory=list)

    def add(self, number: int, item: dict[str, Any]) -> None:
        self.items.append(item)
        self.numbers.append(number)

    def compact(self, number: int, payload: dict[str, Any]) -> None:
        """Start over from what the compaction left."""
        items = payload.get("replacement_history")
        if not isinstance(items, list):
            items = [*_carried(self.items), text_item("user", str(payload.get("message") or ""))]
        self.items = [item for item in items if isinstance(item, dict)]
        self.numbers = [number] * len(self.items)
        self.virtual, self.compacted = len(self.items), number
        self.usage.clear()

    def roll_back(self, turns: int) -> None:
        """Take the last turns back, as the person did."""
        starts = [i for i, item in enumerate(self.items) if _is_person(item)]
        if turns > 0 and starts:
            cut = starts[-min(turns, len(starts))]
            del self.items[cut:], self.numbers[cut:]
            self.virtual = min(self.virtual, cut)

    def event(self, payload: dict[str, Any]) -> None:
        if payload.get("type") == "thread_rolled_back":
            self.roll_back(int(payload.get("num_turns") or 0))
        elif payload.get("type") == "token_count":
            usage = (payload.get("info") or {}).get("last_token_usage")
            if usage and self.items:
                self.usage.append((len(self.items) - 1, usage))

    def context(self, kind: str, payload: dict[str, Any]) -> None:
        if kind == "session_meta":
            given = payload.get("base_instructions") or payload.get("instructions")
            self.system = given.get("text") if isinstance(given, dict) else given
        self.model = payload.get("model") or self.model


def read(path: Path, stamp: Stamp, progress: Progress | None) -> Loaded:
    """Replay the rollout: items, compactions and turns that were taken back."""
    lines, warnings, history = Lines(stamp), list[str](), _History()
    aside: list[int] = []
    for line in collect(path, stamp, progress, lines, warnings):
        kind, payload = line.value.get("type"), line.value.get("payload")
        if not isinstance(payload, dict):
            continue
        if kind in _ASIDE:
            aside.append(line.number)
        if kind == "response_item" and payload.get("type") not in _NOT_SENT:
            history.add(line.number, payload)
        elif kind == "compacted":
            history.compact(line.number, payload)
        elif kind == "event_msg":
            history.event(payload)
        elif kind in {"session_meta", "turn_context"}:
            history.context(kind, payload)
    _own(lines, history, aside)
    return Loaded(
        path=path,
        kind="codex",
        format="openai-responses",
        messages=list(history.items),
        system=history.system,
        model=history.model,
        usage=tuple(Reported(index, usage) for index, usage in history.usage if index < len(history.items)),
        lines=tuple((number,) for number in history.numbers),
        origins={i: origin for i, item in enumerate(history.items) if (origin := _origin(item)) is not None},
        warnings=tuple(warnings),
        source=lines,
    )


def _own(lines: Lines, history: _History, aside: Sequence[int]) -> None:
    """Say whose every line is: an event goes with the item in front of it, all else stays."""
    start = -1 if history.compacted is None else history.compacted
    for index, number in enumerate(history.numbers[history.virtual :], history.virtual):
        lines.owners[number] = index
    own = set(history.numbers[history.virtual :])
    owner = history.virtual - 1 if history.virtual else FREE
    pending = set(aside) - own
    for number in range(len(lines)):
        if number in own:
            owner = lines.owners[number]
        elif number in pending and lines.owners[number] == FREE:
            lines.owners[number] = PAST if number < start else owner
    if start >= 0:
        lines.owners[start] = PAST
    lines.virtual = history.virtual


def _carried(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What an old-style compaction leaves: the context at the beginning, and people's messages, the newest first."""
    first = next((i for i, item in enumerate(items) if _is_person(item)), len(items))
    left, kept = _CARRIED, list[dict[str, Any]]()
    for item in reversed([item for item in items if _is_person(item)]):
        left -= len(format_named("openai-responses").read(item).text)
        if left < 0:
            break
        kept.append(item)
    return [*items[:first], *reversed(kept)]


def _is_person(item: dict[str, Any]) -> bool:
    return item.get("type", "message") == "message" and item.get("role") == "user" and _origin(item) is None


def _origin(item: dict[str, Any]) -> Origin | None:
    if item.get("role") != "user":
        return None
    text = format_named("openai-responses").read(item).text.lstrip()
    return "host" if text.startswith(_CONTEXT) else None


def text_item(role: str, text: str) -> dict[str, Any]:
    """A message item in the long form: the client reads no other."""
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return {"type": "message", "role": role, "content": [part]}


class CodexWriter(LineWriter):
    """One `compacted` line holds the beginning up to the summary; what follows stays in lines of its own."""

    def marked_range(self, matches: Sequence[Match], summary: int | None) -> tuple[int, int] | None:
        """Everything up to the summary, and whatever else has no line of its own: all that follows keeps its lines."""
        whole = all(i < len(matches) and matches[i].same and matches[i].index == i for i in range(self.lines.virtual))
        if summary is None and whole:
            return None
        lineless = [
            i for i, found in enumerate(matches) if found.index is not None and found.index < self.lines.virtual
        ]
        return 0, max([-1 if summary is None else summary, *lineless]) + 1

    def mark(self, messages: Sequence[Message], dropped: int, parent: str | None) -> list[Entry]:
        """The compaction, with the whole list that it leaves."""
        del dropped, parent
        items = [_item(message) for message in messages]
        texts = [format_named("openai-responses").read(item).text for item in items if _is_person(item)]
        return [_line("compacted", {"message": texts[0] if texts else "", "replacement_history": items})]

    def new_lines(self, message: Message, parent: str | None) -> list[Entry]:
        """One item, one line."""
        del parent
        return [_line("response_item", _item(message))]

    def edited_lines(self, message: Message, entries: Sequence[Entry]) -> list[Entry | None]:
        """The item in its old line."""
        return [entries[0] | {"payload": _item(message)}]


def _item(message: Message) -> dict[str, Any]:
    if get(message, "type") is None and isinstance(get(message, "content"), str):
        return text_item(str(get(message, "role")), str(get(message, "content")))
    return plain(message) if get(message, "type") else {"type": "message", **plain(message)}


def _line(kind: str, payload: dict[str, Any]) -> Entry:
    return {"timestamp": time_now(), "type": kind, "payload": payload}
