"""Compactions found again: the key of a prefix, the record that holds it, and its result made anew.

What stands in a list, and how it is taken back, is in `replay`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import cast

from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.authorship import separate_inserted_blocks
from unabridged.errors import ArchiveError
from unabridged.formats.base import Format, Message
from unabridged.history import difference
from unabridged.history.replay import UNNAMED_THREAD_PREFIX, AppliedRecord, RecordCache, fetch_messages
from unabridged.marks import find_view_record_ids
from unabridged.messages import View

FIRST_KEY_COUNT = 250
"""Keys of so many messages are asked for at once; each time none is found, of four times as many."""
_CLEARED_PREFIX = "cleared: "
"""Part of every stub."""


def compute_keys(views: Sequence[View], seed: str) -> list[str]:
    """Return the key of each prefix. Whether a person speaks next is part of it: it decides what is still open."""
    keys = difference.compute_prefix_digests((view.meaning_digest for view in views), seed)
    speaks = [view.role == "user" and not view.answers for view in views]
    return [f"{key}{'+' if speaks_next else '-'}" for key, speaks_next in zip(keys, [*speaks, False], strict=True)]


def make_record_id(key: str, generation: int = 0, *, by_model: bool = False) -> str:
    """Return the id of a record with this key: the same on every machine, another one after each undo.

    A model's summary takes the key over from what was made without one, maybe by another process, and stands beside it.
    """
    return hashlib.sha256(f"{key}#{'model ' if by_model else ''}{generation}".encode()).hexdigest()[:12]


def find_free_id(archive: Archive, scope: Scope, key: str, *, by_model: bool = False) -> str:
    """Return the first id for this key that the thread has not used; raise `ArchiveError` where none is left."""
    for generation in range(1_000):
        free = make_record_id(key, generation, by_model=by_model)
        if archive.record(scope, free) is None:
            return free
    raise ArchiveError("1,000 compactions of the same messages were undone: change the settings or start a new thread")


def choose_thread(archive: Archive, scope: Scope, applied: AppliedRecord | None, key: str) -> Scope:
    """Return the thread of the next record of a conversation without a name: the one that it goes on, or its own.

    It is named by the first prefix that was compacted. Two conversations that were the same until then share that
    record; whichever goes on first keeps the thread, and the next record of any other opens its own.
    """
    newest = next(archive.newest(applied.record.scope), None) if applied is not None else None
    if applied is not None and newest is not None and newest.id == applied.record.id:
        return newest.scope
    return Scope(scope.namespace, f"{UNNAMED_THREAD_PREFIX}{key[:16]}")


def find_longest_record(archive: Archive, scope: Scope, seed: str, views: Sequence[View]) -> Record | None:
    """Return the live record of this thread, or of the unnamed ones, that covers the longest prefix of the list.

    A compacted list is short, and what covers its beginning is found there: the rest is looked at only if nothing is.
    """
    first, size = 0, FIRST_KEY_COUNT
    while first <= len(views):
        stop = min(len(views) + 1, first + size)
        keys = compute_keys(views[:stop], seed)[first:stop]
        records = [record for record in _find_by_keys(archive, scope, keys) if _covers_prefix(record, keys, first)]
        if records:
            return max(records, key=lambda record: record.length)
        first, size = stop, size * 4
    return None


def _find_by_keys(archive: Archive, scope: Scope, keys: Sequence[str]) -> Sequence[Record]:
    """Return the live records with these keys: of the thread, or of any that nobody named."""
    if scope.thread:
        return archive.keyed(scope, keys)
    ids = [make_record_id(key, by_model=by_model) for key in keys for by_model in (False, True)]
    threads = archive.locate_each(scope.namespace, ids)
    return [record for found in dict.fromkeys(threads.values()) for record in archive.keyed(found, keys)]


def _covers_prefix(record: Record, keys: Sequence[str], first: int) -> bool:
    """Return whether the record's key is that of a prefix as long as it says, and it reaches no further."""
    at = record.length - first
    return 0 <= at < len(keys) and keys[at] == record.key and record.start + len(record.before) <= record.length


def apply_record(archive: Archive, record: Record, messages: Sequence[Message], format_: Format) -> list[Message]:
    """Return the list with the recorded compaction in it: the same every time, with the ids and marks of today."""
    exchanged = difference.find_replacements(record)
    went = {j: cast("str", record.before[i]) for j, i in exchanged.items()}
    came = {j: digest for j, digest in enumerate(record.after) if digest is not None}
    stored = fetch_messages(archive, record.scope, (*came.values(), *went.values()))
    inserted = {j: stored[digest] for j, digest in came.items()}
    for j, i in exchanged.items():
        inserted[j] = difference.carry_over_edit(inserted[j], stored[went[j]], messages[record.start + i])
    new = difference.apply_forward(record, messages, inserted)
    for j in inserted:
        if j not in exchanged:
            _answer_current_calls(new, record.start + j, format_)
    return new


def _answer_current_calls(messages: list[Message], index: int, format_: Format) -> None:
    """Change the ids in a message that a repair put in to answer calls: to those that the calls have now."""
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
        messages[index] = difference.replace_call_ids(messages[index], format_.answers_by, ids)


def read_cleared_originals(
    archive: Archive, records: RecordCache, views: Sequence[View], format_: Format, wanted: Iterable[int]
) -> dict[int, View]:
    """Return what the wanted messages said before they were cleared, by index: a summary is made from that."""
    found_by_index: dict[int, View] = {}
    left = {i: views[i] for i in wanted if _CLEARED_PREFIX in views[i].whole_text()}
    while left:  # once for each clearing that took something out of the same message
        hashes: dict[Scope, dict[int, str]] = {}
        for i, view in left.items():
            for record in filter(None, map(records.find, find_view_record_ids(view))):
                if (digest := _find_replaced_hash(record, view)) is not None:
                    hashes.setdefault(record.scope, {})[i] = digest
        left = {}
        for scope, digests in hashes.items():
            originals = fetch_messages(archive, scope, digests.values())
            left |= {i: format_.read(originals[digest]) for i, digest in digests.items()}
        for i, view in left.items():
            found_by_index[i] = separate_inserted_blocks(view).with_origin(views[i].origin)
        left = {i: view for i, view in left.items() if _CLEARED_PREFIX in view.whole_text()}
    return found_by_index


def _find_replaced_hash(record: Record, view: View) -> str | None:
    """Return the hash of the message that the record exchanged for this one; None when it did not."""
    marks = record.data.get("marks", [])
    places = [j for j, put_in in enumerate(record.after) if put_in is not None]
    stands_for = difference.find_replacements(record)
    for j, mark in zip(places, marks, strict=True):
        if mark == view.meaning_digest and j in stands_for:
            return cast("str", record.before[stands_for[j]])
    return None


def find_original_turns(applied: AppliedRecord | None, count: int) -> list[int]:
    """Return the place of each message in the original conversation; -1 for one that was put in."""
    if applied is None:
        return list(range(count))
    data, shift = applied.record.data, max(0, applied.position - applied.record.start)
    turns = [*range(shift), *(turn if turn < 0 else turn + shift for turn in data["turns"])]
    following = data["next_turn"] + shift
    return [*turns, *range(following, following + count - len(turns))][:count]


def get_depth(record: Record | None) -> int:
    """Return how many compactions lie behind a list that carries this record; 0 without one."""
    return record.data.get("depth", 0) if record else 0
