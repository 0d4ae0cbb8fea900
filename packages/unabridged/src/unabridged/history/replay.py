"""Which compactions stand in a list, and the list without them: replay and undo. Exact, or an error.

A turn that looks like a summary is one only if the archive knows a record with its id, made in this namespace, whose
put-in messages have exactly the meaning of what stands in the list. Everything else is text. Every summary turn, stub
and shortened text names its record, so two that read alike are told apart; a record that left nothing with a name in
it (a repair, thinking taken out) is known by all that stands before it, or because the record after it names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, cast

from unabridged.archive import codec, store_rules
from unabridged.archive.pins import keep_for, kept_for
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.authorship import with_origins
from unabridged.errors import ArchiveError
from unabridged.formats import FORMATS
from unabridged.formats.base import Format, Message, read_at
from unabridged.history.difference import backward, chain, pairs, transplant
from unabridged.marks import asks_for_summary, framed_id, marked_ids
from unabridged.messages import View

UNNAMED = "from-"
"""How the names of threads begin that were named by what was compacted first."""
_UNDONE = "undone"
"""The texts in a thread's note that are ids of records which were undone and left no name."""
MOST_UNDONE = 256
"""So many of them are kept for a thread, the newest."""
LOOKED_AT = 64
"""Of the newest records, so many are looked at for one that left no name in the list, before a compaction."""


class Standing(NamedTuple):
    """A record whose result stands in a list, at index `at`."""

    record: Record
    at: int


class Line(NamedTuple):
    """A message with what is read off it once, however often records are looked for."""

    message: Message
    view: View
    names: list[str]
    """The ids of the records that it names."""


def line_of(message: Message, view: View) -> Line:
    """The message as a line."""
    return Line(message, view, marked_ids(view))


def find_record(archive: Archive, scope: Scope, record_id: str) -> Record | None:
    """The record with this id: of the thread; of the one that it branched off; of any, where no thread is named."""
    if scope.thread:
        found = archive.record(scope, record_id)
        if found is not None or not scope.thread.startswith(UNNAMED):
            return found
        elsewhere = archive.locate(scope.namespace, record_id)
        return archive.record(elsewhere, record_id) if elsewhere and elsewhere.thread.startswith(UNNAMED) else None
    elsewhere = archive.locate(scope.namespace, record_id)
    return None if elsewhere is None else archive.record(elsewhere, record_id)


class Records:
    """The records of one namespace by their ids, each read once."""

    def __init__(self, archive: Archive, scope: Scope) -> None:
        self._archive, self._scope = archive, scope
        self._known: dict[str, Record | None] = {}

    def named(self, record_id: str) -> Record | None:
        """The record with this id, as `find_record` finds it."""
        if record_id not in self._known:
            self._known[record_id] = find_record(self._archive, self._scope, record_id)
        return self._known[record_id]


def find_standing(archive: Archive, scope: Scope, views: Sequence[View], records: Records) -> Standing | None:
    """The newest compaction whose result stands in the list, whatever ids the texts claim."""
    lines = [line_of(None, view) for view in views]
    return _Search(archive, scope, records, most=LOOKED_AT).newest(lines)


def meanings_put_in(records: Records, standing: Standing | None) -> set[str]:
    """The meanings of all that this compaction and those before it put in: what the archive knows to be ours."""
    known: set[str] = set()
    record = standing.record if standing else None
    while record is not None:
        known.update(_marks(record))
        folded = record.kind == "summary"  # it took the one before it in
        record = records.named(record.prior) if record.prior and not folded else None
    return known


def note_undone(archive: Archive, record: Record) -> None:
    """Remember a record that is undone and left no name in the list: the list may still be used, and replayed."""
    if record.data.get("named"):
        return
    known = kept_for(archive, record.scope, _UNDONE)
    if record.id not in known:
        keep_for(archive, record.scope, _UNDONE, [*known, record.id][-MOST_UNDONE:])


def take_back(
    archive: Archive,
    scope: Scope,
    messages: list[Message],
    format_: Format,
    *,
    every: bool,
    detected: bool = False,
    strict: bool = True,
) -> tuple[list[Message], list[Record]]:
    """The list without its newest compaction, or without any, and the records that were taken back, newest first.

    Where the format was `detected`, the record knows better: a list of plain texts does not show it. `strict` raises
    where something of ours is left that the archive does not know, or that does not stand there whole.
    """
    search = _Search(archive, scope, Records(archive, scope))
    lines = [line_of(message, read_at(i, message, format_)) for i, message in enumerate(messages)]
    done: list[Record] = []
    while not done or every:
        standing = search.newest(lines)
        if standing is None:
            break
        record = standing.record
        done.append(record)
        search.take(record)
        put_back = _originals(archive, standing, lines)
        found = FORMATS.get(record.data.get("format", ""), format_) if detected else format_
        if found is not format_:
            format_ = found
            lines = [line_of(line.message, format_.read(line.message)) for line in lines]
        returned = {i: line_of(message, format_.read(message)) for i, message in put_back.items()}
        lines = backward(record, lines, standing.at, returned)
    if strict and (every or not done):
        _refuse_leftovers(archive, scope, search, lines)
    return ([line.message for line in lines] if done else messages), done


def _originals(archive: Archive, standing: Standing, lines: Sequence[Line]) -> dict[int, Message]:
    """What went, by its place in `before`; where a message stands for it, with the ids that the host has given that."""
    record, at = standing
    stubs = {i: j for j, i in pairs(record).items() if at + j < len(lines)}
    went = {i: digest for i, digest in enumerate(record.before) if isinstance(digest, str)}
    came = {i: cast("str", record.after[j]) for i, j in stubs.items()}
    stored = fetch(archive, record.scope, (*went.values(), *came.values()))
    return {
        i: transplant(stored[digest], stored[came[i]], lines[at + stubs[i]].message) if i in stubs else stored[digest]
        for i, digest in went.items()
    }


def _refuse_leftovers(archive: Archive, scope: Scope, search: _Search, lines: Sequence[Line]) -> None:
    place = store_rules.describe(scope) if scope.thread else f"namespace {scope.namespace!r}"
    where = f"in {place} of archive {archive.url}"
    if (stranded := search.stranded(lines)) is not None:
        raise ArchiveError(
            f"record {stranded.id} {where} stands in the list only in part: messages it put in were changed or taken "
            "out, so the original can't be rebuilt exactly. Replay the list as it was given back, or pass "
            'unknown="keep".'
        )
    if any(asks_for_summary(line.view) for line in lines):
        raise ArchiveError(
            "the list holds the question before a summary turn and not the turn itself: it was cut off there, so the "
            'original can\'t be rebuilt exactly. Replay the list as it was given back, or pass unknown="keep".'
        )
    views = with_origins([line.view for line in lines])
    unknown = [i for i in map(framed_id, (v for v in views if v.origin != "tool")) if i and search.unknown(i)]
    if unknown:
        raise ArchiveError(
            f"the list holds the summary turn of record {unknown[0]}, and there is no such record {where}: was it made "
            "with another archive, namespace or thread, or forgotten since? Name the one it was made with, or pass "
            'unknown="keep" to leave it as it is.'
        )


def fetch(archive: Archive, scope: Scope, hashes: Iterable[str]) -> dict[str, Message]:
    """The archived messages with these hashes; an `ArchiveError` when one is missing."""
    wanted = list(dict.fromkeys(hashes))
    bodies = archive.bodies(scope, wanted)
    missing = [item for item in wanted if item not in bodies]
    if missing:
        raise ArchiveError(
            f"{len(missing)} of {len(wanted)} archived messages of thread {scope.thread!r} are missing, "
            f"the first is {missing[0]}: was the thread forgotten, or is this another archive?"
        )
    return {item: codec.decode(body) for item, body in bodies.items()}


class _Search:
    """Looks for the records that stand in a list, newest first; each is read at most once."""

    def __init__(self, archive: Archive, scope: Scope, records: Records, most: int | None = None) -> None:
        self._named = records.named
        self._done: set[str] = set()
        self._prior: str | None = None
        self._rest = islice(archive.newest(scope), most)
        self._live: list[Record] = []
        self._archive, self._scope = archive, scope
        self._retired: list[Record] | None = None

    def take(self, record: Record) -> None:
        """This one was taken back: look for it no more, and for the one before it first."""
        self._done.add(record.id)
        self._prior = record.prior

    def newest(self, lines: Sequence[Line]) -> Standing | None:
        """The newest record, none of those taken back, whose result stands in these lines.

        Where one was taken back exactly, the one before it is the newest: nothing else need be looked at.
        """
        before = self._named(self._prior) if self._prior and self._prior not in self._done else None
        if before is not None and (found := _exactly(before, lines)) is not None:
            return found
        names = dict.fromkeys(record_id for line in lines for record_id in line.names)
        wanted = [record_id for record_id in (*names, self._prior) if record_id and record_id not in self._done]
        named = sorted(filter(None, map(self._named, wanted)), key=_age, reverse=True)
        places = _places(lines)
        best = next(
            (found for record in named if (found := _exactly(record, lines) or _by_marks(record, lines, places))), None
        )
        unnamed = list(self._unnamed(_age(best.record) if best else None))
        undone = self._newer(self._undone(), _age(best.record) if best else None)
        exact = next((found for record in (*unnamed, *undone) if (found := _exactly(record, lines))), None)
        if exact is not None or best is not None:
            return exact or best
        # All before it was changed since: what it put in must then be enough, and one record's only.
        alike = [found for record in unnamed if (found := _by_marks(record, lines, places))]
        return alike[0] if len(alike) == 1 else None

    def stranded(self, lines: Sequence[Line]) -> Record | None:
        """A record of which something stands in these lines although its whole result does not."""
        for line in lines:
            for record_id in line.names:
                record = None if record_id in self._done else self._named(record_id)
                if record is not None and line.view.meaning in _marks(record):
                    return record
        return None

    def unknown(self, record_id: str) -> bool:
        """Whether no record has this id."""
        return record_id not in self._done and self._named(record_id) is None

    def _unnamed(self, than: tuple[float, int] | None) -> Iterator[Record]:
        """The live records, newer than the best found, that a list may hold without naming them."""
        return (record for record in self._newer(self._every(), than) if not record.data.get("named"))

    def _newer(self, records: Iterable[Record], than: tuple[float, int] | None) -> Iterator[Record]:
        """Those of the records, newest first, that are newer and were not taken back."""
        for record in records:
            if than is not None and _age(record) <= than:
                return
            if record.id not in self._done:
                yield record

    def _undone(self) -> list[Record]:
        """The records that were undone and left no name, newest first: who undid one may go on with its list."""
        if self._retired is None:
            found = filter(None, map(self._named, kept_for(self._archive, self._scope, _UNDONE)))
            self._retired = sorted(found, key=_age, reverse=True)
        return self._retired

    def _every(self) -> Iterator[Record]:
        yield from list(self._live)
        for record in self._rest:
            self._live.append(record)
            yield record


def _places(lines: Sequence[Line]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for i, line in enumerate(lines):
        places.setdefault(line.view.meaning, []).append(i)
    return places


def _exactly(record: Record, lines: Sequence[Line]) -> Standing | None:
    """Where the record stands when everything up to its end is as it left it."""
    stop = record.start + len(record.after)
    exact = len(lines) >= stop and record.data.get("result") == _digest(lines[:stop])
    return Standing(record, record.start) if exact else None


def _by_marks(record: Record, lines: Sequence[Line], places: Mapping[str, Sequence[int]]) -> Standing | None:
    """Where all that the record put in stands, each at its distance, in one place and no other.

    A list that was cut off within it holds the rest no more: that is enough where each message stands for one.
    """
    marks = _marks(record)
    came = [j for j, put_in in enumerate(record.after) if put_in is not None]
    if not marks:
        return None
    cut_off = len(record.before) == len(record.after) and len(pairs(record)) == len(came)
    starts = [near - came[0] for near in places.get(marks[0], ()) if near >= came[0]]
    found = [at for at in starts if _matches(at, came, marks, lines, cut_off=cut_off, size=len(record.after))]
    found = [at for at in found if _have_stayed(record, at, lines)]
    return Standing(record, found[0]) if len(found) == 1 else None


def _matches(
    at: int, came: Sequence[int], marks: Sequence[str], lines: Sequence[Line], *, cut_off: bool, size: int
) -> bool:
    if at + size > len(lines) and not cut_off:
        return False
    here = [(at + j, mark) for j, mark in zip(came, marks, strict=True) if at + j < len(lines)]
    return all(mark == lines[i].view.meaning for i, mark in here)


def _have_stayed(record: Record, at: int, lines: Sequence[Line]) -> bool:
    """Return whether the messages that a summary left between what went are still there, as they were."""
    stayed = ((at + int(j), meaning) for j, meaning in record.data.get("stayed", {}).items())
    return all(i < len(lines) and meaning == lines[i].view.meaning for i, meaning in stayed)


def _digest(lines: Sequence[Line]) -> str:
    """The digest of all these lines."""
    return chain((line.view.meaning for line in lines), "")[-1]


def _marks(record: Record) -> list[str]:
    return record.data.get("marks", [])


def _age(record: Record) -> tuple[float, int]:
    return record.created, record.data.get("depth", 0)
