"""What the adapter of any agent framework needs, and no framework is imported for.

In reading order: one generator in place of a sync and an async copy (`Step`, `in_both_forms`); compactors on one
archive (`CompactorPool`); events as data and in words; what a recall tool answers (`look_up`); a conversation's name
inside a run (`sub_thread`); a host's list that follows a compaction (`change_between`, `follow_change`).
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, fields, is_dataclass
from functools import partial, wraps
from typing import Any, Generic, NamedTuple, ParamSpec, TypedDict, TypeVar

from unabridged.archive import open_archive
from unabridged.archive.protocol import Archive, Scope
from unabridged.asking.drivers import adrive, drive
from unabridged.compactor import Compactor
from unabridged.events import Event, Failed, Unchanged
from unabridged.formats import Format
from unabridged.history.namespace import DEFAULT
from unabridged.recall.tools import tools

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M")
K = TypeVar("K", bound=Hashable)

# -- one generator for sync and async ---------------------------------------------------------------------------------


class Step(NamedTuple):
    """A call that may block, and the function that is awaited in its place in an event loop."""

    function: Callable[..., Any]
    awaited: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]


Steps = Generator[Step, Any, T]
"""Work that yields each call that may block, and gets what it returned."""


def method(owner: Any, name: str, /, *arguments: Any, **options: Any) -> Step:
    """A method whose async form has an `a` before its name, as compactors, graphs and backends have them."""
    return Step(getattr(owner, name), getattr(owner, f"a{name}", None), arguments, options)


def blocking(function: Callable[..., Any], *arguments: Any) -> Step:
    """A function without an async form: it runs beside the event loop."""
    return Step(function, partial(asyncio.to_thread, function), arguments, {})


def hosts(function: Callable[..., Any], *arguments: Any) -> Step:
    """A function of the host's, which gave a sync one to sync callers and an async one to async callers."""
    return Step(function, function, arguments, {})


def run(steps: Steps[T]) -> T:
    """Carry out the work, each call in this thread."""
    return drive(steps, lambda step: step.function(*step.arguments, **step.options))


async def arun(steps: Steps[T]) -> T:
    """Carry out the work without blocking the event loop."""
    return await adrive(steps, lambda step: step.awaited(*step.arguments, **step.options))


def in_both_forms(work: Callable[P, Steps[T]]) -> tuple[Callable[P, T], Callable[P, Coroutine[Any, Any, T]]]:
    """The work as a function, and as one that does not block the event loop."""

    @wraps(work)
    def sync_form(*arguments: P.args, **options: P.kwargs) -> T:
        return run(work(*arguments, **options))

    @wraps(work)
    async def async_form(*arguments: P.args, **options: P.kwargs) -> T:
        return await arun(work(*arguments, **options))

    own = work.__name__.lstrip("_")
    sync_form.__name__, async_form.__name__ = own, f"a{own}"
    return sync_form, async_form


def in_event_loop() -> bool:
    """Whether an event loop runs in this thread, so that nothing here may wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# -- compactors -------------------------------------------------------------------------------------------------------


class CompactorPool(ABC, Generic[K]):
    """A compactor for each kind of agent (model, window, namespace: `K`), made when first needed; one archive for all.

    The archive is opened now, so that a wrong one is told now; in an event loop, which must not wait for a disk, when
    it is needed.
    """

    def __init__(self, archive: str | Archive | None, namespace: str | None) -> None:
        self._given, self.namespace = archive, namespace if namespace is not None else DEFAULT
        self._lock = threading.RLock()
        self._archive: Archive | None = None
        self._made: dict[K, Compactor] = {}
        if not in_event_loop():
            _ = self.archive

    @abstractmethod
    def make(self, key: K) -> Compactor:
        """A compactor for this kind of agent, on `self.archive`."""

    @property
    def archive(self) -> Archive:
        """Where everything goes."""
        with self._lock:
            if self._archive is None:
                given = self._given
                self._archive = open_archive(given) if given is None or isinstance(given, str) else given
            return self._archive

    @property
    def ready(self) -> bool:
        """Whether the next question needs no file to be opened."""
        return bool(self._made)

    def compactor_for(self, key: K) -> Compactor:
        """The compactor for this kind of agent."""
        with self._lock:
            if key not in self._made:
                self._made[key] = self.make(key)
            return self._made[key]

    def close(self) -> None:
        """Let go of the archive, if it was opened here."""
        for compactor in self._made.values():
            compactor.close()
        if self._archive is not None and self._archive is not self._given:
            self._archive.close()


# -- events -----------------------------------------------------------------------------------------------------------

_EVENTS: ContextVar[list[Event] | None] = ContextVar("unabridged_events", default=None)


@contextmanager
def collected_events() -> Iterator[list[Event]]:
    """A list of all events of compactions that are begun within; `collect_event` fills it."""
    events: list[Event] = []
    token = _EVENTS.set(events)
    try:
        yield events
    finally:
        _EVENTS.reset(token)


def collect_event(event: Event) -> None:
    """Add the event to the list of whoever collects; an adapter's `on_event` calls it."""
    if (events := _EVENTS.get()) is not None:
        events.append(event)


def event_data(event: Event) -> dict[str, Any]:
    """The event as plain data: its kind and every field but those that hold messages, which have no repr either."""
    data = {field.name: _plain(getattr(event, field.name)) for field in fields(event) if field.repr}
    return {"type": "unabridged", "event": type(event).__name__.lower(), **data}


def _plain(value: Any) -> Any:
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def why_not(events: Sequence[Event]) -> str:
    """Why nothing was compacted, for the one who asked for it."""
    for event in events:
        if isinstance(event, Failed) and event.stage != "state":
            who = {"summary": "the summariser failed", "archive": "the archive could not be written"}
            failed = who.get(event.stage, f"{event.stage} failed")
            return f"Not compacted: {failed} ({type(event.error).__name__}: {event.error}). Nothing was changed."
    for event in events:
        if isinstance(event, Unchanged):
            return f"Not compacted: {event.reason}."
    return "Nothing to compact: a summary would not be smaller than what it stands for."


# -- recall tools -----------------------------------------------------------------------------------------------------


def look_up(
    archive: Archive, scope: Scope | None, name: str, arguments: Mapping[str, Any], format_: Format | None = None
) -> str:
    """What a recall tool answers in the conversation of the run that calls it: `scope`, None where it has no name.

    `unabridged.recall.tools` has the tools' names, descriptions and JSON schemas.
    """
    if scope is None:
        return "[recall] This run has no thread, so nothing of it is kept under a name."
    return tools(archive, scope, format=format_).call(name, arguments)


# -- the conversation's name, and a list that follows a compaction ----------------------------------------------------


def sub_thread(thread: str, first_id: str | None, remembered: object = None) -> str:
    """The name of a sub-agent's conversation inside its parent's thread: `remembered`, else by its first message.

    Only names inside the run's own thread are believed: what is remembered in messages may come from anyone.
    """
    if not first_id:
        return thread
    inside = isinstance(remembered, str) and remembered.startswith(f"{thread}/")
    return str(remembered) if inside else f"{thread}/{first_id}"


class PendingChange(TypedDict):
    """A compaction that a host's list has yet to follow: `order` holds ids of what stays, and new messages."""

    order: list[Any]
    known: list[str]
    """Ids of all messages that the compaction looked at."""


def change_between(before: Sequence[Any], after: Sequence[Any]) -> PendingChange | None:
    """The change from one list of messages with an `id` to another; None when they are the same."""
    known = {message.id: message for message in before if message.id}
    order: list[Any] = [m.id if m.id in known and (known[m.id] is m or known[m.id] == m) else m for m in after]
    return None if order == list(known) else {"order": order, "known": [*known]}


def follow_change(messages: Sequence[M], change: PendingChange) -> list[M]:
    """The host's messages after the compaction: its own objects, in the new order, with all it did not look at.

    A message the compaction never saw (somebody left it out of the request, or it came since) keeps its place.
    """
    ids: list[Any] = [getattr(message, "id", None) for message in messages]
    place = {own: i for i, own in enumerate(ids)}
    known = set(change["known"])
    new: list[M] = []
    done = 0
    for item in change["order"]:
        if not isinstance(item, str):
            new.append(item)
            continue
        if item not in place:
            continue
        new += [messages[i] for i in range(done, place[item]) if ids[i] not in known]
        new.append(messages[place[item]])
        done = max(done, place[item] + 1)
    return [*new, *(messages[i] for i in range(done, len(messages)) if ids[i] not in known)]
