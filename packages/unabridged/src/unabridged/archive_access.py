"""The methods of a compactor that search, read, pin and remove what is in its archive."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from unabridged.archive import codec
from unabridged.archive import pins as pinned
from unabridged.archive.names import Name, check_name
from unabridged.archive.protocol import Archive, Hit, Scope
from unabridged.archive.references import find_part
from unabridged.archive.search import search_with_context
from unabridged.archive.store_rules import find_cutoff_for_size
from unabridged.archive.transcripts import forget_namespace, forget_thread
from unabridged.asking.drivers import run_in_thread
from unabridged.errors import SettingsError
from unabridged.events import COMPACTION_KINDS, Receipt, receipt_from_dict
from unabridged.formats import Message

if TYPE_CHECKING:
    from unabridged.engine.call import CallRunner
    from unabridged.recall.tools import Tools

P = ParamSpec("P")
T = TypeVar("T")


def make_async(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the method as one that does not block the event loop, with the same arguments."""

    @wraps(method)
    async def call(*arguments: P.args, **options: P.kwargs) -> T:
        return await run_in_thread(method, *arguments, **options)

    call.__name__, call.__doc__ = f"a{method.__name__}", f"`{method.__name__}` without blocking the event loop."
    return call


class ArchiveAccess:
    """The archive of a compactor as a program reads it. `Compactor` is one; nothing here compacts."""

    _archive: Archive
    _namespace: str
    _runner: CallRunner

    def search(
        self,
        query: str,
        *,
        thread: Name,
        namespace: Name | None = None,
        limit: int = 10,
        messages: list[Message] | None = None,
    ) -> Sequence[Hit]:
        """Return the archived messages of the thread that match best: literal words, no query syntax.

        With `messages`, the list as it is now, what is still in it is searched too: such a hit is `live`.
        """
        scope = self._scope(thread, namespace)
        hits = self._archive.search(scope, query, limit)
        if messages is None:
            return hits
        live = self._runner.list_live_parts(messages, scope)
        return search_with_context(self._archive, scope, query, hits, live, limit=limit)

    def read(self, ref: str | int, *, thread: Name, namespace: Name | None = None) -> Message:
        """Return the archived message exactly as it was: by a hit's `ref` (`12-9f3ac1d2ab`), turn (12) or hash."""
        return codec.decode(find_part(self._archive, self._scope(thread, namespace), ref).body)

    asearch, aread = make_async(search), make_async(read)

    def tools(
        self, *, thread: Name, namespace: Name | None = None, messages: Callable[[], list[Message]] | None = None
    ) -> Tools:
        """Return search and read as tools for the agent of this conversation: nothing it passes reaches another one.

        `messages` returns the list as it is now, which is then searched too.
        """
        from unabridged.recall.tools import Tools  # noqa: PLC0415 - importing the package stays cheap

        scope = self._scope(thread, namespace)
        live = None if messages is None else lambda: self._runner.list_live_parts(messages(), scope)
        return Tools(self._archive, scope, format=self._runner.format, live=live)

    def compactions(self, *, thread: Name, namespace: Name | None = None) -> Sequence[Receipt]:
        """Return the receipts of the thread's compactions, oldest first, with what each cost; not those undone."""
        records = self._archive.records(self._scope(thread, namespace))
        return [receipt_from_dict(one.data["receipt"]) for one in records if one.kind in COMPACTION_KINDS]

    acompactions = make_async(compactions)

    def pin(self, text: str, *, thread: Name, namespace: Name | None = None) -> None:
        """Keep a text in every summary turn of the thread, byte for byte, from the next compaction on."""
        pinned.pin(self._archive, self._scope(thread, namespace), text)

    def unpin(self, text: str, *, thread: Name, namespace: Name | None = None) -> bool:
        """Remove a pin from the next compaction on; return whether there was one with this text."""
        return pinned.unpin(self._archive, self._scope(thread, namespace), text)

    def pins(self, *, thread: Name, namespace: Name | None = None) -> Sequence[str]:
        """Return the texts that are pinned to the thread, oldest first."""
        return pinned.list_pins(self._archive, self._scope(thread, namespace))

    apin, aunpin, apins = make_async(pin), make_async(unpin), make_async(pins)

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces of the archive that have anything, sorted."""
        return self._archive.namespaces()

    def threads(self, *, namespace: Name | None = None) -> Sequence[str]:
        """Return the threads of a namespace that have anything, sorted."""
        return self._archive.threads(self._resolve_namespace(namespace))

    def forget(
        self,
        thread: Name | None = None,
        *,
        namespace: Name | None = None,
        older_than: timedelta | datetime | None = None,
        to_size: int | None = None,
    ) -> Sequence[str]:
        """Remove records, originals and what only they used from the archive, for good; return the threads that went.

        Transcripts that were written of them (`Settings.transcript`) are removed too.

        One thread; or a whole namespace, named; or the threads of a namespace (by default the compactor's own) whose
        newest compaction is older than this age or moment; or those whose newest compaction is the oldest, until the
        messages of the rest take at most `to_size` bytes. No thread is removed in part.
        """
        space = self._resolve_namespace(namespace)
        if to_size is not None and (thread is not None or older_than is not None or not _is_size(to_size)):
            wrong = f"forget takes to_size alone, in bytes from 0 on; got {to_size!r}. Call it once for each."
            raise SettingsError(wrong)
        if thread is not None and older_than is not None:
            raise SettingsError(f"forget takes one thread's name, or older_than; got {thread!r} and {older_than!r}")
        gone: Sequence[str] = ()
        if to_size is not None:
            if (moment := find_cutoff_for_size(self._archive, space, to_size)) is not None:
                gone = forget_namespace(self._archive, space, moment)
        elif thread is not None:
            scope = Scope(space, check_name(thread))
            gone = [scope.thread] if scope.thread in self._archive.threads(space) else []
            forget_thread(self._archive, scope)
            self._runner.caches.drop(scope)
        elif namespace is None and older_than is None:
            raise SettingsError("forget needs a thread, namespace= or older_than=: without any it would be everything")
        else:
            moment = None if older_than is None else _compute_cutoff_time(older_than)
            gone = forget_namespace(self._archive, space, moment)
        for name in gone:
            self._runner.caches.drop(Scope(space, name))
        return gone

    def _scope(self, name: Name | None, namespace: Name | None = None) -> Scope:
        """Return the scope of a thread; without a name, the messages of the list identify it."""
        return Scope(self._resolve_namespace(namespace), "" if name is None else check_name(name))

    def _resolve_namespace(self, namespace: Name | None) -> str:
        """Return the namespace of a call: the one it names, else the compactor's own."""
        return self._namespace if namespace is None else check_name(namespace, "namespace")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _compute_cutoff_time(older_than: timedelta | datetime) -> float:
    """Return the Unix time before which something is older than this age or moment (without a zone, local time)."""
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
