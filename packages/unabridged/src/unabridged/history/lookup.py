"""Compactions found again: the key of a prefix, the record that holds it, and its result made anew.

What stands in a list, and how it is taken back, is in `replay`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.authorship import set_apart
from unabridged.errors import ArchiveError
from unabridged.formats.base import Format, Message
from unabridged.history.difference import (
    chain,
    forward,
    pairs,
    replace_call_ids,
    transplant,
)
from unabridged.history.replay import UNNAMED, Records, Standing, fetch
from unabridged.marks import marked_ids
from unabridged.messages import View

_WINDOW = 250
"""Keys of so many messages are asked for at once; each time none is found, of four times as many."""
_CLEARED = "cleared: "
"""Stands in every stub."""


def keys_of(views: Sequence[View], seed: str) -> list[str]:
    """The key of each prefix. Whether a person speaks next is part of it: it decides what is still open."""
    keys = chain((view.meaning for view in views), seed)
    return [
        f"{key}{'+' if i < len(views) and views[i].role == 'user' and not views[i].answers else '-'}"
        for i, key in enumerate(keys)
    ]


def record_id(key: str, generation: int = 0, *, by_model: bool = False) -> str:
    """The id of a record with this key: the same on every machine, another one after each undo.

    A model's summary takes the key over from what was made without one, maybe by another process, and stands beside it.
    """
    return hashlib.sha256(f"{key}#{'model ' if by_model else ''}{generation}".encode()).hexdigest()[:12]


def free_id(archive: Archive, scope: Scope, key: str, *, by_model: bool = False) -> str:
    """The first id for this key that the thread has not given away."""
    for generation in range(1_000):
        free = record_id(key, generation, by_model=by_model)
        if archive.record(scope, free) is None:
            return free
    raise ArchiveError("1,000 compactions of the same messages were undone: change the settings or start a new thread")


def thread_for(archive: Archive, scope: Scope, standing: Standing | None, key: str) -> Scope:
    """The thread of the next record of a conversation that nobody named: the one that it goes on, or one of its own.

    It is named by the first prefix that was compacted. Two conversations that were the same until then share that
    record; whichever goes on first keeps the thread, and the next record of any other opens its own.
    """
    newest = next(archive.newest(standing.record.scope), None) if standing is not None else None
    if standing is not None and newest is not None and newest.id == standing.record.id:
        return newest.scope
    return Scope(scope.namespace, f"{UNNAMED}{key[:16]}")


class Place(NamedTuple):
    """Where to look for records: a thread, or the unnamed ones of a namespace; and what keys begin with there."""

    scope: Scope
    seed: str


def find_longest_record(archive: Archive, place: Place, views: Sequence[View]) -> Record | None:
    """The live record of this place that covers the longest prefix of the list.

    A compacted list is short, and what covers its beginning is found there: the rest is looked at only if nothing is.
    """
    first, size = 0, _WINDOW
    while first <= len(views):
        stop = min(len(views) + 1, first + size)
        keys = keys_of(views[:stop], place.seed)[first:stop]
        found = [record for record in _find_by_keys(archive, place.scope, keys) if _covers(record, keys, first)]
        if found:
            return max(found, key=lambda record: record.length)
        first, size = stop, size * 4
    return None


def _find_by_keys(archive: Archive, scope: Scope, keys: Sequence[str]) -> Sequence[Record]:
    """The live records with these keys: of the thread, or of any that nobody named."""
    if scope.thread:
        return archive.keyed(scope, keys)
    ids = [record_id(key, by_model=by_model) for key in keys for by_model in (False, True)]
    threads = archive.locate_each(scope.namespace, ids)
    return [record for found in dict.fromkeys(threads.values()) for record in archive.keyed(found, keys)]


def _covers(record: Record, keys: Sequence[str], first: int) -> bool:
    """Whether the record's key is that of a prefix as long as it says, and it reaches no further."""
    at = record.length - first
    return 0 <= at < len(keys) and keys[at] == record.key and record.start + len(record.before) <= record.length


def apply(archive: Archive, record: Record, messages: Sequence[Message], format_: Format) -> list[Message]:
    """The list with the recorded compaction in it: the same every time, with the ids and marks of today."""
    paired = pairs(record)
    went = {j: cast("str", record.before[i]) for j, i in paired.items()}
    came = {j: digest for j, digest in enumerate(record.after) if digest is not None}
    stored = fetch(archive, record.scope, (*came.values(), *went.values()))
    put_in = {
        j: transplant(stored[digest], stored[went[j]], messages[record.start + paired[j]])
        if j in paired
        else stored[digest]
        for j, digest in came.items()
    }
    new = forward(record, messages, put_in)
    for j in put_in:
        if j not in paired:
            _answer_current_calls(new, record.start + j, format_)
    return new


def _answer_current_calls(messages: list[Message], index: int, format_: Format) -> None:
    """Where a message that was put in answers calls (a repair), have it answer them by the ids that they have now."""
    answered = [answer.call_id for answer in format_.read(messages[index]).answers]
    if not answered:
        return
    views = [format_.read(message) for message in messages]
    calls = [call for view in views[:index] for call in view.calls]
    known = {id_ for call in calls for id_ in call.ids}
    stale = [call_id for call_id in answered if call_id not in known]
    if stale:
        others = {answer.call_id for i, view in enumerate(views) if i != index for answer in view.answers}
        free = [call.id for call in calls if others.isdisjoint(call.ids)][-len(stale) :]  # the last that nobody answers
        ids = dict(zip(stale, free, strict=False))
        messages[index] = replace_call_ids(messages[index], format_.answers_by, ids)


def read_cleared(
    archive: Archive, records: Records, views: Sequence[View], format_: Format, wanted: Iterable[int]
) -> dict[int, View]:
    """Of those of these messages that were cleared before, what they said in full: a summary is made from that."""
    found: dict[int, View] = {}
    left = {i: views[i] for i in wanted if _CLEARED in views[i].whole_text()}
    while left:  # once for each clearing that took something out of the same message
        hashes: dict[int, tuple[Scope, str]] = {}
        for i, view in left.items():
            for name in marked_ids(view):
                record = records.named(name)
                if record is not None and (digest := _find_exchanged(record, view)) is not None:
                    hashes[i] = (record.scope, digest)
        by_scope: dict[Scope, list[str]] = {}
        for place, digest in hashes.values():
            by_scope.setdefault(place, []).append(digest)
        originals = {place: fetch(archive, place, digests) for place, digests in by_scope.items()}
        left = {i: format_.read(originals[place][digest]) for i, (place, digest) in hashes.items()}
        found |= {i: set_apart(view).said_by(views[i].origin) for i, view in left.items()}
        left = {i: view for i, view in left.items() if _CLEARED in view.whole_text()}
    return found


def _find_exchanged(record: Record, view: View) -> str | None:
    """The hash of the message that the record exchanged for this one; None when it did not."""
    marks = record.data.get("marks", [])
    places = [j for j, put_in in enumerate(record.after) if put_in is not None]
    stands_for = pairs(record)
    for j, mark in zip(places, marks, strict=True):
        if mark == view.meaning and j in stands_for:
            return cast("str", record.before[stands_for[j]])
    return None


def turns_of(standing: Standing | None, count: int) -> list[int]:
    """The place of each message in the original conversation; -1 for one that was put in."""
    if standing is None:
        return list(range(count))
    record, at = standing
    known = record.data["turns"]
    following = record.data["next_turn"]
    shift = at - record.start
    turns = [*range(max(0, shift)), *(turn if turn < 0 else turn + max(0, shift) for turn in known)]
    return (turns + [following + max(0, shift) + i for i in range(count - len(turns))])[:count]


def depth_of(record: Record | None) -> int:
    """How many compactions lie behind a list that carries this record; 0 without one."""
    return record.data.get("depth", 0) if record else 0
