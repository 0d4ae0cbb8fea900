"""What of its archive a compactor gives out and removes: search, read, forget."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from unabridged.archive import codec
from unabridged.archive import pins as pinned
from unabridged.archive.live import with_live
from unabridged.archive.names import Name, check_name
from unabridged.archive.protocol import Archive, Hit, Scope
from unabridged.archive.references import find
from unabridged.archive.store_rules import moment_for_size
from unabridged.archive.transcripts import forget_namespace, forget_thread
from unabridged.asking.drivers import in_thread
from unabridged.errors import SettingsError
from unabridged.formats import Message

if TYPE_CHECKING:
    from unabridged.runtime.calls import Calls

P = ParamSpec("P")
T = TypeVar("T")


def unblocked(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The method as one that does not block the event loop, with the same arguments."""

    @wraps(method)
    async def call(*arguments: P.args, **options: P.kwargs) -> T:
        return await in_thread(method, *arguments, **options)

    call.__name__, call.__doc__ = f"a{method.__name__}", f"`{method.__name__}` without blocking the event loop."
    return call


class Access:
    """The record as a program reads it. `Compactor` is one; nothing here compacts."""

    _archive: Archive
    _namespace: str
    _calls: Calls

    def search(
        self,
        query: str,
        *,
        thread: Name,
        namespace: Name | None = None,
        limit: int = 10,
        messages: list[Message] | None = None,
    ) -> Sequence[Hit]:
        """The archived messages of the thread that match best: literal words, no query syntax.

        With `messages`, the list as it is now, what still stands in it is searched too: such a hit is `live`.
        """
        scope = self._scope(thread, namespace)
        hits = self._archive.search(scope, query, limit)
        if messages is None:
            return hits
        return with_live(self._archive, scope, query, hits, self._calls.in_context(messages, scope), limit=limit)

    def read(self, ref: str | int, *, thread: Name, namespace: Name | None = None) -> Message:
        """The archived message exactly as it was: by a hit's `ref` (`12-9f3ac1d2ab`), its turn (12) or its hash."""
        return codec.decode(find(self._archive, self._scope(thread, namespace), ref).body)

    asearch, aread = unblocked(search), unblocked(read)

    def pin(self, text: str, *, thread: Name, namespace: Name | None = None) -> None:
        """Keep a text in every summary turn of the thread, byte for byte, from the next compaction on."""
        pinned.pin(self._archive, self._scope(thread, namespace), text)

    def unpin(self, text: str, *, thread: Name, namespace: Name | None = None) -> bool:
        """Take a pin away from the next compaction on; return whether there was one with this text."""
        return pinned.unpin(self._archive, self._scope(thread, namespace), text)

    def pins(self, *, thread: Name, namespace: Name | None = None) -> Sequence[str]:
        """Return the texts that are pinned to the thread, oldest first."""
        return pinned.pins_of(self._archive, self._scope(thread, namespace))

    apin, aunpin, apins = unblocked(pin), unblocked(unpin), unblocked(pins)

    def namespaces(self) -> Sequence[str]:
        """The namespaces of the archive that hold anything, sorted: whose conversations it has."""
        return self._archive.namespaces()

    def threads(self, *, namespace: Name | None = None) -> Sequence[str]:
        """The threads of a namespace that hold anything, sorted."""
        return self._archive.threads(self._space(namespace))

    def forget(
        self,
        thread: Name | None = None,
        *,
        namespace: Name | None = None,
        older_than: timedelta | datetime | None = None,
        to_size: int | None = None,
    ) -> Sequence[str]:
        """Remove from the archive, for good: records, originals, and everything only they used; the threads that went.

        Transcripts that were written of them (`Settings.transcript`) go too.

        One thread; or a whole namespace, named; or the threads of a namespace (by default the compactor's own) whose
        newest compaction is older than so long, or than a moment; or those whose newest compaction is the oldest, until
        the messages of the rest take at most `to_size` bytes. No thread is removed by half.
        """
        space = self._space(namespace)
        if to_size is not None:
            return self._forget_to_size(space, to_size, alone=thread is None and older_than is None)
        if thread is not None:
            if older_than is not None:
                raise SettingsError(f"forget takes one thread's name, or older_than; got {thread!r} and {older_than!r}")
            gone: Sequence[str] = self._forget_thread(space, thread)
        elif namespace is None and older_than is None:
            raise SettingsError("forget needs a thread, namespace= or older_than=: without any it would be everything")
        else:
            gone = forget_namespace(self._archive, space, None if older_than is None else _moment(older_than))
        for one in gone:
            self._calls.threads.drop(Scope(space, one))
        return gone

    def _forget_thread(self, space: str, thread: Name) -> list[str]:
        scope = Scope(space, check_name(thread))
        gone = [scope.thread] if scope.thread in self._archive.threads(space) else []
        forget_thread(self._archive, scope)
        self._calls.threads.drop(scope)
        return gone

    def _forget_to_size(self, space: str, size: Any, *, alone: bool) -> Sequence[str]:
        if not alone or not isinstance(size, int) or size < 0:
            raise SettingsError(f"forget takes to_size alone, in bytes from 0 on; got {size!r}. Call it once for each.")
        moment = moment_for_size(self._archive, space, size)
        gone = [] if moment is None else forget_namespace(self._archive, space, moment)
        for one in gone:
            self._calls.threads.drop(Scope(space, one))
        return gone

    def _scope(self, name: Name | None, namespace: Name | None = None) -> Scope:
        """The thread in the archive; without a name, what a list holds decides."""
        return Scope(self._space(namespace), "" if name is None else check_name(name))

    def _space(self, namespace: Name | None) -> str:
        """The namespace of a call: the one it names, else the compactor's own."""
        return self._namespace if namespace is None else check_name(namespace, "namespace")


def _moment(older_than: timedelta | datetime) -> float:
    """The Unix time before which something is older than this: an age, or a moment (without a zone, local time)."""
    now = time.time()
    if isinstance(older_than, timedelta):
        moment = now - older_than.total_seconds()
    elif isinstance(older_than, datetime):
        moment = older_than.timestamp()
    else:
        raise SettingsError(f"older_than must be a timedelta or a datetime; got {older_than!r}")
    if moment >= now:
        raise SettingsError(f"older_than={older_than!r} is not in the past: it would remove everything")
    return moment
