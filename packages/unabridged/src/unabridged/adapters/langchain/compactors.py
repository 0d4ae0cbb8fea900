"""The engine as the LangChain parts share it: one archive, one compactor for each model and window."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakSet

from langchain_core.callbacks import dispatch_custom_event
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_stream_writer

from unabridged.adapters.kit import Agent, Engine, Newest, Request, Steps, event_data, tell_both
from unabridged.adapters.kit.own_model import AGENT_MODEL
from unabridged.adapters.langchain.arguments import Chosen
from unabridged.adapters.langchain.format import FORMAT
from unabridged.adapters.langchain.history_file import with_history_file
from unabridged.adapters.langchain.model import AgentsChat, agents_model
from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Scope
from unabridged.archive.transcripts import forget_thread
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import WontFit
from unabridged.events import Event
from unabridged.measure.meter import Meter
from unabridged.settings import limits

_AGENTS = 64
"""Sets of tools whose schemas are remembered."""

for _module in ("langchain_core.documents", "langchain_core.load"):
    codec.allow(_module)  # what tools of LangChain put into a message's artifact


class Asked(NamedTuple):
    """The model that was asked: what is known of it, and the chat model itself."""

    agent: Agent
    model: Any = None


class LastAsked:
    """The model that was asked last in each thread: what compactions without a request go by.

    A thread without a request so far has the model of all others, as long as there was only one. Of several, nobody
    knows which it will be and with whose credentials: then it is measured by the one that the middleware was made for.
    """

    def __init__(self, named: Agent) -> None:
        self._named = Asked(named)
        self._only: Asked | None = Asked(named)
        self.newest_model: Any = None
        """The chat model that was asked last, in whichever thread."""
        self._threads: Newest[str, Asked] = Newest()
        self._lock = threading.Lock()

    def remember(self, thread: str | None, asked: Asked) -> None:
        """This model is asked in the thread."""
        with self._lock:
            self.newest_model = asked.model
            if self._only is not None:
                same = self._only.model is None or self._only.model is asked.model
                self._only = asked if same else None
            if thread is not None:
                self._threads[thread] = asked

    def find(self, thread: str | None) -> Asked:
        """Return the model that was asked last in the thread, else the only one that was asked anywhere."""
        with self._lock:
            own = self._threads.get(thread) if thread is not None else None
            return own or self._only or self._named


class RequestWontFit(WontFit, ContextOverflowError):  # noqa: N818 - reads as what it is
    """`WontFit` that hosts also catch as LangChain's `ContextOverflowError`."""


@contextmanager
def overflow_as_langchains() -> Iterator[None]:
    """Raise `WontFit` as the error that LangChain has for it, with the same sizes and cause."""
    try:
        yield
    except WontFit as wont:
        sizes = {"overhead": wont.overhead, "floor": wont.floor, "budget": wont.budget, "window": wont.window}
        raise RequestWontFit(**sizes) from wont.__cause__


@dataclass(frozen=True, slots=True)
class ChatRequest(Request):
    """A request to a chat model, which writes the summary where no other model is named."""

    model: Any = None
    has_file: bool = False
    """Whether what goes is then written to the history file of a backend."""

    def fit(self) -> Steps[Compaction]:
        """The messages as they should be sent."""
        with agents_model(self.model), with_history_file(self.has_file), overflow_as_langchains():
            return (yield from Request.fit(self))

    def shorten(self, fitted: Compaction, error: Any) -> Steps[Compaction]:
        """What to send in place of a request that was refused as too long."""
        with agents_model(self.model), with_history_file(self.has_file), overflow_as_langchains():
            return (yield from Request.shorten(self, fitted, error))


class Compactors(Engine):
    """A compactor for each model and window.

    `window` is the caller's word and beats what the model says; `judged` is what is known of it now. With `in_backend`
    the history is in a file of the agent's backend, so a file of this machine is named only where the settings ask for
    one. Each is made with the `options`; where their `model` is `AGENT_MODEL`, each request's own model writes the
    summaries.
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
        in_backend: bool = False,
        **options: Any,
    ) -> None:
        self.chosen, self.window, self._in_backend = chosen, window, in_backend
        limits(chosen.settings_for(judged, recall=False), judged)  # what contradicts itself is told now
        self._taught: WeakSet[Compactor] = WeakSet()
        self._schemas: dict[tuple[int, ...], tuple[list[Any], list[Any]]] = {}
        super().__init__(FORMAT, archive=archive, namespace=namespace, **options)
        self.count_with(counter)

    def start(self) -> None:
        """Open the archive; which models there will be, only the calls tell."""
        _ = self.archive

    def count_with(self, counter: Callable[..., int] | None) -> None:
        """Count tokens with this function of LangChain's kind from now on; with None, or its default, as we do."""
        with self._lock:
            self._made.clear()
            own = counter is None or counter is count_tokens_approximately
            self._keywords["counter"] = None if own or counter is None else counter_of(counter)

    def get(self, agent: str | None, window: int | None, recall: bool = False) -> Compactor:
        """The compactor for the model of this name, whose window is what the caller said, or else this one.

        With `recall` the agent has the tools to follow a reference, so summaries and stubs have some.
        """
        return self.compactor_for(Agent(agent, self.window or window, recall))

    def make(self, agent: Agent) -> Compactor:
        """A compactor for this model and window."""
        settings = self.chosen.settings_for(agent.window, recall=agent.recall)
        if self._in_backend and settings.transcript is None:
            settings = replace(settings, transcript=False)
        where: dict[str, Any] = {"archive": self.archive, "namespace": self.namespace, "format": self.format}
        keywords = dict(self._keywords)
        if keywords.get("model") is AGENT_MODEL:
            keywords["model"] = AgentsChat(agent.name)
        return Compactor(agent=agent.name, window=agent.window, settings=settings, **where, **keywords)

    def forget(self, thread: str) -> list[str]:
        """Remove the thread and those of its sub-agents from the archive; return the names of the threads that went."""
        gone = [
            name for name in self.archive.threads(self.namespace) if name == thread or name.startswith(f"{thread}/")
        ]
        for name in gone:
            forget_thread(self.archive, Scope(self.namespace, name))
        with self._lock:
            self._made.clear()  # with what they remember of the thread
        return gone

    def teach(self, request: Request, agent: str | None) -> None:
        """Let a new compactor learn from the usage that the first list it sees reports."""
        if request.compactor not in self._taught:
            self._taught.add(request.compactor)
            learn(request, agent or "")

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


def learn(request: Request, agent: str) -> None:
    """Learn from the last usage that the list itself reports: what a process before this one was told."""
    messages = request.messages
    place = next((i for i in range(len(messages) - 1, 0, -1) if _reports(messages[i], agent)), 0)
    if place:
        before = request.compactor.plan(messages[:place], **request.named)
        counted = Compaction(messages, False, before.tokens, before.tokens, "", estimate=before.tokens)
        request.observe(counted, messages[place].usage_metadata)


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

    def write(event: Event) -> None:
        data = event_data(event)
        with suppress(RuntimeError):  # outside of a run there is no stream
            get_stream_writer()(data)
        with suppress(RuntimeError):  # and there are no callbacks
            dispatch_custom_event(f"unabridged.{data['event']}", data)

    return tell_both(on_event, write if stream else None)
