"""Find which compactions are in a list, and take them back: replay and undo. Exact, or an error.

A turn that looks like a summary is one only if the archive knows a record with its id, made in this namespace, whose
put-in messages have exactly the meaning of what stands in the list. Everything else is text. Every summary turn, stub
and shortened text names its record, so two that read alike are told apart; a record that left nothing with a name in
it (a repair, thinking taken out) is known by all that stands before it, or because the record after it names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import islice, tee
from typing import NamedTuple, cast

from unabridged.archive import codec, store_rules
from unabridged.archive.pins import read_thread_texts, write_thread_texts
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.authorship import assign_origins
from unabridged.errors import ArchiveError
from unabridged.formats import FORMATS
from unabridged.formats.base import Format, Message, read_message_at
from unabridged.history.difference import apply_backward, carry_over_edit, compute_prefix_digests, find_replacements
from unabridged.marks import find_summary_turn_id, find_view_record_ids, is_summary_question
from unabridged.messages import View

UNNAMED_THREAD_PREFIX = "from-"
"""How the names of threads begin that were named by what was compacted first."""
_UNDONE_KEY = "undone"
"""Under which a thread keeps the ids of records that were undone and left no name."""
MAX_UNDONE_IDS = 256
"""So many of them are kept for a thread, the newest."""
MAX_UNNAMED_RECORDS = 64
"""Of the newest records, so many are read for one that left no name in the list, before a compaction."""


class AppliedRecord(NamedTuple):
    """A record whose result is in a list, from index `position` on."""

    record: Record
    position: int


class ReplayedMessage(NamedTuple):
    """A message with what is read off it once, however often records are looked for."""

    message: Message
    view: View
    names: list[str]
    """The ids of the records that it names."""


def _build_row(message: Message, view: View) -> ReplayedMessage:
    return ReplayedMessage(message, view, find_view_record_ids(view))


def find_record(archive: Archive, scope: Scope, record_id: str) -> Record | None:
    """Return the record with this id: of the thread; of the one it branched off; of any, where no thread is named."""
    if scope.thread:
        record = archive.record(scope, record_id)
        if record is not None or not scope.thread.startswith(UNNAMED_THREAD_PREFIX):
            return record
    elsewhere = archive.locate(scope.namespace, record_id)
    if elsewhere is None or (scope.thread and not elsewhere.thread.startswith(UNNAMED_THREAD_PREFIX)):
        return None
    return archive.record(elsewhere, record_id)


class RecordCache:
    """The records of one namespace by their ids, each read once."""

    def __init__(self, archive: Archive, scope: Scope) -> None:
        self.find: Callable[[str], Record | None] = cache(partial(find_record, archive, scope))
        """Returns the record with this id, as `find_record` finds it."""


def find_applied_record(
    archive: Archive, scope: Scope, views: Sequence[View], records: RecordCache
) -> AppliedRecord | None:
    """Return the newest compaction whose result is in the list, whatever ids the texts claim."""
    rows = [_build_row(None, view) for view in views]
    return _RecordSearch(archive, scope, records, most=MAX_UNNAMED_RECORDS).find_newest(rows)


def find_inserted_meanings(records: RecordCache, applied: AppliedRecord | None) -> set[str]:
    """Return the meanings of all that this compaction and those before it put in: what the archive knows to be ours."""
    meanings: set[str] = set()
    record = applied.record if applied else None
    while record is not None:
        meanings.update(_read_marks(record))
        is_last = record.kind == "summary" or not record.prior  # a summary took the one before it in
        record = None if is_last else records.find(cast("str", record.prior))
    return meanings


def remember_undone(archive: Archive, record: Record) -> None:
    """Remember an undone record that left no name in the list: that list may still be sent, and replayed."""
    if record.data.get("named"):
        return
    known = read_thread_texts(archive, record.scope, _UNDONE_KEY)
    if record.id not in known:
        write_thread_texts(archive, record.scope, _UNDONE_KEY, [*known, record.id][-MAX_UNDONE_IDS:])


def undo_records(
    archive: Archive,
    scope: Scope,
    messages: list[Message],
    format_: Format,
    *,
    every: bool,
    detected: bool = False,
    strict: bool = True,
) -> tuple[list[Message], list[Record]]:
    """Return the list without its newest compaction, or without any, and the records taken back, newest first.

    Where the format was `detected`, the record knows better: a list of plain texts does not show it. With `strict`,
    raise `ArchiveError` where something of ours is left that the archive does not know, or that is not whole.
    """
    search = _RecordSearch(archive, scope, RecordCache(archive, scope))
    rows = [_build_row(message, read_message_at(i, message, format_)) for i, message in enumerate(messages)]
    done: list[Record] = []
    while not done or every:
        applied = search.find_newest(rows)
        if applied is None:
            break
        record = applied.record
        done.append(record)
        search.mark_undone(record)
        originals = _fetch_originals(archive, applied, rows)
        recorded = FORMATS.get(record.data.get("format", ""), format_) if detected else format_
        if recorded is not format_:
            format_ = recorded
            rows = [_build_row(row.message, format_.read(row.message)) for row in rows]
        put_back = {i: _build_row(message, format_.read(message)) for i, message in originals.items()}
        rows = apply_backward(record, rows, applied.position, put_back)
    if strict and (every or not done):
        _refuse_leftovers(archive, scope, search, rows)
    return ([row.message for row in rows] if done else messages), done


def _fetch_originals(archive: Archive, applied: AppliedRecord, rows: Sequence[ReplayedMessage]) -> dict[int, Message]:
    """Return what went, by its place in `before`; where a message stands for it, with today's ids."""
    record, position = applied
    stubs = {i: j for j, i in find_replacements(record).items() if position + j < len(rows)}
    went = {i: digest for i, digest in enumerate(record.before) if isinstance(digest, str)}
    came = {i: cast("str", record.after[j]) for i, j in stubs.items()}
    stored = fetch_messages(archive, record.scope, (*went.values(), *came.values()))
    originals = {i: stored[digest] for i, digest in went.items()}
    for i, j in stubs.items():
        originals[i] = carry_over_edit(originals[i], stored[came[i]], rows[position + j].message)
    return originals


def _refuse_leftovers(archive: Archive, scope: Scope, search: _RecordSearch, rows: Sequence[ReplayedMessage]) -> None:
    place = store_rules.describe_scope(scope) if scope.thread else f"namespace {scope.namespace!r}"
    where = f"in {place} of archive {archive.url}"
    if (stranded := search.find_incomplete(rows)) is not None:
        raise ArchiveError(
            f"record {stranded.id} {where} stands in the list only in part: messages it put in were changed or taken "
            "out, so the original can't be rebuilt exactly. Replay the list as it was given back, or pass "
            'unknown="keep".'
        )
    if any(is_summary_question(row.view) for row in rows):
        raise ArchiveError(
            "the list holds the question before a summary turn and not the turn itself: it was cut off there, so the "
            'original can\'t be rebuilt exactly. Replay the list as it was given back, or pass unknown="keep".'
        )
    views = assign_origins([row.view for row in rows])
    ids = (find_summary_turn_id(view) for view in views if view.origin != "tool")
    unknown = [id_ for id_ in ids if id_ and search.is_unknown(id_)]
    if unknown:
        raise ArchiveError(
            f"the list holds the summary turn of record {unknown[0]}, and there is no such record {where}: was it made "
            "with another archive, namespace or thread, or forgotten since? Name the one it was made with, or pass "
            'unknown="keep" to leave it as it is.'
        )


def fetch_messages(archive: Archive, scope: Scope, hashes: Iterable[str]) -> dict[str, Message]:
    """Return the archived messages with these hashes; raise `ArchiveError` when one is missing."""
    wanted = list(dict.fromkeys(hashes))
    bodies = archive.bodies(scope, wanted)
    missing = [item for item in wanted if item not in bodies]
    if missing:
        raise ArchiveError(
            f"{len(missing)} of {len(wanted)} archived messages of thread {scope.thread!r} are missing, "
            f"the first is {missing[0]}: was the thread forgotten, or is this another archive?"
        )
    return {item: codec.decode(body) for item, body in bodies.items()}


class _RecordSearch:
    """A search for the records whose result is in a list, newest first; each is read at most once."""

    def __init__(self, archive: Archive, scope: Scope, records: RecordCache, most: int | None = None) -> None:
        self._archive, self._scope, self._records = archive, scope, records
        self._undone_ids: set[str] = set()
        self._prior: str | None = None
        self._newest: Iterator[Record] = islice(archive.newest(scope), most)

    def mark_undone(self, record: Record) -> None:
        """Mark this record as undone: the one before it is looked for first, and this one no more."""
        self._undone_ids.add(record.id)
        self._prior = record.prior

    def find_newest(self, rows: Sequence[ReplayedMessage]) -> AppliedRecord | None:
        """Return the newest record, none of those taken back, whose result is in these rows.

        Where one was taken back exactly, the one before it is the newest: nothing else need be looked at.
        """
        before = self._records.find(self._prior) if self._prior and self._prior not in self._undone_ids else None
        if before is not None and (exact := _match_exactly(before, rows)) is not None:
            return exact
        names = dict.fromkeys(record_id for row in rows for record_id in row.names)
        wanted = [record_id for record_id in (*names, self._prior) if record_id and record_id not in self._undone_ids]
        named = sorted(filter(None, map(self._records.find, wanted)), key=_sort_key, reverse=True)
        places = _index_by_meaning(rows)
        matches = (_match_exactly(record, rows) or _match_by_marks(record, rows, places) for record in named)
        best = next(filter(None, matches), None)
        age = _sort_key(best.record) if best else None
        self._newest, records = tee(self._newest)  # what is read now is not read again the next time
        newer = self._select_newer(records, age)
        unnamed = [record for record in newer if not record.data.get("named")]
        others = (*unnamed, *self._select_newer(self._undone, age))
        exact = next(filter(None, (_match_exactly(record, rows) for record in others)), None)
        if exact is not None or best is not None:
            return exact or best
        # All before it was changed since: what it put in must then be enough, and one record's only.
        alike = [match for record in unnamed if (match := _match_by_marks(record, rows, places))]
        return alike[0] if len(alike) == 1 else None

    def find_incomplete(self, rows: Sequence[ReplayedMessage]) -> Record | None:
        """Return a record of which something is in these rows although its whole result is not."""
        for row in rows:
            for record_id in row.names:
                record = None if record_id in self._undone_ids else self._records.find(record_id)
                if record is not None and row.view.meaning_digest in _read_marks(record):
                    return record
        return None

    def is_unknown(self, record_id: str) -> bool:
        """Return whether no record has this id."""
        return record_id not in self._undone_ids and self._records.find(record_id) is None

    def _select_newer(self, records: Iterable[Record], age: tuple[float, int] | None) -> Iterator[Record]:
        """Yield those of the records, newest first, that are newer and were not taken back."""
        for record in records:
            if age is not None and _sort_key(record) <= age:
                return
            if record.id not in self._undone_ids:
                yield record

    @cached_property
    def _undone(self) -> list[Record]:
        """Return the records that were undone and left no name, newest first: their lists may still be used."""
        records = filter(None, map(self._records.find, read_thread_texts(self._archive, self._scope, _UNDONE_KEY)))
        return sorted(records, key=_sort_key, reverse=True)


def _index_by_meaning(rows: Sequence[ReplayedMessage]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        places.setdefault(row.view.meaning_digest, []).append(i)
    return places


def _match_exactly(record: Record, rows: Sequence[ReplayedMessage]) -> AppliedRecord | None:
    """Return the record where it was made, when everything up to its end is as it left it."""
    stop = record.start + len(record.after)
    meanings = (row.view.meaning_digest for row in rows[:stop])
    if len(rows) < stop or record.data.get("result") != compute_prefix_digests(meanings, "")[-1]:
        return None
    return AppliedRecord(record, record.start)


def _match_by_marks(
    record: Record, rows: Sequence[ReplayedMessage], places: Mapping[str, Sequence[int]]
) -> AppliedRecord | None:
    """Return the record where all that it put in stands, each at its distance, if that is one place and no other.

    A list that was cut off within it holds the rest no more: that is enough where each message stands for one.
    """
    marks, size = _read_marks(record), len(record.after)
    came = [j for j, digest in enumerate(record.after) if digest is not None]
    if not marks:
        return None
    may_be_cut_off = len(record.before) == size and len(find_replacements(record)) == len(came)
    stayed = {int(j): meaning for j, meaning in record.data.get("stayed", {}).items()}

    def is_there(start: int) -> bool:
        if start + size > len(rows) and not may_be_cut_off:
            return False
        here = ((start + j, mark) for j, mark in zip(came, marks, strict=True) if start + j < len(rows))
        return all(rows[i].view.meaning_digest == mark for i, mark in here) and all(
            start + j < len(rows) and rows[start + j].view.meaning_digest == meaning for j, meaning in stayed.items()
        )

    starts = [place - came[0] for place in places.get(marks[0], ()) if place >= came[0] and is_there(place - came[0])]
    return AppliedRecord(record, starts[0]) if len(starts) == 1 else None


def _read_marks(record: Record) -> list[str]:
    return record.data.get("marks", [])


def _sort_key(record: Record) -> tuple[float, int]:
    return record.created, record.data.get("depth", 0)
