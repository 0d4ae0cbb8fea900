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
from unabridged.archive.protocol import Archive, Part, Record, RecordData, Scope
from unabridged.authorship import with_origins
from unabridged.errors import ArchiveError
from unabridged.formats import format_named
from unabridged.history import DEFAULT
from unabridged.messages import View
from unabridged_cli.clients.hook.transcript import (
    Kind,
    Place,
    Said,
    Source,
    is_at,
    line_of,
    parse,
    place_at,
    project_in,
    read_from,
    time_in,
)

COPY: Final = "copy"
"""The kind of a record that only adds to the archive: nothing left a context by it."""
_STRETCH: Final = 1_000_000
"""Bytes of the file that go into one record, about: what a crash can cost, and how often time is looked at."""
_LARGE: Final = 2_000_000
"""Characters of a message that is archived only where nobody waits: to index a million takes a second or two."""
_LOOK_AT: Final = 1_000
"""Records that are looked at for one that the file agrees with; beyond, it is read from its beginning."""
_TEXT: Final = 60_000
"""Characters of a text that are looked at to tell whose it is and what it wants."""
_ANSWER: Final = 2_000
"""The same of a tool's answer: what people want does not stand in there."""


class Copied(NamedTuple):
    """How far the archive has the session now, how many messages were new, and whether that is all."""

    place: Place
    messages: int
    whole: bool


class Session(NamedTuple):
    """What every copy says of its session, for those who list sessions without reading them."""

    project: str = ""
    """The folder that the client works in; empty when neither file nor event says so."""
    compactions: Sequence[Sequence[float | None]] = ()
    """Turn and time (Unix, or None) of each summary of the client's so far."""


def session_facts(copy: Record) -> Session:
    """The facts that a copy has."""
    facts = copy.data.get("session") or {}
    return Session(str(facts.get("project") or ""), facts.get("compactions") or ())


def copy_new(archive: Archive, source: Source, reason: str, deadline: float, *, waited_for: bool = True) -> Copied:
    """Archive what is new, stretch by stretch, until all is there or `deadline` (monotonic time) has passed.

    `waited_for`: a message that alone may take longer than anybody waits ends it, too.
    """
    newest = newest_record(archive, source, COPY)
    start = place = _place_of(newest)
    session = session_facts(newest) if newest else Session()
    for stretch in _stretches(read_from(source.path, source.kind, place.offset), place.offset):
        if waited_for and _is_long(source.kind, stretch[0]):
            return Copied(place, place.turn - start.turn, whole=False)
        session = _carry_on(session, source, place.turn, stretch)
        place = _store(archive, source, place, stretch, reason, session=session)
        if time.monotonic() > deadline:
            return Copied(place, place.turn - start.turn, whole=False)
    return Copied(place, place.turn - start.turn, whole=True)


def _is_long(kind: Kind, said: Said) -> bool:
    """Whether a message has more text than is archived while a client waits; an image is not indexed."""
    return said.end - said.start > _LARGE and len(_read(kind, [said])[0].whole_text()) > _LARGE


def scope_of(source: Source) -> Scope:
    """Where in the archive the session is."""
    return Scope(source.namespace or DEFAULT, source.thread)


def newest_place(archive: Archive, source: Source, kind: str) -> Place:
    """How far the newest record of this kind reaches that the file agrees with; the beginning when none does."""
    return _place_of(newest_record(archive, source, kind))


def _place_of(record: Record | None) -> Place:
    return Place() if record is None else Place.of(record.data.get("place"))


def newest_record(archive: Archive, source: Source, kind: str, having: str = "place") -> Record | None:
    """The newest record of this kind that has this, and that the file agrees with: a client may take lines back."""
    for record in islice(archive.newest(scope_of(source)), _LOOK_AT):
        if record.kind == kind and having in record.data and is_at(source.path, Place.of(record.data.get("place"))):
            return record
    return None


def views_of(kind: Kind, stretch: Sequence[Said]) -> list[View]:
    """What the messages say, each with whose words it is; one that can't be read says nothing."""
    views = _read(kind, stretch)
    short = [_shortened(view) for view in views]
    judged = _with_origins(short, stretch)
    return [judged[i] if short[i] is view else view.said_by(judged[i].origin) for i, view in enumerate(views)]


def short_views_of(kind: Kind, stretch: Sequence[Said]) -> list[View]:
    """The same of the beginnings and ends of long texts, and the beginnings of long answers."""
    return _with_origins([_shortened(view) for view in _read(kind, stretch)], stretch)


def _read(kind: Kind, stretch: Sequence[Said]) -> list[View]:
    read = format_named(kind.format).read
    return [_view(read, said.message) for said in stretch]


def _with_origins(views: Sequence[View], stretch: Sequence[Said]) -> list[View]:
    # These clients call tools by the protocol: no turn has to be judged by the one before it.
    return with_origins(views, {"calls": 1}, [said.origin for said in stretch])


def _shortened(view: View) -> View:
    """What is needed of the view to tell whose it is, and what people want: that takes time by every character."""
    if len(view.text) > _TEXT:
        text = f"{view.text[: _TEXT // 2]}\n\n…\n\n{view.text[-_TEXT // 2 :]}"
        view = replace(view, text=text, starts=())
    if any(len(answer.text) > _ANSWER for answer in view.answers):
        view = replace(view, answers=tuple(replace(answer, text=answer.text[:_ANSWER]) for answer in view.answers))
    return view


def _view(read: Any, message: dict[str, Any]) -> View:
    try:
        found: View = read(message)
        found.whole_text()
    except Exception:  # noqa: BLE001 - whatever a damaged file holds is archived, and never stops a client
        return View("user", "host")
    return found


def _stretches(messages: Iterator[Said], offset: int) -> Iterator[list[Said]]:
    stretch: list[Said] = []
    for said in messages:
        if stretch and said.end - said.start > _LARGE:  # it may be long: see there
            yield stretch
            stretch, offset = [], said.start
        stretch.append(said)
        if said.end - offset >= _STRETCH:
            yield stretch
            stretch, offset = [], said.end
    if stretch:
        yield stretch


def _store(
    archive: Archive, source: Source, start: Place, stretch: Sequence[Said], reason: str, *, session: Session
) -> Place:
    """Archive these messages; the place behind them."""
    end = place_at(source.path, stretch[-1].end, start.turn + len(stretch))
    parts, more = parts_of(source, stretch, start.turn), RecordData(session=session._asdict())
    turns = [[start.turn, end.turn]]
    keep(archive, source, COPY, end, reason=reason, of=str(start), turns=turns, parts=parts, more=more)
    return end


def parts_of(source: Source, stretch: Sequence[Said], first: int) -> list[Part]:
    """Return these messages as they are archived; `first` is the turn of the first."""
    views = views_of(source.kind, stretch)
    bodies = [_body(source, said) for said in stretch]
    return [_part(body, view, first + i) for i, (body, view) in enumerate(zip(bodies, views, strict=True))]


def _carry_on(session: Session, source: Source, turn: int, stretch: Sequence[Said]) -> Session:
    """The facts with those of the messages from this turn on."""
    project = session.project or _storable(project_in(source.path) or source.project)
    made = [
        [turn + i, time_in(line)]
        for i, said in enumerate(stretch)
        if said.origin == "summary"
        and (line := parse(line_of(source.path, said)) or {}).get("type") != "branch_summary"  # pi's, of what was left
    ]
    return Session(project, [*session.compactions, *made])


def _storable(folder: str) -> str:
    """The name as every store takes it, and no longer than a path can be."""
    return folder.encode("utf-8", "replace").decode().replace("\0", "?")[:4_096]


def _body(source: Source, said: Said) -> bytes:
    try:
        return codec.encode(said.message)
    except ArchiveError:  # brackets inside brackets, deeper than can be archived as what they are
        return codec.encode(source.kind.as_text(line_of(source.path, said)))


def _part(body: bytes, view: View, turn: int) -> Part:
    return Part(codec.digest(body), body, turn, view.role, view.origin, view.whole_text())


def keep(
    archive: Archive,
    source: Source,
    kind: str,
    place: Place,
    *,
    reason: str,
    of: str,
    turns: Sequence[Sequence[int]] = (),
    parts: Sequence[Part] = (),
    notes: Sequence[str] = (),
    more: RecordData | None = None,
) -> None:
    """Store a record that reaches to this place, with a receipt, so that it is listed; the same one is stored once.

    `of` is what it was made of besides. No list of messages leads to it: it changed none.
    """
    key = sha256(f"{kind} {place} {of}".encode("utf-8", "surrogatepass")).hexdigest()
    now, name = time.time(), key[:12]
    receipt: dict[str, Any] = {"id": name, **_names(archive, source), "kind": kind, "reason": reason, "created": now}
    receipt |= {"turns": [list(span) for span in turns], "notes": list(notes), "summariser": "model-free"}
    receipt |= dict.fromkeys(("messages_before", "messages_after", "tokens_before", "tokens_after"), 0)
    data: RecordData = {"receipt": receipt, "named": True, "format": source.kind.format, "place": place.facts()}
    record = Record(
        id=name,
        scope=scope_of(source),
        key=key,
        length=0,
        start=0,
        before=tuple(part.hash for part in parts),
        after=(),
        kind=kind,
        created=now,
        data=data | (more or {}),
    )
    archive.store(record, parts)


def _names(archive: Archive, source: Source) -> dict[str, str]:
    return {**scope_of(source)._asdict(), "archive": archive.url}
