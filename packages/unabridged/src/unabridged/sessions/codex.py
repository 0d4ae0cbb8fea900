"""Codex CLI rollouts: `{timestamp, type, payload}` lines around the items of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from unabridged.formats import FORMATS, Message, OpenAIResponses
from unabridged.formats.fields import get, plain
from unabridged.messages import Origin
from unabridged.sessions.loaded import Client, Compaction, Entry, Match, Session, is_content
from unabridged.sessions.text import dump, time_now

_FORMAT = FORMATS[OpenAIResponses.name]
_CONTEXT = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md")
_NOT_SENT = frozenset({"ghost_snapshot", "other"})
_COUNTS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
_BYTES = 4
"""Of a token, about: the client's own rule."""
_CARRIED = 80_000
"""Characters of people's messages that the client carries over an old-style compaction: 20,000 tokens, newest first."""

_OURS = "[unabridged]"
"""How what our hook tells begins."""
_HEAD = "Another language model started to solve this problem"
"""How the client begins the line that it puts in front of a summary."""


def owns_line(line: Entry) -> bool:
    """Whether this is a line of Codex CLI's."""
    return isinstance(line.get("payload"), dict) and isinstance(line.get("type"), str)


def is_sound(line: Entry) -> bool:
    """Whether the line has a payload that says what it is."""
    payload = line.get("payload")
    if not isinstance(payload, dict):
        return False
    if line["type"] == "response_item":
        return _is_item(payload)
    if line["type"] == "compacted":
        left = payload.get("replacement_history")
        return left is None or (isinstance(left, list) and all(isinstance(one, dict) and _is_item(one) for one in left))
    if line["type"] in {"session_meta", "turn_context"}:
        return isinstance(payload.get("model") or "", str)
    return isinstance(payload.get("info") or {}, dict) and isinstance(payload.get("num_turns") or 0, int)


def _is_item(item: Entry) -> bool:
    kind, role = item.get("type", "message"), item.get("role", "")
    parts = (item.get("content"), item.get("output"), item.get("summary"))
    return isinstance(kind, str) and isinstance(role, str) and all(map(is_content, parts))


def read(entries: Iterable[Entry]) -> Session:
    """The conversation, replayed: items, compactions and turns that were taken back."""
    session = Session()
    for entry in entries:
        kind, payload = entry.get("type"), entry.get("payload")
        if not isinstance(payload, dict):
            continue
        if kind == "response_item" and payload.get("type") not in _NOT_SENT:
            session.messages.append(payload)
        elif kind == "compacted":
            session.messages = list(_left_by(payload, session.messages))
            session.usage.clear()
        elif kind == "event_msg":
            _follow_event(session, payload)
        elif kind in {"session_meta", "turn_context"}:
            _note_context(session, kind, payload)
    session.origins = {i: origin for i, item in enumerate(session.messages) if (origin := _origin(item)) is not None}
    return session


def _follow_event(session: Session, payload: Entry) -> None:
    items = session.messages
    if payload.get("type") == "token_count":
        session.facts = payload.get("info") or session.facts
        usage = _last_usage(payload)
        if usage.get("input_tokens") and items:  # 0: the client's own estimate of what a compaction left
            session.usage[len(items) - 1] = usage
    elif payload.get("type") == "thread_rolled_back":
        turns = int(payload.get("num_turns") or 0)
        starts = [i for i, item in enumerate(items) if _is_person(item)]
        if turns > 0 and starts:
            del items[starts[-min(turns, len(starts))] :]
            session.usage = {index: usage for index, usage in session.usage.items() if index < len(items)}


def _last_usage(payload: Entry) -> Entry:
    """What a `token_count` says about the last request; nothing for any other event."""
    info = payload.get("info") if payload.get("type") == "token_count" else None
    usage = info.get("last_token_usage") if isinstance(info, dict) else None
    return usage if isinstance(usage, dict) else {}


def _note_context(session: Session, kind: str, payload: Entry) -> None:
    if kind == "session_meta":
        given = payload.get("base_instructions") or payload.get("instructions")
        session.system = given.get("text") if isinstance(given, dict) else given
    session.model = payload.get("model") or session.model


def _left_by(compaction: Entry, items: Sequence[Entry]) -> Iterator[Entry]:
    """What a compaction leaves; an old-style one: the context at the beginning, people's newest messages, a summary."""
    left = compaction.get("replacement_history")
    if isinstance(left, list):
        yield from (item for item in left if isinstance(item, dict))
        return
    people = [i for i, item in enumerate(items) if _is_person(item)]
    yield from items[: people[0] if people else len(items)]
    room, first = _CARRIED, len(people)
    while first and (room := room - len(_FORMAT.read(items[people[first - 1]]).text)) >= 0:
        first -= 1
    yield from (items[i] for i in people[first:])
    yield _text_item("user", str(compaction.get("message") or ""))


def _is_person(item: Entry) -> bool:
    return item.get("type", "message") == "message" and item.get("role") == "user" and _origin(item) is None


def _origin(item: Entry) -> Origin | None:
    if item.get("role") != "user":
        return None
    return "host" if _FORMAT.read(item).text.lstrip().startswith(_CONTEXT) else None


def _text_item(role: str, text: str) -> Entry:
    """A message item in the long form: the client reads no other."""
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return {"type": "message", "role": role, "content": [part]}


def append(session: Session, matches: Sequence[Match], tokens_before: int) -> Iterator[Entry]:
    """One `compacted` line with the whole list that it leaves, and how large that is."""
    del tokens_before
    items = [_item(found.message) for found in matches]
    said = next((_FORMAT.read(item).text for item in items if _is_person(item)), "")
    payload = {"message": said, "replacement_history": items}
    yield {"timestamp": time_now(), "type": "compacted", "payload": payload}
    if session.facts:
        # Resumed, the client goes by the last size in the file: the old one would have it compact again at once.
        size = len(dump(payload)) // _BYTES
        left = {"last_token_usage": dict.fromkeys(_COUNTS, 0) | {"total_tokens": size}}
        told = {"type": "token_count", "info": session.facts | left, "rate_limits": None}
        yield {"timestamp": time_now(), "type": "event_msg", "payload": told}


def _item(message: Message) -> dict[str, Any]:
    if get(message, "type") is None and isinstance(get(message, "content"), str):
        return _text_item(str(get(message, "role")), str(get(message, "content")))
    return plain(message) if get(message, "type") else {"type": "message", **plain(message)}


def newest_compaction(entries: Sequence[Entry]) -> Compaction | None:
    """The last `compacted` line, and the model's reply that became its summary; None when nothing was said before."""
    found = next((n for n in reversed(range(len(entries))) if entries[n].get("type") == "compacted"), None)
    if found is None or not any(entry.get("type") in {"response_item", "compacted"} for entry in entries[:found]):
        return None
    behind = entries[found + 1].get("payload") if found + 1 < len(entries) else None
    estimate = _last_usage(behind) if isinstance(behind, dict) else {}
    ours = bool(estimate) and not estimate.get("input_tokens")
    lines = {found, *_draft_of(entries, found), *_told_behind(entries, found), *([found + 1] if ours else [])}
    return Compaction(lines, {}, "")


def _told_behind(entries: Sequence[Entry], compacted: int) -> Iterator[int]:
    """What our hook told the context after a compaction: a message of the host's, before anybody speaks again."""
    for number in range(compacted + 1, len(entries)):
        item = entries[number].get("payload")
        if entries[number].get("type") != "response_item" or not isinstance(item, dict):
            continue
        if item.get("role") != "developer":
            return
        if _FORMAT.read(item).text.startswith(_OURS):
            yield number


def _draft_of(entries: Sequence[Entry], compacted: int) -> Iterator[int]:
    """The message in front of a compaction that has its summary: the client keeps the model's reply as one more."""
    before = (n for n in reversed(range(compacted)) if entries[n].get("type") == "response_item")
    number = next(before, None)
    item = entries[number].get("payload") if number is not None else None
    if number is None or not isinstance(item, dict) or item.get("role") != "assistant":
        return
    payload = entries[compacted].get("payload")
    text, summary = _FORMAT.read(item).text.strip(), str(payload.get("message") if isinstance(payload, dict) else "")
    head = summary.rstrip().removesuffix(text).strip()
    if head != summary.strip() and (not head or (head.startswith(_HEAD) and "\n" not in head)):
        yield number


CLIENT = Client(OpenAIResponses.name, owns_line, read, append, newest_compaction, is_sound)
