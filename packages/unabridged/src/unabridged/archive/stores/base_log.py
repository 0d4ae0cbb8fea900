"""A thread as a log of entries, and an archive of such threads: all of it but where the logs are kept.

A store that appends entries and reads them back in order is an archive with `LogArchive`, which decides everything
else: which record holds a key, what is new, what is found, who has a lease. `memory` and `directory` are such stores.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from unabridged.archive import protocol, search, store_rules
from unabridged.archive.protocol import Archive, Hit, HitsByThread, Part, Record, Scope, StoredRecord
from unabridged.errors import ArchiveError

Place = tuple[str, ...]
"""Where small values are kept: `("notes", namespace)` or `("leases", namespace, thread)`."""


class Entry(NamedTuple):
    """One step of a log: a record with the parts that were new, or the id of a record to retire."""

    record: Record | None
    parts: Sequence[Part] = ()
    retired: str | None = None


@dataclass(slots=True)
class ThreadLog:
    """What the entries of a log add up to. Not safe by itself: its owner locks."""

    records: dict[str, Record] = field(default_factory=dict)
    """In the order they were stored."""
    live_ids_by_key: dict[str, str] = field(default_factory=dict)
    """From key to the id of the record that holds it."""
    bodies_by_hash: dict[str, bytes] = field(default_factory=dict)
    """From hash to body."""
    searched_parts: list[Part] = field(default_factory=list)
    """The parts that search sees: all but those that were put in."""
    parts: list[Part] = field(default_factory=list)
    """All of them, in the order they were stored."""
    known: set[tuple[int, str]] = field(default_factory=set)
    """Turn and hash of each of them."""

    def apply_entry(self, entry: Entry) -> None:
        """Take the entry in."""
        if (record := entry.record) is not None:
            for part in store_rules.select_new_parts(entry.parts, self.known):
                self.known.add((part.turn, part.hash))
                if (body := self.bodies_by_hash.setdefault(part.hash, part.body)) is not part.body:
                    part = replace(part, body=body)  # noqa: PLW2901 - one message, however often it was said
                self.parts.append(part)
                if part.turn >= 0:
                    self.searched_parts.append(part)
            self.records.pop(record.id, None)
            self.records[record.id] = record
            self.live_ids_by_key[record.key] = record.id
        if entry.retired is not None and self.is_live(entry.retired):
            del self.live_ids_by_key[self.records[entry.retired].key]

    def is_live(self, record_id: str) -> bool:
        """Return whether the record is there and holds its key."""
        return record_id in self.records and self.live_ids_by_key.get(self.records[record_id].key) == record_id

    def live_records(self) -> list[Record]:
        """Return every live record, oldest first."""
        return [record for record in self.records.values() if self.is_live(record.id)]

    def count_contents(self, name: str) -> protocol.ThreadContents:
        """Return what it holds, counted."""
        kinds = Counter(record.kind for record in self.live_records())
        last = max((part.turn for part in self.searched_parts), default=-1)
        size = sum(len(part.body) for part in self.searched_parts)
        return protocol.ThreadContents(name, kinds, len(self.searched_parts), last + 1, size)

    def find_problems(self, scope: Scope) -> Iterator[str]:
        """Yield a sentence for every body that is not what its hash says, and every reference to nothing."""
        for digest, body in self.bodies_by_hash.items():
            if not store_rules.is_body_of_name(body, digest):
                name = store_rules.describe_scope(scope)
                yield f"{name}: the stored message {digest[:20]}… was damaged. Restore it from a backup."
        yield from store_rules.find_dangling_references(scope, self.records.values(), self.bodies_by_hash)


class LogArchive(Archive, ABC):
    """An archive whose threads are logs. A store gives the operations without a body; each refuses a closed store."""

    url = ""
    """Where it is, for people to read."""
    clock = staticmethod(time.time)
    """By which leases run out."""

    def __init__(self) -> None:
        self._tokens = store_rules.LeaseTokens()

    @abstractmethod
    def reading(self, scope: Scope) -> AbstractContextManager[ThreadLog]:
        """Return the thread as its log says now, an empty one where there is none; it does not change meanwhile."""

    @abstractmethod
    def locked(self, scope: Scope | None) -> AbstractContextManager[None]:
        """Keep every other writer of the thread, or of the whole store, out."""

    @abstractmethod
    def append(self, scope: Scope, entry: Entry, thread: ThreadLog) -> None:
        """Put the entry behind the thread's log, whole or not at all; the thread is locked and as `reading` gave it."""

    @abstractmethod
    def scopes(self, namespace: str | None = None) -> Iterable[Scope]:
        """Return every thread that has a log, of one namespace or of all."""

    @abstractmethod
    def remove(self, scope: Scope) -> None:
        """Remove the log and leases of a thread, as far as they are there."""

    @abstractmethod
    def clear(self, namespace: str) -> None:
        """Remove the notes of a namespace and all else that it has, at one stroke where that can be.

        `remove` is called for each of its threads besides.
        """

    @abstractmethod
    def get(self, place: Place, key: str) -> bytes | None:
        """Return the small value that was put there last."""

    @abstractmethod
    def put(self, place: Place, key: str, value: bytes | None) -> None:
        """Keep a small value in the place of what was there; None removes it."""

    def extend(self, scope: Scope, entries: Sequence[Entry]) -> None:
        """Put the entries behind the thread's log: to one that was not there all of them or none, where that can be."""
        for entry in entries:
            with self.reading(scope) as thread:
                self.append(scope, entry, thread)

    def values(self, kind: str) -> Iterable[bytes]:
        """Return every small value that is kept under a place that begins so, in no order."""
        raise ArchiveError(f"{type(self).__name__} can't list its {kind}: give it a method `values`.")

    def record_ids(self, scope: Scope) -> Iterable[str]:
        """Return the ids of the thread's records, retired or not."""
        with self.reading(scope) as thread:
            return list(thread.records)

    def store(self, record: Record, parts: Sequence[Part]) -> Record:
        """Write record and parts, all or nothing; return the record that now holds the key."""
        store_rules.check_names(*record.scope)
        store_rules.check_parts(parts)
        with self.locked(record.scope), self.reading(record.scope) as thread:
            holder = thread.records.get(thread.live_ids_by_key.get(record.key, ""))
            if (keeper := store_rules.find_key_holder(record, thread.records.get(record.id), holder)) is not None:
                return keeper
            store_rules.check_references(record, parts, thread.bodies_by_hash)
            self.append(record.scope, Entry(record, store_rules.select_new_parts(parts, thread.known)), thread)
        return record

    def retire(self, scope: Scope, record_id: str) -> None:
        """Take the record out of look-ups (undo). Its parts stay."""
        with self.locked(scope), self.reading(scope) as thread:
            if thread.is_live(record_id):
                self.append(scope, Entry(None, retired=record_id), thread)

    def record(self, scope: Scope, record_id: str) -> Record | None:
        """Return the record with this id, retired or not, or None."""
        with self.reading(scope) as thread:
            return thread.records.get(record_id)

    def newest(self, scope: Scope) -> Iterator[Record]:
        """Return the live records of the thread, newest first."""
        with self.reading(scope) as thread:
            return reversed(thread.live_records())

    def keyed(self, scope: Scope, keys: Sequence[str]) -> Sequence[Record]:
        """Return the live records that hold one of these keys, in no order."""
        with self.reading(scope) as thread:
            held = thread.live_ids_by_key
            return [thread.records[held[key]] for key in dict.fromkeys(keys) if key in held]

    def locate_each(self, namespace: str, record_ids: Sequence[str]) -> Mapping[str, Scope]:
        """Return the thread of each of these records that the namespace has, retired or not."""
        found: dict[str, Scope] = {}
        wanted = set(record_ids)
        for scope in self.scopes(namespace) if wanted else ():
            found = dict.fromkeys(wanted.intersection(self.record_ids(scope)), scope) | found
        return found

    def bodies(self, scope: Scope, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Return the stored messages with these hashes, those that the thread holds; others are absent."""
        with self.reading(scope) as thread:
            held = thread.bodies_by_hash
            return {digest: store_rules.check_body(held[digest], digest) for digest in hashes if digest in held}

    def parts(self, scope: Scope, first: int = 0, last: int | None = None) -> Sequence[Part]:
        """Return the archived messages with first <= turn < last, in the order of turns: no put-in ones (turn -1)."""
        with self.reading(scope) as thread:
            stop = math.inf if last is None else last
            chosen = [part for part in thread.searched_parts if first <= part.turn < stop]
        for part in chosen:
            store_rules.check_body(part.body, part.hash)
        return sorted(chosen, key=lambda part: part.turn)

    def search(self, scope: Scope, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the archived messages that match best: literal words, no query syntax."""
        return search.search_parts(query, limit, self._read_searched([scope]))

    def search_namespace(self, namespace: str, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the archived messages of all threads of the namespace that match best, each with its thread."""
        return search.search_parts(query, limit, self._read_searched(self.scopes(namespace)))

    def search_each(self, namespace: str, threads: Sequence[str], query: str, limit: int = 10) -> HitsByThread:
        """Return the best matches of each of these threads."""
        scopes = (Scope(namespace, name) for name in dict.fromkeys(threads))
        return search.search_each_threads_parts(query, limit, self._read_searched(scopes))

    def _read_searched(self, scopes: Iterable[Scope]) -> Iterator[tuple[Scope, Sequence[Part]]]:
        """Yield what search sees of each of these threads, one after the other."""
        for scope in scopes:
            with self.reading(scope) as thread:
                parts = list(thread.searched_parts)
            yield scope, parts

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces that have a thread, sorted."""
        return sorted({scope.namespace for scope in self.scopes()})

    def threads(self, namespace: str) -> Sequence[str]:
        """Return the names of the threads that hold anything, sorted."""
        return sorted(scope.thread for scope in self.scopes(namespace))

    def newest_time(self, scope: Scope) -> float | None:
        """Return when the record that was stored last was made, retired or not; None when the thread has none."""
        with self.reading(scope) as thread:
            return next((record.created for record in reversed(thread.records.values())), None)

    def holdings(self, namespace: str, threads: Sequence[str]) -> Sequence[protocol.ThreadContents]:
        """Return what each of these threads holds, in this order; those that are not there are left out."""
        found: list[protocol.ThreadContents] = []
        for name in dict.fromkeys(threads):
            with self.reading(Scope(namespace, name)) as thread:
                found += [thread.count_contents(name)] if thread.records else []
        return found

    def forget(self, scope: Scope) -> None:
        """Remove the thread, with everything in it."""
        with self.locked(scope):
            self.remove(scope)
            self.put(("notes", scope.namespace), store_rules.thread_note_key(scope.thread), None)

    def forget_namespace(self, namespace: str, before: float | None = None) -> Sequence[str]:
        """Remove the whole namespace, or its threads that are older than `before`; the names of those that went."""
        with self.locked(None):
            found = list(self.scopes(namespace))
            old = [scope for scope in found if before is None or store_rules.is_older(self.newest_time(scope), before)]
            if before is None:
                self.clear(namespace)
            for scope in old:
                self.remove(scope)
                self.put(("notes", namespace), store_rules.thread_note_key(scope.thread), None)
        return sorted(scope.thread for scope in old)

    def remember(self, namespace: str, key: str, data: Mapping[str, object]) -> None:
        """Keep some plain JSON under this key, in the place of what was there."""
        store_rules.check_names(namespace)
        with self.locked(Scope(namespace, "")):
            self.put(("notes", namespace), key, store_rules.encode_note(namespace, key, data))

    def remembered(self, namespace: str, key: str) -> Mapping[str, object] | None:
        """Return what was kept under this key last; None when nothing was."""
        note = store_rules.decode_note(self.get(("notes", namespace), key))
        return None if note is None else note.data

    def notes(self, namespace: str | None = None) -> Sequence[protocol.Note]:
        """Return everything that is remembered, for one namespace or for all, in no order."""
        found = filter(None, map(store_rules.decode_note, self.values("notes")))
        return [note for note in found if namespace in {None, note.namespace}]

    def everything(self, scope: Scope) -> Iterator[StoredRecord]:
        """Yield all that the thread holds, in the order it was stored."""
        with self.reading(scope) as thread:
            records = [(record, thread.is_live(record.id)) for record in thread.records.values()]
            parts = list(thread.parts)
        for stored in store_rules.group_parts_by_record(records, parts):
            for part in stored.parts:
                store_rules.check_body(part.body, part.hash)
            yield stored

    def take(self, scope: Scope, held: int, stored: Iterable[StoredRecord]) -> bool:
        """Append what `everything` yielded to the thread; return False when it does not hold `held` records."""
        store_rules.check_names(*scope)
        with self.locked(scope), self.reading(scope) as thread:
            if len(thread.records) != held:
                return False
            hashes, entries = set(thread.bodies_by_hash), list[Entry]()
            for record, live, parts in stored:  # all of it is seen to be right before any of it is written
                store_rules.check_parts(parts)
                store_rules.check_references(record, parts, hashes)
                hashes.update(part.hash for part in parts)
                retired = [] if live else [Entry(None, retired=record.id)]
                entries += [Entry(record, store_rules.select_new_parts(parts, ())), *retired]
            self.extend(scope, entries)
        return True

    def lease(self, scope: Scope, key: str, seconds: float) -> bool:
        """Return whether the caller may do the work named `key` alone, until `release` or `seconds` have passed."""
        store_rules.check_names(*scope)
        store_rules.check_lease(seconds)
        token = uuid.uuid4().hex
        with self.locked(scope):
            if self._lease(scope, key)[1] > self.clock():
                return False
            self.put(("leases", *scope), key, json.dumps([token, self.clock() + seconds]).encode())
        self._tokens.add(scope, key, token)
        return True

    def release(self, scope: Scope, key: str) -> None:
        """Give back the oldest lease on `key` that this archive object was given; harmless when it has run out."""
        token = self._tokens.take_oldest(scope, key)
        with self.locked(scope):
            if token is not None and self._lease(scope, key)[0] == token:
                self.put(("leases", *scope), key, None)

    def _lease(self, scope: Scope, key: str) -> tuple[str | None, float]:
        """Return the lease's token and when it runs out; one that can't be read is nobody's."""
        try:
            token, expires = json.loads(self.get(("leases", *scope), key) or b"")
            return str(token), float(expires)
        except (ValueError, TypeError):
            return None, 0.0

    def verify(self, scope: Scope | None = None) -> Sequence[str]:
        """Return what is wrong with the stored thread, or with everything: a sentence each; empty when all is well."""
        found: list[str] = []
        for one in self.scopes() if scope is None else [scope]:
            try:
                with self.reading(one) as thread:
                    found += thread.find_problems(one)
            except ArchiveError as error:
                found.append(f"{store_rules.describe_scope(one)}: {error}")
        return found
