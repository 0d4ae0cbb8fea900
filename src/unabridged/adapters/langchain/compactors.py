"""The engine as the LangChain parts share it: one archive, one compactor for each model and window."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakSet

from langchain_core.callbacks import dispatch_custom_event
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_stream_writer

from unabridged.adapters.langchain.arguments import Chosen
from unabridged.adapters.langchain.format import FORMAT
from unabridged.adapters.langchain.state import about
from unabridged.adapters.shared import CompactorPool, Steps, collect_event, event_data, method
from unabridged.archive import codec
from unabridged.archive.protocol import Archive
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import WontFit
from unabridged.events import Event
from unabridged.measure.meter import Meter

_AGENTS = 64
"""Sets of tools whose schemas are remembered."""

for _module in ("langchain_core.documents", "langchain_core.load"):
    codec.allow(_module)  # what tools of LangChain put into a message's artifact


class Asked(NamedTuple):
    """The model that is asked, and whether it can look up what left its context."""

    agent: str | None
    window: int | None
    recall: bool = False


class Compactors(CompactorPool[Asked]):
    """A compactor for each model and window.

    `window` is the caller's word and beats what the model says; `judged` is what is known of it now. Each is made with
    the `options`.
    """

    def __init__(
        self,
        chosen: Chosen,
        *,
        window: int | None,
        judged: int | None,
        archive: str | Archive | None,
        namespace: str | None,
        counter: Callable[..., int] | None,
        **options: Any,
    ) -> None:
        self.chosen, self.window, self._judged = chosen, window, judged
        chosen.settings_for(judged, recall=False)  # what contradicts itself is told now, not at the first call
        self._options = {"format": FORMAT, **options}
        self._taught: WeakSet[Compactor] = WeakSet()
        self._schemas: dict[tuple[int, ...], tuple[list[Any], list[Any]]] = {}
        super().__init__(archive, namespace)
        self.count_with(counter)

    def count_with(self, counter: Callable[..., int] | None) -> None:
        """Count tokens with this function of LangChain's kind from now on; with None, or its default, as we do."""
        with self._lock:
            self._made = {}
            self._options["counter"] = None
            if counter is not None and counter is not count_tokens_approximately:
                self._options["counter"] = counter_of(counter)

    def get(self, agent: str | None, window: int | None, recall: bool = False) -> Compactor:
        """The compactor for the model of this name, whose window is what the caller said, or else this one.

        With `recall` the agent has the tools to follow a reference, so summaries and stubs have some.
        """
        return self.compactor_for(Asked(agent, self.window or window, recall))

    def make(self, key: Asked) -> Compactor:
        """A compactor for this model and window."""
        settings, window = self.chosen.settings_for(key.window, recall=key.recall, say=key.window != self._judged)
        where: dict[str, Any] = {"archive": self.archive, "namespace": self.namespace}
        return Compactor(agent=key.agent, window=window, settings=settings, **where, **self._options)

    def teach(self, call: Call) -> None:
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


@dataclass(frozen=True, slots=True)
class Call:
    """One question to a compactor: these messages of this thread, as they should be sent; `force` compacts anyway."""

    compactor: Compactor
    messages: list[BaseMessage]
    thread: str | None
    system: Any = None
    tools: Any = None
    force: bool = False
    values: Any = None
    """Those of the graph's state."""
    agent: str | None = None

    def fit(self) -> Steps[Compaction]:
        """The answer."""
        with about(self.values):
            done: Compaction | None = yield method(
                self.compactor, "compact" if self.force else "fit", self.messages, **self._named
            )
        same = Compaction(self.messages, changed=False, tokens_before=0, tokens_after=0, thread=self.thread or "")
        return done or same

    def fit_shorter(self, fitted: Compaction, error: Exception) -> Steps[Compaction]:
        """The answer to a model that refused the first one as too long; the error itself where that is no shorter."""
        try:
            with about(self.values):
                again: Compaction = yield method(self.compactor, "overflowed", fitted, error)
        except WontFit as wont:
            raise wont from error
        if not again.changed:
            raise error
        return again

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
        return {"thread": self.thread, "system": self.system, "tools": self.tools}


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


def event_listener(on_event: Callable[[Event], object] | None, *, stream: bool) -> Callable[[Event], None]:
    """What hands each event on. The host's stream gets them only when asked for, and without any message's content."""

    def tell(event: Event) -> None:
        collect_event(event)
        if on_event is not None:
            on_event(event)
        if not stream:
            return
        data = event_data(event)
        with suppress(RuntimeError):  # outside of a run there is no stream
            get_stream_writer()(data)
        with suppress(RuntimeError):  # and there are no callbacks
            dispatch_custom_event(f"unabridged.{data['event']}", data)

    return tell
