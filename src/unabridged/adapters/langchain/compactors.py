"""The engine as the LangChain parts share it: one archive, one compactor for each model and window."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.utils.function_calling import convert_to_openai_tool

from unabridged.adapters.langchain.artifacts import archivable
from unabridged.adapters.langchain.format import FORMAT
from unabridged.adapters.langchain.host import about
from unabridged.archive import codec, open_archive
from unabridged.archive.protocol import Archive
from unabridged.engine import Compaction, Compactor
from unabridged.events import Event
from unabridged.measure.meter import Meter
from unabridged.namespace import DEFAULT
from unabridged.settings import Settings, triggers

UNKNOWN_WINDOW = 200_000
"""The window of a model nobody knows: the trigger of 170,000 tokens that its users expect fits below it."""
_AGENTS = 64
"""Sets of tools whose schemas are remembered."""
KNOWN: dict[str, Any] = {"trigger": ("fraction", 0.85), "keep": ("fraction", 0.10)}
UNKNOWN: dict[str, Any] = {"trigger": ("tokens", 170_000), "keep": ("messages", 6)}

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

    `settings` None means the defaults that fit the model: 0.85 and 0.10 of a known window, else 170,000 tokens and 6
    messages. `window` is the caller's word and beats what the model says.
    """

    def __init__(
        self,
        *,
        summariser: Callable[[Any], Any] | None,
        settings: Settings | None,
        window: int | None,
        archive: str | Archive | None,
        namespace: str | None,
        counter: Callable[..., int] | None,
        on_event: Callable[[Event], object] | None,
        options: dict[str, Any],
    ) -> None:
        self.settings = settings
        self.window = window
        self.archive: Archive = _opened(archive) if archive is None or isinstance(archive, str) else archive
        self._owned = archive is None or isinstance(archive, str)
        self.namespace = namespace if namespace is not None else DEFAULT
        self._shared: dict[str, Any] = {"archive": self.archive, "format": FORMAT, "on_event": on_event, **options}
        self._shared["namespace"] = self.namespace
        if summariser is not None:
            self._shared["model"] = summariser
        if counter is not None and counter is not count_tokens_approximately:
            self._shared["counter"] = counter_of(counter)
        self._lock = threading.Lock()
        self._made: dict[tuple[str | None, int | None, bool], Compactor] = {}
        self._schemas: dict[tuple[int, ...], tuple[list[Any], list[Any]]] = {}

    def get(self, agent: str | None, window: int | None, recall: bool = False) -> Compactor:
        """The compactor for the model of this name, whose window is what the caller said, or else this one.

        With `recall` the agent has the tools to follow a reference, so summaries and stubs have some.
        """
        known = self.window or window
        with self._lock:
            compactor = self._made.get((agent, known, recall))
            if compactor is None:
                compactor = self._made[agent, known, recall] = self._make(agent, known, recall=recall)
            return compactor

    def _make(self, agent: str | None, window: int | None, *, recall: bool) -> Compactor:
        settings = self.settings or Settings(**(UNKNOWN if window is None else KNOWN))
        settings = replace(settings, recall=True) if recall else settings
        return Compactor(agent=agent, window=window or assumed_window(settings), settings=settings, **self._shared)

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
        if self._owned:
            self.archive.close()


def _opened(url: str | None) -> Archive:
    """The archive, tried now; inside an event loop, which an agent may be built in, only when it is first used."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return open_archive(url)
    return open_archive(url, probe=False)


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

    def __call__(self) -> Compaction:
        """The answer."""
        given = archivable(self.compactor, self.thread, self.messages)
        with about(self.values):
            return self._read(given, self._method("")(given, **self._named))

    async def later(self) -> Compaction:
        """The same without blocking the event loop."""
        given = archivable(self.compactor, self.thread, self.messages)
        with about(self.values):
            return self._read(given, await self._method("a")(given, **self._named))

    def shorter(self, fitted: Compaction, error: Exception) -> Compaction:
        """The answer to a model that refused the first one as too long; the error itself where that is no shorter."""
        with about(self.values):
            return _changed(self.compactor.overflowed(fitted, error), error)

    async def shorter_later(self, fitted: Compaction, error: Exception) -> Compaction:
        """The same without blocking the event loop."""
        with about(self.values):
            return _changed(await self.compactor.aoverflowed(fitted, error), error)

    def _method(self, prefix: str) -> Any:
        return getattr(self.compactor, f"{prefix}{'compact' if self.force else 'fit'}")

    @property
    def _named(self) -> dict[str, Any]:
        return {"thread": self.thread, "system": self.fixed.system, "tools": self.fixed.tools}

    def _read(self, given: list[BaseMessage], done: Compaction | None) -> Compaction:
        return done or Compaction(given, changed=False, tokens_before=0, tokens_after=0, thread=self.thread or "")


def _changed(again: Compaction, error: Exception) -> Compaction:
    if not again.changed:
        raise error
    return again


def assumed_window(settings: Settings) -> int:
    """The window to work with when nobody knows it: large enough for the trigger that was asked for."""
    asked = [int(value) for condition in triggers(settings.trigger) for m, value in condition.items() if m == "tokens"]
    fractions = any("fraction" in condition for condition in triggers(settings.trigger))
    return 32_768 if fractions else max([UNKNOWN_WINDOW, *(int(value / 0.85) for value in asked)])


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
