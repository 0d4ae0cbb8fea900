"""`SummarizationMiddleware`: LangChain's and Deep Agents' place for compaction, with this engine behind it.

The check runs in `wrap_model_call`, where the whole request is known: system message, bound tools, and what middleware
around it did to the messages. The model gets the compacted list at once; the state follows in `after_model`, with the
model's answer behind it, so that whatever other middleware did to that answer survives.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

from langchain.agents.middleware.internal_call_transformer import InternalCallTransformer
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
)
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.runtime import Runtime
from langgraph.types import Command

from unabridged.adapters.kit import (
    Agent,
    Engine,
    PendingChange,
    PinMethods,
    Request,
    Steps,
    arun,
    blocking,
    current_values,
    hosts,
    run,
)
from unabridged.adapters.kit.own_model import AGENT_MODEL
from unabridged.adapters.langchain.arguments import DEFAULT, settings_of
from unabridged.adapters.langchain.compactors import Asked, ChatRequest, Compactors, LastAsked, event_listener
from unabridged.adapters.langchain.deep import Partner, clipping_of, event_in
from unabridged.adapters.langchain.history_file import Offload, file_line, find_evicted, without_file
from unabridged.adapters.langchain.model import model_name, summariser_of, window_of, window_of_writer
from unabridged.adapters.langchain.names import Names, change_in_state, follow_in_state
from unabridged.adapters.langchain.state import (
    EVENT,
    FILE,
    PENDING,
    SENT,
    HostState,
    SummarizationState,
    ensure_ids,
    in_subgraph,
    replace_messages,
    thread_of,
    todos,
    with_ids,
)
from unabridged.archive.protocol import Archive
from unabridged.compactor import Compaction, Compactor
from unabridged.events import Event
from unabridged.recall.tools import READ
from unabridged.settings import Settings


class Sent(NamedTuple):
    """A request as it goes out, and how it came to be."""

    request: ModelRequest[Any]
    fitted: Compaction
    compactor: Compactor
    pending: PendingChange | None
    in_file: bool | None
    """Whether what the model is no longer shown is in the backend's file; None where nothing was to be written."""


class _NotANode:
    """A method for callers that no agent makes a node of: `create_agent` asks the class, callers ask the instance.

    An agent does the work in `wrap_model_call`; a node before each model call would cost a step and find nothing to do.
    A subclass that overrides the method gets its node, and `super()` works there.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return getattr(AgentMiddleware, self.name)
        return self.function.__get__(instance, owner)


class SummarizationMiddleware(PinMethods, Partner, AgentMiddleware[Any, Any, Any]):
    """Keeps an agent inside its model's window and every message in the archive.

    Takes the arguments of LangChain's class and of Deep Agents', and ours: `settings` in place of trigger and keep,
    `archive`, `namespace`, `window`, `on_event`, `stream_events` (compactions as custom stream events), and `state`:
    `"replaced"`, or `"kept"` to leave the state whole and compact only what the model is sent, which is the default
    beside a `backend`, as in Deep Agents. `host_state` gets the graph's state at each compaction and tells in a text
    what every summary turn should show of it: the to-dos unless another function is given, nothing with None. `model`
    or `summarizer` writes the summaries; without both the agent's own model does, as each request brings it. With
    `model=None` they are model-free.
    """

    state_schema = SummarizationState
    transformers = (InternalCallTransformer,)

    def __init__(
        self,
        model: Any = AGENT_MODEL,
        *,
        trigger: Any = DEFAULT,
        keep: Any = DEFAULT,
        token_counter: Callable[..., int] | None = None,
        summary_prompt: str | None = None,
        trim_tokens_to_summarize: int | None = None,
        summarizer: Any = None,
        backend: Any = None,
        truncate_args_settings: Any = None,
        settings: Settings | None = None,
        state: Literal["replaced", "kept"] | None = None,
        host_state: HostState | None = todos,
        window: int | None = None,
        archive: str | Archive | None = None,
        namespace: str | None = None,
        on_event: Callable[[Event], object] | None = None,
        stream_events: bool = False,
        options: dict[str, Any] | None = None,
        **deprecated: Any,
    ) -> None:
        super().__init__()
        named = None if model is AGENT_MODEL else model
        self.model = init_chat_model(named) if isinstance(named, str) else named
        self.summarizer = init_chat_model(summarizer) if isinstance(summarizer, str) else summarizer
        self.state_mode = state or ("replaced" if backend is None else "kept")
        self.summary_prompt, self.trim_tokens_to_summarize = summary_prompt, trim_tokens_to_summarize
        given = {"trigger": trigger, "keep": keep, "state": self.state_mode}
        given |= {"summary_prompt": summary_prompt, "trim": trim_tokens_to_summarize}
        known = window or window_of(self.model)
        chosen = settings_of(given, settings=settings, window=known, judged=self.model is not None, old=deprecated)
        self.trigger, self.keep = chosen.trigger, chosen.keep
        self.backend, self.truncate_args_settings = backend, truncate_args_settings
        self.clipping = clipping_of(truncate_args_settings)
        self.offload = Offload(backend)
        self.host_state = host_state
        self.last_asked = LastAsked(Agent(model_name(self.model), window_of(self.model)))
        self._token_counter = token_counter
        writer = self.summarizer if self.summarizer is not None else self.model
        more: dict[str, Any] = {"on_event": event_listener(on_event, stream=stream_events)}
        if writer is None and model is AGENT_MODEL:
            more["model"] = AGENT_MODEL
        elif writer is not None:
            more |= {"model": summariser_of(writer, trim_tokens_to_summarize), "model_window": window_of_writer(writer)}
        if host_state or backend is not None:
            more["state"] = self._host_text
        self.compactors = Compactors(
            chosen,
            window=window,
            judged=known,
            archive=archive,
            namespace=namespace,
            counter=token_counter,
            in_backend=backend is not None,
            **{**more, **(options or {})},
        )

    @property
    def name(self) -> str:
        """The name by which Deep Agents replaces its own; a subclass has its own, as theirs have."""
        own = type(self) is SummarizationMiddleware
        return "SummarizationMiddleware" if own else type(self).__name__

    @property
    def token_counter(self) -> Callable[..., int]:
        """What counts tokens, as LangChain's class has it; another one may be set at any time."""
        return self._token_counter or count_tokens_approximately

    @token_counter.setter
    def token_counter(self, counter: Callable[..., int] | None) -> None:
        self._token_counter = counter
        self.compactors.count_with(counter)

    # -- in an agent --------------------------------------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Send what fits; when the provider says it is too long all the same, once more, shorter."""
        return run(self._model_call(request, handler))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """`wrap_model_call` without blocking the event loop."""
        return await arun(self._model_call(request, handler))

    def _model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]
    ) -> Steps[ModelResponse[Any] | ExtendedModelResponse[Any]]:
        ask: Request = self._ask(request) if self.compactors.ready else (yield blocking(self._ask, request))
        asked = event_in(request.state, request.messages)
        forced = (yield from replace(ask, force=True).fit()) if asked else None
        fitted = forced if forced and forced.changed else (yield from ask.fit())
        sent = yield from self._prepare(request, ask, fitted)
        try:
            response = yield hosts(handler, sent.request)
        except Exception as error:  # noqa: BLE001 - what is no overflow is raised again
            shorter = yield from ask.shorten(sent.fitted, error)
            sent = yield from self._prepare(request, ask, shorter)
            response = yield hosts(handler, sent.request)
        return self._finish(sent, response, asked=asked)

    def after_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002 - the protocol's
        """Let the state follow what the model was sent; in a sub-graph it stays whole, since the outer state does."""
        pending = state.get(PENDING)
        if not pending or self.state_mode == "kept" or in_subgraph():
            return None
        messages = state["messages"]
        return {**replace_messages(follow_in_state(messages, messages, pending)), PENDING: None}

    def _ask(self, request: ModelRequest[Any]) -> Request:
        """What the engine is asked about this request: all of it that the model will read."""
        system = request.system_message.content if request.system_message is not None else None
        tools = self.compactors.schemas(request.tools, request.response_format)
        messages = cast("list[BaseMessage]", request.messages)
        if pending := request.state.get(PENDING):
            stored = cast("list[BaseMessage]", request.state["messages"])
            messages = follow_in_state(stored, messages, cast("PendingChange", pending))
        agent = Agent(model_name(request.model), window_of(request.model), _can_recall(request.tools))
        asked, thread = Asked(agent, request.model), thread_of(messages)
        self.last_asked.remember(thread, asked)
        has_file = self.backend is not None
        return self._call(asked, messages, thread, request.state, system=system, tools=tools, has_file=has_file)

    def _call(
        self,
        asked: Asked,
        messages: list[BaseMessage],
        thread: str | None,
        values: Any,
        **fixed: Any,
    ) -> Request:
        compactor = self.compactors.get(*asked.agent)
        request = ChatRequest(compactor, messages, thread, values=values, model=asked.model, **fixed)
        self.compactors.teach(request, asked.agent.name)
        return request

    def _prepare(self, request: ModelRequest[Any], ask: Request, fitted: Compaction) -> Steps[Sent]:
        """Return the request as it goes out; what the model is no longer shown is then in the backend's file."""
        given = cast("list[BaseMessage]", request.messages)
        after = with_ids(given, fitted.messages, ask.thread) if fitted.changed else ask.messages
        can_follow = fitted.changed and _known_to(request.state, given)
        stored, earlier = cast("list[BaseMessage]", request.state["messages"]), cast("Any", request.state).get(PENDING)
        pending = change_in_state(stored, given, after, earlier) if can_follow else None
        gone = find_evicted(given, ask.messages, after) if self.backend is not None and fitted.changed else []
        in_file = yield from self.offload.write(fitted.thread, gone)
        if (request.state.get(FILE) if in_file is None else in_file) is False:
            after = without_file(after)
        if self.clipping is not None:
            after = self.clipping.clip(after, fitted.tokens_after, ask.compactor.limits.window, self.token_counter)
        sent = (
            request if after is given else request.override(messages=cast("list[Any]", after), state=_followed(request))
        )
        return Sent(sent, fitted, ask.compactor, pending, in_file)

    def _finish(
        self, sent: Sent, response: ModelResponse[Any], *, asked: bool
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        used = next((m.usage_metadata for m in reversed(response.result) if isinstance(m, AIMessage)), None)
        if used:
            sent.compactor.observe(sent.fitted, used)
        update: dict[str, Any] = {PENDING: sent.pending} if sent.pending is not None else {}
        if sent.fitted.changed and sent.fitted.receipt is not None:
            update[SENT] = sent.fitted.receipt.id
        update |= {EVENT: None} if asked else {}
        update |= {FILE: sent.in_file} if sent.in_file is not None else {}
        if not update:
            return response
        return ExtendedModelResponse(model_response=response, command=Command(update=update))

    def _host_text(self, thread: str) -> Any:
        """What a summary turn shows of the host: what the graph's state tells, and where the history is."""
        values = current_values()
        told = self.host_state(values) if self.host_state is not None and values is not None else None
        if self.backend is None:
            return told
        where = file_line(self.offload.path(thread))
        if inspect.isawaitable(told):
            return _joined_later(told, where)
        return "\n\n".join(part for part in (told, where) if part)

    # -- on a bare state ----------------------------------------------------------------------------------------------

    def _before_model(self, state: Any, runtime: Any = None) -> dict[str, Any] | None:  # noqa: ARG002 - the protocol's
        """The state update that replaces the messages by summary and tail; None when they fit."""
        return run(self._bare_call(state))

    async def _abefore_model(self, state: Any, runtime: Any = None) -> dict[str, Any] | None:  # noqa: ARG002 - likewise
        """`before_model` without blocking the event loop."""
        return await arun(self._bare_call(state))

    def _bare_call(self, state: Any) -> Steps[dict[str, Any] | None]:
        ask: Request = self._ask_bare(state) if self.compactors.ready else (yield blocking(self._ask_bare, state))
        fitted = yield from ask.fit()
        return replace_messages(with_ids(ask.messages, fitted.messages, ask.thread)) if fitted.changed else None

    def _ask_bare(self, state: Any) -> Request:
        messages: list[BaseMessage] = state["messages"]
        ensure_ids(messages)
        thread = thread_of(messages)
        return self._call(self.last_asked.find(thread), messages, thread, state)

    before_model = _NotANode(_before_model)
    abefore_model = _NotANode(_abefore_model)

    def _pin_engine(self) -> Engine:
        return self.compactors

    def close(self) -> None:
        """Let go of the archive, if this middleware opened it."""
        self.compactors.close()


async def _joined_later(told: Awaitable[Any], where: str) -> str:
    return "\n\n".join(part for part in (await told, where) if part)


def _can_recall(tools: Sequence[Any]) -> bool:
    """Whether the agent can follow a reference."""
    return any((tool.get("name") if isinstance(tool, dict) else tool.name) == READ for tool in tools)


def _followed(request: ModelRequest[Any]) -> AgentState[Any]:
    """The state as middleware within may see it: the request has followed what was pending, and perhaps more since."""
    return cast("AgentState[Any]", {**request.state, PENDING: None}) if request.state.get(PENDING) else request.state


def _known_to(state: Any, messages: Sequence[BaseMessage]) -> bool:
    """Whether the state can follow: it knows every message by its name.

    A result that is being put into the state with this very answer is not there yet; the next call catches up. A
    message without an id has a name by its text: one that other middleware has changed or left out can't be followed.
    """
    stored: Sequence[BaseMessage] = state["messages"]
    names = Names(stored, messages)
    there, given = names.of(stored), names.of(messages)
    results = (message for message in messages if message.type == "tool")
    return names.of(results) <= there and all(names(message) in given for message in stored if not message.id)
