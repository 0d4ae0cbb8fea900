"""Claude Code sessions: a block a line, linked by `uuid` and `parentUuid`, in Anthropic's format.

The conversation is what the client would send now. It is found as the client finds it: from the newest message back
along the parents, up to the last compaction. Two things that the plain walk would miss are added: parallel calls and
their results, which are siblings, and what is before a parent that was never written.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from unabridged.formats import FORMATS, Anthropic, Message
from unabridged.formats.fields import get
from unabridged.sessions import base
from unabridged.sessions.base import ClientSession, Entry, MessageMatch, SessionCompaction, SessionFormat
from unabridged.sessions.text import HOOK_PREFIX, format_current_time, is_new_summary

_COPIED_FIELDS = ("cwd", "sessionId", "version", "gitBranch", "userType", "entrypoint", "slug")


def is_own_line(line: Entry) -> bool:
    """Return whether this is a line of Claude Code's."""
    is_linked = bool({"sessionId", "parentUuid", "leafUuid", "isSidechain"} & set(line))
    return isinstance(line.get("type"), str) and (is_linked or line["type"] == "file-history-snapshot")


def is_valid_line(line: Entry) -> bool:
    """Return whether a turn has a message, and the message a valid content."""
    if line["type"] not in {"user", "assistant"}:
        return True
    message = line.get("message")
    if not isinstance(message, dict) or not base.is_valid_content(message.get("content")):
        return False
    return isinstance(message.get("usage") or {}, dict) and isinstance(message.get("model") or "", str)


def read(entries: Iterable[Entry]) -> ClientSession:
    """Return the conversation, from the newest turn back to the last compaction."""
    thread = _MainThread()
    for number, entry in enumerate(entries):
        thread.record_line(number, entry)
    session = _JoinedSession(facts=thread.facts)
    for number in thread.list_sent_lines():
        session.add_line(thread.turns[number])
    return session


@dataclass(slots=True)
class _MainThread:
    """The main thread: its turns, by the number of their line, and how all its lines are linked."""

    turns: dict[int, Entry] = field(default_factory=dict)
    """User and assistant lines."""
    boundaries: dict[int, Entry] = field(default_factory=dict)
    """The metadata of each compaction."""
    chain: list[tuple[int, str, str | None]] = field(default_factory=list)
    """The number of every line that has a uuid, its uuid and its parent's."""
    places: dict[str, int] = field(default_factory=dict)
    """The index in `chain` of each uuid."""
    replies: dict[int, str] = field(default_factory=dict)
    """message.id of each assistant line."""
    calls: dict[int, list[str]] = field(default_factory=dict)
    answers: dict[int, list[str]] = field(default_factory=dict)
    facts: Entry = field(default_factory=dict)

    def record_line(self, number: int, entry: Entry) -> None:
        """Record the ids of the line and of its parent, and what it calls or answers."""
        own, parent = entry.get("uuid"), entry.get("parentUuid")
        if not isinstance(own, str) or entry.get("isSidechain"):
            return
        self.places[own] = len(self.chain)
        self.chain.append((number, own, parent if isinstance(parent, str) else None))
        self.facts = self.facts or {name: entry[name] for name in _COPIED_FIELDS if name in entry}
        if entry.get("type") == "system" and entry.get("subtype") == "compact_boundary":
            self.boundaries[number] = _to_object(entry.get("compactMetadata"))
        elif entry.get("type") in {"user", "assistant"} and not entry.get("isApiErrorMessage"):
            self.turns[number] = entry
            self._record_calls(number, entry["message"])

    def _record_calls(self, number: int, message: Entry) -> None:
        if message.get("role") == "assistant" and isinstance(message.get("id"), str):
            self.replies[number] = message["id"]
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if get(block, "type") == "tool_use":
                self.calls.setdefault(number, []).append(str(block.get("id")))
            elif get(block, "type") == "tool_result":
                self.answers.setdefault(number, []).append(str(block.get("tool_use_id")))

    def list_sent_lines(self) -> list[int]:
        """Return the lines that are sent, in the client's order: summary, what was kept, what came after."""
        path = self.walk_back()
        boundary = self.find_last_boundary(path)
        kept = self.find_preserved_turns(boundary) if boundary is not None else []
        names = frozenset(kept)
        met = next((number for number in path if number in names), None)
        if met is not None and met != path[0]:  # what came since went on from this one
            kept = kept[: kept.index(met) + 1]
        turns = self.add_siblings([*path, *kept], -1 if boundary is None else boundary)
        active = sorted(turns - set(kept))
        first = self.find_anchor_line(boundary) if kept and boundary is not None else None
        split = 0 if first is not None and first not in active[:1] else 1
        return [*active[:split], *kept, *active[split:]]

    def find_last_boundary(self, path: Iterable[int]) -> int | None:
        """Return the newest compaction on the path."""
        return next((number for number in path if number in self.boundaries), None)

    def find_anchor_line(self, boundary: int) -> int | None:
        """Return the line after which a compaction puts the turns that it kept: its summary, or its own line."""
        metadata = self.boundaries[boundary]
        named = _to_object(metadata.get("preservedMessages") or metadata.get("preservedSegment"))
        place = self.places.get(str(named.get("anchorUuid")))
        return None if place is None else self.chain[place][0]

    def walk_back(self) -> list[int]:
        """Return the lines from the newest turn back to the last compaction, or to the beginning.

        What a compaction kept is before it in the file and after it in the conversation: from there the walk goes on
        with the summary.
        """
        newest = max(self.boundaries, default=-1)
        kept = frozenset(self.find_preserved_turns(newest)) if newest >= 0 else frozenset[int]()
        ends = {number for number in self.turns if not kept or number > newest or number in kept}
        at = max((at for at, (number, _, _) in enumerate(self.chain) if number in ends), default=-1)
        path: list[int] = []
        while at >= 0:
            number, _, parent = self.chain[at]
            path.append(number)
            if number in kept:
                path += [line for line in (self.find_anchor_line(newest), newest) if line is not None]
                break
            if number in self.boundaries or parent is None:
                break
            # A parent that is not in the file, or not before its child: go on with the line in front.
            before = self.places.get(parent, at)
            at = before if before < at else at - 1
        return path

    def add_siblings(self, path: Iterable[int], after: int) -> set[int]:
        """Return the turns on the path, with the other blocks of the same replies and the results of their calls."""
        turns = set(path) & set(self.turns)
        replies = {self.replies[number] for number in turns if number in self.replies}
        turns |= {number for number, reply in self.replies.items() if reply in replies and number > after}
        calls = {call for number in turns for call in self.calls.get(number, ())}
        turns |= {number for number, ids in self.answers.items() if number > after and calls.intersection(ids)}
        return turns

    def find_preserved_turns(self, boundary: int) -> list[int]:
        """Return the turns from before the compaction that it kept: the client puts them after the summary."""
        metadata = self.boundaries[boundary]
        listed = _to_object(metadata.get("preservedMessages")).get("uuids")
        if isinstance(listed, list):
            numbers = [self.chain[self.places[name]][0] for name in map(str, listed) if name in self.places]
            return [number for number in numbers if number in self.turns]
        segment = _to_object(metadata.get("preservedSegment"))
        head, at = segment.get("headUuid"), self.places.get(str(segment.get("tailUuid")))
        path = dict[int, None]()
        while at is not None and self.chain[at][0] < boundary and self.chain[at][0] not in path:
            number, own, parent = self.chain[at]
            path[number] = None
            if own == head:
                return sorted(turn for turn in self.add_siblings(path, number - 1) if turn < boundary)
            at = self.places.get(str(parent))
        return []


def _to_object(value: Any) -> Entry:
    """Return the value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


@dataclass(slots=True)
class _JoinedSession(ClientSession):
    """A session whose messages are put together from their lines."""

    reply: tuple[str, int] | None = None
    """The newest reply: its id, and its index."""

    def add_line(self, entry: Entry) -> None:
        """Add one more line, in the order of sending."""
        message = entry["message"]
        content = message.get("content")
        if not content:
            return
        if entry["type"] == "assistant":
            self._add_reply(entry, message, content)
            return
        new = {"role": "user", "content": content}
        if base.has_only_results(new) and self.ends_in_results():
            self.extend(-1, entry, content)
            return
        self.add(entry, new, "summary" if entry.get("isCompactSummary") else "host" if entry.get("isMeta") else None)
        if not base.has_only_results(new):
            self.reply = None  # a person spoke: what follows is another reply, whatever its id

    def _add_reply(self, entry: Entry, message: Entry, content: Any) -> None:
        name = message.get("id")
        if self.reply and self.reply[0] == name and isinstance(content, list):
            index = self.reply[1]
            self.extend(index, entry, content)
        else:
            index = self.add(entry, {"role": "assistant", "content": content})
            self.reply = (name, index) if isinstance(name, str) and isinstance(content, list) else None
        if message.get("usage"):
            self.usage[index] = message["usage"]
        if message.get("model") and message["model"] != "<synthetic>":
            self.model = message["model"]


# -- writing ----------------------------------------------------------------------------------------------------------


def append(session: ClientSession, matches: Sequence[MessageMatch], tokens_before: int) -> Iterator[Entry]:
    """Yield the lines to append: a boundary that names, in order, the lines that stay; a summary; lines changed or new.

    Lines that stay are not written again, as in the client's own compactions.
    """
    dropped = len(session.messages) - sum(match.index is not None for match in matches)
    boundary = _set_line_ids(_build_common_fields(session, "system"), None)
    lines, anchor = list[Entry](), boundary
    if matches and is_new_summary(matches[0], FORMATS[Anthropic.name]):
        summary, matches = _build_line(session, matches[0]), matches[1:]
        summary |= {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        anchor = _set_line_ids(summary, boundary["uuid"])
        lines = [anchor]
    names = list[str]()
    for match in matches:
        if match.is_unchanged and match.index is not None:
            names += [entry["uuid"] for entry in session.entries[match.index]]
            continue
        lines.append(_set_line_ids(_build_line(session, match), names[-1] if names else anchor["uuid"]))
        names.append(lines[-1]["uuid"])
    kept = {"preservedMessages": {"anchorUuid": anchor["uuid"], "uuids": names}} if names else {}
    leaf = session.entries[-1][-1]["uuid"] if session.entries else None
    boundary |= {"logicalParentUuid": leaf, "subtype": "compact_boundary", "content": "Conversation compacted"}
    metadata = {"trigger": "manual", "preTokens": tokens_before, "messagesSummarized": dropped, **kept}
    yield boundary | {"isMeta": False, "level": "info", "compactMetadata": metadata}
    yield from lines


def _set_line_ids(line: Entry, parent: str | None) -> Entry:
    """Return the line with an id of its own and its fields in the client's order, which some of its code relies on."""
    rest = {key: value for key, value in line.items() if key not in {"parentUuid", "uuid", "timestamp"}}
    return {"parentUuid": parent, **rest, "uuid": str(uuid.uuid4()), "timestamp": line["timestamp"]}


def newest_compaction(entries: Sequence[Entry]) -> SessionCompaction | None:
    """Return the boundary after which the conversation begins, its summary, and what was written again after them.

    None when what it replaced is not in the file.
    """
    thread = _MainThread()
    for number, entry in enumerate(entries):
        thread.record_line(number, entry)
    boundary = thread.find_last_boundary(thread.walk_back())
    before = [place for place, (number, _, _) in enumerate(thread.chain) if boundary is not None and number < boundary]
    if boundary is None or not any(thread.chain[place][0] in thread.turns for place in before):
        return None
    lines = {boundary, *(number for number in thread.find_preserved_turns(boundary) if number > boundary)}
    lines |= set(_find_added_lines(entries, thread, boundary))
    leaf = str(entries[boundary].get("logicalParentUuid"))
    if thread.places.get(leaf, len(before)) >= len(before):
        leaf = thread.chain[before[-1]][1]
    replacements = {str(entries[boundary]["uuid"]): leaf}
    for entry in (entries[number] for number in sorted(lines - {boundary})):
        parent = entry.get("parentUuid")
        behind = isinstance(parent, str) and thread.places.get(parent, -1) >= len(before)
        replacements[str(entry["uuid"])] = replacements.get(str(parent), str(parent) if behind else leaf)
    return SessionCompaction(lines, replacements, "parentUuid|leafUuid")


def _find_added_lines(entries: Sequence[Entry], thread: _MainThread, boundary: int) -> Iterator[int]:
    """Yield the summary of a compaction, and our hook's text after it; the client's attachments may be between."""
    behind = {str(entries[boundary]["uuid"])}
    for number, own, parent in thread.chain[thread.places[str(entries[boundary]["uuid"])] + 1 :]:
        entry = entries[number]
        summary = number in thread.turns and bool(entry.get("isCompactSummary"))
        if parent not in behind or not (summary or entry.get("type") == "attachment"):
            continue
        behind.add(own)
        if summary or _is_text_of_our_hook(_to_object(entry.get("attachment"))):
            yield number


def _is_text_of_our_hook(attachment: Entry) -> bool:
    """Return whether our hook added this to the context, and no other one."""
    content = attachment.get("content") if attachment.get("type") == "hook_additional_context" else None
    texts = content if isinstance(content, list) else [content]
    return bool(texts) and all(isinstance(text, str) and text.startswith(HOOK_PREFIX) for text in texts)


def _build_line(session: ClientSession, match: MessageMatch) -> Entry:
    """Return a line with all blocks of a message that was changed or is new."""
    was = session.entries[match.index] if match.index is not None else []
    if was:
        # The client keeps a tool's raw result beside the block; left there, the old text would come back.
        line = {key: value for key, value in was[0].items() if key != "toolUseResult"}
        line |= {"message": line["message"] | {"content": get(match.message, "content")}}
    else:
        line = _build_new_line(session, match.message)
    if line["type"] != "assistant":
        return line
    # Another id than the reply had: the client looks for lines with the same one in the whole file.
    return line | {"message": line["message"] | {"id": f"msg_{uuid.uuid4().hex[:24]}"}}


def _build_new_line(session: ClientSession, message: Message) -> Entry:
    content = get(message, "content")
    if get(message, "role") != "assistant":
        return _build_common_fields(session, "user") | {"message": {"role": "user", "content": content}}
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    reply = {"type": "message", "role": "assistant", "model": session.model or "<synthetic>", "content": blocks}
    stop = "tool_use" if FORMATS[Anthropic.name].read(message).calls else "end_turn"
    reply |= {"stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 0, "output_tokens": 0}}
    return _build_common_fields(session, "assistant") | {"message": reply}


def _build_common_fields(session: ClientSession, kind: str) -> Entry:
    """Return what the client writes on every line: session, folder, version, branch."""
    head: Entry = {"isSidechain": False, "userType": "external"}
    return head | session.facts | {"type": kind, "timestamp": format_current_time()}


SESSION_FORMAT = SessionFormat(Anthropic.name, is_own_line, read, append, newest_compaction, is_valid_line)
