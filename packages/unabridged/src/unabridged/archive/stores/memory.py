"""The archive in memory: whole, for tests and for callers who opt out of a durable one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from unabridged.archive.protocol import Scope
from unabridged.archive.stores import files
from unabridged.archive.stores.base_log import Entry, LogArchive, Place, ThreadLog
from unabridged.errors import ArchiveError


class MemoryArchive(LogArchive, files.Forkable):
    """Everything in this process and nothing on disk. Gone when it is closed."""

    url = "memory:"
    clock = staticmethod(time.monotonic)

    def __init__(self) -> None:
        super().__init__()
        self._closed = False
        self._threads: dict[Scope, ThreadLog] = {}
        self._values: dict[Place, dict[str, bytes]] = {}
        files.register_forkable(self)

    def start_over(self) -> None:
        """Make a lock that nobody holds; what is stored is a forked child's own copy from now on."""
        self.lock = threading.RLock()

    def probe(self) -> None:
        """Do nothing: there is always room."""

    @contextmanager
    def locked(self, scope: Scope | None = None) -> Iterator[None]:
        """Hold the one lock of all threads, for readers too."""
        del scope
        with self.lock:
            if self._closed:
                raise ArchiveError("this archive is closed. Open a new one.")
            yield

    @contextmanager
    def reading(self, scope: Scope) -> Iterator[ThreadLog]:
        """Yield the thread, a new one where there is none."""
        with self.locked():
            yield self._threads.get(scope) or ThreadLog()

    def append(self, scope: Scope, entry: Entry, thread: ThreadLog) -> None:
        """Apply the entry: the log is nothing but the thread."""
        thread.apply_entry(entry)
        self._threads[scope] = thread

    def scopes(self, namespace: str | None = None) -> Iterable[Scope]:
        """Return every thread, of one namespace or of all."""
        with self.locked():
            return [scope for scope in self._threads if namespace in {None, scope.namespace}]

    def remove(self, scope: Scope) -> None:
        """Remove the thread and its leases."""
        self._threads.pop(scope, None)
        self._values.pop(("leases", *scope), None)

    def clear(self, namespace: str) -> None:
        """Remove the notes and leases of the namespace."""
        self._values = {place: values for place, values in self._values.items() if place[1] != namespace}

    def get(self, place: Place, key: str) -> bytes | None:
        """Return the small value that was put there last."""
        with self.locked():
            return self._values.get(place, {}).get(key)

    def put(self, place: Place, key: str, value: bytes | None) -> None:
        """Keep a small value in the place of what was there; None removes it."""
        values = self._values.setdefault(place, {})
        values.pop(key, None)
        if value is not None:
            values[key] = value

    def values(self, kind: str) -> Iterable[bytes]:
        """Return every small value that is kept under a place that begins so."""
        with self.locked():
            return [value for place, values in self._values.items() if place[0] == kind for value in values.values()]

    def close(self) -> None:
        """Let everything go. Closing twice is harmless; any other use afterwards is an `ArchiveError`."""
        with self.lock:
            self._closed = True
            self._threads.clear()
            self._values.clear()
