"""The engine as the LangChain parts share it: one archive, one compactor for each model and window."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.utils.function_calling import convert_to_openai_tool

from unabridged.adapters.langchain.arguments import Chosen
from unabridged.adapters.langchain.format import FORMAT
from unabridged.adapters.langchain.state import about
from unabridged.archive import codec, open_archive
from unabridged.archive.protocol import Archive
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import ArchiveError, WontFit
from unabridged.events import Event
from unabridged.history.namespace import DEFAULT
from unabridged.measure.meter import Meter

log = logging.getLogger("unabridged")

_AGENTS = 64
"""Sets of tools whose schemas are remembered."""
_THREADS = 256
"""Threads whose messages are remembered."""

for _module in ("langchain_core.documents", "langchain_core.load"):
    codec.allow(_module)  # what tools of LangChain put into a message's artifact


class Asked(NamedTuple):
    """The model that is asked, and whether it can look up what left its context."""

    agent: str | None
    window: int | None
    recall: bool = False


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a request holds besides its messages."""

    system: Any = None
    tools: Any = None


class Compactors:
    """Makes a compactor for each model and window when it is first needed; all share one archive.

    `window` is the caller's word and beats what the model says; `judged` is what is known of it now. The archive is
    opened now, so that a wrong one is told now; in an event loop, which must not wait for a disk, when it is needed.
    """

    def __init__(
        self,
        chosen: Chosen,
        *,
        summariser: Callable[[Any], Any] | None,
        summariser_window: int | None,
        window: int | None,
        judged: int | None,
        archive: str | Archive | None,
        namespace: str | None,
        counter: Callable[..., int] | None,
        on_event: Callable[[Event], object] | None,
        options: dict[str, Any],
    ) -> None:
        self.chosen, self.window, self._judged = chosen, window, judged
        chosen.made_for(judged, recall=False)  # what contradicts itself is told now, not at the first call
        self._given, self.namespace = archive, namespace if namespace is not None else DEFAULT
        self._shared: dict[str, Any] = {"format": FORMAT, "on_event": on_event, **options}
        if summariser is not None:
            self._shared = {"model": summariser, "model_window": summariser_window, **self._shared}
        self._lock = threading.RLock()
        self._archive: Archive | None = None
        self._made: dict[Asked, Compactor] = {}
        self._taught: WeakSet[Compactor] = WeakSet()
        self._schemas: dict[tuple[int, ...], tuple[list[Any], list[Any]]] = {}
        self.count_with(counter)
        if not in_event_loop():
            _ = self.archive

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

    def count_with(self, counter: Callable[..., int] | None) -> None:
        """Count tokens with this function of LangChain's kind from now on; with None, or its default, as we do."""
        with self._lock:
            self._made = {}
            self._shared.pop("counter", None)
            if counter is not None and counter is not count_tokens_approximately:
                self._shared["counter"] = counter_of(counter)

    def get(self, agent: str | None, window: int | None, recall: bool = False) -> Compactor:
        """The compactor for the model of this name, whose window is what the caller said, or else this one.

        With `recall` the agent has the tools to follow a reference, so summaries and stubs have some.
        """
        key = Asked(agent, self.window or window, recall)
        with self._lock:
            compactor = self._made.get(key)
            if compactor is None:
                compactor = self._made[key] = self._make(key)
            return compactor

    def _make(self, key: Asked) -> Compactor:
        settings, window = self.chosen.made_for(key.window, recall=key.recall, say=key.window != self._judged)
        shared = {"archive": self.archive, "namespace": self.namespace, **self._shared}
        return Compactor(agent=key.agent, window=window, settings=settings, **shared)

    def taught(self, call: Call) -> None:
        """Let a new compactor learn from the usage that the first list it sees reports."""
        if call.compactor not in self._taught:
            self._taught.add(call.compactor)
            call.learn()

    def schemas(self, tools: Sequence[Any], response_format: Any = None) -> list[Any]:
        """The tools as a provider is shown them; the same list as long as the tools are the same."""
        specs = getattr(response_format, "schema_specs", None) or ()
        given = [*tools, *(spec.json_schema for spec in specs)]
        key = tuple(map(id, given))
        known = self._schemas.get(key)
        if known is None:
            if len(self._schemas) >= _AGENTS:
                self._schemas.clear()
            made = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in given]
            known = self._schemas[key] = (given, made)  # the tools are kept, so that no other object gets their ids
        return known[1]

    def close(self) -> None:
        """Let go of the archive, if it was opened here."""
        for compactor in self._made.values():
            compactor.close()
        if self._archive is not None and (self._given is None or isinstance(self._given, str)):
            self._archive.close()


def in_event_loop() -> bool:
    """Whether an event loop runs in this thread, so that nothing here may wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Call:
    """One question to a compactor: these messages of this thread, as they should be sent; `force` compacts anyway."""

    compactor: Compactor
    messages: list[BaseMessage]
    thread: str | None
    fixed: Fixed = Fixed()
    force: bool = False
    values: Any = None
    """Those of the graph's state."""
    agent: str | None = None

    def __call__(self) -> Compaction:
        """The answer."""
        given = archivable(self.compactor, self.thread, self.messages)
        with about(self.values):
            done = self.compactor.compact(given, **self._named) if self.force else None
            return done or (self._same(given) if self.force else self.compactor.fit(given, **self._named))

    async def later(self) -> Compaction:
        """The same without blocking the event loop."""
        given = archivable(self.compactor, self.thread, self.messages)
        with about(self.values):
            done = await self.compactor.acompact(given, **self._named) if self.force else None
            return done or (self._same(given) if self.force else await self.compactor.afit(given, **self._named))

    def shorter(self, fitted: Compaction, error: Exception) -> Compaction:
        """The answer to a model that refused the first one as too long; the error itself where that is no shorter."""
        with about(self.values), _caused_by(error):
            return _changed(self.compactor.overflowed(fitted, error), error)

    async def shorter_later(self, fitted: Compaction, error: Exception) -> Compaction:
        """The same without blocking the event loop."""
        with about(self.values), _caused_by(error):
            return _changed(await self.compactor.aoverflowed(fitted, error), error)

    def learn(self) -> None:
        """Learn from the last usage that the list itself reports: what a process before this one was told."""
        agent = str(self.agent or "")
        place = next((i for i in range(len(self.messages) - 1, 0, -1) if _reports(self.messages[i], agent)), 0)
        if not place:
            return
        told: Any = self.messages[place]
        before = self.compactor.plan(self.messages[:place], **self._named)
        counted = Compaction(self.messages, False, before.tokens, before.tokens, "", estimate=before.tokens)
        self.compactor.observe(counted, told.usage_metadata)

    @property
    def _named(self) -> dict[str, Any]:
        return {"thread": self.thread, "system": self.fixed.system, "tools": self.fixed.tools}

    def _same(self, given: list[BaseMessage]) -> Compaction:
        return Compaction(given, changed=False, tokens_before=0, tokens_after=0, thread=self.thread or "")


@contextmanager
def _caused_by(error: Exception) -> Iterator[None]:
    """Within, a `WontFit` has the provider's error as its cause."""
    try:
        yield
    except WontFit as wont:
        raise wont from error


def _changed(again: Compaction, error: Exception) -> Compaction:
    if not again.changed:
        raise error
    return again


def _reports(message: BaseMessage, agent: str) -> bool:
    """Whether it tells what a request took, as this model counts: another one's tokens say nothing of its own."""
    if not isinstance(message, AIMessage) or not message.usage_metadata:
        return False
    told = str(message.response_metadata.get("model_name") or message.response_metadata.get("model") or "")
    return not (told and agent) or told.startswith(agent) or agent.startswith(told)


def counter_of(token_counter: Callable[..., int]) -> Callable[[list[Any], Any], int]:
    """LangChain's kind of token counter, of messages and perhaps tools, as the engine's."""
    try:
        takes_tools = "tools" in inspect.signature(token_counter).parameters
    except (TypeError, ValueError):
        takes_tools = False
    own = Meter()

    def count(messages: list[Any], tools: Any) -> int:
        listed = convert_to_messages(messages)
        if takes_tools:
            return token_counter(listed, tools=tools or None)
        return (token_counter(listed) if listed else 0) + (own.overhead(None, tools) if tools else 0)

    return count


# -- artifacts that no archive can restore ----------------------------------------------------------------------------

Looked = tuple[list[BaseMessage], dict[int, BaseMessage]]
"""The messages looked at, and by their ids the copies that take the place of some."""

_looked: WeakKeyDictionary[Compactor, OrderedDict[str | None, Looked]] = WeakKeyDictionary()


def archivable(compactor: Compactor, thread: str | None, messages: list[BaseMessage]) -> list[BaseMessage]:
    """The very list; or, where an artifact can't be archived, one with copies without it."""
    threads = _looked.setdefault(compactor, OrderedDict())
    seen, copies = threads.pop(thread, ([], {}))
    if len(seen) > len(messages) or not all(map(is_, seen, messages)):
        seen, copies = [], {}
    for message in messages[len(seen) :]:
        if isinstance(message, ToolMessage) and message.artifact is not None:
            copy = _without_artifact(message)
            if copy is not message:
                copies[id(message)] = copy
    threads[thread] = (list(messages), copies)
    while len(threads) > _THREADS:
        threads.popitem(last=False)
    return [copies.get(id(message), message) for message in messages] if copies else messages


def _without_artifact(message: ToolMessage) -> ToolMessage:
    try:
        codec.encode(message.artifact)
    except ArchiveError as error:
        log.warning("the artifact of tool message %s is not archived with it: %s", message.id, error)
        return message.model_copy(update={"artifact": None})
    return message
