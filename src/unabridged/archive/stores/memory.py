"""The archive in memory: whole, for tests and for callers who opt out of a durable one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from unabridged.archive import codec, rules
from unabridged.archive.protocol import Hit, Part, Record, Scope
from unabridged.archive.stores import forks
from unabridged.archive.stores.thread import Thread
from unabridged.errors import ArchiveError


class MemoryArchive:
    """Everything in this process and nothing on disk. Gone when it is closed."""

    url = "memory:"

    def __init__(self) -> None:
        self._threads: dict[Scope, Thread] | None = {}
        self._bodies: dict[tuple[str, str], bytes] = {}
        self._leases: dict[tuple[Scope, str], tuple[str, float]] = {}
        self._notes: dict[tuple[str, str], bytes] = {}
        self._tokens = rules.Tokens()
        self._lock = threading.RLock()
        forks.watch(self)

    def probe(self) -> None:
        """Nothing: there is always room."""

    def store(self, record: Record, parts: Sequence[Part]) -> Record:
        """Write record and parts, all or nothing; return the record that now holds the key."""
        rules.check_parts(parts)
        with self._lock:
            thread = self._thread(record.scope)
            holder = thread.holder(record, parts)
            if holder is not None:
                return holder
            namespace = record.scope.namespace
            thread.add(
                record,
                [
                    replace(part, body=self._bodies.setdefault((namespace, part.hash), part.body))
                    for part in thread.fresh(parts)
                ],
            )
            self._all()[record.scope] = thread
            return record

    def record(self, scope: Scope, record_id: str) -> Record | None:
        """The record with this id, retired or not, or None."""
        with self._lock:
            return self._thread(scope).records.get(record_id)

    def locate(self, namespace: str, record_id: str) -> Scope | None:
        """The thread of this namespace that has the record, retired or not; None when none has."""
        with self._lock:
            found = (s for s, thread in self._all().items() if s.namespace == namespace and record_id in thread.records)
            return next(found, None)

    def locate_each(self, namespace: str, record_ids: Sequence[str]) -> Mapping[str, Scope]:
        """For each of these records that the namespace has, retired or not, its thread."""
        with self._lock:
            spaced = [(scope, thread) for scope, thread in self._all().items() if scope.namespace == namespace]
            return {known: scope for scope, thread in spaced[::-1] for known in record_ids if known in thread.records}

    def records(self, scope: Scope) -> Sequence[Record]:
        """Every live record of the thread, oldest first."""
        with self._lock:
            return self._thread(scope).live_records()

    def newest(self, scope: Scope) -> Iterator[Record]:
        """The live records of the thread, newest first."""
        with self._lock:
            return iter(self._thread(scope).newest())

    def keyed(self, scope: Scope, keys: Sequence[str]) -> Sequence[Record]:
        """The live records that hold one of these keys, in no order."""
        with self._lock:
            return self._thread(scope).keyed(keys)

    def retire(self, scope: Scope, record_id: str) -> None:
        """Take the record out of look-ups (undo). Its parts stay."""
        with self._lock:
            self._thread(scope).retire(record_id)

    def bodies(self, scope: Scope, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """The stored messages with these hashes, those that the thread holds; others are absent."""
        with self._lock:
            held = self._thread(scope).held
            return {digest: held[digest] for digest in hashes if digest in held}

    def parts(self, scope: Scope, first: int = 0, last: int | None = None) -> Sequence[Part]:
        """The archived messages with first <= turn < last, in the order of turns."""
        with self._lock:
            return self._thread(scope).in_turns(first, last)

    def search(self, scope: Scope, query: str, limit: int = 10) -> Sequence[Hit]:
        """The archived messages that match best: literal words, no query syntax."""
        with self._lock:
            return self._thread(scope).search(scope, query, limit)

    def namespaces(self) -> Sequence[str]:
        """The namespaces that have a thread, sorted."""
        with self._lock:
            return sorted({scope.namespace for scope in self._all()})

    def threads(self, namespace: str) -> Sequence[str]:
        """The names of the threads that hold anything, sorted."""
        with self._lock:
            return sorted(scope.thread for scope in self._all() if scope.namespace == namespace)

    def newest_time(self, scope: Scope) -> float | None:
        """When the record that was stored last was made, retired or not; None when the thread has none."""
        with self._lock:
            return self._thread(scope).newest_time()

    def forget(self, scope: Scope) -> None:
        """Remove the thread: its records, parts, and every body only it used."""
        with self._lock:
            gone = self._all().pop(scope, None) or Thread()
            others = [thread for other, thread in self._all().items() if other.namespace == scope.namespace]
            for digest in gone.held:
                if not any(digest in other.held for other in others):
                    del self._bodies[scope.namespace, digest]
            for held in [held for held in self._leases if held[0] == scope]:
                del self._leases[held]

    def forget_namespace(self, namespace: str, before: float | None = None) -> Sequence[str]:
        """Remove the whole namespace, or its threads that are older than `before`; the names of those that went."""
        with self._lock:
            scopes = [scope for scope in self._all() if scope.namespace == namespace]
            old = [scope for scope in scopes if rules.is_older(self.newest_time(scope), before)]
            for scope in old:
                self.forget(scope)
            if before is None:
                self._notes = {key: data for key, data in self._notes.items() if key[0] != namespace}
                self._leases = {held: what for held, what in self._leases.items() if held[0].namespace != namespace}
            return sorted(scope.thread for scope in old)

    def remember(self, namespace: str, key: str, data: Mapping[str, object]) -> None:
        """Keep some plain JSON under this key, in the place of what was there."""
        with self._lock:
            self._all()
            self._notes[namespace, key] = codec.encode(dict(data))

    def remembered(self, namespace: str, key: str) -> Mapping[str, object] | None:
        """What was kept under this key last; None when nothing was."""
        with self._lock:
            self._all()
            return rules.note(self._notes.get((namespace, key)))

    def lease(self, scope: Scope, key: str, seconds: float) -> bool:
        """Whether the caller may now do the work named `key` alone, until `release` or until `seconds` have passed."""
        rules.check_lease(seconds)
        with self._lock:
            self._all()
            held = self._leases.get((scope, key))
            now = time.monotonic()
            if held is not None and held[1] > now:
                return False
            token = self._tokens.new()
            self._leases[scope, key] = (token, now + seconds)
            self._tokens.add(scope, key, token)
            return True

    def release(self, scope: Scope, key: str) -> None:
        """Give back the oldest lease on `key` that this archive object was given; harmless when it has run out."""
        with self._lock:
            self._all()
            token = self._tokens.oldest(scope, key)
            held = self._leases.get((scope, key))
            if held is not None and held[0] == token:
                del self._leases[scope, key]

    def verify(self, scope: Scope | None = None) -> Sequence[str]:
        """What is wrong with the stored thread, or with everything: a sentence each; empty when all is well."""
        with self._lock:
            chosen = self._all() if scope is None else {scope: self._thread(scope)}
            return [problem for one, thread in chosen.items() for problem in thread.problems(one)]

    def close(self) -> None:
        """Let everything go. Closing twice is harmless; any other use afterwards is an `ArchiveError`."""
        with self._lock:
            self._threads = None
            self._bodies.clear()
            self._leases.clear()
            self._notes.clear()

    def pause(self) -> None:
        """Take the lock: a fork is coming."""
        self._lock.acquire()

    def resume(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def start_over(self) -> None:
        """A lock that nobody holds; what is stored is the child's own copy from now on."""
        self._lock = threading.RLock()

    def _all(self) -> dict[Scope, Thread]:
        if self._threads is None:
            raise ArchiveError("this archive is closed. Open a new one.")
        return self._threads

    def _thread(self, scope: Scope) -> Thread:
        return self._all().get(scope) or Thread()
