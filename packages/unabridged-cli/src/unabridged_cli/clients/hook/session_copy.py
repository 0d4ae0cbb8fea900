"""The session in the archive: what is new in its file, as a record for each stretch of it.

A record says how far it reaches, so the next copy goes on from the newest one that the file still agrees with. Copying
the same stretch twice, by two processes even, adds nothing: its messages have the same turns and the same hashes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from typing import Any, Final, NamedTuple

from unabridged.archive import codec
from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive, Part, Record, RecordData, Scope
from unabridged.authorship import assign_origins
from unabridged.errors import ArchiveError
from unabridged.formats import get_format
from unabridged.messages import View
from unabridged_cli.clients.hook.transcript import (
    FilePosition,
    HookSession,
    TranscriptKind,
    TranscriptMessage,
    build_position,
    matches_position,
    parse_line,
    parse_line_time,
    read_message_line,
    read_messages_from,
    read_project,
    to_text_message,
)

COPY_KIND: Final = "copy"
"""The kind of a record that only adds to the archive: nothing left a context by it."""
_STRETCH_BYTES: Final = 1_000_000
"""Bytes of the file that go into one record, about: what a crash can cost, and how often time is looked at."""
_LONG_MESSAGE_BYTES: Final = 2_000_000
"""Characters of a message that is archived only where nobody waits: to index a million takes a second or two."""
_MAX_RECORDS_READ: Final = 1_000
"""Records that are looked at for one that the file agrees with; beyond, it is read from its beginning."""
_MAX_TEXT_CHARACTERS: Final = 60_000
"""Characters of a text by which its origin is judged."""
_MAX_ANSWER_CHARACTERS: Final = 2_000
"""The same of a tool's answer: what people want is not in there."""


class CopyProgress(NamedTuple):
    """How many messages were new, and whether the archive has all of the session now."""

    messages: int
    is_complete: bool


class SessionFacts(NamedTuple):
    """Facts about a session that every copy record stores, so that listing sessions need not read their messages."""

    project: str = ""
    """The folder that the client works in; empty when neither file nor event says so."""
    compactions: Sequence[Sequence[float | None]] = ()
    """Turn and time (Unix, or None) of each summary of the client's so far."""


def read_session_facts(copy: Record) -> SessionFacts:
    """Return the facts that a copy has."""
    facts = copy.data.get("session") or {}
    return SessionFacts(str(facts.get("project") or ""), facts.get("compactions") or ())


def copy_new_messages(
    archive: Archive, session: HookSession, reason: str, deadline: float, *, is_waited_for: bool = True
) -> CopyProgress:
    """Archive the new messages in batches, until all are archived or `deadline` (monotonic time) has passed.

    `is_waited_for`: stop as well in front of a message that alone would take too long.
    """
    newest = find_newest_record(archive, session, COPY_KIND)
    start = position = read_position(newest)
    facts = read_session_facts(newest) if newest else SessionFacts()
    messages = read_messages_from(session.path, session.kind, start.offset)
    for stretch in _split_into_stretches(messages, start.offset):
        if is_waited_for and _is_long_message(session.kind, stretch[0]):
            return CopyProgress(position.turn - start.turn, is_complete=False)
        facts = _update_facts(facts, session, position.turn, stretch)
        end = build_position(session.path, stretch[-1].end, position.turn + len(stretch))
        made: dict[str, Any] = {"made_of": str(position), "turns": [[position.turn, end.turn]]}
        made |= {"parts": build_parts(session, stretch, position.turn), "data": RecordData(session=facts._asdict())}
        store_record(archive, session, COPY_KIND, end, reason=reason, **made)
        position = end
        if time.monotonic() > deadline:
            return CopyProgress(position.turn - start.turn, is_complete=False)
    return CopyProgress(position.turn - start.turn, is_complete=True)


def _is_long_message(kind: TranscriptKind, message: TranscriptMessage) -> bool:
    """Return whether a message has more text than is archived while a client waits; an image is not indexed."""
    if message.size <= _LONG_MESSAGE_BYTES:
        return False
    return len(_read_views(kind, [message])[0].whole_text()) > _LONG_MESSAGE_BYTES


def session_scope(session: HookSession) -> Scope:
    """Return where in the archive the session is."""
    return Scope(session.namespace or DEFAULT_NAMESPACE, session.thread)


def find_newest_position(archive: Archive, session: HookSession, kind: str) -> FilePosition:
    """Return the position that the newest valid record of this kind reaches to; the start of the file without one."""
    return read_position(find_newest_record(archive, session, kind))


def read_position(record: Record | None) -> FilePosition:
    """Return how far a record reaches."""
    return FilePosition() if record is None else FilePosition.from_json(record.data.get("place"))


def find_newest_record(archive: Archive, session: HookSession, kind: str, key: str = "place") -> Record | None:
    """Return the newest record of this kind that has this key and still matches the file; None without one.

    A client may remove lines from its file, so older records may match where the newest does not.
    """
    for record in islice(archive.newest(session_scope(session)), _MAX_RECORDS_READ):
        if record.kind == kind and key in record.data and matches_position(session.path, read_position(record)):
            return record
    return None


def build_views(kind: TranscriptKind, stretch: Sequence[TranscriptMessage]) -> list[View]:
    """Return a view of each message, with its origin; an empty view for a message that can't be read."""
    views = _read_views(kind, stretch)
    short = [_shorten_view(view) for view in views]
    judged = _assign_origins(short, stretch)
    return [judged[i] if short[i] is view else view.with_origin(judged[i].origin) for i, view in enumerate(views)]


def build_short_views(kind: TranscriptKind, stretch: Sequence[TranscriptMessage]) -> list[View]:
    """Return views with origins in which long texts and long tool results are shortened."""
    return _assign_origins([_shorten_view(view) for view in _read_views(kind, stretch)], stretch)


def _read_views(kind: TranscriptKind, stretch: Sequence[TranscriptMessage]) -> list[View]:
    read = get_format(kind.format).read
    return [_read_view(read, message.message) for message in stretch]


def _assign_origins(views: Sequence[View], stretch: Sequence[TranscriptMessage]) -> list[View]:
    # These clients call tools by the protocol: no turn has to be judged by the one before it.
    return assign_origins(views, {"calls": 1}, [message.origin for message in stretch])


def _shorten_view(view: View) -> View:
    """Return what is needed of the view to judge its origin: that takes time by every character."""
    if len(view.text) > _MAX_TEXT_CHARACTERS:
        text = f"{view.text[: _MAX_TEXT_CHARACTERS // 2]}\n\n…\n\n{view.text[-_MAX_TEXT_CHARACTERS // 2 :]}"
        view = replace(view, text=text, block_starts=())
    if any(len(answer.text) > _MAX_ANSWER_CHARACTERS for answer in view.answers):
        answers = tuple(replace(answer, text=answer.text[:_MAX_ANSWER_CHARACTERS]) for answer in view.answers)
        view = replace(view, answers=answers)
    return view


def _read_view(read: Any, message: dict[str, Any]) -> View:
    try:
        view: View = read(message)
        view.whole_text()
    except Exception:  # noqa: BLE001 - whatever a damaged file holds is archived, and never stops a client
        return View("user", "host")
    return view


def _split_into_stretches(messages: Iterator[TranscriptMessage], offset: int) -> Iterator[list[TranscriptMessage]]:
    stretch: list[TranscriptMessage] = []
    for message in messages:
        if stretch and message.size > _LONG_MESSAGE_BYTES:  # a stretch begins with it, which copy_new looks at
            yield stretch
            stretch, offset = [], message.start
        stretch.append(message)
        if message.end - offset >= _STRETCH_BYTES:
            yield stretch
            stretch, offset = [], message.end
    if stretch:
        yield stretch


def build_parts(session: HookSession, stretch: Sequence[TranscriptMessage], first: int) -> list[Part]:
    """Return these messages as they are archived; `first` is the turn of the first."""
    parts = []
    for turn, (message, view) in enumerate(zip(stretch, build_views(session.kind, stretch), strict=True), start=first):
        try:
            body = codec.encode(message.message)
        except ArchiveError:  # brackets inside brackets, deeper than can be archived as what they are
            body = codec.encode(to_text_message(read_message_line(session.path, message)))
        parts.append(Part(codec.digest(body), body, turn, view.role, view.origin, view.whole_text()))
    return parts


def _update_facts(
    facts: SessionFacts, session: HookSession, turn: int, stretch: Sequence[TranscriptMessage]
) -> SessionFacts:
    """Return the facts with those of the messages from this turn on."""
    compactions = list(facts.compactions)
    for i, message in enumerate(stretch):
        line = (parse_line(read_message_line(session.path, message)) or {}) if message.origin == "summary" else None
        if line is not None and line.get("type") != "branch_summary":  # pi's, of what was left
            compactions.append([turn + i, parse_line_time(line)])
    return SessionFacts(facts.project or _find_project(session), compactions)


def _find_project(session: HookSession) -> str:
    """Return the project's folder as every store takes it, and no longer than a path can be."""
    folder = read_project(session.path) or session.project
    return folder.encode("utf-8", "replace").decode().replace("\0", "?")[:4_096]


def store_record(
    archive: Archive,
    session: HookSession,
    kind: str,
    position: FilePosition,
    *,
    reason: str,
    made_of: str,
    turns: Sequence[Sequence[int]] = (),
    parts: Sequence[Part] = (),
    notes: Sequence[str] = (),
    data: RecordData | None = None,
) -> None:
    """Store a record that reaches to this position, with a receipt, so that it is listed; the same one is stored once.

    `made_of` is what it was made of besides. No list of messages leads to it: it changed none.
    """
    key = sha256(f"{kind} {position} {made_of}".encode("utf-8", "surrogatepass")).hexdigest()
    scope, now = session_scope(session), time.time()
    receipt: dict[str, Any] = {
        "id": key[:12], **scope._asdict(), "archive": archive.url, "kind": kind, "reason": reason, "created": now,
        "turns": [list(span) for span in turns], "notes": list(notes), "summariser": "model-free",
        "messages_before": 0, "messages_after": 0, "tokens_before": 0, "tokens_after": 0,
    }  # fmt: skip
    where: RecordData = {"format": session.kind.format, "place": position._asdict()}
    facts: RecordData = {"receipt": receipt, "named": True, **where}
    before, stored = tuple(part.hash for part in parts), facts | (data or {})
    archive.store(Record(key[:12], scope, key, 0, 0, before, (), kind, created=now, data=stored), parts)
