"""Records and originals as the engine uses them: find a prefix again, recognise a summary turn, take back, replay.

A turn that looks like a summary is one only if the archive knows a record with its id, made in this thread, whose
put-in messages have exactly the meaning of what stands in the list. Everything else is text.
"""

from __future__ import annotations

import hashlib
import heapq
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Part, Record, Scope
from unabridged.errors import ArchiveError
from unabridged.formats.base import Format, Message
from unabridged.formats.reading import read_at
from unabridged.messages import View
from unabridged.records import Difference, backward, chain, difference, forward, locate, meaning
from unabridged.rewrite import is_ours, marked_ids

_KEYS = 1_000
"""So many keys are asked for at once, the longest prefixes first."""
_CLEARED = "cleared: "
"""Stands in every stub."""


class Standing(NamedTuple):
    """A record whose result stands in a list, at index `at`."""

    record: Record
    at: int


@dataclass(frozen=True, slots=True)
class Change:
    """A compaction about to be recorded: the list before and after, and what to remember of it."""

    scope: Scope
    record_id: str
    key: str
    length: int
    kind: str
    old: Sequence[Message]
    old_views: Sequence[View]
    old_turns: Sequence[int]
    new: Sequence[Message]
    ours: frozenset[str]
    """The meanings of what earlier compactions put in: those are no part of the original conversation."""
    redact: Callable[[str], str]
    """Run over what search sees; the originals themselves stay exact."""
    format: Format
    prior: str | None
    model: str | None
    data: Mapping[str, object]


def keys_of(views: Sequence[View], seed: str) -> list[str]:
    """The key of each prefix. Whether a person speaks next is part of it: it decides what is still open."""
    keys = chain((meaning(view) for view in views), seed)
    return [
        f"{key}{'+' if i < len(views) and views[i].role == 'user' and not views[i].answers else '-'}"
        for i, key in enumerate(keys)
    ]


def free_id(archive: Archive, scope: Scope, key: str) -> str:
    """The id a record with this key gets: the same on every machine, another one after an undo."""
    for generation in range(1_000):
        record_id = hashlib.sha256(f"{key}#{generation}".encode()).hexdigest()[:12]
        taken = archive.record(scope, record_id)
        if taken is None:
            return record_id
    raise ArchiveError("1,000 compactions of the same messages were undone: change the settings or start a new thread")


def find_recorded(archive: Archive, scope: Scope, keys: Sequence[str]) -> Record | None:
    """The live record that covers the longest prefix of the list with these keys."""
    for stop in range(len(keys), 0, -_KEYS):
        places = {keys[i]: i for i in range(max(0, stop - _KEYS), stop)}
        fitting = [r for r in archive.keyed(scope, list(places)) if places.get(r.key) == r.length]
        if fitting:
            return max(fitting, key=lambda record: record.length)
    return None


def apply(archive: Archive, record: Record, messages: Sequence[Message]) -> list[Message]:
    """The list with the recorded compaction in it: the same bytes every time."""
    return forward(record, messages, _fetch(archive, record.scope, (h for h in record.after if h is not None)))


class Recorded:
    """The records of one thread, newest first, each read at most once, and only as far as somebody looks."""

    def __init__(self, archive: Archive, scope: Scope) -> None:
        self._archive, self._scope = archive, scope
        self._rest = archive.newest(scope)
        self._live: list[Record] = []
        self._named: dict[str, Record | None] = {}

    def newest(self, named: Iterable[str]) -> Iterator[Record]:
        """The live ones, and those with these ids whether live or retired."""
        for record_id in named:
            if record_id not in self._named:
                self._named[record_id] = self._archive.record(self._scope, record_id)
        known = (self._named[record_id] for record_id in named)
        others = sorted((record for record in known if record is not None), key=_age, reverse=True)
        seen: set[str] = set()
        for record in heapq.merge(self._every(), others, key=_age, reverse=True):
            if record.id not in seen:
                seen.add(record.id)
                yield record

    def _every(self) -> Iterator[Record]:
        yield from list(self._live)
        for record in self._rest:
            self._live.append(record)
            yield record


def newest_standing(
    archive: Archive, scope: Scope, views: Sequence[View], done: Collection[str] = ()
) -> Standing | None:
    """The newest compaction whose result stands in the list, whatever ids the texts claim; none of those `done`.

    One that only took something out left nothing to be recognised by: it stands where all before it is the same.
    """
    named = sorted({record_id for view in views for record_id in marked_ids(view)})
    return _newest_standing(Recorded(archive, scope).newest(named), [meaning(view) for view in views], done)


def _newest_standing(records: Iterable[Record], seen: Sequence[str], done: Collection[str] = ()) -> Standing | None:
    places: dict[str, list[int]] = {}
    for i, item in enumerate(seen):
        places.setdefault(item, []).append(i)
    for record in records:
        if record.id in done:
            continue
        marks = cast("list[str]", record.data.get("marks", []))
        stop = record.start + len(record.after)
        if not marks and len(seen) >= stop and chain(seen[:stop], "")[-1] == record.data.get("result"):
            return Standing(record, record.start)
        for near in places.get(marks[0], []) if marks else []:
            at = locate(record, marks, seen, near)
            if at is not None:
                return Standing(record, at)
    return None


def taken_back(
    archive: Archive, scope: Scope, messages: list[Message], format_: Format, *, every: bool
) -> tuple[list[Message], Record | None]:
    """The list without its newest compaction, or without any, and the last record that was taken back."""
    recorded = Recorded(archive, scope)
    lines = [_line(message, read_at(i, message, format_)) for i, message in enumerate(messages)]
    done: set[str] = set()
    last: Record | None = None
    while last is None or every:
        named = sorted({record_id for line in lines for record_id in line.names})
        standing = _newest_standing(recorded.newest(named), [line.meaning for line in lines], done)
        if standing is None:
            break
        last = standing.record
        done.add(last.id)
        originals = _fetch(archive, last.scope, (went for went in last.before if isinstance(went, str)))
        lines = backward(last, lines, standing.at, {key: _line(m, format_.read(m)) for key, m in originals.items()})
    return ([line.message for line in lines] if last else messages), last


class _Line(NamedTuple):
    """A message, its meaning and the records it names: read once, however often records are looked for."""

    message: Message
    meaning: str
    names: list[str]


def _line(message: Message, view: View) -> _Line:
    return _Line(message, meaning(view), marked_ids(view))


def vouched_for(archive: Archive, standing: Standing | None) -> set[str]:
    """The meanings of all that this compaction and those before it put in: what the archive knows to be ours."""
    known: set[str] = set()
    record = standing.record if standing else None
    while record is not None:
        known.update(cast("list[str]", record.data.get("marks", [])))
        folded = record.kind == "summary"  # it took the one before it in
        record = archive.record(record.scope, record.prior) if record.prior and not folded else None
    return known


def uncleared(
    archive: Archive, scope: Scope, views: Sequence[View], format_: Format, wanted: Iterable[int]
) -> dict[int, View]:
    """Of those of these messages that were cleared before, what they said in full: a summary is made from that."""
    places: dict[str, list[int]] = {}
    for i in sorted(wanted):
        if _CLEARED in views[i].whole_text():
            places.setdefault(meaning(views[i]), []).append(i)
    hashes: dict[int, str] = {}
    for record in archive.newest(scope) if places else ():
        if record.kind == "clearing" and len(record.before) == len(record.after):
            # Where something was mended beside it, message does not stand for message.
            pairs = [went for came, went in zip(record.after, record.before, strict=True) if came is not None]
            marks = cast("list[str]", record.data["marks"])
            for mark, went in reversed(list(zip(marks, pairs, strict=True))):  # two may have left the same stub
                if places.get(mark) and isinstance(went, str):
                    hashes[places[mark].pop()] = went
        if not any(places.values()):
            break
    originals = _fetch(archive, scope, hashes.values())
    return {i: format_.read(originals[hash_]).said_by(views[i].origin) for i, hash_ in hashes.items()}


def turns_of(standing: Standing | None, count: int) -> list[int]:
    """The place of each message in the original conversation; -1 for one that was put in."""
    if standing is None:
        return list(range(count))
    record, at = standing
    known = cast("list[int]", record.data["turns"])
    following = cast("int", record.data["next_turn"])
    shift = at - record.start
    turns = [*range(max(0, shift)), *(turn if turn < 0 else turn + max(0, shift) for turn in known)]
    return (turns + [following + max(0, shift) + i for i in range(count - len(turns))])[:count]


def write(archive: Archive, change: Change) -> tuple[Record, list[Message]]:
    """Store originals, record and receipt in one transaction; the record that now holds the key, and its list."""
    diff = difference(change.old, change.new)
    came_views = {j: change.format.read(change.new[j]) for j in diff.came}
    new_turns = _turns_after(change, diff, came_views)
    went = [_part(change, change.old[i], change.old_views[i], _original_turn(change, i)) for i in diff.went]
    came = [_part(change, change.new[j], came_views[j], -1) for j in diff.came]
    went_hash = dict(zip(diff.went, (part.hash for part in went), strict=True))
    came_hash = dict(zip(diff.came, (part.hash for part in came), strict=True))
    stop_old = diff.start + len(diff.before)
    after_end = [turn for turn in change.old_turns[:stop_old] if turn >= 0]
    record = Record(
        id=change.record_id,
        scope=change.scope,
        key=change.key,
        length=change.length,
        start=diff.start,
        before=tuple(
            went_hash[diff.start + i] if diff.start + i in went_hash else cast("int", item)
            for i, item in enumerate(diff.before)
        ),
        after=tuple(came_hash.get(diff.start + j) for j in range(len(diff.after))),
        kind=change.kind,
        prior=change.prior,
        model=change.model,
        created=time.time(),
        data={
            **change.data,
            "marks": [meaning(came_views[j]) for j in diff.came],
            "turns": new_turns,
            "result": _result([change.format.read(message) for message in change.new[: len(new_turns)]]),
            "next_turn": change.old_turns[stop_old] if stop_old < len(change.old) else max(after_end, default=-1) + 1,
        },
    )
    stored = archive.store(record, [*went, *came])
    if stored.id == record.id:
        return stored, list(change.new)
    return stored, apply(archive, stored, change.old)  # another replica was first: its bytes are everybody's


def _turns_after(change: Change, diff: Difference, came: Mapping[int, View]) -> list[int]:
    """The turn of every message of the new list up to the end of what changed.

    What was put in has none, except where message for message was exchanged: a stub has the turn of what it stands for.
    """
    stop = diff.start + len(diff.after)
    turns = [*change.old_turns[: diff.start], *([-1] * len(diff.after))]
    runs: list[tuple[list[int], list[int]]] = []
    gone: list[int] = []
    place = diff.start
    for i, item in enumerate(diff.before, diff.start):
        if isinstance(item, int):
            turns[diff.start + item] = change.old_turns[i]
            runs.append((gone, list(range(place, diff.start + item))))
            gone, place = [], diff.start + item + 1
        else:
            gone.append(i)
    for went, put_in in [*runs, (gone, list(range(place, stop)))]:
        if len(went) == len(put_in) and not any(is_ours(came[j]) for j in put_in):
            for i, j in zip(went, put_in, strict=True):
                turns[j] = change.old_turns[i]
    return turns


def _original_turn(change: Change, index: int) -> int:
    """The turn of a message that goes; none for what an earlier compaction put in, whose original has it."""
    return -1 if meaning(change.old_views[index]) in change.ours else change.old_turns[index]


def _result(views: Sequence[View]) -> str:
    """A digest of all that stands in the list up to the end of what changed."""
    return chain((meaning(view) for view in views), "")[-1]


def _part(change: Change, message: Message, view: View, turn: int) -> Part:
    body = codec.encode(message)
    return Part(codec.digest(body), body, turn, view.role, view.origin, change.redact(view.whole_text()))


def _fetch(archive: Archive, scope: Scope, hashes: Iterable[str]) -> dict[str, Message]:
    wanted = list(dict.fromkeys(hashes))
    bodies = archive.bodies(scope, wanted)
    missing = [item for item in wanted if item not in bodies]
    if missing:
        raise ArchiveError(
            f"{len(missing)} of {len(wanted)} archived messages of thread {scope.thread!r} are missing, "
            f"the first is {missing[0]}: was the thread forgotten, or is this another archive?"
        )
    return {item: codec.decode(body) for item, body in bodies.items()}


def _age(record: Record) -> tuple[float, int]:
    return record.created, cast("int", record.data.get("depth", 0))
