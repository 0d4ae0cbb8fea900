"""What of its archive a compactor gives out and removes: search, read, forget."""

from __future__ import annotations

from collections.abc import Sequence

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Hit, Scope
from unabridged.archive.references import find
from unabridged.driving import in_thread
from unabridged.errors import SettingsError
from unabridged.formats import Message
from unabridged.threads import Threads


class Access:
    """The record as a program reads it. `Compactor` is one; nothing here compacts."""

    _archive: Archive
    _namespace: str
    _threads: Threads

    def search(self, query: str, *, thread: str, namespace: str | None = None, limit: int = 10) -> Sequence[Hit]:
        """The archived messages of the thread that match best: literal words, no query syntax."""
        return self._archive.search(Scope(self._space(namespace), thread), query, limit)

    async def asearch(self, query: str, *, thread: str, namespace: str | None = None, limit: int = 10) -> Sequence[Hit]:
        """`search` without blocking the event loop."""
        return await in_thread(self.search, query, thread=thread, namespace=namespace, limit=limit)

    def read(self, ref: str | int, *, thread: str, namespace: str | None = None) -> Message:
        """The archived message exactly as it was: by a hit's `ref` (`12-9f3ac1d2ab`), its turn (12) or its hash."""
        return codec.decode(find(self._archive, Scope(self._space(namespace), thread), ref).body)

    async def aread(self, ref: str | int, *, thread: str, namespace: str | None = None) -> Message:
        """`read` without blocking the event loop."""
        return await in_thread(self.read, ref, thread=thread, namespace=namespace)

    def forget(self, thread: str, *, namespace: str | None = None) -> None:
        """Remove the thread from the archive: records, originals, and everything only it used."""
        scope = Scope(self._space(namespace), thread)
        self._archive.forget(scope)
        self._threads.drop(scope)

    def _space(self, namespace: str | None) -> str:
        """The namespace of a call: the one it names, else the compactor's own."""
        if namespace is None:
            return self._namespace
        if not isinstance(namespace, str):
            raise SettingsError(f"namespace must be a text, or None for the compactor's own; got {namespace!r}")
        return namespace
