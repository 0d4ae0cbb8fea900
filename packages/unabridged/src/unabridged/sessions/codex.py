"""Codex CLI rollouts: `{timestamp, type, payload}` lines around the items of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from unabridged.formats import FORMATS, Message, OpenAIResponses
from unabridged.formats.fields import get, to_plain_dict
from unabridged.messages import Origin
from unabridged.sessions import base
from unabridged.sessions.base import ClientSession, Entry, MessageMatch, SessionCompaction, SessionFormat
from unabridged.sessions.text import HOOK_PREFIX, dump_line, format_current_time

_FORMAT = FORMATS[OpenAIResponses.name]
_CONTEXT_PREFIXES = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md")
_UNSENT_ITEM_TYPES = frozenset({"ghost_snapshot", "other"})
_USAGE_FIELDS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
_BYTES_PER_TOKEN = 4
"""The client's own rule."""
_KEPT_CHARACTERS = 80_000
"""Of people's messages that the client keeps at an old-style compaction: 20,000 tokens, newest first."""
_SUMMARY_PREFIX = "Another language model started to solve this problem"
"""How the client begins the line that it puts in front of a summary."""


def is_own_line(line: Entry) -> bool:
    """Return whether this is a line of Codex CLI's."""
    return isinstance(line.get("payload"), dict) and isinstance(line.get("type"), str)


def is_valid_line(line: Entry) -> bool:
    """Return whether the line has a payload whose read fields have valid types."""
    payload = line.get("payload")
    if not isinstance(payload, dict):
        return False
    if line["type"] == "response_item":
        return _is_valid_item(payload)
    if line["type"] == "compacted":
        left = payload.get("replacement_history") if payload.get("replacement_history") is not None else []
        return isinstance(left, list) and all(isinstance(one, dict) and _is_valid_item(one) for one in left)
    if line["type"] in {"session_meta", "turn_context"}:
        return isinstance(payload.get("model") or "", str)
    return isinstance(payload.get("info") or {}, dict) and isinstance(payload.get("num_turns") or 0, int)


def _is_valid_item(item: Entry) -> bool:
    kind, role = item.get("type", "message"), item.get("role", "")
    parts = (item.get("content"), item.get("output"), item.get("summary"))
    return isinstance(kind, str) and isinstance(role, str) and all(map(base.is_valid_content, parts))


def read(entries: Iterable[Entry]) -> ClientSession:
    """Return the conversation, replayed: items, compactions and turns that were rolled back."""
    session = ClientSession()
    for entry in entries:
        kind, payload = entry.get("type"), entry.get("payload", {})
        if kind == "response_item" and payload.get("type") not in _UNSENT_ITEM_TYPES:
            session.messages.append(payload)
        elif kind == "compacted":
            session.messages = list(_list_items_after_compaction(payload, session.messages))
            session.usage.clear()
        elif kind == "event_msg":
            _apply_event(session, payload)
        elif kind in {"session_meta", "turn_context"}:
            _apply_context(session, kind, payload)
    origins = ((i, _find_origin(item)) for i, item in enumerate(session.messages))
    session.origins = {i: origin for i, origin in origins if origin is not None}
    return session


def _apply_event(session: ClientSession, payload: Entry) -> None:
    items = session.messages
    if payload.get("type") == "token_count":
        session.facts = payload.get("info") or session.facts
        usage = _read_last_usage(payload)
        if usage.get("input_tokens") and items:  # 0: the client's own estimate of what a compaction left
            session.usage[len(items) - 1] = usage
    elif payload.get("type") == "thread_rolled_back":
        turns = int(payload.get("num_turns") or 0)
        starts = [i for i, item in enumerate(items) if _is_persons_message(item)]
        if turns > 0 and starts:
            del items[starts[-min(turns, len(starts))] :]
            session.usage = {index: usage for index, usage in session.usage.items() if index < len(items)}


def _read_last_usage(payload: Entry) -> Entry:
    """Return the usage of the last request that a `token_count` reports; an empty object for any other event."""
    info = payload.get("info") if payload.get("type") == "token_count" else None
    usage = (info or {}).get("last_token_usage")
    return usage if isinstance(usage, dict) else {}


def _apply_context(session: ClientSession, kind: str, payload: Entry) -> None:
    if kind == "session_meta":
        system = payload.get("base_instructions") or payload.get("instructions")
        session.system = system.get("text") if isinstance(system, dict) else system
    session.model = payload.get("model") or session.model


def _list_items_after_compaction(compaction: Entry, items: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the items that a compaction leaves.

    Old compactions do not list them: they leave the first context, people's newest messages, and a summary.
    """
    left = compaction.get("replacement_history")
    if left is not None:
        yield from left
        return
    people = [i for i, item in enumerate(items) if _is_persons_message(item)]
    yield from items[: people[0] if people else len(items)]
    room, first = _KEPT_CHARACTERS, len(people)
    while first and (room := room - len(_FORMAT.read(items[people[first - 1]]).text)) >= 0:
        first -= 1
    yield from (items[i] for i in people[first:])
    yield _build_text_item("user", str(compaction.get("message") or ""))


def _is_persons_message(item: Entry) -> bool:
    return item.get("type", "message") == "message" and item.get("role") == "user" and _find_origin(item) is None


def _find_origin(item: Entry) -> Origin | None:
    if item.get("role") != "user":
        return None
    return "host" if _FORMAT.read(item).text.lstrip().startswith(_CONTEXT_PREFIXES) else None


def _build_text_item(role: str, text: str) -> Entry:
    """Return a message item in the long form: the client reads no other."""
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return {"type": "message", "role": role, "content": [part]}


def append(session: ClientSession, matches: Sequence[MessageMatch], tokens_before: int) -> Iterator[Entry]:
    """Yield one `compacted` line with the whole list that it leaves, and how large that is."""
    del tokens_before
    items = [_to_item(match.message) for match in matches]
    summary = next((_FORMAT.read(item).text for item in items if _is_persons_message(item)), "")
    payload = {"message": summary, "replacement_history": items}
    yield {"timestamp": format_current_time(), "type": "compacted", "payload": payload}
    if session.facts:
        # Resumed, the client goes by the last size in the file: the old one would have it compact again at once.
        size = len(dump_line(payload)) // _BYTES_PER_TOKEN
        usage = {"last_token_usage": dict.fromkeys(_USAGE_FIELDS, 0) | {"total_tokens": size}}
        count = {"type": "token_count", "info": session.facts | usage, "rate_limits": None}
        yield {"timestamp": format_current_time(), "type": "event_msg", "payload": count}


def _to_item(message: Message) -> dict[str, Any]:
    if get(message, "type") is None and isinstance(get(message, "content"), str):
        return _build_text_item(str(get(message, "role")), str(get(message, "content")))
    return to_plain_dict(message) if get(message, "type") else {"type": "message", **to_plain_dict(message)}


def newest_compaction(entries: Sequence[Entry]) -> SessionCompaction | None:
    """Return the last `compacted` line, and the reply that became its summary; None when nothing was said before."""
    number = next((n for n in reversed(range(len(entries))) if entries[n].get("type") == "compacted"), None)
    if number is None or not any(entry.get("type") in {"response_item", "compacted"} for entry in entries[:number]):
        return None
    estimate = _read_last_usage(entries[number + 1].get("payload", {})) if number + 1 < len(entries) else {}
    ours = bool(estimate) and not estimate.get("input_tokens")
    lines = {number, *_find_summary_reply(entries, number), *_find_hook_texts(entries, number)}
    return SessionCompaction(lines | ({number + 1} if ours else set()), {}, "")


def _find_hook_texts(entries: Sequence[Entry], compacted: int) -> Iterator[int]:
    """Yield the lines that our hook added after a compaction: messages of the host's, before anybody speaks again."""
    for number in range(compacted + 1, len(entries)):
        item = entries[number].get("payload")
        if entries[number].get("type") != "response_item" or not isinstance(item, dict):
            continue
        if item.get("role") != "developer":
            return
        if _FORMAT.read(item).text.startswith(HOOK_PREFIX):
            yield number


def _find_summary_reply(entries: Sequence[Entry], compacted: int) -> Iterator[int]:
    """Yield the message before a compaction that has its summary: the client also keeps the model's reply."""
    before = (n for n in reversed(range(compacted)) if entries[n].get("type") == "response_item")
    number = next(before, None)
    if number is None or entries[number]["payload"].get("role") != "assistant":
        return
    text = _FORMAT.read(entries[number]["payload"]).text.strip()
    summary = str(entries[compacted]["payload"].get("message"))
    head = summary.rstrip().removesuffix(text).strip()
    if head != summary.strip() and (not head or (head.startswith(_SUMMARY_PREFIX) and "\n" not in head)):
        yield number


SESSION_FORMAT = SessionFormat(OpenAIResponses.name, is_own_line, read, append, newest_compaction, is_valid_line)
