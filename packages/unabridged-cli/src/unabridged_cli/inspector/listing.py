"""All threads of the archive, in order and by page: names and times at once, their contents only when shown.

A thread is named to the page by a digest: a name may be anything, an address may not.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

from unabridged.archive import store_rules
from unabridged.archive.protocol import Archive, Scope, ThreadContents
from unabridged.errors import ArchiveError
from unabridged.events import COMPACTION_KINDS
from unabridged_cli.inspector import sessions

LIFETIME_SECONDS: Final = 5.0
"""How long a list is used. Only who begins at its top gets a new one: while somebody scrolls, rows keep their
places, and nothing is read again."""
NAME_CHARACTERS: Final = 240
"""Characters of a name in a list."""


Row = tuple[str, str, float]
"""A thread: its namespace, its name, and when it was used last. There may be a hundred thousand: plain tuples."""


class NotInArchive(ArchiveError):  # noqa: N818 - no error of the library ends with Error but the base
    """Raised for a thread or a compaction that the archive does not have (any more)."""


class ThreadListing:
    """A cached list of all threads, read again when it is a few seconds old."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._rows: list[Row] = []
        self._ordered: dict[tuple[str, str, str], list[Row]] = {}
        self._scopes: dict[str, Scope] = {}

    def namespaces(self) -> list[dict[str, Any]]:
        """Return each namespace with the number of its threads."""
        counts = Counter(namespace for namespace, _, _ in self._load_rows(new=True))
        return [describe_namespace(name, count) for name, count in sorted(counts.items())]

    def read_page(self, namespace: str, order: str, contains: str, first: int, count: int) -> dict[str, Any]:
        """Return how many threads there are, and so many of them from `first` on, with their contents."""
        rows = self._filter_and_sort(namespace, order, contains, new=first == 0)
        shown = {Scope(*row[:2]): row[2] for row in rows[first : first + count]}
        contents = self._read_contents(list(shown))
        with self._lock:
            self._scopes.update({thread_id(scope): scope for scope in shown})
        described = [self._describe_thread(scope, used, contents.get(scope)) for scope, used in shown.items()]
        return {"total": len(rows), "rows": described}

    def find_scope(self, name: str) -> Scope:
        """Return the thread that the page calls so; raise `NotInArchive` when it is not there (any more)."""
        known = self._scopes.get(name)
        if known is not None:
            return known
        for row in self._load_rows(new=True):
            if hash_names(*row[:2]) == name:
                return self._scopes.setdefault(name, Scope(*row[:2]))
        raise NotInArchive("there is no such thread: it was forgotten, or this is another archive")

    def forget(self) -> None:
        """Drop the cached list, so that the next one is read anew."""
        with self._lock:
            self._read_at = 0.0
            self._scopes.clear()

    def _describe_thread(self, scope: Scope, used: float, contents: ThreadContents | None) -> dict[str, Any]:
        kinds = contents.kinds if contents else {}
        session = sessions.describe_session(self._archive, scope)
        own = sum(count for kind, count in kinds.items() if kind in COMPACTION_KINDS)
        return {
            **name_thread(scope),
            "words": sessions.read_first_words(self._archive, scope),
            "session": session,
            "used": used or None,
            "compactions": session["compactions"] if session and session["own"] else own,
            "messages": contents.messages if contents else 0,
            "bytes": contents.size if contents else 0,
        }

    def _read_contents(self, scopes: Sequence[Scope]) -> dict[Scope, ThreadContents]:
        spaces = dict.fromkeys(scope.namespace for scope in scopes)
        found: dict[Scope, ThreadContents] = {}
        for space in spaces:
            names = [scope.thread for scope in scopes if scope.namespace == space]
            found |= {Scope(space, contents.thread): contents for contents in self._archive.holdings(space, names)}
        return found

    def _load_rows(self, *, new: bool) -> list[Row]:
        with self._lock:
            if not self._read_at or (new and time.monotonic() - self._read_at > LIFETIME_SECONDS):
                self._rows = list(self._read_rows())
                self._ordered = {}
                self._read_at = time.monotonic()
            return self._rows

    def _read_rows(self) -> Iterator[Row]:
        for namespace in self._archive.namespaces():
            yield from ((namespace, name, used or 0.0) for name, used in self._archive.last_used(namespace).items())

    def _filter_and_sort(self, namespace: str, order: str, contains: str, *, new: bool) -> list[Row]:
        rows = self._load_rows(new=new)
        key = (namespace, order, contains.casefold().strip())
        with self._lock:
            if key in self._ordered:
                return self._ordered[key]
        if namespace:
            spaces = {space for space in {row[0] for row in rows} if hash_names(space) == namespace}
            rows = [row for row in rows if row[0] in spaces]
        if key[2]:
            rows = [row for row in rows if key[2] in row[1].casefold()]
        rows = sorted(rows) if order == "name" else sorted(rows, key=itemgetter(2), reverse=True)
        with self._lock:
            self._ordered[key] = rows
        return rows


def thread_id(scope: Scope) -> str:
    """Return what the page calls a thread."""
    return hash_names(*scope)


def name_thread(scope: Scope) -> dict[str, Any]:
    """Return what the page calls a thread, and its names as a list shows them."""
    names = {"namespace": shorten_name(scope.namespace), "name": shorten_name(scope.thread)}
    return {"id": thread_id(scope), **names}


def describe_namespace(name: str, threads: int) -> dict[str, Any]:
    """Return what the page shows of a namespace with so many threads."""
    return {"id": hash_names(name), "name": shorten_name(name), "threads": threads}


def hash_names(*names: str) -> str:
    """Return a short hash of these names that can be part of a URL."""
    return store_rules.hash_names(*names)[:20]


def shorten_name(name: str) -> str:
    """Return the beginning of a name, for a list."""
    return name if len(name) <= NAME_CHARACTERS else f"{name[:NAME_CHARACTERS]}…"
