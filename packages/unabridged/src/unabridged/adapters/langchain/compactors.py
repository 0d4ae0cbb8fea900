"""The engine that the LangChain parts share: one archive, one compactor for each model and window."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakSet

from langchain_core.callbacks import dispatch_custom_event
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_stream_writer

from unabridged.adapters.kit import Agent, BoundedMapping, Engine, Request, combine_listeners, event_data
from unabridged.adapters.langchain.arguments import ChosenSettings
from unabridged.adapters.langchain.chat_models import AgentChatSummariser
from unabridged.adapters.langchain.format import FORMAT
from unabridged.archive import codec
from unabridged.archive.protocol import Scope
from unabridged.archive.transcripts import forget_thread
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import WontFit
from unabridged.events import Event, Listener
from unabridged.settings import Settings, resolve_limits
from unabridged.tokens.meter import Meter

_MAX_TOOL_SETS = 64
"""Sets of tools whose schemas are remembered."""

for _module in ("langchain_core.documents", "langchain_core.load"):
    codec.allow(_module)  # what tools of LangChain put into a message's artifact


class AskedModel(NamedTuple):
    """The model that was asked: its name and window, and the chat model itself."""

    agent: Agent
    model: Any = None


class LastAskedModels:
    """The model that was asked last in each thread, for compactions without a request.

    A thread without a request so far has the model of all others, as long as there was only one. Of several, nobody
    knows which it will be and with whose credentials: then it is measured by the one that the middleware was made for.
    """

    def __init__(self, named: Agent) -> None:
        self._named = AskedModel(named)
        self._only: AskedModel | None = AskedModel(named)
        self.newest_model: Any = None
        """The chat model that was asked last, in whichever thread."""
        self._threads: BoundedMapping[str, AskedModel] = BoundedMapping()
        self._lock = threading.Lock()

    def remember(self, thread: str | None, asked: AskedModel) -> None:
        """Note that this model is asked in the thread."""
        with self._lock:
            self.newest_model = asked.model
            if self._only is not None:
                same = self._only.model is None or self._only.model is asked.model
                self._only = asked if same else None
            if thread is not None:
                self._threads[thread] = asked

    def find(self, thread: str | None) -> AskedModel:
        """Return the model that was asked last in the thread, else the only one that was asked anywhere."""
        with self._lock:
            own = self._threads.get(thread) if thread is not None else None
            return own or self._only or self._named


class RequestWontFit(WontFit, ContextOverflowError):  # noqa: N818 - reads as what it is
    """`WontFit` that hosts also catch as LangChain's `ContextOverflowError`."""


def to_langchain_error(wont: WontFit) -> RequestWontFit:
    """Return the error that LangChain has for it, with the same sizes and cause."""
    error = RequestWontFit(overhead=wont.overhead, floor=wont.floor, budget=wont.budget, window=wont.window)
    error.__cause__ = wont.__cause__
    return error


class GraphValues(NamedTuple):
    """The values of the graph's state, and whether what goes is then written to the history file of a backend."""

    state: Any
    has_file: bool = False


def make_forced_request(
    compactor: Compactor, messages: list[BaseMessage], thread: str | None, values: GraphValues, model: Any
) -> Request:
    """Return a request that is compacted now, whatever its size, with summaries by this chat model."""
    options: Any = {"values": values, "own": model, "as_host_error": to_langchain_error}
    return Request(compactor, messages, thread, force=True, **options)


class Compactors(Engine):
    """A compactor for each model and window.

    `window` is the caller's and beats the model's own; `known_window` is the one to check the settings with now. With
    `in_backend` the history is in a file of the agent's backend, so a file of this machine is named only where the
    settings ask for one. Each is made with the `options`; where their `model` is `AGENT_MODEL`, each request's own
    model writes the summaries.
    """

    agents_model = AgentChatSummariser

    def __init__(
        self,
        chosen: ChosenSettings,
        *,
        window: int | None,
        known_window: int | None,
        counter: Callable[..., int] | None,
        in_backend: bool = False,
        **options: Any,
    ) -> None:
        self.chosen, self.window, self._in_backend = chosen, window, in_backend
        resolve_limits(chosen.settings_for(known_window, recall=False), known_window)  # raises what contradicts itself
        self._taught: WeakSet[Compactor] = WeakSet()
        self._schemas: BoundedMapping[tuple[int, ...], tuple[list[Any], list[Any]]] = BoundedMapping(_MAX_TOOL_SETS)
        super().__init__(FORMAT, **options)
        self.set_token_counter(counter)

    def start(self) -> None:
        """Open the archive; only the calls name their models."""
        _ = self.archive

    def set_token_counter(self, counter: Callable[..., int] | None) -> None:
        """Count tokens with this function of LangChain's kind from now on; with None, or its default, with our own."""
        with self._lock:
            self._compactors.clear()
            own = counter is None or counter is count_tokens_approximately
            self._keywords["counter"] = None if own or counter is None else adapt_token_counter(counter)

    def get(self, agent: str | None, window: int | None, recall: bool = False) -> Compactor:
        """Return the compactor for the model of this name; its window is the one that the caller named, else `window`.

        With `recall` the agent has the tools to follow a reference, so summaries and stubs have some.
        """
        return self.compactor_for(Agent(agent, self.window or window, recall))

    def settings_for(self, agent: Agent) -> Settings:
        """Return the settings for this model and window."""
        settings = self.chosen.settings_for(agent.window, recall=agent.recall)
        return replace(settings, transcript=False) if self._in_backend and settings.transcript is None else settings

    def forget(self, thread: str) -> list[str]:
        """Remove the thread and those of its sub-agents from the archive; return the names of the threads that went."""
        names = self.archive.threads(self.namespace)
        gone = [name for name in names if name == thread or name.startswith(f"{thread}/")]
        for name in gone:
            forget_thread(self.archive, Scope(self.namespace, name))
        with self._lock:
            self._compactors.clear()  # with what they remember of the thread
        return gone

    def teach_new_compactor(self, request: Request, agent: str | None) -> None:
        """Calibrate a new compactor by the usage in the first list that it sees."""
        if request.compactor not in self._taught:
            self._taught.add(request.compactor)
            learn_from_reported_usage(request, agent or "")

    def tool_schemas(self, tools: Sequence[Any], response_format: Any = None) -> list[Any]:
        """Return the tools as a provider is shown them; the same list as long as the tools are the same."""
        specs = getattr(response_format, "schema_specs", None) or ()
        shown = [*tools, *(spec.json_schema for spec in specs)]
        key = tuple(map(id, shown))
        if key not in self._schemas:
            schemas = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in shown]
            self._schemas[key] = (shown, schemas)  # the tools are kept, so that no other object gets their ids
        return self._schemas[key][1]


def learn_from_reported_usage(request: Request, agent: str) -> None:
    """Learn from the last usage that the list itself reports: the provider said it to an earlier process."""
    messages = request.messages
    index = next((i for i in range(len(messages) - 1, 0, -1) if _reports_usage(messages[i], agent)), 0)
    if index:
        before = request.compactor.plan(messages[:index], **request.compactor_options)
        counted = Compaction(messages, False, before.tokens, before.tokens, "", estimate=before.tokens)
        request.observe(counted, messages[index].usage_metadata)


def _reports_usage(message: BaseMessage, agent: str) -> bool:
    """Return whether it reports what a request took, as this model counts; another model counts otherwise."""
    if not isinstance(message, AIMessage) or not message.usage_metadata:
        return False
    model = str(message.response_metadata.get("model_name") or message.response_metadata.get("model") or "")
    return not (model and agent) or model.startswith(agent) or agent.startswith(model)


def adapt_token_counter(token_counter: Callable[..., int]) -> Callable[[list[Any], Any], int]:
    """Return LangChain's kind of token counter, of messages and perhaps tools, as the engine's."""
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


def make_event_listener(on_event: Listener | None, *, stream: bool) -> Listener:
    """Return what hands each event on; the host's stream gets them only when asked for, without any content."""

    def write(event: Event) -> None:
        data = event_data(event)
        with suppress(RuntimeError):  # outside of a run there is no stream
            get_stream_writer()(data)
        with suppress(RuntimeError):  # and there are no callbacks
            dispatch_custom_event(f"unabridged.{data['event']}", data)

    return combine_listeners(on_event, write if stream else None)
